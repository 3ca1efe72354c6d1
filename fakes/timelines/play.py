"""A timeline with its devices and its plan, and its play on a stage: a driver, a device plugin, and what Pods show."""

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol, assert_never, cast

from drahealth.fakes.control.commands import (
    Clear,
    Inject,
    Recover,
    Reset,
    SetHeartbeat,
    StreamSend,
    TaintDevices,
    UntaintDevices,
)
from drahealth.fakes.control.definition import Command, Kind, Subject
from drahealth.fakes.control.without_subcommand import Report
from drahealth.fakes.faults.catalogue import fault
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.inventory.file import group_errors, inventory_of, load_inventory
from drahealth.fakes.program.user_files import Document, FileError, Finding, Place, read
from drahealth.fakes.timelines.load import Loaded, load_parts
from drahealth.fakes.timelines.model import HELD, DeviceMessage, Message, Timeline, Trigger
from drahealth.fakes.timelines.plan import Action, ChangeKubelet, ChangePod, Expect, Mark, Plan, Send
from drahealth.fakes.timelines.validation import judged
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.clock import Clock
from drahealth.proto.health_apis import HEALTH_NUMBERS
from drahealth.proto.health_v1_pb2 import DeviceHealth as ShippedHealth
from drahealth.proto.health_v1_pb2 import NodeWatchResourcesResponse
from drahealth.proto.values import DeviceHealth, Health, ResourceHealth

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


# What a timeline's `send` says, as a report or, where no report could say it, as bytes. Pure.


def command_of(message: DeviceMessage | Message, pool: str, wall: float, inventory: Inventory) -> Command[None]:
    """The command that sends it now."""
    given = report_of(message, pool, wall, inventory)
    return StreamSend(given) if isinstance(given, str) else Report(given)


def report_of(
    message: DeviceMessage | Message, pool: str, wall: float, inventory: Inventory
) -> list[DeviceHealth] | str:
    """A report of the devices, or hexadecimal bytes: those that it has, or those of DRAResourceHealth if a health is a
    number that nobody knows."""
    if isinstance(message, Message) and message.raw is not None:
        return message.raw
    devices = (message,) if isinstance(message, DeviceMessage) else message.devices or ()
    if all(isinstance(device.health, Health) for device in devices):
        return [_device(device, pool, wall, inventory) for device in devices]
    shipped = NodeWatchResourcesResponse(devices=[_shipped(device, pool, wall, inventory) for device in devices])
    return shipped.SerializeToString().hex()


def _device(given: DeviceMessage, pool: str, wall: float, inventory: Inventory) -> DeviceHealth:
    known = inventory.find(given.device)
    return DeviceHealth(
        pool=given.pool if given.pool is not None else (known and known.pool) or pool,
        device=known.name if known else given.device,  # what the API knows it by; another's name as it is
        health=given.health if isinstance(given.health, Health) else Health.UNKNOWN,
        message=given.message if isinstance(given.message, str) else "x" * given.message.length,
        timeout=int(given.timeout or 0),
        updated=int(wall + given.updated) if given.updated is not None else 0,
    )


def _shipped(given: DeviceMessage, pool: str, wall: float, inventory: Inventory) -> Any:
    known = _device(given, pool, wall, inventory)
    number: Any = HEALTH_NUMBERS[given.health] if isinstance(given.health, Health) else given.health
    return ShippedHealth(
        device={"pool_name": known.pool, "device_name": known.device},
        health=number,
        last_updated_time=known.updated,
        health_check_timeout_seconds=known.timeout,
        message=known.message,
    )


# Whether what a pod shows of a device is what a timeline expects. Pure.


def fits(found: ResourceHealth, expect: Expect) -> bool:
    """Whether its health and message are the expected ones."""
    if expect.health not in (None, found.health):
        return False
    message = expect.message
    return message is None or (fnmatchcase(found.message, message) if message else not found.message)


def sought(action: Action, expect: Expect) -> str:
    """What it expects, in words."""
    words = ["its devices" if expect.device == HELD else expect.device]
    words += ["of the device plugin"] if action.of == "device-plugin" else []
    words += [str(expect.health or ""), repr(expect.message) if expect.message is not None else ""]
    words += [f"with at most {expect.pod_writes} status writes"] if expect.pod_writes is not None else []
    return " ".join(filter(None, words))


