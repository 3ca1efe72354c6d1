"""The catalogues of faults, and the policies that decide their effect on health."""

import pytest

from drahealth.fakes.faults.catalogue import (
    ACTIONS,
    CATALOGUES,
    Action,
    UnknownName,
    action,
    catalogue,
    fault,
    policies,
    policy,
)
from drahealth.fakes.inventory.devices import Inventory
from drahealth.proto.values import MESSAGE_LIMIT, Health

EVERY = [found for name in CATALOGUES for found in catalogue(name).values()]


def test_every_fault_has_a_source_and_a_message() -> None:
    wanting = [f.id for f in EVERY if not (f.source and f.means and "gpu-0" in f.message_for("gpu-0"))]
    assert wanting == []


def test_every_reach_is_known_to_inventories() -> None:
    devices = Inventory.of(2, partitions=1)
    assert all("gpu-0" in devices.reached("gpu-0", found.reaches) for found in EVERY)


def test_following_fault_is_in_the_same_catalogue() -> None:
    followers = [(name, f.then) for name in CATALOGUES for f in catalogue(name).values() if f.then]
    assert [(name, then) for name, then in followers if then not in catalogue(name)] == []


def test_only_the_long_variant_is_longer_than_a_status_can_hold() -> None:
    too_long = [f.id for f in EVERY if len(f.message_for("gpu-0").encode()) > MESSAGE_LIMIT]
    assert too_long == ["variant/long-message"]


@pytest.mark.parametrize(
    ("id_", "enough"),
    [
        ("xid/13", ["app-restart", "gpu-reset", "reboot", "replace"]),
        ("xid/95", ["gpu-reset", "reboot", "replace"]),
        ("xid/79", ["reboot", "replace"]),
        ("xid/64", ["replace"]),
        ("thermal/slowdown", ["app-restart", "gpu-reset", "reboot", "replace"]),
    ],
)
def test_an_action_recovers_if_it_is_strong_enough(id_: str, enough: list[Action]) -> None:
    assert [a for a in ACTIONS if fault("nvidia", id_).is_recovered_by(a)] == enough


def test_public_policies_agree_on_sixteen_xids() -> None:
    public = [p for name, p in policies().items() if name != "strict"]
    xids = [name for name in catalogue("nvidia") if name.startswith("xid/")]
    assert sum(len({p.health(xid) for p in public}) == 1 for xid in xids) == 16


def test_the_dra_driver_of_nvidia_ignores_xids_that_need_no_recovery_of_the_gpu() -> None:
    xids = [one for one in catalogue("nvidia").values() if one.id.startswith("xid/")]
    found = {one.id for one in xids if policy("nvidia-dra").health(one.id) is Health.UNHEALTHY}
    assert found == {one.id for one in xids if one.recovery in ("gpu-reset", "reboot", "replace")}
    plugin = {one.id for one in xids if policy("nvidia-plugin").health(one.id) is Health.UNHEALTHY}
    assert found - plugin == {"xid/109"}


def test_policies_name_existing_faults() -> None:
    named = {name for p in policies().values() for name in (*p.unhealthy, *p.ignored)}
    assert named - {"*"} <= {found.id for found in EVERY}


def test_unnamed_fault_leaves_a_device_healthy() -> None:
    eks = policy("eks")
    assert (eks.health("cper/fatal"), eks.knows("cper/fatal")) == (Health.HEALTHY, False)
    assert policy("strict").health("cper/fatal") is Health.UNHEALTHY


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (lambda: fault("nvidia", "xid/97"), "unknown fault 'xid/97' in the catalogue nvidia; did you mean xid/95"),
        (lambda: fault("nvida", "xid/79"), "unknown catalogue 'nvida'; did you mean nvidia"),
        (lambda: policy("gke"), "unknown policy 'gke'; valid: nvidia-plugin, nvidia-dra"),
        (lambda: action("gpu-rset"), "unknown recovery action 'gpu-rset'; did you mean gpu-reset"),
    ],
)
def test_unknown_name_is_reported_with_similar_names(look: object, words: str) -> None:
    with pytest.raises(UnknownName) as unknown:
        look()  # type: ignore[operator]
    assert str(unknown.value).startswith(words)
