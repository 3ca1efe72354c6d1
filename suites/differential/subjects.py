"""The subjects of a comparison: a target on which lanes play many scripts at a time, or the reference itself."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from drahealth.manager.profile import Profile
from drahealth.suites.differential.lane import FenceDriver, Lane
from drahealth.suites.differential.observation import Played
from drahealth.suites.differential.play_clock import REAL, PlayClock, WaitTimes
from drahealth.suites.differential.player import Player
from drahealth.suites.differential.reference_play import play_on_reference
from drahealth.suites.differential.script import Script
from drahealth.suites.targets.target import Target


class ReferenceSubject:
    """The reference of one profile as the subject, to compare two profiles. Each play gets a new one."""

    def __init__(self, profile: Profile, lanes: int) -> None:
        self.lanes = lanes
        self._profile = profile

    async def play(self, script: Script, restart: Callable[[], Awaitable[None]] | None = None) -> Played:
        """Play the script. Each play has its own kubelet, so `restart` is unused."""
        return await play_on_reference(script, self._profile)

    async def restart(self) -> None:
        """Do nothing: plays share no kubelet."""


class TargetSubject:
    """A started target with lanes. Use it as `async with`; `play` uses the next free lane."""

    def __init__(self, target: Target, lanes: int, waits: WaitTimes = REAL) -> None:
        self.target = target
        self.lanes = lanes
        self._waits = waits
        self._fences = FenceDriver(target, lanes)
        self._free: asyncio.Queue[Lane] = asyncio.Queue()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "TargetSubject":
        async with AsyncExitStack() as stack:
            await self._fences.start()
            stack.push_async_callback(self._fences.stop)
            lanes = [Lane(self._fences) for _ in range(self.lanes)]
            for lane in lanes:
                await lane.start()
                stack.push_async_callback(lane.stop)
                self._free.put_nowait(lane)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def play(self, script: Script, restart: Callable[[], Awaitable[None]] | None = None) -> Played:
        """Play the script. `restart` replaces the restart of the kubelet. Raises HarnessError."""
        lane = await self._free.get()
        player = Player(lane, script, PlayClock(self.target), self._waits, restart or self.restart)
        try:
            return await player.play()
        finally:
            try:
                await player.clean_up()
            finally:
                self._free.put_nowait(lane)

    async def restart(self) -> None:
        """Restart the kubelet, and wait until the fences work again."""
        opened = (await self._fences.control.state()).streams_opened
        await self.target.restart_kubelet()
        await self._fences.wait_for_stream(opened + 1)


class SharedRestart:
    """One restart of the kubelet for several plays. It happens when all of them have reached it or ended."""

    def __init__(self, restart: Callable[[], Awaitable[None]], plays: int) -> None:
        self._restart = restart
        self._expected = plays
        self._here = 0
        self._begun = False
        self._done = asyncio.Event()

    async def restart(self) -> None:
        """Wait for the other plays, then for the restart."""
        self._here += 1
        await self._go_if_all()
        await self._done.wait()

    async def leave(self) -> None:
        """A play has ended. The others no longer wait for it."""
        self._expected -= 1
        await self._go_if_all()

    async def _go_if_all(self) -> None:
        if 0 < self._here >= self._expected and not self._begun:
            self._begun = True
            try:
                await self._restart()
            finally:
                self._done.set()
