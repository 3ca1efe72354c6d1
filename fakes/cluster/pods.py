"""What several fakes ask of a pod object, and the small changes they make to one. Pure functions."""

from drahealth.fakes.cluster.api import Object


def is_terminal(pod: Object) -> bool:
    """The pod has run to its end."""
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
