"""Plays one round on a node: several random timelines at the same time, Pods that come and go, and disruptions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from drahealth.fakes.control.definition import Command
from drahealth.fakes.timelines.plan import Action, ChangePod
from drahealth.suites.run.timelines import STRIDE, NodeStage, play_story
from drahealth.suites.soak.random_timelines import Disrupted, Round
from drahealth.suites.story.hardware import DevicePlugin, Driver
from drahealth.suites.story.history import STORY_LIMIT
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import Pod


class SharedTime:
    """The time of the players of a round.

    With simulated time it passes only while all of them wait, up to the time of the one that waits for the shortest
    time. In real time, each of them sleeps by itself. It also keeps steps that need the whole node apart from
    disruptions: none begins during one, and a disruption begins when they have ended.
    """

    def __init__(self, players: int, advance: Callable[[float], Awaitable[None]], *, simulated: bool) -> None:
        """`advance` returns when so many seconds have passed for everything on the node."""
        self._begun = asyncio.Barrier(players)
        self._playing = players
        self._advance = advance
        self._simulated = simulated
        self._now = 0.0
        self._due: dict[asyncio.Future[None], float] = {}
        self._passing: asyncio.Task[None] | None = None
        self._busy = 0
        self._disrupted = False
        self._changed = asyncio.Condition()

    async def begin(self) -> None:
        """Returns when all players are ready."""
        await self._begun.wait()

    async def passes(self, seconds: float) -> None:
        """Returns when so much time has passed."""
        if not self._simulated:
            await self._advance(seconds)
            return
        due = asyncio.get_running_loop().create_future()
        self._due[due] = self._now + seconds
        self._pass_on()
        try:
            await due
        finally:
            self._due.pop(due, None)

    def leave(self) -> None:
        """A player has ended. The others no longer wait for it."""
        self._playing -= 1
        self._pass_on()

    @asynccontextmanager
    async def undisturbed(self) -> AsyncIterator[None]:
        """No disruption happens in the block."""
        await self._until(lambda: not self._disrupted)
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            await self._notify()

    @asynccontextmanager
    async def disruption(self) -> AsyncIterator[None]:
        """No step that needs the whole node happens in the block."""
        await self._until(lambda: not self._disrupted)
        self._disrupted = True
        try:
            await self._until(lambda: not self._busy)
            yield
        finally:
            self._disrupted = False
            await self._notify()

    async def _until(self, true: Callable[[], bool]) -> None:
        """Wait for another player. Time passes meanwhile."""
        if true():
            return
        self._playing -= 1
        self._pass_on()
        try:
            async with self._changed:
                await self._changed.wait_for(true)
        finally:
            self._playing += 1

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _pass_on(self) -> None:
        if self._due and len(self._due) >= self._playing and self._passing is None:
            self._passing = asyncio.create_task(self._pass(), name="time of a round")

    async def _pass(self) -> None:
        try:
            until = min(self._due.values())
            await self._advance(until - self._now)
            self._now = until
            for due, at in self._due.items():
                if at <= until and not due.done():
                    due.set_result(None)
            self._due = {due: at for due, at in self._due.items() if at > until}
        except Exception as error:
            for due in self._due:
                if not due.done():
                    due.set_exception(error)
        finally:
            self._passing = None
        self._pass_on()


class RoundStage(NodeStage):
    """The stage of one timeline of a round."""

    def __init__(self, *arguments: Any, time: SharedTime, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._time = time

    async def begin(self) -> None:
        await self._time.begin()

    async def finish(self) -> None:
        """The kubelet is that of all timelines."""

    async def passes(self, seconds: float) -> None:
        await self._time.passes(seconds)

    async def act(self, action: Action) -> None:
        if _needs_the_node(action):
            async with self._time.undisturbed():
                await super().act(action)
        else:
            await super().act(action)


def _needs_the_node(action: Action) -> bool:
    """Whether it waits for the kubelet: for a Pod, or for the registration of a fake."""
    is_of_life = isinstance(action.do, Command) and action.do.definition.step.startswith("life ")
    return is_of_life or isinstance(action.do, ChangePod)


async def play_round(made: Round, node: Node, *, simulated: bool) -> None:
    """Play the timelines and the disruptions. Raises the first error: Violation, HarnessError or ApiError."""
    node.time_limit = STORY_LIMIT + 2 * made.seconds
    players = len(made.stories) + (1 if made.disruptions else 0)
    shared = SharedTime(players, partial(_jump, node) if simulated else asyncio.sleep, simulated=simulated)
    work = [_player(shared, play_story(one, node, make_stage=partial(RoundStage, time=shared))) for one in made.stories]
    if made.disruptions:
        work.append(_player(shared, _disrupt(node, made, shared)))
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


async def _player(shared: SharedTime, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    finally:
        shared.leave()


def _first(errors: BaseExceptionGroup) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def _jump(node: Node, seconds: float) -> None:
    """Advance simulated time, in strides between which drivers report."""
    while seconds > 0:
        await node.advance_time(min(seconds, STRIDE))
        seconds -= STRIDE


_DEVICES = 4
"""The devices of the driver and of the device plugin for the Pods that come and go."""


async def _disrupt(node: Node, made: Round, shared: SharedTime) -> None:
    driver = await node.driver(devices=_DEVICES)
    plugin = await node.device_plugin([f"gpu-z-{number}" for number in range(_DEVICES)])
    await shared.begin()
    now = 0.0
    running: list[tuple[float, Pod]] = []
    for one in made.disruptions:
        now = await _reach(shared, now, one.at)
        running = await _end(shared, running, now)
        if one.what == "start a Pod":
            async with shared.undisturbed():
                running.append((one.at + one.seconds, await _start(node, driver, plugin)))
        else:
            async with shared.disruption():
                await _do(node, one, shared)
            now += 0.0 if one.what == "restart the kubelet" else one.seconds
    for end, _ in sorted(running, key=lambda pod: pod[0]):
        now = await _reach(shared, now, end)
        running = await _end(shared, running, now)


async def _reach(shared: SharedTime, now: float, at: float) -> float:
    if at > now:
        await shared.passes(at - now)
    return max(now, at)


async def _start(node: Node, driver: Driver, plugin: DevicePlugin) -> Pod:
    """A Pod with two containers, of which one has a device of each."""
    use = (await node.claim(driver))["gpu"]
    pod = await node.pod(containers={"main": [use, plugin.request()], "side": [use]})
    await pod.is_running(within="restart")  # after an outage, a kubelet can wait before it watches Pods again
    return pod


async def _end(shared: SharedTime, running: list[tuple[float, Pod]], now: float) -> list[tuple[float, Pod]]:
    """Delete the Pods whose time is over."""
    for end, pod in running:
        if end <= now:
            async with shared.undisturbed():
                await pod.is_deleted()
                await pod.is_gone()
    return [(end, pod) for end, pod in running if end > now]


async def _do(node: Node, one: Disrupted, shared: SharedTime) -> None:
    match one.what:
        case "restart the kubelet":
            await node.kubelet_restarts()
        case "stop the kubelet":
            await node.kubelet_stops()
            await shared.passes(one.seconds)
            await node.kubelet_starts()
        case "stop the API server":
            await node.api_server_stops()
            await shared.passes(one.seconds)
            await node.api_server_starts()
