"""Reads and changes pod objects for several fakes. Pure functions."""

from collections.abc import Mapping

from drahealth.fakes.cluster.api import Object


def is_terminal(pod: Object) -> bool:
    """Whether the pod has terminated."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def with_condition(status: Object, kind: str, holds: bool, *, now: str, reason: str = "", message: str = "") -> Object:
    """The pod status with this condition (`kind` is its type); its transition time moves only when `holds` changes.

    `now` is RFC 3339 as in the API.
    """
    conditions = list(status.get("conditions") or ())
    old = next((condition for condition in conditions if condition["type"] == kind), None)
    new = {"type": kind, "status": str(holds), "lastTransitionTime": now}
    if old is not None and old["status"] == new["status"]:
        new["lastTransitionTime"] = old["lastTransitionTime"]
    new |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
    others = [condition for condition in conditions if condition["type"] != kind]
    return {**status, "conditions": [*others, new]}


def is_gated(pod: Object) -> bool:
    """Whether the pod has scheduling gates, and waits for their removal."""
    return bool(pod["spec"].get("schedulingGates"))


def resized(pod: Object, limits: Mapping[str, str]) -> Object:
    """The pod with these limits of each container, and with equal requests."""

    def sized(container: Object) -> Object:
        old = container.get("resources") or {}
        sizes = {key: {**(old.get(key) or {}), **limits} for key in ("limits", "requests")}
        return {**container, "resources": {**old, **sizes}}

    return {**pod, "spec": {**pod["spec"], "containers": [sized(one) for one in pod["spec"]["containers"]]}}
