"""Where scripts are played: a reference made for each play, or a target with lanes for many at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

from drahealth.manager.dra import DraManager
from drahealth.manager.profile import Profile
from drahealth.suites.differential.chance import managers
from drahealth.suites.differential.fence import FenceDriver, Lane
from drahealth.suites.differential.margins import REAL, REFERENCE, Margins
from drahealth.suites.differential.observation import Played
from drahealth.suites.differential.pace import Pace
from drahealth.suites.differential.player import Player
from drahealth.suites.differential.script import Script
from drahealth.suites.targets.reference.target import ReferenceTarget
from drahealth.suites.targets.target import Target

NO_RESYNC = 86400.0
"""Seconds between a pod's syncs: none comes by chance, those there are, are asked for (`fence`)."""


async def play_on_references(script: Script, profile: Profile, follow: Mapping[str, float]) -> list[Played]:
    """One play for each outcome that the profile leaves to chance."""
    return [await play_on_reference(script, profile, follow, dra) for dra in managers(script, profile)]


async def play_on_reference(
    script: Script, profile: Profile, follow: Mapping[str, float] | None = None, dra: type[DraManager] = DraManager
) -> Played:
    """On a reference of its own; `follow`: the times of the play to keep to."""
    target = ReferenceTarget(profile, resync=NO_RESYNC, dra=dra)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(target.stop)
        await target.start()
        fences = FenceDriver(target, lanes=1)
        await fences.start()
        stack.push_async_callback(fences.control.crash)
        lane = Lane(fences)
        await lane.start()
        stack.push_async_callback(lane.watch.stop)
        player = Player(lane, script, Pace(target, follow), REFERENCE, target.restart_kubelet)
        stack.push_async_callback(player.drop_drivers)
        return await player.play()


class ReferenceVenue:
    """References of a profile, one for each play: what a kubelet is compared with, compared with another profile."""

    def __init__(self, profile: Profile, lanes: int) -> None:
        self.lanes = lanes
        self._profile = profile

    async def play(self, script: Script, restart: Callable[[], Awaitable[None]] | None = None) -> Played:
        """The script's play; a restart is this one's own."""
        return await play_on_reference(script, self._profile)

    async def restart(self) -> None:
        """There is nothing that plays share."""


class Venue:
    """A target, started, with lanes on it. Use it as `async with`; `play` gives a script the next free lane."""

    def __init__(self, target: Target, lanes: int, margins: Margins = REAL) -> None:
        self.target = target
        self.lanes = lanes
        self._margins = margins
        self._fences = FenceDriver(target, lanes)
        self._free: asyncio.Queue[Lane] = asyncio.Queue()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Venue":
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
        """The script's play. `restart`: what restarts the kubelet, for a script that does. Raises HarnessError."""
        lane = await self._free.get()
        player = Player(lane, script, Pace(self.target), self._margins, restart or self.restart)
        try:
            return await player.play()
        finally:
            try:
                await player.clear_up()
            finally:
                self._free.put_nowait(lane)

    async def restart(self) -> None:
        """Restarts the kubelet, and returns when the fences stand again."""
        opened = (await self._fences.control.state()).streams_opened
        await self.target.restart_kubelet()
        await self._fences.is_watched(opened + 1)


class Together:
    """A restart of the kubelet that several plays come to: it happens once all of them are there, or have ended."""

    def __init__(self, restart: Callable[[], Awaitable[None]], plays: int) -> None:
        self._restart = restart
        self._expected = plays
        self._here = 0
        self._begun = False
        self._done = asyncio.Event()

    async def restart(self) -> None:
        """Returns after the restart."""
        self._here += 1
        await self._go_if_all()
        await self._done.wait()

    async def ended(self) -> None:
        """A play has ended, and is waited for no more."""
        self._expected -= 1
        await self._go_if_all()

    async def _go_if_all(self) -> None:
        if 0 < self._here >= self._expected and not self._begun:
            self._begun = True
            try:
                await self._restart()
            finally:
                self._done.set()
