"""The plan of a timeline: every action with its time, drawn from a seed. Pure."""

import gc
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from drahealth.fakes.control.commands import Clear, Inject, Recover, SetHeartbeat
from drahealth.fakes.control.definition import EACH, Command, Definition, Kind, Subject
from drahealth.fakes.control.without_subcommand import Remove, Restore, SetHealth, SetListedHealth
from drahealth.fakes.durations import Duration, Uniform
from drahealth.fakes.faults.catalogue import fault
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.model import (
    HELD,
    STEPS,
    DeviceMessage,
    Expectation,
    Flap,
    Listed,
    Message,
    Pick,
    PodVerb,
    Repeat,
    Settings,
    Step,
    Stream,
    Timeline,
    Trigger,
    draw,
    group,
    own,
)
from drahealth.proto.values import Health

# What a plan has for a time: a command to a fake, or something around it. Typed, with all draws drawn.
#
# A command is the one that the fake takes (`control.commands`): nothing reads a step again.


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


# The effect of a step: the command, or the change around the fakes, that it makes for each device. Pure.

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


# The plan of a timeline: every action with its time, drawn from a seed. Pure.
#
# The same timeline, seed and devices give the same plan on every machine. Each step has its own stream of draws. Its
# key is the seed and the text of the step, so a new step does not change the draws of others. Equal steps are
# numbered.

MOST = 1_000_000
"""Actions that a plan may have."""

ENDING = "always"
"""The block that is played at the end."""


class PlanError(ValueError):
    """Steps that cannot be planned: where each is in the timeline, and why. `path` is that of the first."""

    def __init__(self, *findings: tuple[tuple[str | int, ...], str]) -> None:
        self.findings = findings
        self.path = findings[0][0]
        self.is_final = False
        """Nothing more is planned."""
        super().__init__(findings[0][1])


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions in the order of their times, and those that end the story."""

    name: str
    seed: int
    actions: tuple[Action, ...]
    always: tuple[Action, ...]

    @property
    def has_plugin(self) -> bool:
        """Whether there is a device plugin in it."""
        return any(action.of == "device-plugin" for action in (*self.actions, *self.always))

    @property
    def lasts(self) -> float:
        """Seconds to the last action; what it expects may take longer."""
        return max((action.at for action in self.actions if not action.trigger), default=0.0)

    def to_lines(self) -> Iterator[str]:
        """The plan as JSON Lines, header first."""
        yield json.dumps({"plan": self.name, "seed": self.seed, "hash": self.hash})
        yield from self._lines()

    def _lines(self) -> Iterator[str]:
        for action in self.actions:
            yield json.dumps(action.to_json(), ensure_ascii=False)
        for action in self.always:
            yield json.dumps({"always": True, **action.to_json()}, ensure_ascii=False)

    @property
    def hash(self) -> str:
        """Hash of the plan: twelve hexadecimal digits."""
        return hashlib.sha256("\n".join(self._lines()).encode()).hexdigest()[:12]


def plan(timeline: Timeline, inventory: Inventory, seed: int | None = None) -> Plan:
    """The plan for these devices; another `seed` takes the place of the file's. Raises PlanError."""
    seed = timeline.seed if seed is None else seed
    planner = _Planner(seed, inventory, timeline.use.catalogue)
    with _collector_paused():
        planner.block(timeline.timeline, _Place(("timeline",)))
        actions = planner.taken()
        planner.block(timeline.always, _Place((ENDING,)))
    if planner.findings:
        raise PlanError(*planner.findings)
    return Plan(timeline.name, seed, actions, planner.taken())


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A plan has no cycles, and many parts that the garbage collector would look at again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Place(NamedTuple):
    """Where in the file and in time the planner is."""

    path: tuple[str | int, ...]
    start: float = 0.0
    """When the block began."""
    origin: Trigger | None = None
    """What that is counted from, if not from the start of the story."""
    now: float = 0.0
    """When the step before ended."""
    trigger: Trigger | None = None
    """What `now` is counted from."""
    rounds: tuple[int, ...] = ()
    """The rounds of the repeats that it is in."""

    def later(self, now: float) -> "_Place":
        return _Place(self.path, self.start, self.origin, now, self.trigger, self.rounds)