def already_true(old: Action) -> str:
    """The note on an expectation that was met by a status from before this step."""
    verb = old.verb.replace("_", " ")
    return f"already true before the step {old.step} ({verb}); add `holds`, or expect something new"


# Does the actions of a plan on a driver and a device plugin beside it, and looks at what pods show.
#
# A stage defines the rest: how it sees pods, how its clock passes, how it starts and stops a fake, and how it reports
# a failure.

_SUBJECTS: tuple[Subject, ...] = ("driver", "device-plugin")
_TIMES = (Kind.DURATION, Kind.RECOVERY_TIME)


@dataclass(slots=True)
class _Change:
    """A step that can change what pods show of a device."""

    number: int
    """The later step has the higher number."""
    newest: object
    """`TimelineStage.newest` before it, or before the first of several steps without an expectation between them."""
    action: Action
    is_checked: bool = False
    """An expectation came after it."""


class TimelineStage(ABC):
    """Implements `play.Stage`; `speed` times as fast as the plan has it."""

    clock: Clock

    def __init__(self, story: Story, *, pool: str, has_plugin: bool, speed: float) -> None:
        self.story = story
        self._pool = pool
        self._has_plugin = has_plugin
        self._speed = speed
        self._failed: set[tuple[str, str]] = set()
        """Steps and devices whose expectation was not met: nothing is to be held."""
        self._numbers = count()
        self._changed: dict[tuple[Subject, str], _Change] = {}
        """The last step that can change a device of a fake."""
        self._reached: dict[str, set[str]] = {}
        """The devices that faults on a device have reached."""

    async def act(self, action: Action) -> None:
        with self.at(action):
            self.begins(action)
            self._remember(action)
            match action.do:
                case Command():
                    await self._command(action, action.do)
                case Send(message=message):
                    await self.do("driver", command_of(message, self._pool, self.clock.wall(), self.story.inventory))
                case ChangePod():
                    await self.change_pod(action.do)
                case ChangeKubelet():
                    await self.change_kubelet(action.do)
                case Mark() | Expect():
                    pass  # `expect` does the latter
                case unhandled:
                    assert_never(unhandled)

    async def expect(self, action: Action) -> None:
        expect = cast("Expect", action.do)
        self._failed.discard((action.step, action.device))
        old = self._old(action, expect)
        with self.at(action):
            if not await self.comes(action, expect, lambda: self._is_so(action, expect)):
                self._failed.add((action.step, action.device))
                self.not_met(action, expect, held=False)
            elif not expect.holds:
                self.met(action, expect, old)

    async def held(self, action: Action) -> None:
        expect = cast("Expect", action.do)
        if (action.step, action.device) in self._failed:
            return
        with self.at(action):
            if self._is_so(action, expect):
                self.met(action, expect, None)
            else:
                self.not_met(action, expect, held=True)

    async def happens(self, trigger: Trigger) -> None:
        await self.until(lambda: self._has_happened(trigger))

    # -- what a stage does

    @abstractmethod
    async def passes(self, seconds: float) -> None:
        """Returns when so much time has passed for everything on the stage."""

    @abstractmethod
    def at(self, action: Action) -> AbstractContextManager[object]:
        """What fails in it fails at this action."""

    @abstractmethod
    def begins(self, action: Action) -> None:
        """It is done now."""

    @abstractmethod
    def done(self, action: Action, result: str) -> None:
        """The result of the action."""

    @abstractmethod
    async def do(self, subject: Subject, command: Command[Any]) -> Any:
        """The driver, or the device plugin, does the command."""

    @abstractmethod
    def ids_of(self, device: str) -> tuple[str, ...]:
        """The device plugin's ids of a device, or of its partitions."""

    @abstractmethod
    async def change_pod(self, change: ChangePod) -> None:
        """Lets the pod fail or run, or deletes it."""

    @abstractmethod
    async def change_kubelet(self, change: ChangeKubelet) -> None:
        """Restarts, stops or starts the kubelet."""

    # -- what a stage sees

    @abstractmethod
    async def comes(self, action: Action, expect: Expect, true: Callable[[], bool]) -> bool:
        """Waits through the window of an expectation; whether it came true. May raise what says that it did not."""

    @abstractmethod
    async def until(self, true: Callable[[], bool]) -> None:
        """Waits until it is true."""

    @abstractmethod
    def met(self, action: Action, expect: Expect, old: Action | None) -> None:
        """Pods show what they are to show, and have as long as they are to.

        `old`: they showed it before this step, and no status was written since.
        """

    @abstractmethod
    def not_met(self, action: Action, expect: Expect, *, held: bool) -> None:
        """They do not; `held`: they did at first. May raise what says so."""

    @abstractmethod
    def shown(self, device: str, of: Subject = "driver") -> list[ResourceHealth]:
        """What pods show of a device or of its partitions, or of those that the pod holds."""

    @abstractmethod
    def newest(self) -> object:
        """An object that is the same until the status of a pod changes."""

    @abstractmethod
    def pod_writes(self) -> int:
        """How often the pod's status was written."""

    @abstractmethod
    def calls(self, method: str | None) -> int:
        """How often the driver was called since the start, by this method or by any."""

    # -- inside

    async def _command(self, action: Action, command: Command[Any]) -> None:
        if action.of == "device-plugin" and command.definition.has_devices:
            command = command.on(self.ids_of(action.device))
        reply = await self.do(action.of, faster(command, self._speed))
        if isinstance(command, Reset) and self._has_plugin:
            await self.do("device-plugin", command)
        if isinstance(command, Recover) and reply.left:
            self.done(action, f"{command.action} does not clear {', '.join(reply.left)}")

    def _is_so(self, action: Action, expect: Expect) -> bool:
        if expect.pod_writes is not None and self.pod_writes() > expect.pod_writes:
            return False
        shown = self.shown(action.device, action.of)
        return bool(shown) and all(fits(found, expect) for found in shown)

    def _remember(self, action: Action) -> None:
        """The action is about to change devices. A new pod shows nothing old."""
        if isinstance(action.do, ChangePod) and action.do.what == "deleted":
            self._changed.clear()
        number, newest = next(self._numbers), self.newest()
        for key in self._changed_by(action):
            known = self._changed.get(key)
            first = known.newest if known and not known.is_checked else newest
            self._changed[key] = _Change(number, first, action)

    def _changed_by(self, action: Action) -> Iterable[tuple[Subject, str]]:
        """The devices whose health or message the action can change."""
        inventory, device = self.story.inventory, action.device
        match action.do:
            case Mark() | Expect() | ChangePod() | SetHeartbeat() | TaintDevices() | UntaintDevices():
                return []
            case ChangeKubelet() | Reset():
                return [(of, one.path) for of in _SUBJECTS for one in inventory.devices]
            case Inject(fault=name) | Clear(fault=name):
                reached = inventory.reached(device, fault(self.story.timeline.use.catalogue, name).reaches)
                self._reached.setdefault(device, set()).update(reached)
                return [(action.of, path) for path in reached]
        if not device:
            return [(action.of, one.path) for one in inventory.devices]
        inside = inventory.reached(device, "device")
        by_fault = (path for one in inside for path in self._reached.get(one, ()))
        return [(action.of, path) for path in (*inside, *by_fault)]

    def _old(self, action: Action, expect: Expect) -> Action | None:
        """The last step that can change the device, if pods have shown what is expected since before this step.

        Of several steps without an expectation between them, the first one counts.
        """
        inventory = self.story.inventory
        everywhere = (device.path for device in inventory.devices)
        paths = everywhere if action.device == HELD else inventory.reached(action.device, "device")
        changes = [self._changed[action.of, path] for path in paths if (action.of, path) in self._changed]
        for change in changes:
            change.is_checked = True
        is_about_state = not expect.holds and (expect.health is not None or expect.message is not None)
        if not changes or not is_about_state or not self._is_so(action, expect):
            return None
        last = max(changes, key=attrgetter("number"))
        return last.action if last.newest is self.newest() else None

    def _has_happened(self, trigger: Trigger) -> bool:
        if trigger.calls is not None:
            return self.calls(trigger.method) >= trigger.calls
        paths = [HELD] if trigger.device == HELD else self.story.inventory.matching(trigger.device or "all")
        return any(found.health == trigger.seen for path in paths for found in self.shown(path))


def faster(command: Command[Any], speed: float) -> Command[Any]:
    """The same, with the times that pass on the driver's clock shortened."""
    times = [argument.name for argument in command.definition.arguments if argument.kind in _TIMES]
    if speed == 1 or not times:
        return command
    args = command.arguments()
    return type(command)(**{**args, **{name: args[name] / speed for name in times if args[name]}})
