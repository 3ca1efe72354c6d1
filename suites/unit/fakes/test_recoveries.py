"""Recoveries that take their time."""

import math

import pytest

from drahealth.fakes.faults.catalogue import fault, policy
from drahealth.fakes.hardware.failing import Machine, Recoveries, StartedRecovery
from drahealth.fakes.inventory.devices import Inventory


def ill(*faults: str) -> tuple[Machine, Recoveries]:
    """A device with these faults."""
    machine = Machine(Inventory.of(2), "nvidia", policy("strict"))
    for name in faults:
        machine.inject(name, "gpu-0")
    return machine, Recoveries(machine, seed=7)


def test_a_device_stays_as_it_is_until_its_recovery_is_over() -> None:
    machine, recoveries = ill("xid/46")
    assert recoveries.begin("gpu-reset", ("gpu-0",), 10.0, takes=5.0) == StartedRecovery(("xid/46 on gpu-0",), (), 5.0)
    assert (recoveries.due, recoveries.finish(14.9), machine.state("gpu-0").faults) == (15.0, frozenset(), ("xid/46",))
    assert recoveries.finish(15.0) == {"gpu-0"}
    assert (machine.state("gpu-0").faults, recoveries.due) == ((), math.inf)


def test_weak_recovery_leaves_the_fault() -> None:
    machine, recoveries = ill("xid/46", "xid/79")
    assert recoveries.begin("gpu-reset", (), 0.0, takes=5.0).left == ("xid/79 on gpu-0",)
    recoveries.finish(5.0)
    assert machine.state("gpu-0").faults == ("xid/79",)


@pytest.mark.parametrize(("odd", "message"), [({"fails": True}, "XID 46"), ({"claimed": True}, "")])
def test_failed_and_claimed_recoveries_take_the_full_time(odd: dict[str, bool], message: str) -> None:
    machine, recoveries = ill("xid/46")
    recoveries.begin("gpu-reset", ("gpu-0",), 0.0, takes=5.0, **odd)
    assert machine.state("gpu-0").message.startswith("XID 46")
    recoveries.finish(5.0)
    assert (machine.state("gpu-0").message[:6], machine.state("gpu-0").faults) == (message, ("xid/46",))


def test_second_recovery_of_a_recovering_device_is_rejected() -> None:
    _, recoveries = ill("xid/46")
    recoveries.begin("gpu-reset", ("gpu-0",), 0.0, takes=5.0, fails=True)
    with pytest.raises(ValueError, match=r"gpu-0 is already recovering from xid/46; wait 3.0 s"):
        recoveries.begin("reboot", (), 2.0)
    recoveries.finish(5.0)
    assert recoveries.begin("reboot", (), 5.0).cleared == ("xid/46 on gpu-0",)


def test_the_catalogues_time_is_drawn_from_the_seed() -> None:
    times = [ill("xid/46")[1].begin("gpu-reset", ("gpu-0",), 0.0, takes=None).takes for _ in range(2)]
    assert times[0] == times[1]
    assert fault("nvidia", "xid/46").takes.low <= times[0] <= fault("nvidia", "xid/46").takes.high


def test_fault_injected_during_a_recovery_stays() -> None:
    machine, recoveries = ill("xid/46")
    recoveries.begin("reboot", ("gpu-0",), 0.0, takes=5.0)
    machine.inject("xid/95", "gpu-0")
    recoveries.finish(9.0)
    assert machine.state("gpu-0").faults == ("xid/95",)