@dataclass(slots=True)
class _Planner:
    seed: int
    inventory: Inventory
    catalogue: str
    actions: list[Action] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)
    keys: dict[int, str] = field(default_factory=dict)
    effects: dict[int, Effect] = field(default_factory=dict)
    """The effects of repeated steps, by identity."""
    named: dict[str, Sequence[str]] = field(default_factory=dict)
    """The devices that each pattern names."""
    findings: dict[tuple[tuple[str | int, ...], str], None] = field(default_factory=dict)
    """What cannot be planned, each once."""
    places: dict[tuple[str | int, ...], str] = field(default_factory=dict)

    def taken(self) -> tuple[Action, ...]:
        """Returns all actions so far, in the order of their times and of the file, and starts again."""
        actions, self.actions = self.actions, []
        late = [action for action in actions if action.trigger is not None]
        timed = [action for action in actions if action.trigger is None] if late else actions
        return tuple(sorted(timed, key=attrgetter("at")) + sorted(late, key=attrgetter("at")))

    def block(self, steps: Sequence[Step], place: _Place) -> _Place:
        """Plans steps one after the other; where it is then."""
        path, start, origin, now, trigger, rounds = place
        for number, step in enumerate(steps):
            here = _Place((*path, number), start, origin, now, trigger, rounds)
            now, trigger = self.step(step, here)
        return _Place(path, start, origin, now, trigger, rounds)

    def step(self, step: Step, place: _Place) -> tuple[float, Trigger | None]:
        """Plans the step; when it is over, and what that is counted from."""
        random = _Draws(self, step, place.rounds)
        happens = step.probability is None or random.random() < step.probability
        begin = _begin(step, place, random)
        if not happens:
            return begin.now, begin.trigger
        try:
            return self._act(step, begin, random), begin.trigger
        except PlanError as error:
            if error.is_final:
                raise
            self.findings.update(dict.fromkeys(error.findings))
            return begin.now, begin.trigger
        except ValueError as error:
            self.findings.setdefault((place.path, str(error)))
            return begin.now, begin.trigger

    def _act(self, step: Step, place: _Place, random: Uniform) -> float:
        """Plans what the step does; when it is over."""
        lasts = self._lasts(step, random)
        match step.verb:
            case "repeat":
                assert step.repeat
                return self._repeat(step.repeat, place, random)
            case "parallel":
                assert step.parallel is not None
                return self._parallel(step.parallel, place)
            case "flap":
                assert step.flap
                return self._flap(step.flap, place, random)
            case "expect":
                assert step.expect
                return self._expect(step, step.expect, place, random)
            case "set":
                return self._set(step, step.set or Settings(), place, random, lasts)
        effect = self.effects.get(id(step)) or effect_of(step)
        if place.rounds:
            self.effects[id(step)] = effect
        return self._apply(step, effect, place, random, lasts)

    def _apply(self, step: Step, effect: Effect, place: _Place, random: Uniform, lasts: float | None) -> float:
        """Plans one thing for each device; when it is over, or undone, or a recovery has taken its time."""
        lasts = effect.lasts.draw(random) if effect.lasts else lasts
        if lasts is not None and not effect.can_be_undone:
            raise ValueError(f"{' '.join(map(str, effect.place))} cannot be undone; remove `for`")
        if effect.needs_device and step.device is None:
            raise ValueError(f"{step.verb} needs `device`")
        over, devices = lasts or 0.0, self._devices(step, random)
        first = self._made(effect, place, devices[0], random)
        for device in devices:
            do = first.on(device) if isinstance(first, Command) and device != devices[0] else first
            self._add(place, do, effect.of)
            if lasts is not None:
                self._add(place.later(place.now + lasts), undo_of(do), effect.of)
            if isinstance(do, Recover):
                over = max(over, do.takes or 0.0)
        return place.now + over

    def _made(self, effect: Effect, place: _Place, device: str, random: Uniform) -> Do:
        try:
            return effect.make(device, random)
        except ValueError as error:
            raise PlanError(((*place.path, *effect.place), str(error))) from None

    def _lasts(self, step: Step, random: Uniform) -> float | None:
        """Seconds until it is undone; None: it is not."""
        if step.for_ != "catalogue":
            return step.for_.draw(random) if step.for_ else None
        if step.verb != "inject":
            raise ValueError("for: catalogue is only for inject; set a duration")
        return fault(self.catalogue, getattr(step, "inject")).takes.draw(random)  # noqa: B009  (made of a definition)

    def _set(self, step: Step, given: Settings, place: _Place, random: Uniform, lasts: float | None) -> float:
        """What is not named stays as the driver has it."""
        if lasts is not None:
            raise ValueError("set cannot be undone; remove `for`")
        timeout = int(given.timeout.draw(random)) if given.timeout else None
        if given.heartbeat:
            self._add(place, SetHeartbeat(given.heartbeat.draw(random)))
        if given.model_fields_set - {"heartbeat"}:
            for device in self._devices(step, random):
                self._add(place, SetHealth(device, given.health, given.message, timeout))
        return place.now

    def _expect(self, step: Step, expect: Expectation, place: _Place, random: Uniform) -> float:
        holds = step.holds.draw(random) if step.holds else 0.0
        writes = expect.pod_writes.max if expect.pod_writes else None
        of: Subject = "device-plugin" if expect.of == "plugin" else "driver"
        for device in [HELD] if expect.device == HELD else self._paths(expect.device, random):
            do = Expect(device, step.within or "push", expect.health, expect.message, writes, holds)
            self._add(place, do, of)
        return place.now + holds

    def _flap(self, flap: Flap, place: _Place, random: Uniform) -> float:
        if flap.period.high <= 0:
            raise ValueError("period must be above 0s")
        end = place.now + flap.for_.draw(random)
        both = [(Inject(flap.down, path), Clear(flap.down, path)) for path in self._paths(flap.device, random)]
        now = place.now
        while now < end:
            period = max(flap.period.draw(random), 0.001)
            up = min(now + period * flap.duty, end)
            for inject, clear in both:
                self._add(place.later(now), inject)
                self._add(place.later(up), clear)
            now += period
        return end

    def _repeat(self, repeat: Repeat, place: _Place, random: Uniform) -> float:
        end = place.now + repeat.for_.draw(random) if repeat.for_ else None
        start, over, number, do = place.now, place.now, 0, (*place.path, "repeat", "do")
        while number < (repeat.times or MOST) and (end is None or start < end):
            inner = _Place(do, start, place.trigger, start, place.trigger, (*place.rounds, number))
            over = max(over, self.block(repeat.do, inner).now)
            start += max(repeat.every.draw(random), 0.001 if end is not None else 0.0)
            number += 1
        return over if end is None else max(over, end)

    def _parallel(self, branches: Iterable[Sequence[Step]], place: _Place) -> float:
        ends = [place.now]
        for number, branch in enumerate(branches):
            inner = place._replace(path=(*place.path, "parallel", number), start=place.now, origin=place.trigger)
            ends.append(self.block(branch, inner).now)
        return max(ends)

    def _devices(self, step: Step, random: Uniform) -> Sequence[str]:
        return [""] if step.device is None else self._paths(step.device, random)

    def _paths(self, where: str | Pick, random: Uniform) -> Sequence[str]:
        if isinstance(where, str):
            return self._matching(where)
        found = list(self._matching(where.from_))
        if where.pick > len(found):
            raise ValueError(
                f"pick must be at most {len(found)}, the number of devices of {where.from_!r}, got {where.pick}"
            )
        return [found.pop(int(random.random() * len(found))) for _ in range(where.pick)]

    def _matching(self, pattern: str) -> Sequence[str]:
        if pattern not in self.named:
            self.named[pattern] = self.inventory.matching(pattern)
        return self.named[pattern]

    def _add(self, place: _Place, do: Do, of: Subject = "driver") -> None:
        if len(self.actions) >= MOST:
            error = PlanError((place.path, f"a plan must have at most {MOST} actions"))
            error.is_final = True
            raise error
        if (where := self.places.get(place.path)) is None:
            where = self.places[place.path] = ".".join(map(str, place.path))
        at = round(place.now, 3)
        self.actions.append(Action(at, do, of, place.trigger, where))

    def key_of(self, step: Step, rounds: tuple[int, ...]) -> bytes:
        """What the step's own draws are made from, in these rounds."""
        given = self.keys.get(id(step)) or self.keys.setdefault(id(step), text_of(step))
        key = f"{self.seed}|{rounds}|{given}"
        self.numbers[key] += 1
        return hashlib.sha256(f"{key}|{self.numbers[key]}".encode()).digest()


class _Draws:
    """What a step draws from: hashes of its key and of the draw's number, which are the same with every Python.

    Most steps draw nothing, and need no key; whether one does is in what it says.
    """

    __slots__ = ("_key", "_number", "_planner", "_rounds", "_step")

    def __init__(self, planner: _Planner, step: Step, rounds: tuple[int, ...]) -> None:
        self._planner = planner
        self._step = step
        self._rounds = rounds
        self._key = b""
        self._number = 0

    def random(self) -> float:
        """The first 53 bits of the next hash, from 0 up to but not 1."""
        self._key = self._key or self._planner.key_of(self._step, self._rounds)
        self._number += 1
        drawn = hashlib.sha256(self._key + self._number.to_bytes(8, "big")).digest()
        return (int.from_bytes(drawn[:8], "big") >> 11) * 2.0**-53


def _begin(step: Step, place: _Place, random: Uniform) -> _Place:
    if step.when is not None:
        return place._replace(now=0.0, trigger=step.when)
    if step.at is not None:
        return place._replace(now=place.start + step.at.draw(random), trigger=place.origin)
    return place.later(place.now + step.after.draw(random)) if step.after else place
