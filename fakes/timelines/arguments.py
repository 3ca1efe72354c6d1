"""The effect of a step: the command, or the change around the fakes, that it makes for each device. Pure."""

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
class Effect:
    """The effect of a step, and on whom."""

    make: Make
    place: tuple[str, ...]
    """Where it is in the step."""
    of: Subject = "driver"
    can_be_undone: bool = False
    needs_device: bool = False
    lasts: Duration | None = None
    """Seconds until it is undone, where the step says so without `for`."""


def effect_of(step: Step) -> Effect:
    """That of a step with one of the verbs of commands, or with stream, driver, plugin, pod, kubelet, mark."""
    value: Any = getattr(step, step.verb)
    if step.verb in STEPS:
        return _command(STEPS[step.verb], value, (step.verb,))
    match step.verb:
        case "stream":
            return _stream(value)
        case "driver":
            return _life(value, "driver", "driver")
        case "plugin":
            return _listed(value) if isinstance(value, Listed) else _life(value, "device-plugin", "plugin")
        case "pod":
            return Effect(lambda *_: ChangePod(value), ("pod",), can_be_undone=value == "keeps-failing")
        case "kubelet":
            return Effect(lambda *_: ChangeKubelet(value), ("kubelet",), can_be_undone=value == "stop")
    mark = Mark(value)
    return Effect(lambda *_: mark, (step.verb,))


def undo_of(do: Do) -> Do:
    """What undoes it, of what can be undone."""
    if isinstance(do, Command):
        assert do.definition.undo
        return do.definition.undo(do)
    return ChangePod("running") if isinstance(do, ChangePod) else ChangeKubelet("start")


def _command(known: Definition, value: Any, place: tuple[str, ...], of: Subject = "driver") -> Effect:
    device = known.argument("device")

    def make(path: str, random: Uniform) -> Do:
        return draw(known, value, random, device=path) if device else draw(known, value, random)

    return Effect(make, place, of, known.undo is not None, device is not None and device.required)


def _stream(stream: Stream) -> Effect:
    value = getattr(stream, stream.verb)
    if stream.verb == "send":
        return Effect(lambda *_: Send(value), ("stream", "send"))
    known = group("driver", "stream")[stream.verb]
    lasts = value if isinstance(value, Duration) and not own(known) else None
    effect = _command(known, value, ("stream", stream.verb))
    return Effect(effect.make, effect.place, can_be_undone=effect.can_be_undone, lasts=lasts)


def _life(value: Any, subject: Subject, verb: str) -> Effect:
    word = value if isinstance(value, str) else value.verb
    return _command(
        group(subject, "life")[word], None if value is word else getattr(value, word), (verb, word), subject
    )


def _listed(value: Listed) -> Effect:
    def make(path: str, _: Uniform) -> Do:
        if value.health is not None:
            return SetListedHealth(path, value.health)
        return Restore(path) if value.listed else Remove(path)

    return Effect(make, ("plugin",), "device-plugin", needs_device=True)


def text_of(step: Step) -> str:
    """What the step says itself, without the steps inside it: what its draws hang on."""
    inside: Any = {"repeat": {"do"}} if step.repeat else {"parallel"} if step.parallel is not None else None
    own_words = step.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=inside)
    return _SORTED.encode(own_words)


_SORTED = json.JSONEncoder(sort_keys=True)
