"""The reference as a whole node with its control plane."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drahealth.fakes.cluster.api import SLICES
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.manager.profile import KEP
from drahealth.suites.targets.api_servers import MemoryApiServer
from drahealth.suites.targets.reference.target import ReferenceCluster
from drahealth.suites.unit.manager.rig import DRIVER, StillClock, registered, settle, until


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def cluster(clock: StillClock) -> AsyncIterator[ReferenceCluster]:
    with tempfile.TemporaryDirectory(prefix="dra-") as root:
        server = MemoryApiServer(Path(root), clock=clock)
        cluster = ReferenceCluster(Path(root), server, profile=KEP, clock=clock, name="node-a", resync=60)
        await cluster.start()
        yield cluster
        await cluster.stop()


@pytest.fixture
async def driver(cluster: ReferenceCluster, clock: StillClock) -> AsyncIterator[FakeDriver]:
    """A driver that has registered and published its devices."""
    registry, data = cluster.root / "plugins_registry", cluster.root / "plugins" / DRIVER
    options = DriverOptions(DRIVER, "node-a", ("gpu-0",), registry_dir=str(registry), data_dir=str(data))
    driver = FakeDriver(options, cluster.api, clock=clock)
    await driver.start()
    await registered(driver)
    await until(lambda: cluster.manager.connected(DRIVER))
    yield driver
    await driver.stop()


async def slices(cluster: ReferenceCluster) -> list[str]:
    """The UIDs of all ResourceSlices."""
    return [slice_["metadata"]["uid"] for slice_ in await cluster.api.list(SLICES)]


@pytest.mark.parametrize("end", ["stop", "crash"])
async def test_slices_of_a_driver_that_is_gone_are_removed_after_30_s(
    cluster: ReferenceCluster, driver: FakeDriver, clock: StillClock, end: str
) -> None:
    published = await slices(cluster)
    await getattr(driver, end)()
    await until(lambda: not cluster.manager.connected(DRIVER))
    await settle()
    clock.jump(29.9)
    await settle()
    assert await slices(cluster) == published != []
    clock.jump(0.2)
    await settle()
    assert await slices(cluster) == []


async def test_slices_of_a_driver_that_returns_in_time_stay(
    cluster: ReferenceCluster, driver: FakeDriver, clock: StillClock
) -> None:
    published = await slices(cluster)
    await driver.crash()
    await until(lambda: not cluster.manager.connected(DRIVER))
    await driver.start()
    await until(lambda: cluster.manager.connected(DRIVER))
    clock.jump(60)
    await settle()
    assert await slices(cluster) == published != []
