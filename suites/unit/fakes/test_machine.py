"""Devices with faults: policies, recoveries, and faults that affect other devices."""

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from drahealth.fakes.faults.catalogue import ACTIONS, Action, catalogue, fault, policy
from drahealth.fakes.hardware.failing import DeviceState, Machine, Recovery
from drahealth.fakes.inventory.devices import Inventory
from drahealth.proto.values import Health

TWO = Inventory.of(2, partitions=1)
WELL = DeviceState()


def machine(judged: str = "nvidia-catalogue") -> Machine:
    return Machine(TWO, "nvidia", policy(judged))


def unwell(state: DeviceState) -> tuple[str, str]:
    return str(state.health), state.message


def test_policy_decides_the_health_of_a_device_and_its_partitions() -> None:
    gpus = machine()
    assert gpus.inject("xid/95", "gpu-0/mig-0") == {"gpu-0", "gpu-0/mig-0"}
    assert unwell(gpus.state("gpu-0")) == ("Unhealthy", "XID 95: gpu-0: memory error, not contained")
    assert gpus.state("gpu-1") == WELL


def test_ignored_fault_leaves_a_device_healthy_with_a_message() -> None:
    gpus = machine()
    gpus.inject("xid/63", "gpu-0")
    assert unwell(gpus.state("gpu-0")) == ("Healthy", "XID 63: gpu-0: a memory row will be remapped at the next reset")


def test_effective_fault_hides_an_ignored_fault() -> None:
    gpus = machine()
    gpus.inject("xid/79", "gpu-0")
    gpus.inject("xid/63", "gpu-0")
    state = gpus.state("gpu-0")
    assert (state.message, state.faults, state.listed) == (
        "XID 79: gpu-0 has fallen off the bus",
        ("xid/79", "xid/63"),
        False,
    )


def test_silent_fault_is_not_reported() -> None:
    gpus = machine("strict")
    assert gpus.inject("fabric/manager-down", "gpu-0") == {device.path for device in TWO.devices}
    assert gpus.state("gpu-1") == DeviceState(faults=("fabric/manager-down",))


def test_link_fault_affects_the_peers() -> None:
    gpus = machine()
    assert gpus.inject("nvlink/link-down", "gpu-0") == {device.path for device in TWO.devices}


@pytest.mark.parametrize(
    ("action", "recovery"),
    [
        ("gpu-reset", Recovery(("xid/95 on gpu-0",), ("xid/79 on gpu-0",))),
        ("reboot", Recovery(("xid/79 on gpu-0", "xid/95 on gpu-0"), ())),
    ],
)
def test_weak_recovery_action_leaves_the_fault(action: Action, recovery: Recovery) -> None:
    gpus = machine()
    for id_ in ("xid/79", "xid/95"):
        gpus.inject(id_, "gpu-0")
    gpus.inject("xid/79", "gpu-1")
    assert replace(gpus.recover(action, "gpu-0"), changed=frozenset()) == recovery
    assert gpus.state("gpu-1").faults == ("xid/79",)


def test_failed_recovery_changes_nothing_and_the_next_clears_the_fault() -> None:
    gpus = machine()
    gpus.inject("xid/95", "gpu-0")
    assert gpus.recover("gpu-reset", "gpu-0", fails=True) == Recovery((), ("xid/95 on gpu-0",))
    cleared = Recovery(("xid/95 on gpu-0",), (), frozenset({"gpu-0", "gpu-0/mig-0"}))
    assert gpus.recover("gpu-reset", "gpu-0") == cleared
    assert gpus.state("gpu-0") == WELL


def test_claimed_recovery_keeps_the_fault() -> None:
    gpus = machine()
    gpus.inject("xid/79", "gpu-0")
    assert gpus.claim(gpus.faults_on("gpu-0")) == {"gpu-0", "gpu-0/mig-0"}
    assert gpus.state("gpu-0") == DeviceState(faults=("xid/79",))
    gpus.inject("xid/95", "gpu-0")
    assert gpus.state("gpu-0").health is Health.UNHEALTHY


def test_duplicate_fault_is_rejected() -> None:
    gpus = machine()
    gpus.inject("xid/79", "gpu-0")
    with pytest.raises(ValueError, match="gpu-0 already has xid/79"):
        gpus.inject("xid/79", "gpu-0")


class Faulting(RuleBasedStateMachine):
    """A machine beside a set of what is on it."""

    @initialize()
    def begin(self) -> None:
        self.gpus = machine("strict")
        self.there: set[tuple[str, str]] = set()

    @rule(id_=st.sampled_from(sorted(catalogue("nvidia"))), device=st.sampled_from([d.path for d in TWO.devices]))
    def toggle(self, id_: str, device: str) -> None:
        (self.gpus.clear if (id_, device) in self.there else self.gpus.inject)(id_, device)
        self.there ^= {(id_, device)}

    @rule(action=st.sampled_from(ACTIONS))
    def recover_all(self, action: Action) -> None:
        left = {key for key in self.there if not fault("nvidia", key[0]).is_recovered_by(action)}
        found = self.gpus.recover(action)
        assert set(found.left) == {f"{id_} on {device}" for id_, device in left}
        self.there = left

    @rule()
    def heal(self) -> None:
        self.gpus.reset()
        self.there = set()

    @invariant()
    def a_device_is_well_if_nothing_reaches_it(self) -> None:
        for path, state in self.gpus.states().items():
            reaching = {id_ for id_, on in self.there if path in TWO.reached(on, fault("nvidia", id_).reaches)}
            assert set(state.faults) == reaching
            assert (state.health is Health.HEALTHY) == all(fault("nvidia", id_).silent for id_ in reaching)


TestFaulting = Faulting.TestCase
