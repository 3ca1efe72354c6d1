"""A place for drivers of a file."""

from collections.abc import AsyncIterator

import pytest

from drahealth.suites.unit.endings import calls_end
from drahealth.suites.unit.serve.rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """With nothing running in it yet."""
    rig = Rig()
    yield rig
    await rig.close()
    await calls_end()


@pytest.fixture
async def serving(rig: Rig) -> Rig:
    """The drivers of its file stand."""
    await rig.serve()
    return rig
