"""Commands to a fake driver while its start waits for the API server."""

import asyncio

import pytest

from drahealth.fakes.cluster.api import Kind, Snapshot
from drahealth.fakes.cluster.api_server.lists import Matches, everything
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig
from drahealth.suites.unit.fakes.upgrade_rig import comes_true, is_well
from drahealth.suites.unit.manager.rig import until


class Silent(ApiServer):
    """Answers nobody who lists, while it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.answers, self.asked = asyncio.Event(), asyncio.Event()

    async def snapshot(self, kind: Kind, namespace: str | None = None, matches: Matches = everything) -> Snapshot:
        self.asked.set()
        await self.answers.wait()
        return await super().snapshot(kind, namespace, matches)


@pytest.fixture
def api(rig: Rig) -> Silent:
    rig.api = api = Silent()
    return api


async def starting(driver: FakeDriver, api: Silent) -> "asyncio.Task[None]":
    """It starts, and waits for the API server."""
    start = asyncio.create_task(driver.start())
    await asyncio.wait_for(api.asked.wait(), PATIENCE)
    return start


async def test_second_start_waits_for_the_first(rig: Rig, api: Silent) -> None:
    driver = rig.here()
    first = await starting(driver, api)
    second = asyncio.create_task(driver.start())
    await asyncio.sleep(0)
    api.answers.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(first, second)
    assert ((await driver.state()).running, len(rig.sockets())) == (True, 4)


async def test_start_error_is_raised_to_all_callers(rig: Rig, api: Silent) -> None:
    driver = rig.here()
    (rig.root / "registry").write_text("not a folder")
    first = await starting(driver, api)
    second = asyncio.create_task(driver.start())
    await asyncio.sleep(0)
    api.answers.set()
    async with asyncio.timeout(PATIENCE):
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
    assert [isinstance(outcome, FileExistsError | NotADirectoryError) for outcome in outcomes] == [True, True]


async def test_upgrade_waits_for_a_running_start(rig: Rig, api: Silent) -> None:
    driver = rig.here()
    await driver.inject("xid/95", "gpu-0")
    await driver.recover("gpu-reset", "gpu-0", takes=100.0)
    start = await starting(driver, api)
    upgrading = asyncio.create_task(driver.upgrade(0.0))
    await asyncio.sleep(0)
    api.answers.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(start, upgrading)
        rig.clock.jump(100)
        await comes_true(lambda: is_well(driver))  # recoveries go on, as it runs
    assert ((await driver.state()).instance, len(rig.sockets())) == ("upgrade-1", 4)


@pytest.mark.parametrize("end", ["stop", "crash", "retire", "leave"])
async def test_stop_cancels_a_hanging_start(rig: Rig, api: Silent, end: str) -> None:
    driver = rig.here()
    start = await starting(driver, api)
    waiting = asyncio.create_task(driver.start())
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await (getattr(driver, end)() if end != "leave" else asyncio.sleep(0, start.cancel()))
        with pytest.raises(ValueError, match=f"driver {DRIVER} was stopped while it was starting"):
            await waiting
    await asyncio.gather(start, return_exceptions=True)
    assert ((await driver.state()).running, rig.sockets()) == (False, [])
    api.answers.set()
    await driver.start()
    assert ((await driver.state()).running, len(await rig.slices())) == (True, 1)


@pytest.mark.parametrize("begin", ["start", "upgrade"])
async def test_stop_before_the_start_runs_cancels_it(rig: Rig, api: Silent, begin: str) -> None:
    api.answers.set()
    driver = rig.here()
    if begin == "upgrade":
        await driver.start()
    async with asyncio.timeout(PATIENCE):
        outcomes = await asyncio.gather(getattr(driver, begin)(), driver.stop(), return_exceptions=True)
        await driver.start()
    assert "was stopped" in str(outcomes[0])
    assert ((await driver.state()).running, (await driver.state()).upgrading, len(rig.sockets())) == (True, False, 4)


@pytest.mark.parametrize("end", ["stop", "crash", "retire"])
async def test_start_waits_for_a_running_stop(rig: Rig, api: Silent, end: str) -> None:
    api.answers.set()
    driver = rig.here()
    await driver.start()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(getattr(driver, end)(), driver.start())
    assert ((await driver.state()).running, len(rig.sockets())) == (True, 4)


async def test_a_start_in_the_beginning_of_an_upgrade_changes_nothing(rig: Rig, api: Silent) -> None:
    api.answers.set()
    driver = rig.here()
    await driver.start()
    api.answers.clear()
    api.asked.clear()
    upgrading = asyncio.create_task(driver.upgrade(0.0))
    await asyncio.wait_for(api.asked.wait(), PATIENCE)
    await driver.start()
    api.answers.set()
    await asyncio.wait_for(upgrading, PATIENCE)
    assert await until(lambda: len(rig.sockets()) == 4, PATIENCE)
