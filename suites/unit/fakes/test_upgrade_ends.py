"""The end of an instance of a fake driver in a rolling update: nothing of it is kept, and nothing else ends."""

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.driver_instance import DriverInstance
from drahealth.fakes.kubelet_plugin.health_streams import HealthStreams
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.suites.unit.fakes.driver_rig import Rig
from drahealth.suites.unit.fakes.upgrade_rig import NEWER, NEWER_SOCKETS, PATIENCE, Moody, both_run, comes_true, is_now
from drahealth.suites.unit.manager.rig import until


class Watched(FakeDriver):
    """It tells which instances it knows, and whose health streams are kept by anybody."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig.options(), rig.api, clock=rig.clock)
        self._begun: list[weakref.ref[HealthStreams]] = []
        rig.on_close(self.stop)

    async def _begin(self, instance: DriverInstance) -> None:
        self._begun.append(weakref.ref(instance.health))
        await super()._begin(instance)

    def known(self) -> list[str]:
        return [instance.options.instance for instance in self._instances.all()]

    def kept(self) -> list[str]:
        gc.collect()
        return [health.instance for ref in self._begun if (health := ref())]


@pytest.mark.parametrize("end", ["stop", "retire", "crash"])
async def test_next_start_releases_the_older_instance_of_an_ended_upgrade(rig: Rig, end: str) -> None:
    driver = Watched(rig)
    await driver.start()
    upgrading = asyncio.create_task(driver.upgrade(60.0))
    await comes_true(lambda: is_now(driver, NEWER))
    await getattr(driver, end)()
    await asyncio.gather(upgrading, return_exceptions=True)
    del upgrading
    await driver.start()
    assert driver.kept() == [NEWER, NEWER]


async def test_rejected_newer_instance_is_detached(rig: Rig) -> None:
    rig.api = Moody(clock=rig.clock)
    driver = Watched(rig)
    await driver.start()
    with suppress(ApiError):
        await driver.upgrade()
    assert driver.known() == [""]


async def test_cancelled_caller_does_not_cancel_the_upgrade(rig: Rig) -> None:
    driver = rig.here()
    await driver.start()
    await rig.notify_registration()
    upgrading = await both_run(rig, driver)
    await cancel_and_wait(upgrading)
    rig.clock.jump(60)
    assert await until(lambda: rig.sockets() == NEWER_SOCKETS, PATIENCE)


async def test_existing_folder_is_kept_after_retirement(rig: Rig) -> None:
    (rig.root / "data").mkdir()
    driver = rig.here()
    await driver.start()
    await asyncio.wait_for(driver.upgrade(0), PATIENCE)
    await driver.retire()
    assert [*(rig.root / "data").iterdir()] == []
