"""Timelines in Python, and timelines as YAML."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.program.user_files import Document
from drahealth.fakes.timelines.load import Loaded
from drahealth.fakes.timelines.model import FORMAT, Step, Timeline, Uses
from drahealth.fakes.timelines.plan import Plan
from drahealth.fakes.timelines.validation import checked_plan

# Timelines as YAML: what is written is read as the same timeline.


def dump(timeline: Timeline) -> str:
    """The file of a timeline, what it does not say left out."""
    from ruamel.yaml import YAML  # heavy, and only who writes files needs it

    data = timeline.model_dump(mode="json", by_alias=True, exclude_unset=True)
    data["timeline"] = [step.model_dump(mode="json", by_alias=True, exclude_unset=True) for step in timeline.timeline]
    yaml = YAML()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(_quoted(data), text)
    return text.getvalue()


def _quoted(data: Any) -> Any:
    """With what could be taken for the end of a line in double quotes, where it is escaped."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(data, dict):
        return {key: _quoted(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_quoted(value) for value in data]
    return DoubleQuotedScalarString(data) if isinstance(data, str) and not data.isprintable() else data


# Timelines in Python: each function makes a step, as a line of a file does, and the plan is the same.
#
#     story = timeline(
#         "gpu falls off the bus",
#         [
#             inject("xid/79", "gpu-0", at="5s"),
#             expect("gpu-0", health="Unhealthy", within="push"),
#             recover("reboot", "gpu-0", after="20s..40s"),
#         ],
#         always=[reset()],
#         seed=7,
#     )
#     checked(story, Inventory.of(2))
#
# Every function takes what any step may say (`When`). What makes no sense raises ValueError (pydantic's
# ValidationError) where it is written.

Where = str | Mapping[str, Any]
"""A device's name, a pattern, `all`, or `{"pick": 2, "from": "gpu-*"}`."""


class When(TypedDict, total=False):
    """What any step may say besides its verb."""

    at: str
    after: str
    when: Mapping[str, Any]
    for_: str
    probability: str


def timeline(
    name: str,
    steps: Sequence[Step],
    *,
    always: Sequence[Step] = (),
    seed: int = 0,
    description: str = "",
    **use: Any,
) -> Timeline:
    """A story of these steps; `use` names the catalogue, the policy, the inventory and the workload."""
    return Timeline(
        format=FORMAT,
        name=name,
        description=description,
        seed=seed,
        use=Uses(**use),
        timeline=tuple(steps),
        always=tuple(always),
    )


def checked(story: Timeline, inventory: Inventory, seed: int | None = None) -> Plan:
    """The plan of a story that makes sense. Raises FileError."""
    return checked_plan(Loaded(story, Document(None, story.name, {})), inventory, seed)


def inject(fault: str, device: Where, **when: Unpack[When]) -> Step:
    """The device has this fault from now on."""
    return _step("inject", fault, when, device=device)


def clear(fault: str, device: Where, **when: Unpack[When]) -> Step:
    """The device no longer has this fault."""
    return _step("clear", fault, when, device=device)


def recover(
    action: str,
    device: Where | None = None,
    *,
    takes: str = "",
    fails: bool | str = False,
    claimed: bool = False,
    **when: Unpack[When],
) -> Step:
    """Try this action to recover a device, or all."""
    odd = {name: so for name, so in (("takes", takes), ("fails", fails), ("claimed", claimed)) if so}
    return _step("recover", {"action": action, **odd} if odd else action, when, device=device)


def reset(**when: Unpack[When]) -> Step:
    """All devices are as new: no faults, no taints, Healthy; no stream faults are left."""
    return _step("reset", True, when)


def set_(device: Where = "all", *, when: When | None = None, **settings: Any) -> Step:
    """The device is set to this: health, message, timeout; or its driver: heartbeat."""
    return _step("set", settings, when or {}, device=device)


def stream(when: When | None = None, **fault: Any) -> Step:
    """Add a fault to the health streams; see `model.Stream`."""
    return _step("stream", fault, when or {})


def driver(verb: str | Mapping[str, Any], **when: Unpack[When]) -> Step:
    """crash, stop, start, restart, upgrade or unregister."""
    return _step("driver", verb, when)


def plugin(verb: str | Mapping[str, Any], device: Where | None = None, **when: Unpack[When]) -> Step:
    """The same of the device plugin: crash, stop, start or restart; or what it says of a device (`model.Listed`)."""
    return _step("plugin", verb, when, device=device)


def taint(key: str, device: Where, *, value: str = "", effect: str = "NoSchedule", **when: Unpack[When]) -> Step:
    """The device is published with this taint from now on."""
    fields = {"key": key, "value": value, "effect": effect}
    return _step("taint", {name: so for name, so in fields.items() if so}, when, device=device)


def untaint(key: str, device: Where, **when: Unpack[When]) -> Step:
    """The device is published without taints of this key."""
    return _step("untaint", key, when, device=device)


def pod(verb: str, **when: Unpack[When]) -> Step:
    """The pod that holds the devices: keeps-failing, running or deleted."""
    return _step("pod", verb, when)


def kubelet(verb: str, **when: Unpack[When]) -> Step:
    """The kubelet: restart, stop or start."""
    return _step("kubelet", verb, when)


def flap(fault: str, device: Where, *, period: str, lasting: str, duty: str = "50%", when: When | None = None) -> Step:
    """The fault comes and goes, once a period."""
    return _step("flap", {"device": device, "down": fault, "period": period, "duty": duty, "for": lasting}, when or {})


def repeat(
    do: Sequence[Step], *, every: str, times: int | None = None, lasting: str | None = None, **when: Unpack[When]
) -> Step:
    """Steps that are played again and again."""
    often = {"times": times} if lasting is None else {"for": lasting}
    return _step("repeat", {**often, "every": every, "do": list(do)}, when)


def parallel(*branches: Sequence[Step], **when: Unpack[When]) -> Step:
    """Steps beside each other."""
    return _step("parallel", [list(branch) for branch in branches], when)


def expect(
    device: Where = "all",
    *,
    health: str | None = None,
    message: str | None = None,
    of: str | None = None,
    within: str = "push",
    holds: str | None = None,
    **when: Unpack[When],
) -> Step:
    """A Pod status is to show this."""
    fields = {"device": device, "health": health, "message": message, "of": of}
    return _step(
        "expect", {key: value for key, value in fields.items() if value is not None}, when, within=within, holds=holds
    )


def mark(text: str, **when: Unpack[When]) -> Step:
    """A line in the reports."""
    return _step("mark", text, when)


def _step(verb: str, what: Any, when: Mapping[str, Any], **more: Any) -> Step:
    fields = {verb: what, **when, **{key: value for key, value in more.items() if value is not None}}
    if "for_" in fields:
        fields["for"] = fields.pop("for_")
    return Step.model_validate(fields)
