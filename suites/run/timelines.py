"""Timelines as scenarios in pytest: each in a `*.timeline.yaml` runs on a node of the run's target."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, cast

import pytest

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.commands import Crash, Restart, RestartDevicePlugin, Start, Stop, Upgrade
from drahealth.fakes.control.definition import Command, Subject
from drahealth.fakes.control.remote import ControlFailed
from drahealth.fakes.durations import Duration
from drahealth.fakes.program.user_files import FileError, Place
from drahealth.fakes.timelines.model import HELD, PodVerb, Workload
from drahealth.fakes.timelines.plan import ENDING, Action, ChangeKubelet, ChangePod, Expect, Plan
from drahealth.fakes.timelines.play import Story, TimelineStage, already_true, fits, play, sought, stories
from drahealth.fakes.timelines.validation import WINDOWS
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.events import (
    CheckpointWritten,
    Prepared,
    Record,
    ReportReceived,
    ReportSent,
    ReportSummary,
    StatusSeen,
    StreamOpened,
    TimePassed,
    TimeSkipped,
    Unprepared,
)
from drahealth.proto.quoting import one_line
from drahealth.proto.values import ResourceHealth
from drahealth.suites.errors import HarnessError
from drahealth.suites.judging.status_content import STEP_FAILED, Sought, StepFailed, Violation
from drahealth.suites.run.scenario import scenario
from drahealth.suites.run.session import Session
from drahealth.suites.story.hardware import DevicePlugin, Driver, ResourceRequest
from drahealth.suites.story.history import STORY_LIMIT, History, are_received
from drahealth.suites.story.node import RECEIPT_LIMIT, Node
from drahealth.suites.story.workload import Pod, ReplicaSet, sought_in
from drahealth.suites.targets.target import Window

# When a timeline can skip time: nothing but heartbeats happens, and nothing else is due. Pure.

QUIET = 120.0
"""Seconds without a change. Heartbeats, resyncs and other periodic timers of the reference are shorter."""

LONG = 3600.0
"""Only a longer time is skipped, so ordinary timelines play each second."""

_STEADY = (CheckpointWritten, ReportReceived, ReportSent, ReportSummary, TimePassed)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a period that may be quiet."""

    left: float
    """Seconds that the timeline was to wait then."""
    records: int
    """The length of the history then."""
    timers: frozenset[int]
    """The timers that were set then."""

    def is_over(self, left: float) -> bool:
        """Whether the period is long enough. `left` is what the timeline has to wait now."""
        return self.left - left >= QUIET

    def was_quiet(self, records: Sequence[Record], timers: frozenset[int]) -> bool:
        """Whether nothing changed since then, and no timer of that time is still set.

        A timer that is still set belongs to something that comes later, such as a recovery of several days. The others
        are set again and again.
        """
        return not timers & self.timers and all(isinstance(one.what, _STEADY) for one in records[self.records :])


# The workload of a timeline, which holds its devices: a pod, or the current pod of a ReplicaSet.


class Holder:
    """The workload of a timeline. `async with` stops the task that makes its containers fail."""

    pod: Pod
    held: frozenset[str]
    """The names of the driver's devices that the scheduler allocated to the pod."""

    def __init__(self, node: Node, driver: Driver, shows: int) -> None:
        """The pod must show this number of devices before the story continues."""
        self._node = node
        self._driver = driver
        self._shows = shows
        self._replicas: ReplicaSet | None = None
        self._failing: asyncio.Task[None] | None = None

    async def begin(self, workload: Workload, devices: int, requests: Sequence[ResourceRequest]) -> None:
        """Create the workload, with this number of devices of the driver. Wait until it runs, and its health is
        watched.
        """
        claim = await self._node.claim(self._driver, template=workload.kind == "ReplicaSet", gpu=devices)
        if workload.kind == "ReplicaSet":
            self._replicas = await self._node.replica_set(claim["gpu"], *requests)
            await self._use_pod(await self._replicas.next_pod())
        else:
            await self._use_pod(await self._node.running_pod(claim["gpu"], *requests))
        if self._driver.health_api:  # a fault before the first stream is perhaps never reported
            await self._driver.is_watched()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            await self._stop_failing()

    async def apply(self, verb: PodVerb) -> None:
        """Apply a `pod` step."""
        match verb:
            case "keeps-failing":
                await self._stop_failing()
                self._failing = asyncio.create_task(self.pod.fails_repeatedly())
                await self.pod.is_in_back_off()
            case "running":
                await self._stop_failing()
            case "deleted" if self._replicas:
                await self._stop_failing()
                await self.pod.is_deleted()
                await self._use_pod(await self._replicas.next_pod())

    def check(self) -> None:
        """Raises the error of the task that makes its containers fail, if there is one."""
        if self._failing and self._failing.done():
            self._failing.result()

    async def _stop_failing(self) -> None:
        """Stop the failures of its containers. It does nothing if they do not fail."""
        failing, self._failing = self._failing, None
        if failing:
            await cancel_and_wait(failing)

    async def _use_pod(self, pod: Pod) -> None:
        self.pod = pod
        self.held = frozenset(gpu.name for gpu in await pod.gpus_of(self._driver))
        await pod.has_devices(self._shows)


