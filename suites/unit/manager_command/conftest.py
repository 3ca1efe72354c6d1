"""A root directory for the tests of the program."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from drahealth.suites.unit.endings import running_since
from drahealth.suites.unit.manager_command.rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """With no program on it yet; afterwards nothing may be left running."""
    before = asyncio.all_tasks()
    rig = Rig()
    yield rig
    await rig.close()
    assert await running_since(before) == set()
