"""A root directory for the tests of the program."""

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from drahealth.suites.unit.endings import running_since
from drahealth.suites.unit.manager_command.manager_process import Manager
from drahealth.suites.unit.manager_command.rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """With no program on it yet; afterwards nothing may be left running."""
    before = asyncio.all_tasks()
    rig = Rig()
    yield rig
    await rig.close()
    assert await running_since(before) == set()


@pytest.fixture
async def manager(rig: Rig) -> AsyncIterator[Manager]:
    manager = Manager(rig)
    yield manager
    if manager.process and manager.process.returncode is None:
        await manager.end(signal.SIGKILL)