# A node as the stage of a timeline: its actions go to the fake driver, its expectations are checked in pods.

STRIDE = 2.0
"""Seconds that are jumped over at once, so that heartbeats come between and no device is taken for silent."""

_NOT_MET = "this expectation is not met; an expectation is not a requirement"

_CALLS = {
    "NodePrepareResources": Prepared,
    "NodeUnprepareResources": Unprepared,
    "NodeWatchResources": StreamOpened,
}
"""What of the history a call of the driver is."""


@dataclass(frozen=True)
class NodeClock:
    """The node's time: real seconds, and those that were jumped over."""

    node: Node

    def now(self) -> float:
        return time.monotonic() + jumped(self.node.history)

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await self.node.advance_time(seconds)


def jumped(history: History) -> float:
    """Seconds that the clock of the node jumped, and that the timeline skipped."""
    passed, skipped = history.of(TimePassed), history.of(TimeSkipped)
    return sum(event.seconds for event in passed) + sum(event.seconds for event in skipped)


class NodeStage(TimelineStage):
    """A driver whose devices a pod holds, and a device plugin with devices of the same names, if there is one. A
    failure names its step."""

    def __init__(
        self,
        node: Node,
        driver: Driver,
        holder: Holder,
        story: Story,
        *,
        plugin: DevicePlugin | None = None,
        speed: float = 1.0,
    ) -> None:
        super().__init__(story, pool=driver.options.pool_name, has_plugin=plugin is not None, speed=speed)
        self.clock = NodeClock(node)
        self._node = node
        self._driver = driver
        self._holder = holder
        self._plugin = plugin
        self._met = defaultdict[tuple[Place, float], list[tuple[Action, Action | None]]](list)
        """What was expected at a time by a step, with the steps before which it was already true."""

    async def passes(self, seconds: float) -> None:
        left, begun = seconds, self._beginning(seconds)
        while left > 0:
            if begun and left > LONG and begun.is_over(left):
                if await self._was_quiet(begun):
                    self._node.history.observe(TimeSkipped(left))
                    return
                begun = self._beginning(left)
            step = min(left, STRIDE)
            await self._node.history.until(lambda: are_received(self._node.history.records), RECEIPT_LIMIT)
            if by := await self._node.target.advance_time(step):
                self._node.history.observe(TimePassed(by))
                await asyncio.sleep(0.01)
            left -= step

    def _beginning(self, left: float) -> Beginning | None:
        """The beginning of a period that may be quiet; None if the timers of the target are not known."""
        timers = self._node.target.timers()
        return None if timers is None else Beginning(left, len(self._node.history.records), timers)

    async def _was_quiet(self, begun: Beginning) -> bool:
        """A fault of a stream can lose a report at random, so time with such a fault is not quiet."""
        if (await self._driver.control.state()).stream_faults:
            return False
        return begun.was_quiet(self._node.history.records, self._node.target.timers() or frozenset())

    @contextmanager
    def at(self, action: Action) -> Iterator[None]:
        """Errors name the step. A refusal by the driver or the API server becomes a HarnessError.

        A step that fails, such as an expectation, violates no requirement: the author of the timeline has written it.
        """
        where = self.story.where(action)
        try:
            if action.place[0] != ENDING:  # what is always done is done, though the pod does not keep failing
                self._holder.check()
            yield
        except Violation as error:
            error.where = error.where or where
            if error.assertion != STEP_FAILED:
                raise
            what = _NOT_MET if action.verb == "expect" else "this step failed"
            failed = StepFailed(error.where, what, error.expected, str(error.seen))
            failed.sought, failed.at = error.sought, error.at
            raise failed from None
        except HarnessError as error:
            error.where = error.where or where
            raise
        except (ApiError, ControlFailed, ValueError) as error:
            refused = HarnessError(f"{_words(action)} cannot be done: {error}")
            refused.where = where
            raise refused from error

    async def begin(self) -> None:
        """The workload runs. Returns when the timeline may begin."""

    async def finish(self) -> None:
        """The timeline has ended. The checks at the end need a running kubelet."""
        await self._node.kubelet_starts()

    # -- what is done

    def begins(self, action: Action) -> None:
        self._node.log(f"{action.step}: {_words(action)}")

    def done(self, action: Action, result: str) -> None:
        self._node.log(result)

    async def do(self, subject: Subject, command: Command[Any]) -> Any:
        if subject == "device-plugin":
            return await _do_plugin(self._plugin, command) if self._plugin else None
        return await _do_driver(self._driver, command)

    def ids_of(self, device: str) -> tuple[str, ...]:
        return tuple(sorted(self._names(device)))

    async def change_pod(self, change: ChangePod) -> None:
        await self._holder.apply(change.what)

    async def change_kubelet(self, change: ChangeKubelet) -> None:
        changes = {
            "restart": self._node.kubelet_restarts,
            "stop": self._node.kubelet_stops,
            "start": self._node.kubelet_starts,
        }
        await changes[change.what]()

    # -- what is seen

    async def comes(self, action: Action, expect: Expect, true: Callable[[], bool]) -> bool:
        expected = f"shows {sought(action, expect)}"
        self._node.log(f"{action.step}: a pod {expected}?")
        seen, expected = self._pod, f"pod {self._pod.name} {expected}"
        held = ", ".join(sorted(self._holder.held))
        self._node.check(self._can_show(action), expected, f"it holds {held}, and not {action.device}\n{seen}")
        if expect.within in WINDOWS:
            await self._node.until(true, cast("Window", expect.within), expected, seen, self._sought(action, expect))
            return True
        return await self._node.history.until(true, Duration.parse(expect.within).high)

    async def until(self, true: Callable[[], bool]) -> None:
        await self._node.history.until(true, float("inf"))

    def met(self, action: Action, expect: Expect, old: Action | None) -> None:
        self._met[action.place, action.at].append((action, old))
        if old:
            self._node.log(f"{action.step}: {sought(action, expect)} was {already_true(old)}")

    def notes(self) -> Iterator[str]:
        """The steps whose expectations a status from before an earlier step met, for every device."""
        for met in self._met.values():
            (action, old), *_ = met
            if old and all(one for _, one in met):
                yield f"{self.story.where(action)} was {already_true(old)}"

    def not_met(self, action: Action, expect: Expect, *, held: bool) -> None:
        shows = (
            f"still shows {sought(action, expect)}"
            if held
            else f"shows {sought(action, expect)} within {expect.within}"
        )
        self._node.check(False, f"pod {self._pod.name} {shows}", self._pod, self._sought(action, expect))

    def shown(self, device: str, of: Subject = "driver") -> list[ResourceHealth]:
        names = self._names(device)
        if of == "device-plugin":
            gpus = self._plugin.gpus if self._plugin else ()
            return [found for gpu in gpus if gpu.name in names for found in self._pod.resources(gpu)]
        return [found for gpu in self._driver.gpus if gpu.name in names for found in self._pod.resources(gpu)]

    def newest(self) -> object:
        return self._pod.status

    def pod_writes(self) -> int:
        return sum(event.uid == self._pod.uid for event in self._node.history.of(StatusSeen))

    def calls(self, method: str | None) -> int:
        kinds = [_CALLS[method]] if method in _CALLS else list(_CALLS.values())
        return sum(1 for kind in kinds for _ in self._node.history.of(kind))

    @property
    def _pod(self) -> Pod:
        return self._holder.pod

    def _sought(self, action: Action, expect: Expect) -> Sought | None:
        """The first device that does not show what is expected, for the diagnosis of a failure."""
        names, plugin = self._names(action.device), self._plugin if action.of == "device-plugin" else None
        gpus = [gpu for gpu in (plugin.gpus if plugin else self._driver.gpus) if gpu.name in names]
        for gpu in gpus:
            if not all(fits(one, expect) for one in self._pod.resources(gpu)) or len(gpus) == 1:
                return replace(sought_in(self._pod, gpu, expect.health, expect.message, None), is_pattern=True)
        return None

    def _can_show(self, action: Action) -> bool:
        """The pod holds some of it; which devices of a device plugin it does is the kubelet's business."""
        return action.of == "device-plugin" or bool(self._names(action.device) & self._holder.held)

    def _names(self, device: str) -> set[str]:
        """What the API calls the device, or its partitions, or those that the pod holds."""
        if device == HELD:
            return set(self._holder.held)
        inventory = self.story.inventory
        paths = inventory.reached(device, "device")
        return {inventory[path].name for path in paths if path in self._driver.options.devices}


