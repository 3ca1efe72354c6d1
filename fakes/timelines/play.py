"""A timeline with its devices and its plan, and its play on a stage."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.inventory.file import group_errors, inventory_of, load_inventory
from drahealth.fakes.program.user_files import Document, FileError, Finding, Place, read
from drahealth.fakes.timelines.load import Loaded, load_parts
from drahealth.fakes.timelines.model import Timeline, Trigger
from drahealth.fakes.timelines.plan import Action, Expect, Plan
from drahealth.fakes.timelines.validation import judged
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.clock import Clock

# A timeline with its devices and its plan: what is needed to play it.

DEVICES = 2
"""GPUs that there are where nobody says."""


@dataclass(frozen=True, slots=True)
class Story:
    """One timeline, ready to be played."""

    timeline: Timeline
    inventory: Inventory
    plan: Plan
    document: Document | None = None
    """What it was read from; None: it was made in Python."""

    def where(self, action: Action) -> str:
        """The step that the action is of: `bus.timeline.yaml line 6, timeline.1`; without a file just the step."""
        if self.document is None:
            return action.step
        return f"{Path(self.document.source).name} line {self.document.line(action.place)}, {action.step}"


def stories(path: Path, *, seed: int | None = None, inventory: Inventory | None = None) -> list[Story]:
    """Those of a file, in its order. `inventory` is for timelines that name none.

    Raises FileError with all that makes no sense, OSError for what cannot be read.
    """
    found, (parts, problems) = list[Story](), load_parts(read(path), str(path))
    for part in parts:
        devices, wrong = _devices(part, path.parent, inventory)
        plan, odd = judged(part, devices, seed)
        problems += [*part.problems, *part.document.problems([*wrong, *odd])]
        if devices is not None and plan is not None:
            found.append(Story(part.timeline, devices, plan, part.document))
    if problems:
        raise FileError(str(path), problems)
    return found


def _devices(loaded: Loaded, folder: Path, otherwise: Inventory | None) -> tuple[Inventory | None, list[Finding]]:
    """The devices of a timeline, and their errors."""
    named, place = loaded.timeline.use.inventory, ("use", "inventory")
    use = loaded.document.data.get("use")
    if wrong := [*group_errors(use.get("inventory") if isinstance(use, dict) else None, place)]:
        return None, wrong
    if named is None:
        return otherwise or Inventory.of(DEVICES), []
    if not isinstance(named, str):
        return inventory_of(named), []
    try:
        return load_inventory(folder / named), []
    except FileError as error:
        return None, [(place, f"{named}: {problem}") for problem in error.problems]
    except OSError as error:
        return None, [(place, f"{named} cannot be read: {error.strerror}")]


# Plays a plan on a stage, at its times, and resets everything at the end.
#
# The stage knows how time passes: it sleeps, or jumps. What is expected is waited for, so it may make what comes
# after it late; the plan's times stay what they are.


class Stage(Protocol):
    """Where a plan is played. Whatever one of these raises ends the story."""

    @property
    def clock(self) -> Clock: ...

    async def passes(self, seconds: float) -> None:
        """Returns when so much time has passed for everything on the stage."""

    async def act(self, action: Action) -> None:
        """Does it."""

    async def expect(self, action: Action) -> None:
        """Waits through the window of the action until the pod shows it. Raises an error if it does not."""

    async def held(self, action: Action) -> None:
        """It has been expected to stay so since `expect` returned. Raises what says that it did not."""

    async def happens(self, trigger: Trigger) -> None:
        """Returns when what a step waits for has happened."""


async def play(plan: Plan, stage: Stage, *, speed: float = 1.0, patient: bool = False) -> tuple[Action, ...]:
    """Plays it, `speed` times as fast as it says. What is always done is done in any case.

    What fails first is raised; what fails after it, in what is always done, is in its notes.

    What waits for something that has not happened when all the rest is done is left out, and returned; one who is
    `patient` waits for it, however long that is.
    """
    if speed <= 0:
        raise ValueError(f"speed must be above 0, got {speed:g}")
    player = _Player(stage, speed, patient)
    try:
        left_out = await player.play(plan.actions)
    except BaseException as error:
        await player.close()
        _add(error, await _end(plan.always, stage, speed))
        raise
    await player.close()
    if failed := await _end(plan.always, stage, speed):
        first, *others = failed
        _add(first, others)
        raise first
    return left_out


_HELD, _DONE = 0, 1
"""What has to hold until a time comes before what is done then."""


class _Due(NamedTuple):
    """Something that a plan has for a time. What has to hold until then comes before what is done then."""

    at: float
    rank: int
    number: int
    action: Action
    ready: float = 0.0
    """Seconds from the start, as they pass, before which it cannot be."""


class _Player:
    """What is due next, first of all; what happens adds to it."""

    def __init__(self, stage: Stage, speed: float, patient: bool) -> None:
        self._stage = stage
        self._speed = speed
        self._patient = patient
        self._start = stage.clock.now()
        self._due: list[_Due] = []
        self._numbers = count()
        self._more = asyncio.Event()
        self._waiting: dict[asyncio.Task[None], Sequence[Action]] = {}

    async def play(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        triggered: dict[Trigger, list[Action]] = defaultdict(list)
        for action in actions:
            if action.trigger is None:
                self._push(action.at, action)
            else:
                triggered[action.trigger].append(action)
        self._waiting = {asyncio.create_task(self._add_when_it_happens(late)): late for late in triggered.values()}
        while await self._is_more_due():
            due = self._due[0]
            if (wait := max(due.at / self._speed, due.ready) - self._passed()) > 0:
                await self._wait(wait)
            else:
                await self._do(heappop(self._due))
            for task in self._waiting:
                if task.done():
                    task.result()
        return tuple(action for task, late in self._waiting.items() if not task.done() for action in late)

    async def close(self) -> None:
        await cancel_and_wait(*self._waiting)

    async def _is_more_due(self) -> bool:
        if not self._due:
            await asyncio.sleep(0)  # who waits for what has happened by now hears of it
        while not self._due and self._patient and (left := [task for task in self._waiting if not task.done()]):
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        return bool(self._due)

    async def _do(self, due: _Due) -> None:
        action = due.action
        if not isinstance(action.do, Expect):
            await self._stage.act(action)
        elif due.rank == _HELD:
            await self._stage.held(action)
        else:
            await self._stage.expect(action)
            if holds := action.do.holds:  # and what comes after it in the plan waits for its end
                ready = self._passed() + holds / self._speed
                heappush(self._due, _Due(due.at + holds, _HELD, next(self._numbers), action, ready))

    async def _add_when_it_happens(self, actions: Sequence[Action]) -> None:
        trigger = actions[0].trigger
        assert trigger
        await self._stage.happens(trigger)
        for action in actions:
            self._push(self._passed() * self._speed + action.at, action)

    async def _wait(self, seconds: float) -> None:
        """For so long, or until something more is due."""
        self._more.clear()
        tasks = [asyncio.ensure_future(self._stage.passes(seconds)), asyncio.create_task(self._more.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            passed, _ = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(passed, Exception):
            raise passed

    def _passed(self) -> float:
        return self._stage.clock.now() - self._start

    def _push(self, at: float, action: Action) -> None:
        heappush(self._due, _Due(at, _DONE, next(self._numbers), action))
        self._more.set()


async def _end(actions: Iterable[Action], stage: Stage, speed: float) -> list[Exception]:
    """Every one of them, whatever becomes of the others: of each step what fails first."""
    failed: dict[Place, Exception] = {}
    start = stage.clock.now()
    for action in actions:
        wait = start + action.at / speed - stage.clock.now()
        try:
            if wait > 0:
                await stage.passes(wait)
            if not isinstance(action.do, Expect):
                await stage.act(action)
                continue
            await stage.expect(action)
            if holds := action.do.holds:
                await stage.passes(holds / speed)
                await stage.held(action)
        except Exception as error:
            failed.setdefault(action.place, error)
    return [*failed.values()]


def _add(error: BaseException, others: Iterable[Exception]) -> None:
    """Adds the other errors as notes to the first one."""
    for other in others:
        if other is not error:
            error.add_note(f"at the end: {other}")
