"""Bindings of pods to nodes, and the scheduling gates that forbid them. Pure.

Source: k8s.io/kubernetes, `pkg/registry/core/pod`.
"""

from collections.abc import Mapping
from typing import Any

from drahealth.fakes.cluster.api import PODS, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.refusals import FieldError
from drahealth.fakes.cluster.pods import is_gated, with_condition

_GATED = "Scheduling is blocked due to non-empty scheduling gates"


def check_target(target: Mapping[str, Any]) -> None:
    """Raises `ApiError` for a target that is no node, which Kubernetes reports as a server error."""
    if target.get("kind") not in (None, "", "Node"):
        raise refusals.wrong_target(refusals.unsupported_value("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        raise refusals.wrong_target(refusals.required_value("target.name"))


def bound(pod: Object, node: str, metadata: Object, now: str) -> Object:
    """The pod on this node; `metadata` is that of the binding. `ApiError` 409 if the pod cannot be bound."""
    name = pod["metadata"]["name"]
    if metadata.get("uid") not in (None, "", pod["metadata"]["uid"]):
        raise refusals.other_object(PODS, pod, str(metadata["uid"]))
    if "deletionTimestamp" in pod["metadata"]:
        raise refusals.unfit_for_binding(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise refusals.unfit_for_binding(name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if is_gated(pod):
        raise refusals.unfit_for_binding(name, f"pod {name} has non-empty .spec.schedulingGates")
    status = with_condition(pod["status"], "PodScheduled", True, now=now)
    new = {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}
    if not (added := metadata.get("annotations")):
        return new
    annotations = {**(pod["metadata"].get("annotations") or {}), **added}
    return {**new, "metadata": {**pod["metadata"], "annotations": annotations}}


def with_gated_condition(pod: Object, now: str) -> Object:
    """A new pod; a pod with scheduling gates gets the condition that it is not scheduled."""
    if not is_gated(pod):
        return pod
    reason = "SchedulingGated"
    status = with_condition(pod["status"], "PodScheduled", False, now=now, reason=reason, message=_GATED)
    return {**pod, "status": status}


def new_gate_errors(spec: Object, old: Object) -> list[FieldError]:
    """The errors of scheduling gates that an update adds; an update can only remove gates."""
    before = [gate["name"] for gate in old.get("schedulingGates") or ()]
    return [
        refusals.forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates") or ())
        if gate["name"] not in before
    ]
