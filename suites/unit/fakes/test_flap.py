"""Devices that flap: a fault comes and goes until something ends it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from drahealth.fakes.control.fake_options import DriverControl
from drahealth.fakes.control.remote import ControlFailed
from drahealth.fakes.faults.catalogue import CATALOGUES, policy
from drahealth.fakes.hardware.failing import Machine
from drahealth.fakes.inventory.devices import Inventory
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.conftest import Make
from drahealth.suites.unit.fakes.driver_rig import Rig
from drahealth.suites.unit.manager.rig import settle

FAULT = "xid/46"
ENDS: dict[str, Callable[[DriverControl], Awaitable[object]]] = {
    "clear": lambda driver: driver.clear(FAULT, "all"),
    "recover": lambda driver: driver.recover("reboot"),
    "reset": lambda driver: driver.reset(),
    "stop": lambda driver: driver.restart(),
}


async def flapping(make: Make, rig: Rig) -> DriverControl:
    driver = await make()
    await driver.start()
    await driver.flap("gpu-*", 2.0, FAULT)
    return driver


async def faulty(driver: DriverControl) -> set[str]:
    """The devices that have the fault now."""
    return set((await driver.state()).faults)


async def shows(driver: DriverControl, *devices: str) -> bool:
    """Waits until these have the fault. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE):
        while await faulty(driver) != set(devices):
            await settle()
    return True


async def test_a_fault_comes_and_goes_on_all_devices_at_once(make: Make, rig: Rig) -> None:
    driver = await flapping(make, rig)
    seen = [await faulty(driver)]
    for expected in (set[str](), {"gpu-0", "gpu-1"}, set[str]()):
        rig.clock.jump(2.0)
        assert await shows(driver, *expected)
        seen.append(expected)
    assert seen[0] == {"gpu-0", "gpu-1"}


@pytest.mark.parametrize("end", ENDS)
async def test_flapping_continues_until_clear_recover_reset_or_restart(make: Make, rig: Rig, end: str) -> None:
    driver = await flapping(make, rig)
    rig.clock.jump(2.0)
    assert await shows(driver)
    await ENDS[end](driver)
    rig.clock.jump(2.0)
    await driver.state()
    assert await faulty(driver) == set()


async def test_a_device_that_is_cleared_leaves_the_others_flapping(make: Make, rig: Rig) -> None:
    driver = await flapping(make, rig)
    assert list(await driver.clear(FAULT, "gpu-0")) == ["gpu-0"]
    rig.clock.jump(2.0)
    assert await shows(driver)
    rig.clock.jump(2.0)
    assert await shows(driver, "gpu-1")


async def test_weak_recovery_action_does_not_end_flapping(make: Make, rig: Rig) -> None:
    driver = await flapping(make, rig)
    assert (await driver.recover("app-restart")).cleared == ()
    rig.clock.jump(2.0)
    assert await shows(driver)
    rig.clock.jump(2.0)
    assert await shows(driver, "gpu-0", "gpu-1")


async def test_invalid_flap_is_rejected_and_changes_nothing(make: Make, rig: Rig) -> None:
    driver = await make()
    with pytest.raises((ValueError, ControlFailed), match="driver is running; start it first"):
        await driver.flap("gpu-0", 1.0)
    await driver.start()
    await driver.inject(FAULT, "gpu-1")
    with pytest.raises((ValueError, ControlFailed), match=f"gpu-1 already has {FAULT}"):
        await driver.flap("all", 1.0, FAULT)
    assert await faulty(driver) == {"gpu-1"}


@pytest.mark.parametrize("catalogue", CATALOGUES)
def test_each_catalogue_has_a_usual_fault(catalogue: str) -> None:
    assert Machine(Inventory.of(1), catalogue, policy("nvidia-catalogue")).usual_fault
