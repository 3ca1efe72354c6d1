"""Plays of a script on the reference: one for each outcome that is valid for the release."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from drahealth.manager.dra import DraManager
from drahealth.manager.profile import Profile
from drahealth.proto.values import AllocatedClaim, PreparedDevice
from drahealth.suites.differential.lane import FenceDriver, Lane
from drahealth.suites.differential.observation import Played
from drahealth.suites.differential.play_clock import REFERENCE, PlayClock
from drahealth.suites.differential.player import Player
from drahealth.suites.differential.receipts import Receipts
from drahealth.suites.differential.script import Claim, Script
from drahealth.suites.targets.reference.target import ReferenceTarget

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
