"""What a step tells whom: how its command, or what happens around it, is made for each device. Pure."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.control.commands.definition import Command, Definition, Subject
from drahealth.fakes.control.commands.plugin_devices import Remove, Restore, SetListedHealth
from drahealth.fakes.durations import Duration, Uniform
from drahealth.fakes.timelines.actions import ChangeKubelet, ChangePod, Do, Mark, Send
from drahealth.fakes.timelines.command_steps import STEPS, draw, group, own
from drahealth.fakes.timelines.model import Listed, Step, Stream

Make = Callable[[str, Uniform], Do]
"""For a device by its path, or for none; takes draws."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a step does, and to whom."""

    make: Make
    place: tuple[str, ...]
    """Where it is in the step."""
    of: Subject = "driver"
    can_be_undone: bool = False
    needs_device: bool = False
    lasts: Duration | None = None
    """Seconds until it is undone, where the step says so without `for`."""


def told_by(step: Step) -> Told:
    """That of a step with one of the verbs of commands, or with stream, driver, plugin, pod, kubelet, mark."""
    said: Any = getattr(step, step.verb)
    if step.verb in STEPS:
        return _command(STEPS[step.verb], said, (step.verb,))
    match step.verb:
        case "stream":
            return _stream(said)
        case "driver":
            return _life(said, "driver", "driver")
        case "plugin":
            return _listed(said) if isinstance(said, Listed) else _life(said, "device-plugin", "plugin")
        case "pod":
            return Told(lambda *_: ChangePod(said), ("pod",), can_be_undone=said == "keeps-failing")
        case "kubelet":
            return Told(lambda *_: ChangeKubelet(said), ("kubelet",), can_be_undone=said == "stop")
    mark = Mark(said)
    return Told(lambda *_: mark, (step.verb,))


def undone(do: Do) -> Do:
    """What undoes it, of what can be undone."""
    if isinstance(do, Command):
        assert do.definition.undo
        return do.definition.undo(do)
    return ChangePod("running") if isinstance(do, ChangePod) else ChangeKubelet("start")


def _command(known: Definition, said: Any, place: tuple[str, ...], of: Subject = "driver") -> Told:
    device = known.argument("device")

    def make(path: str, random: Uniform) -> Do:
        return draw(known, said, random, device=path) if device else draw(known, said, random)

    return Told(make, place, of, known.undo is not None, device is not None and device.required)


def _stream(said: Stream) -> Told:
    value = getattr(said, said.verb)
    if said.verb == "send":
        return Told(lambda *_: Send(value), ("stream", "send"))
    known = group("driver", "stream")[said.verb]
    lasts = value if isinstance(value, Duration) and not own(known) else None
    told = _command(known, value, ("stream", said.verb))
    return Told(told.make, told.place, can_be_undone=told.can_be_undone, lasts=lasts)


def _life(said: Any, subject: Subject, verb: str) -> Told:
    word = said if isinstance(said, str) else said.verb
    return _command(group(subject, "life")[word], None if said is word else getattr(said, word), (verb, word), subject)


def _listed(said: Listed) -> Told:
    def make(path: str, _: Uniform) -> Do:
        if said.health is not None:
            return SetListedHealth(path, said.health)
        return Restore(path) if said.listed else Remove(path)

    return Told(make, ("plugin",), "device-plugin", needs_device=True)


def said_by(step: Step) -> str:
    """What the step says itself, without the steps inside it: what its draws hang on."""
    inside: Any = {"repeat": {"do"}} if step.repeat else {"parallel"} if step.parallel is not None else None
    own_words = step.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=inside)
    return _SORTED.encode(own_words)


_SORTED = json.JSONEncoder(sort_keys=True)
