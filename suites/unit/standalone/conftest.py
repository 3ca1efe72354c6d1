"""A root directory for the tests of the program."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from drahealth.suites.unit.standalone.rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """With no program on it yet; afterwards nothing may be left running."""
    before = asyncio.all_tasks()
    rig = Rig()
    yield rig
    await rig.close()
    left = {getattr(task.get_coro(), "__qualname__", str(task)) for task in asyncio.all_tasks() - before}
    assert {name for name in left if not name.startswith("TestRunner.")} == set()  # that one is anyio's own
