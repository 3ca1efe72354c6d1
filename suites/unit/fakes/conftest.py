"""Hosts of fake drivers, and drivers that are controlled in this process or over a stream."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from drahealth.fakes.control.fake_options import DriverControl
from drahealth.suites.unit.endings import calls_end
from drahealth.suites.unit.fakes.driver_rig import Rig

Make = Callable[..., Awaitable[DriverControl]]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.close()
    await calls_end()


@pytest.fixture(params=["here", "there"])
def make(rig: Rig, request: pytest.FixtureRequest) -> Make:
    """Makes drivers that are controlled here or over a stream."""

    async def here(**options: Any) -> DriverControl:
        return rig.here(**options)

    return here if request.param == "here" else rig.there


@pytest.fixture
async def driver(make: Make) -> DriverControl:
    """A driver that runs."""
    driver = await make()
    await driver.start()
    return driver