async def _do_driver(driver: Driver, command: Command[Any]) -> Any:
    """Its life is the scenario's: a start is over once the kubelet has registered the driver."""
    match command:
        case Start():
            state = await driver.control.state()
            if not (state.running and state.registered):  # one that has deregistered keeps running
                await driver.starts()
        case Stop():
            await driver.stops()
        case Crash():
            await driver.crashes()
        case Restart(offer=offer):
            await driver.restarts(offer)
        case Upgrade(overlap=overlap, offer=offer):
            await driver.upgrades(overlap, offer)
        case _:
            return await driver.control.do(command)
    return None


async def _do_plugin(plugin: DevicePlugin, command: Command[Any]) -> Any:
    match command:
        case Start():
            if not (await plugin.control.state()).running:
                await plugin.starts()
        case Stop():
            await plugin.stops()
        case Crash():
            await plugin.crashes()
        case RestartDevicePlugin():
            await plugin.stops()
            await plugin.starts()
        case _:
            return await plugin.control.do(command)
    return None


def _words(action: Action) -> str:
    """What it does, in a line of the history."""
    what = action.what if action.what is None or isinstance(action.what, str) else str(action.what)
    verb = f"plugin {action.verb}" if action.of == "device-plugin" else action.verb
    return " ".join(filter(None, (verb, what, action.device and f"({action.device})")))


