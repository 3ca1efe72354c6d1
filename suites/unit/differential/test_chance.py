"""What a release leaves to chance is played in each of its outcomes."""

from drahealth.fakes.control.driver import Returned
from drahealth.manager.profile import KEP, V1_37
from drahealth.suites.differential.chance import managers
from drahealth.suites.differential.comparison import compare
from drahealth.suites.differential.script import Claim, Device, Driver, Pod, Report, Request, Said, Script, Use
from drahealth.suites.differential.venue import play_on_references

SAME_ID = Driver((Device("a", (Returned("pool", "a", cdi_ids=("x",)),)),))
TWO_DRIVERS = Script(
    (SAME_ID, SAME_ID),
    (Claim((Request("r0", 0), Request("r1", 1))),),
    (Pod(((Use(0),),)),),
    (Report(0, (Said("pool", "a", 2),)),),
)


async def test_either_of_two_drivers_devices_with_one_id_may_show() -> None:
    plays = await play_on_references(TWO_DRIVERS, V1_37, {})
    seen = [play.snapshots[-1].pods["pod-0"].containers["container-0"] for play in plays]
    assert seen == [{"claim:claim-0": {"x": (health, "")}} for health in ("Unhealthy", "Healthy")]
    assert [compare(plays, play) for play in plays] == [[], []]


def test_one_play_will_do_where_nothing_is_left_to_chance() -> None:
    alone = Script(TWO_DRIVERS.drivers, (Claim((Request("r0", 0),)), Claim((Request("r0", 1),))), ())
    assert [len(managers(script, profile)) for script, profile in ((TWO_DRIVERS, KEP), (alone, V1_37))] == [1, 1]
