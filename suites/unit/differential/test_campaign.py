"""A campaign finds what is different and nothing else: references compared with references."""

from drahealth.manager.profile import KEP, V1_37, Profile
from drahealth.suites.differential.campaign import Campaign, Outcome
from drahealth.suites.differential.generation import generate
from drahealth.suites.differential.script import Script
from drahealth.suites.differential.telling import lines
from drahealth.suites.differential.venue import ReferenceVenue
from drahealth.suites.unit.differential.scripts import script

LANES = 4


async def campaign(subject: Profile, reference: Profile, *scripts: Script) -> list[Outcome]:
    told: list[Outcome] = []
    outcomes = await Campaign(ReferenceVenue(subject, LANES), reference, told.append).run(dict(enumerate(scripts)))
    assert sorted(told, key=lambda outcome: outcome.number) == outcomes
    return outcomes


async def test_a_profile_is_the_same_as_itself() -> None:
    outcomes = await campaign(V1_37, V1_37, *generate(3, 8))
    assert [line for outcome in outcomes for line in lines(outcome)] == []


async def test_the_kep_differs_from_a_release_by_what_devices_are_called() -> None:
    (outcome,) = await campaign(V1_37, KEP, script())
    assert outcome.verdict == "different"
    assert [(d.what.split()[-1], d.reference, d.kubelet) for d in outcome.differences] == [
        ("'driver-0/gpu=gpu-0'", "nothing", "Healthy"),
        ("'driver-0/pool/gpu-0'", "Healthy", "nothing"),
    ]
