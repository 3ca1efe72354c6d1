"""Each valid outcome of a release has a play."""

from differential.comparison import compare
from differential.script import Claim, Device, Driver, Pod, Reading, Report, Request, Script, Use
from differential.subjects import manager_variants, play_on_references
from drahealth.fakes.control.fake_options import Returned
from drahealth.manager.profile import KEP
from drahealth.manager.releases import NEWEST

SAME_ID = Driver((Device("a", (Returned("pool", "a", cdi_ids=("x",)),)),))
TWO_DRIVERS = Script(
    (SAME_ID, SAME_ID),
    (Claim((Request("r0", 0), Request("r1", 1))),),
    (Pod(((Use(0),),)),),
    (Report(0, (Reading("pool", "a", 2),)),),
)


async def test_either_device_with_the_same_cdi_id_may_show() -> None:
    plays = await play_on_references(TWO_DRIVERS, NEWEST, {})
    seen = [play.snapshots[-1].pods["pod-0"].containers["container-0"] for play in plays]
    assert seen == [{"claim:claim-0": {"x": (health, "")}} for health in ("Unhealthy", "Healthy")]
    assert [compare(plays, play) for play in plays] == [[], []]


def test_one_play_is_enough_without_random_order() -> None:
    single = Script(TWO_DRIVERS.drivers, (Claim((Request("r0", 0),)), Claim((Request("r0", 1),))), ())
    variants = [manager_variants(*pair) for pair in ((TWO_DRIVERS, KEP), (single, NEWEST))]
    assert list(map(len, variants)) == [1, 1]
