"""The removal of ResourceSlices when the instances of a driver are gone (W-30)."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from drahealth.fakes.cluster.api import SLICES, ApiError, Kind
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.manager.manager import DeviceManager
from drahealth.manager.pod_worker.slice_removal import DELAY, SliceRemoval
from drahealth.suites.unit.manager.rig import StillClock, settle


class Drivers(DeviceManager):
    """The connected drivers of a node, by hand."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.notify: Callable[[str], None] | None = None

    def connected(self, driver: str) -> bool:
        return driver in self.there

    def subscribe_to_connections(self, notify: Callable[[str], None]) -> Callable[[], None]:
        self.notify = notify
        return lambda: None

    def change(self, driver: str, *, connected: bool) -> None:
        (self.there.add if connected else self.there.discard)(driver)
        assert self.notify is not None
        self.notify(driver)


class Rig:
    """Two drivers on two nodes with one slice each; the removal is for node-a."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.api = ApiServer(clock=self.clock)
        self.drivers = Drivers()
        self.removal = SliceRemoval(self.api, self.drivers, "node-a", self.clock)

    async def publish(self) -> None:
        for node in ("node-a", "node-b"):
            for driver in ("gpu", "nic"):
                spec: dict[str, Any] = {
                    "driver": driver,
                    "nodeName": node,
                    "pool": {"name": node, "resourceSliceCount": 1},
                    "devices": [],
                }
                await self.api.create(SLICES, {"metadata": {"name": f"{node}-{driver}"}, "spec": spec})

    async def slices(self) -> list[str]:
        return [slice_["metadata"]["name"] for slice_ in await self.api.list(SLICES)]

    async def passes(self, seconds: float) -> None:
        self.clock.jump(seconds)
        await settle()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    await rig.removal.start()
    await rig.publish()
    yield rig
    await rig.removal.stop()


ALL = ["node-a-gpu", "node-a-nic", "node-b-gpu", "node-b-nic"]


async def test_start_removes_all_slices_of_the_node() -> None:
    rig = Rig()
    await rig.publish()
    await rig.removal.start()
    await rig.removal.stop()
    assert await rig.slices() == ["node-b-gpu", "node-b-nic"]


async def test_slices_are_removed_30_s_after_the_driver_is_gone(rig: Rig) -> None:
    rig.drivers.change("gpu", connected=False)
    await settle()
    await rig.passes(DELAY - 0.1)
    assert await rig.slices() == ALL
    await rig.passes(0.1)
    assert await rig.slices() == ["node-a-nic", "node-b-gpu", "node-b-nic"]


async def test_a_connection_cancels_the_removal(rig: Rig) -> None:
    rig.drivers.change("gpu", connected=False)
    await settle()
    rig.drivers.change("gpu", connected=True)
    await rig.passes(2 * DELAY)
    assert await rig.slices() == ALL


async def test_further_losses_do_not_delay_the_removal(rig: Rig) -> None:
    rig.drivers.change("gpu", connected=False)
    await settle()
    await rig.passes(DELAY / 2)
    rig.drivers.change("gpu", connected=False)
    await rig.passes(DELAY / 2)
    assert "node-a-gpu" not in await rig.slices()


async def test_a_driver_that_returns_and_goes_has_30_s_again(rig: Rig) -> None:
    rig.drivers.change("gpu", connected=False)
    await settle()
    await rig.passes(DELAY / 2)
    rig.drivers.change("gpu", connected=True)
    rig.drivers.change("gpu", connected=False)
    await settle()
    await rig.passes(DELAY / 2)
    assert await rig.slices() == ALL
    await rig.passes(DELAY / 2)
    assert "node-a-gpu" not in await rig.slices()


async def test_removal_is_retried_after_an_api_server_outage(rig: Rig) -> None:
    rig.drivers.change("gpu", connected=False)
    await settle()
    rig.api.down()
    await rig.passes(DELAY)
    rig.api.up()
    await rig.passes(1)
    assert "node-a-gpu" not in await rig.slices()


async def test_start_is_retried_after_an_api_server_outage() -> None:
    rig = Rig()
    await rig.publish()
    rig.api.down()
    await rig.removal.start()
    rig.api.up()
    await settle()
    await rig.passes(1)
    await rig.removal.stop()
    assert await rig.slices() == ["node-b-gpu", "node-b-nic"]


async def test_a_slice_that_its_driver_removes_first_is_no_error(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    delete = rig.api.delete

    async def late(kind: Kind, name: str, namespace: str | None = None, grace: int | None = None) -> None:
        await delete(kind, name, namespace, grace)
        raise ApiError(404, "NotFound", name)

    monkeypatch.setattr(rig.api, "delete", late)
    rig.drivers.change("gpu", connected=False)
    await settle()
    await rig.passes(DELAY)
    assert "node-a-gpu" not in await rig.slices()


async def test_stop_cancels_pending_removals(rig: Rig) -> None:
    rig.drivers.change("gpu", connected=False)
    await settle()
    await rig.removal.stop()
    await rig.passes(2 * DELAY)
    assert await rig.slices() == ALL