# The health that pods showed during a story, as one line per changed device. Pure.

LINES = 4
"""Maximum number of devices to print."""
STATES = 6
"""Maximum number of states per device. The last ones are printed."""
LETTERS = 80
"""Maximum length of a message."""

_States = list[tuple[float, str]]


def status_changes(records: Iterable[Record], since: float) -> Iterator[str]:
    """One line per changed device. `since` is the start of the story on the records' clock.

    Times in the lines are seconds since the start, including simulated time.
    """
    jumped, seen = 0.0, dict[tuple[str, str], _States]()
    for record in records:
        match record.what:
            case TimePassed(seconds=seconds) | TimeSkipped(seconds=seconds) if record.at >= since:
                jumped += seconds
            case StatusSeen() as status:
                at = max(record.at - since, 0.0) + jumped
                for key, words in _healths(status):
                    states = seen.setdefault(key, [])
                    if not states or states[-1][1] != words:
                        states.append((at, words))
    changed = {key: states for key, states in seen.items() if len(states) > 1}
    for (pod, device), states in list(changed.items())[:LINES]:
        yield f"pod {pod} showed {device}: {_in_order(states)}"
    if len(changed) > LINES:
        yield f"{len(changed) - LINES} more devices changed"


def _healths(status: StatusSeen) -> Iterator[tuple[tuple[str, str], str]]:
    for _, entries in status.entries():
        for entry in entries:
            for resource in entry.resources:
                device = resource.resource_id.replace("=", "/").rpartition("/")[2]
                yield (
                    (status.pod, device if entry.name.startswith("claim:") else f"{entry.name} {device}"),
                    _health_words(resource),
                )


def _health_words(resource: ResourceHealth) -> str:
    return f"{resource.health} '{one_line(resource.message, LETTERS)}'" if resource.message else str(resource.health)


def _in_order(states: _States) -> str:
    more = len(states) - STATES
    first, *others = states[-STATES:]
    later = [f"{words} at {at:.1f} s" for at, words in others]
    return ", ".join([*([f"{more} more"] if more > 0 else []), first[1], *later])


class TimelineFile(pytest.File):
    """A file of timelines."""

    def collect(self) -> Iterator["TimelineItem"]:
        seed = self.config.getoption("--drahealth-seed")
        try:
            found = stories(self.path, seed=int(seed) if seed else None)
        except FileError as error:
            raise self.CollectError(str(error)) from None
        for story in found:
            yield TimelineItem.from_parent(self, name=story.timeline.name, story=story)


class TimelineWarning(pytest.PytestWarning):
    """A passed timeline has a remark, for example that it has no expectations."""


