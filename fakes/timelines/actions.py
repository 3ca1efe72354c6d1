"""What a plan has for a time: a command to a fake, or something around it. Typed, with all draws drawn.

A command is the one that the fake takes (`control.commands`): nothing reads a step again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from drahealth.fakes.control.commands.arguments import EACH, Kind
from drahealth.fakes.control.commands.definition import Command, Subject
from drahealth.fakes.timelines.model import DeviceMessage, Message, Trigger
from drahealth.fakes.timelines.workload import PodVerb
from drahealth.proto.values import Health


@dataclass(frozen=True, slots=True)
class Send:
    """A message on every open health stream. Times in it count from when it is sent."""

    message: DeviceMessage | Message

    @property
    def verb(self) -> str:
        return "stream_send"

    @property
    def what(self) -> Any:
        return self.message.model_dump(by_alias=True, exclude_unset=True)


@dataclass(frozen=True, slots=True)
class Expect:
    """What a Pod status is to show of a device."""

    device: str
    within: str = "push"
    health: Health | None = None
    message: str | None = None
    pod_writes: int | None = None
    holds: float = 0.0

    @property
    def verb(self) -> str:
        return "expect"

    @property
    def what(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"health": self.health and str(self.health), "message": self.message}
        fields |= {"pod_writes": self.pod_writes, "holds": self.holds or None, "within": self.within}
        return {key: value for key, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ChangePod:
    """The pod that holds the devices keeps failing, runs on, or is deleted."""

    what: PodVerb

    @property
    def verb(self) -> str:
        return "pod"


@dataclass(frozen=True, slots=True)
class ChangeKubelet:
    """The kubelet restarts, stops or starts."""

    what: Literal["restart", "stop", "start"]

    @property
    def verb(self) -> str:
        return "kubelet"


@dataclass(frozen=True, slots=True)
class Mark:
    """A line in the reports."""

    what: str

    @property
    def verb(self) -> str:
        return "mark"


Do = Command[Any] | Send | Expect | ChangePod | ChangeKubelet | Mark


class Action(NamedTuple):
    """One thing to do, or to expect, at a time."""

    at: float
    """Seconds from the start of the story; of its end for what is always done; of `trigger` if there is one."""
    do: Do
    of: Subject = "driver"
    """Who gets the command, or whose device is expected."""
    trigger: Trigger | None = None
    step: str = ""
    """Where it is from, such as `timeline.3`."""

    @property
    def verb(self) -> str:
        """What it does, in a word."""
        return self.do.verb

    @property
    def device(self) -> str:
        """A device's path; empty for what concerns none or all."""
        found: str = getattr(self.do, "device", "")
        return found

    @property
    def what(self) -> Any:
        """The rest of what it does, as plain data for people and logs; None for nothing more."""
        return _stated(self.do) if isinstance(self.do, Command) else self.do.what

    @property
    def place(self) -> tuple[str | int, ...]:
        """Its step as keys and numbers of the document."""
        return tuple(int(part) if part.isdigit() else part for part in self.step.split("."))

    @property
    def when(self) -> Mapping[str, Any] | None:
        """What it waits for, as plain data."""
        return self.trigger.model_dump(mode="json", exclude_none=True) if self.trigger else None

    def to_json(self) -> dict[str, Any]:
        """Without what it does not say."""
        fields = {"at": self.at, "do": self.verb, "what": self.what, "device": self.device, "when": self.when}
        fields |= {"of": "plugin" if self.of == "device-plugin" else None, "step": self.step}
        return {key: value for key, value in fields.items() if value not in (None, "")}


def _stated(command: Command[Any]) -> Any:
    """The arguments that differ from their defaults, without devices: one by itself, if it is the first."""
    stated, own = command.stated(), list[str]()
    for argument in command.definition.arguments:
        if argument.kind is Kind.DEVICES:
            stated.pop(argument.name, None)
        else:
            own.append(argument.name)
        if argument.kind is Kind.RECOVERY_TIME and stated.get(argument.name, 0.0) is None:
            stated[argument.name] = EACH
    return next(iter(stated.values()), None) if set(stated) <= set(own[:1]) else stated
