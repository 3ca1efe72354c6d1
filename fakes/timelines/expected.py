"""Whether what a pod shows of a device is what a timeline expects. Pure."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from drahealth.fakes.timelines.plan import Action
from drahealth.fakes.timelines.workload import HELD
from drahealth.proto.values import ResourceHealth


def fits(found: ResourceHealth, what: Mapping[str, Any]) -> bool:
    """`what` is the argument of an `expect` in a plan."""
    if what.get("health") not in (None, str(found.health)):
        return False
    message = what.get("message")
    return message is None or (fnmatchcase(found.message, message) if message else not found.message)


def sought(action: Action) -> str:
    """What an `expect` of a plan expects, in words."""
    what = action.what
    said = ["what it holds" if action.device == HELD else action.device]
    said += ["of the device plugin"] if what.get("of") == "plugin" else []
    said += [str(what.get("health") or ""), repr(what["message"]) if what.get("message") is not None else ""]
    said += [f"with at most {what['pod_writes']} statuses"] if "pod_writes" in what else []
    return " ".join(filter(None, said))