class TimelineItem(pytest.Item):
    """One timeline. It has its own driver, and a workload that holds the devices."""

    def __init__(self, *, story: Story, **known: object) -> None:
        super().__init__(**known)  # type: ignore[arg-type]
        self._story = story
        speed = self.config.getoption("--drahealth-speed")
        self._speed = float(speed) if speed else 1.0
        self._node: Node | None = None
        self.function = as_scenario(story, self._speed)

    def runtest(self) -> None:
        session = Session.of(self.config)
        node = self._node = session.begin(self)
        node.time_limit = STORY_LIMIT + lasts(self._story.plan) / self._speed
        try:
            self.function(node=node)
            # The kubelet can write an effect of the last step after the timeline has ended.
            node.status_changes += status_changes(node.history.records, node.timeline_began)
        finally:
            session.finish(node)
        for note in node.notes:
            self.warn(TimelineWarning(note))

    def progress(self) -> str:
        """The name and, if the target's time is simulated, how much of the timeline's time has passed."""
        passed = jumped(self._node.history) if self._node else 0.0
        return f"{self.name} ...{story_time(passed * self._speed, lasts(self._story.plan)) if passed else ''}"

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name


def story_time(passed: float, total: float) -> str:
    """How much of a timeline has been played, such as `, at 1 day, 2:00:00 of 3 days, 0:00:00`."""
    at, end = (timedelta(seconds=int(seconds)) for seconds in (min(passed, total), total))
    return f", at {at} of {end}"


async def play_story(
    story: Story, node: Node, speed: float = 1.0, make_stage: Callable[..., NodeStage] = NodeStage
) -> None:
    """Play the timeline with its own driver, and a workload that holds the devices. `make_stage` takes the arguments of
    NodeStage."""
    inventory, plan, use = story.inventory, story.plan, story.timeline.use
    paths = inventory.leaves
    names = [inventory[path].name for path in paths]
    driver = await node.driver(
        devices=paths, catalogue=use.catalogue, policy=use.policy, inventory=inventory.devices, seed=plan.seed
    )
    plugin = await node.device_plugin(names) if plan.has_plugin else None
    count = use.workload.devices or len(paths)
    async with Holder(node, driver, shows=count * (2 if plugin else 1)) as holder:
        await holder.begin(use.workload, count, [plugin.request(count)] if plugin else [])
        node.log(f"timeline {story.timeline.name}, seed {plan.seed}, plan {plan.hash}")
        node.timeline_began = time.monotonic()
        stage = make_stage(node, driver, holder, story, plugin=plugin, speed=speed)
        await stage.begin()
        left_out = await play(plan, stage, speed=speed)
        node.notes += dict.fromkeys((*stage.notes(), *notes(story, left_out)))
        await stage.finish()


def notes(story: Story, left_out: Iterable[Action]) -> Iterator[str]:
    """Remarks on a story that has ended, one line each."""
    if not any(action.verb == "expect" for action in (*story.plan.actions, *story.plan.always)):
        yield "the timeline has no `expect` step: only the final pod status was checked"
    for where in dict.fromkeys(map(story.where, left_out)):
        yield f"{where} was skipped: its condition did not occur"


def as_scenario(story: Story, speed: float = 1.0) -> Callable[..., None]:
    """A function as scenarios are, whose name is the timeline's."""

    async def run(node: Node) -> None:
        await play_story(story, node, speed)

    run.__name__ = story.timeline.name
    return scenario("STATUS-10", needs=needs(story.plan))(run)


_KUBELET_NEEDS = {"restart": "restart-kubelet", "stop": "stop-kubelet"}


def needs(plan: Plan) -> tuple[str, ...]:
    """The names of the capabilities that a target must have to play it."""
    actions = (*plan.actions, *plan.always)
    kubelet = {
        _KUBELET_NEEDS[a.do.what] for a in actions if isinstance(a.do, ChangeKubelet) and a.do.what in _KUBELET_NEEDS
    }
    return (*sorted(kubelet), *(["control-without-kubelet"] if commands_while_stopped(plan) else []))


def commands_while_stopped(plan: Plan) -> bool:
    """A driver, a plugin or a pod gets a command while the kubelet is stopped."""
    stopped = False
    for action in (*plan.actions, *plan.always):
        if isinstance(action.do, ChangeKubelet):
            stopped = action.do.what == "stop"
        elif stopped and action.verb not in ("expect", "mark"):
            return True
    return False


def lasts(plan: Plan) -> float:
    """The duration of the story in seconds, including `holds` of expectations."""
    ends = (
        action.at + (action.do.holds if isinstance(action.do, Expect) else 0.0)
        for action in (*plan.actions, *plan.always)
    )
    return max(ends, default=0.0)
