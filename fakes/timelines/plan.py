"""What comes of a timeline: every action with its time, drawn from a seed. Pure.

The same timeline, seed and devices give the same plan on every machine. Each step draws from a stream of its own,
whose key is the seed and what the step says, so that a step that is put in between changes none of the others; of
equal steps each has its number.
"""

import gc
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from drahealth.fakes.durations import Uniform
from drahealth.fakes.faults.catalogue import fault
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.arguments import UNDONE, argument_of, plain, said_by, trigger_of
from drahealth.fakes.timelines.fields import Pick
from drahealth.fakes.timelines.model import Attempt, Expectation, Flap, Repeat, Step, Tainting, Timeline
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
        super().__init__(findings[0][1])


class Action(NamedTuple):
    """One thing to do, or to expect, at a time."""

    at: float
    """Seconds from the start of the story; of its end for what is always done; of `trigger` if there is one."""
    verb: str
    """A step's verb; `clear` takes a fault away again, `restore` ends what was wrong with a stream."""
    what: Any = None
    """Its argument, plain data."""
    device: str = ""
    """A device's path; empty for what concerns none or all."""
    trigger: Mapping[str, Any] | None = None
    step: str = ""
    """Where it is from, such as `timeline.3`."""

    @property
    def place(self) -> tuple[str | int, ...]:
        """The same as keys and numbers of the document."""
        return tuple(int(part) if part.isdigit() else part for part in self.step.split("."))

    def to_json(self) -> dict[str, Any]:
        """Without what it does not say."""
        said = {"at": self.at, "do": self.verb, "what": self.what, "device": self.device, "when": self.trigger}
        said["step"] = self.step
        return {key: value for key, value in said.items() if value not in (None, "")}


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions in the order of their times, and those that end the story."""

    name: str
    seed: int
    actions: tuple[Action, ...]
    always: tuple[Action, ...]

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
        """What tells two plans apart: twelve hexadecimal digits."""
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
    origin: Mapping[str, Any] | None = None
    """What that is counted from, if not from the start of the story."""
    now: float = 0.0
    """When the step before ended."""
    trigger: Mapping[str, Any] | None = None
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
    named: dict[str, Sequence[str]] = field(default_factory=dict)
    """The devices that each pattern names."""
    findings: dict[tuple[tuple[str | int, ...], str], None] = field(default_factory=dict)
    """What cannot be planned, each once."""
    places: dict[tuple[str | int, ...], str] = field(default_factory=dict)

    def taken(self) -> tuple[Action, ...]:
        """All so far in the order of their times (those of one time as they were written), and begins anew."""
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

    def step(self, step: Step, place: _Place) -> tuple[float, Mapping[str, Any] | None]:
        """Plans the step; when it is over, and what that is counted from."""
        random = _Draws(self, step, place.rounds)
        happens = step.probability is None or random.random() < step.probability
        begin = _begin(step, place, random)
        if not happens:
            return begin.now, begin.trigger
        try:
            return self._act(step, begin, random), begin.trigger
        except PlanError:
            raise
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
                return self._flap(step, step.flap, place, random)
            case "expect":
                assert step.expect
                return self._expect(step, step.expect, place, random)
            case "inject":
                return self._for_a_while(step, place, random, lasts, step.inject, ("clear", step.inject))
            case "taint":
                assert step.taint
                undo = ("untaint", {"key": step.taint.key, "effect": step.taint.effect})
                return self._for_a_while(step, place, random, lasts, _taint(step.taint), undo)
            case "untaint" if step.device is None:
                raise ValueError("untaint needs a device")
            case "recover" if isinstance(step.recover, Attempt) and lasts is None:
                return self._recover(step, step.recover, place, random)
            case "stream":
                return self._stream(step, place, random, lasts)
        if lasts is not None and (step.verb, getattr(step, step.verb)) not in UNDONE:
            raise ValueError(f"{step.verb} cannot be undone: leave `for` out")
        for device in self._devices(step, random):
            self._add(place, step, step.verb, argument_of(step, random), device)
        if lasts is not None:
            self._add(place.later(place.now + lasts), step, step.verb, "running")
        return place.now + (lasts or 0.0)

    def _lasts(self, step: Step, random: Uniform) -> float | None:
        """Seconds until it is undone; None: it is not."""
        if step.for_ != "catalogue":
            return step.for_.draw(random) if step.for_ else None
        if step.inject is None:
            raise ValueError("the catalogue has the times of faults: say how long")
        return fault(self.catalogue, step.inject).takes.draw(random)

    def _for_a_while(
        self, step: Step, place: _Place, random: Uniform, lasts: float | None, what: Any, undo: tuple[str, Any]
    ) -> float:
        """Befalls devices, and is undone when it is over, if it ever is."""
        if step.device is None:
            raise ValueError(f"{step.verb} needs a device")
        for device in self._devices(step, random):
            self._add(place, step, step.verb, what, device)
            if lasts is not None:
                self._add(place.later(place.now + lasts), step, *undo, device)
        return place.now + (lasts or 0.0)

    def _recover(self, step: Step, attempt: Attempt, place: _Place, random: Uniform) -> float:
        """The next step comes when it is over, so far as a plan can tell."""
        what: dict[str, Any] = {"action": attempt.action}
        if attempt.fails is True or (attempt.fails is not False and random.random() < attempt.fails):
            what["fails"] = True
        if attempt.claimed:
            what["claimed"] = True
        over = place.now
        if attempt.takes == "catalogue":
            what["takes"] = "catalogue"
        elif attempt.takes is not None:
            what["takes"] = attempt.takes.draw(random)
            over += what["takes"]
        for device in self._devices(step, random):
            self._add(place, step, "recover", what, device)
        return over

    def _stream(self, step: Step, place: _Place, random: Uniform, lasts: float | None) -> float:
        assert step.stream
        verb, value = step.stream.verb, getattr(step.stream, step.stream.verb)
        if verb in ("silence", "stall"):
            lasts, argument = value.draw(random), None
        elif verb in ("close", "send") and lasts is not None:
            raise ValueError(f"stream {verb} cannot be undone: leave `for` out")
        else:
            argument = value.draw(random) if verb == "delay" else plain(value)
        self._add(place, step, "stream", {verb: argument})
        if lasts is not None:
            self._add(place.later(place.now + lasts), step, "restore", verb)
        return place.now + (lasts or 0.0)

    def _expect(self, step: Step, expect: Expectation, place: _Place, random: Uniform) -> float:
        holds = step.holds.draw(random) if step.holds else 0.0
        said: dict[str, Any] = {"health": expect.health and str(expect.health), "message": expect.message}
        said |= {"pod_writes": expect.pod_writes and expect.pod_writes.max, "holds": holds or None}
        said |= {"of": "plugin" if expect.of == "plugin" else None, "within": step.within or "push"}
        what = {key: value for key, value in said.items() if value is not None}
        for device in [HELD] if expect.device == HELD else self._paths(expect.device, random):
            self._add(place, step, "expect", what, device)
        return place.now + holds

    def _flap(self, step: Step, flap: Flap, place: _Place, random: Uniform) -> float:
        if flap.period.high <= 0:
            raise ValueError("the period of a flap is above 0s")
        end = place.now + flap.for_.draw(random)
        devices = self._paths(flap.device, random)
        now = place.now
        while now < end:
            period = max(flap.period.draw(random), 0.001)
            up = min(now + period * flap.duty, end)
            for device in devices:
                self._add(place.later(now), step, "inject", flap.down, device)
                self._add(place.later(up), step, "clear", flap.down, device)
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
            raise ValueError(f"{where.pick} devices are to be picked, and {where.from_!r} names {len(found)}")
        return [found.pop(int(random.random() * len(found))) for _ in range(where.pick)]

    def _matching(self, pattern: str) -> Sequence[str]:
        if pattern not in self.named:
            self.named[pattern] = self.inventory.matching(pattern)
        return self.named[pattern]

    def _add(self, place: _Place, step: Step, verb: str, what: Any, device: str = "") -> None:
        if len(self.actions) >= MOST:
            raise PlanError((place.path, f"the plan has more than {MOST} actions"))
        if (where := self.places.get(place.path)) is None:
            where = self.places[place.path] = ".".join(map(str, place.path))
        at = round(place.now, 3)
        self.actions.append(Action(at, verb, what, device, place.trigger, where))

    def key_of(self, step: Step, rounds: tuple[int, ...]) -> bytes:
        """What the step's own draws are made from, in these rounds."""
        said = self.keys.get(id(step)) or self.keys.setdefault(id(step), said_by(step))
        key = f"{self.seed}|{rounds}|{said}"
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


def _taint(taint: Tainting) -> dict[str, str]:
    return {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}


def _begin(step: Step, place: _Place, random: Uniform) -> _Place:
    if step.when is not None:
        return place._replace(now=0.0, trigger=trigger_of(step.when))
    if step.at is not None:
        return place._replace(now=place.start + step.at.draw(random), trigger=place.origin)
    return place.later(place.now + step.after.draw(random)) if step.after else place
