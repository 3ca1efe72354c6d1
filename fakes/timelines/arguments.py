"""What a step's argument is in a plan: plain data, with what is drawn at random drawn. Pure."""

import json
from typing import Any

from drahealth.fakes.durations import Uniform
from drahealth.fakes.timelines.model import Start, Step, Trigger

UNDONE = {
    ("driver", "crash"),
    ("driver", "stop"),
    ("driver", "unregister"),
    ("plugin", "crash"),
    ("plugin", "stop"),
    ("pod", "keeps-failing"),
    ("kubelet", "stop"),
}
"""What `for` can undo besides faults, taints and streams: it runs again."""


def trigger_of(trigger: Trigger) -> dict[str, Any]:
    """What is waited for."""
    return trigger.model_dump(mode="json", exclude_none=True)


def argument_of(step: Step, random: Uniform) -> Any:
    """What the step's verb is said of, where that is all that it says."""
    said = plain(getattr(step, step.verb))
    if step.set is not None:
        times = {name: getattr(step.set, name) for name in ("timeout", "heartbeat")}
        said |= {name: time.draw(random) for name, time in times.items() if time is not None}
    if isinstance(step.driver, Start) and step.driver.upgrade:
        said["upgrade"]["overlap"] = step.driver.upgrade.overlap.draw(random)
    return {"key": step.untaint} if step.untaint is not None else said


def plain(value: Any) -> Any:
    """A part of the model as it was written; anything else as it is."""
    return value.model_dump(by_alias=True, exclude_unset=True) if hasattr(value, "model_dump") else value


def said_by(step: Step) -> str:
    """What the step says itself, without the steps inside it: what its draws hang on."""
    inside: Any = {"repeat": {"do"}} if step.repeat else {"parallel"} if step.parallel is not None else None
    own = step.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=inside)
    return _SORTED.encode(own)


_SORTED = json.JSONEncoder(sort_keys=True)
