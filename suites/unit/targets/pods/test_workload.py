"""The command of a container that uses a device, run by this machine's shell."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from drahealth.suites.targets.pods.deployment import WORKLOAD
from drahealth.suites.unit.endings import PATIENCE


@pytest.fixture
async def workload(tmp_path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """It waits; its /tmp is the test's folder."""
    text = WORKLOAD.replace("/tmp/", f"{tmp_path}/")
    process = await asyncio.create_subprocess_exec("sh", "-c", text, start_new_session=True)
    async with asyncio.timeout(PATIENCE):
        while not (tmp_path / "told").exists():
            assert process.returncode is None
            await asyncio.sleep(0.01)
    yield process
    with suppress(ProcessLookupError):  # the reader of the exit code outlives the shell
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def test_the_workload_exits_with_the_given_code(workload: asyncio.subprocess.Process, tmp_path: Path) -> None:
    teller = await asyncio.create_subprocess_exec("sh", "-c", f"echo 7 > {tmp_path}/exit")
    async with asyncio.timeout(PATIENCE):
        assert await teller.wait() == 0
        assert await workload.wait() == 7


async def test_the_workload_exits_at_once_on_sigterm(workload: asyncio.subprocess.Process) -> None:
    workload.send_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE):
        assert await workload.wait() == 143


async def test_an_exit_code_written_before_the_wait_is_used(tmp_path: Path) -> None:
    (tmp_path / "exit").write_text("3\n")
    text = WORKLOAD.replace("/tmp/", f"{tmp_path}/")
    process = await asyncio.create_subprocess_exec("sh", "-c", text)
    async with asyncio.timeout(PATIENCE):
        assert await process.wait() == 3
