"""The subjects of a comparison, and plays on the reference."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from differential.lane import (
    REAL,
    REFERENCE,
    FenceDriver,
    Lane,
    PlayClock,
    Played,
    Receipts,
    WaitTimes,
)
from differential.player import Player
from differential.script import Claim, Script
from drahealth.manager.dra import DraManager
from drahealth.manager.profile import Profile
from drahealth.proto.values import AllocatedClaim, PreparedDevice
from drahealth.suites.targets.reference.target import ReferenceTarget
from drahealth.suites.targets.target import Target

# Plays of a script on the reference: one for each outcome that is valid for the release.

NO_RESYNC = 86400.0
"""Seconds between periodic syncs of a pod. They are so far apart that only requested syncs occur (`lane`)."""


async def play_on_references(script: Script, profile: Profile, follow: Mapping[str, float]) -> list[Played]:
    """One play for each valid outcome of the profile. `follow` as in `play_on_reference`."""
    return [await play_on_reference(script, profile, follow, dra) for dra in manager_variants(script, profile)]


async def play_on_reference(
    script: Script, profile: Profile, follow: Mapping[str, float] | None = None, dra: type[DraManager] = DraManager
) -> Played:
    """Play a script on a new reference. `follow` has the times of the kubelet's play, in seconds."""
    target = ReferenceTarget(profile, resync=NO_RESYNC, dra=dra)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(target.stop)
        await target.start()
        receipts = Receipts()
        await target.enter(alone=False, observe=receipts.observe)
        fences = FenceDriver(target, lanes=1)
        await fences.start()
        stack.push_async_callback(fences.control.crash)
        lane = Lane(fences)
        await lane.start()
        stack.push_async_callback(lane.watch.stop)
        player = Player(lane, script, PlayClock(target, follow), REFERENCE, target.restart_kubelet, receipts)
        stack.push_async_callback(player.drop_drivers)
        return await player.play()


class DriversReversed(DraManager):
    """The reference with the drivers of each claim in reverse order."""

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, tuple[PreparedDevice, ...]]:
        return await super().prepare(pod_uid, [replace(claim, drivers=claim.drivers[::-1]) for claim in claims])


def manager_variants(script: Script, profile: Profile) -> list[type[DraManager]]:
    """The managers that give all valid outcomes.

    The order of drivers matters if two drivers give devices of a claim the same CDI ID.
    """
    is_any = profile.drivers_order == "any" and profile.duplicate_id_shows != "all"
    if is_any and any(_has_an_id_of_two_drivers(script, claim) for claim in script.claims):
        return [DraManager, DriversReversed]
    return [DraManager]


def _has_an_id_of_two_drivers(script: Script, claim: Claim) -> bool:
    ids = [_ids(script, number) for number in {request.driver for request in claim.requests}]
    return sum(map(len, ids)) > len(set().union(*ids))


def _ids(script: Script, driver: int) -> set[str]:
    """The CDI IDs that stand for devices in a pod status. Other IDs contain the name of the driver."""
    returned = [odd for device in script.drivers[driver].devices for odd in device.returned or ()]
    return {odd.cdi_ids[0] for odd in returned if odd.cdi_ids}


# The subjects of a comparison: a target on which lanes play many scripts at a time, or the reference itself.


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
