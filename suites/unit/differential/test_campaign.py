"""A campaign finds exactly the differences. The tests compare references with references."""

from collections.abc import Awaitable, Callable

import pytest

from differential.generation import generate
from differential.lane import Played
from differential.running import Campaign, Outcome, format_outcome
from differential.script import Report, Script
from differential.subjects import ReferenceSubject
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import NEWEST
from drahealth.suites.errors import HarnessError
from drahealth.suites.unit.differential.scripts import script

LANES = 4


async def campaign(subject: Profile, reference: Profile, *scripts: Script) -> list[Outcome]:
    told: list[Outcome] = []
    outcomes = await Campaign(ReferenceSubject(subject, LANES), reference, told.append).run(dict(enumerate(scripts)))
    assert sorted(told, key=lambda outcome: outcome.number) == outcomes
    return outcomes


def is_small(script: Script) -> bool:
    """Whether all its reports are small: a busy machine needs seconds for a large one."""
    return all(reading.count == 1 for step in script.steps if isinstance(step, Report) for reading in step.says)


@pytest.mark.long
async def test_a_profile_has_no_difference_from_itself() -> None:
    outcomes = await campaign(NEWEST, NEWEST, *filter(is_small, generate(3, 8)))
    found = [
        outcome for outcome in outcomes if outcome.verdict not in ("same", "fleeting")
    ]  # a busy machine can be late
    assert [line for outcome in found for line in format_outcome(outcome)] == []


async def test_the_kep_differs_from_a_release_by_device_ids() -> None:
    (outcome,) = await campaign(NEWEST, KEP, script())
    assert outcome.verdict == "different"
    assert [(d.what.split()[-1], d.reference, d.kubelet) for d in outcome.differences] == [
        ("'driver-0/gpu=gpu-0'", "nothing", "Healthy"),
        ("'driver-0/pool/gpu-0'", "Healthy", "nothing"),
    ]


class Moody:
    """A subject that changes its profile between plays."""

    lanes = 1

    def __init__(self, *profiles: Profile | None) -> None:
        self._subjects = [ReferenceSubject(profile, 1) if profile else None for profile in profiles]

    async def play(self, script: Script, restart: Callable[[], Awaitable[None]] | None = None) -> Played:
        subject = self._subjects.pop(0) if len(self._subjects) > 1 else self._subjects[0]
        if subject is None:
            raise HarnessError("no pod runs", "the machine may be too busy")
        return await subject.play(script, restart)

    async def restart(self) -> None:
        """Not used by these scripts."""


async def verdict_on(*profiles: Profile | None) -> str:
    (outcome,) = await Campaign(Moody(*profiles), NEWEST, lambda _: None).run({0: script()})
    return outcome.verdict


async def test_a_difference_that_does_not_occur_again_is_fleeting() -> None:
    assert await verdict_on(KEP, NEWEST) == "fleeting"
    assert await verdict_on(KEP, KEP, KEP, NEWEST) == "fleeting"
    assert await verdict_on(KEP, KEP, KEP, KEP, NEWEST) == "different"


async def test_a_script_that_cannot_be_played_is_broken() -> None:
    assert await verdict_on(None) == "broken"
