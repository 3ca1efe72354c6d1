"""Bindings and evictions: requests for a Pod, and the budgets that can forbid an eviction."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import PODS, ApiError, Object
from drahealth.fakes.cluster.pods import is_gated, is_terminal, with_condition
from drahealth.fakes.cluster.refusals import FieldError

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


# PodDisruptionBudgets: their status, and whether they allow an eviction. Pure functions.
#
# Source: Kubernetes 1.37, `pkg/controller/disruption`, `pkg/registry/core/pod/storage/eviction.go`. The in-memory
# server computes the status with each change of a Pod or of a budget. The scale of a Pod's controller is that of its
# ReplicaSet.


Scales = Mapping[str, int]
"""The wanted replicas of each ReplicaSet, by its UID."""


def selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches the labels; an empty selector matches all, and none matches nothing."""
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_fulfils(one, labels) for one in selector.get("matchExpressions") or ())


def selected_by(budget: Object, pods: Sequence[Object]) -> list[Object]:
    """The Pods of a budget."""
    selector = (budget.get("spec") or {}).get("selector")
    return [pod for pod in pods if selects(selector, pod["metadata"].get("labels") or {})]


def budget_status(budget: Object, pods: Sequence[Object], scales: Scales, time: str) -> Object:
    """The status of a budget with all Pods of its namespace; `time` as RFC 3339."""
    inside, spec = selected_by(budget, pods), budget.get("spec") or {}
    healthy = sum(1 for pod in inside if "deletionTimestamp" not in pod["metadata"] and is_ready(pod))
    expected, desired = _expected(spec, inside, scales)
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    counts = {"currentHealthy": healthy, "desiredHealthy": desired, "disruptionsAllowed": allowed}
    generation = budget["metadata"].get("generation", 1)
    condition = _condition(budget, allowed > 0, generation, time)
    return {"conditions": [condition], **counts, "expectedPods": expected, "observedGeneration": generation}


def is_ready(pod: Object) -> bool:
    """Whether the condition Ready of a Pod is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def check_eviction(pod: Object, budgets: Sequence[Object]) -> None:
    """Raises `ApiError` 429 if a budget of the Pod's namespace forbids its eviction, 500 if the Pod has two budgets."""
    if is_terminal(pod) or pod.get("status", {}).get("phase") == "Pending" or "deletionTimestamp" in pod["metadata"]:
        return
    found = [budget for budget in budgets if selected_by(budget, [pod])]
    if len(found) > 1:
        raise refusals.several_budgets()
    for budget in found:
        status = budget.get("status") or {}
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            raise refusals.unprocessed_budget(budget["metadata"]["name"])
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        always = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        if not is_ready(pod) and (always or healthy >= desired > 0):
            continue
        if not status.get("disruptionsAllowed"):
            raise _refusal(budget["metadata"]["name"], healthy, desired)


def _refusal(name: str, healthy: int, desired: int) -> ApiError:
    if healthy <= desired:
        return refusals.over_budget(
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    return refusals.over_budget(f"The disruption budget {name} does not allow evicting pods currently")


def _expected(spec: Object, pods: Sequence[Object], scales: Scales) -> tuple[int, int]:
    """The expected Pods, and how many of them must be healthy."""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is not None:
        expected = _scale(pods, scales)
        return expected, max(expected - _amount(most, expected), 0)
    if isinstance(least, str):
        expected = _scale(pods, scales)
        return expected, _amount(least, expected)
    return (len(pods), int(least)) if least is not None else (0, 0)


def _scale(pods: Sequence[Object], scales: Scales) -> int:
    """The wanted replicas of the controllers of these Pods."""
    owners = (owner for pod in pods for owner in pod["metadata"].get("ownerReferences") or ())
    return sum(scales.get(uid, 0) for uid in {owner.get("uid") for owner in owners if owner.get("controller")})


def _amount(value: int | str, total: int) -> int:
    """A number of Pods; a percentage is rounded up."""
    text = str(value)
    if not text.endswith("%"):
        return int(text) if text.isdecimal() else 0
    return math.ceil(int(text[:-1]) * total / 100) if text[:-1].isdecimal() else 0


def _condition(budget: Object, allowed: bool, generation: int, time: str) -> Object:
    state = "True" if allowed else "False"
    conditions = (budget.get("status") or {}).get("conditions") or ()
    old: Object = next((one for one in conditions if one.get("type") == "DisruptionAllowed"), {})
    return {
        "type": "DisruptionAllowed",
        "status": state,
        "observedGeneration": generation,
        "lastTransitionTime": old.get("lastTransitionTime", time) if old.get("status") == state else time,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }


def _fulfils(expression: Object, labels: Mapping[str, str]) -> bool:
    label, values = labels.get(str(expression.get("key"))), expression.get("values") or ()
    tests: Mapping[Any, bool] = {
        "In": label in values,
        "NotIn": label not in values,
        "Exists": label is not None,
        "DoesNotExist": label is None,
    }
    return tests.get(expression.get("operator"), False)
