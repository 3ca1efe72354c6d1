"""Places for fake drivers."""

from collections.abc import AsyncIterator

import pytest

from drahealth.suites.unit.endings import calls_end
from drahealth.suites.unit.fakes.driver_rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.close()
    await calls_end()
