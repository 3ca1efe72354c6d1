"""What a release leaves to chance, so that each of several outcomes is right."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from drahealth.manager.dra import DraManager
from drahealth.manager.profile import Profile
from drahealth.proto.values import AllocatedClaim, PreparedDevice
from drahealth.suites.differential.script import Claim, Script


class DriversReversed(DraManager):
    """The reference with the drivers of each claim the other way round."""

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, tuple[PreparedDevice, ...]]:
        return await super().prepare(pod_uid, [replace(claim, drivers=claim.drivers[::-1]) for claim in claims])


def managers(script: Script, profile: Profile) -> list[type[DraManager]]:
    """One for each outcome: the order of drivers counts where two of them give devices of a claim the same id."""
    is_any = profile.drivers_order == "any" and profile.duplicate_id_shows != "all"
    if is_any and any(_has_an_id_of_two_drivers(script, claim) for claim in script.claims):
        return [DraManager, DriversReversed]
    return [DraManager]


def _has_an_id_of_two_drivers(script: Script, claim: Claim) -> bool:
    ids = [_ids(script, number) for number in {request.driver for request in claim.requests}]
    return sum(map(len, ids)) > len(set().union(*ids))


def _ids(script: Script, driver: int) -> set[str]:
    """What its devices are called by CDI ids of theirs; others carry the driver's name."""
    returned = [odd for device in script.drivers[driver].devices for odd in device.returned or ()]
    return {odd.cdi_ids[0] for odd in returned if odd.cdi_ids}
