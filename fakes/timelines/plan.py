"""The plan of a timeline: every action with its time, drawn from a seed. Pure.

The same timeline, seed and devices give the same plan on every machine. Each step has its own stream of draws. Its key
is the seed and the text of the step, so a new step does not change the draws of others. Equal steps are numbered.
"""

import gc
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from drahealth.fakes.control.commands.definition import Command, Subject
from drahealth.fakes.control.commands.devices import Clear, Inject, Recover
from drahealth.fakes.control.commands.reports import SetHealth
from drahealth.fakes.control.commands.streams import SetHeartbeat
from drahealth.fakes.durations import Uniform
from drahealth.fakes.faults.catalogue import fault
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.actions import Action, Do, Expect
from drahealth.fakes.timelines.arguments import Effect, effect_of, text_of, undo_of
from drahealth.fakes.timelines.fields import Pick
from drahealth.fakes.timelines.model import Expectation, Flap, Repeat, Settings, Step, Timeline, Trigger
from drahealth.fakes.timelines.workload import HELD

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
