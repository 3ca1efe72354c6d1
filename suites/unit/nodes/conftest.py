"""What the tests of nodes share."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from drahealth.suites.unit.endings import calls_end


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where nodes make their folders."""
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture(autouse=True)
async def no_call_outlasts_its_test(anyio_backend: str) -> AsyncIterator[None]:
    """Waits for the calls of a node that has stopped; otherwise a later test hears of their end."""
    before = asyncio.all_tasks()
    yield
    await calls_end(before)
