"""Command-line programs: their output and exit codes, and the end of all their processes."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from drahealth.suites.processes import child
from drahealth.suites.processes.child import Finished, clean, run
from drahealth.suites.unit.endings import PATIENCE

_SLEEPS = "sleep 60 & echo $! > {file}; echo $$ >> {file}; mv {file} {file}.done; wait"


async def appeared(file: Path) -> list[int]:
    await until(lambda: bool(written(file)))
    return written(file)


async def gone(pids: list[int]) -> bool:
    await until(lambda: not any(map(is_running, pids)))
    return True


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


def written(file: Path) -> list[int]:
    done = file.with_suffix(".done")
    return [int(line) for line in done.read_text().split()] if done.exists() else []


def block_until_written(file: Path) -> None:
    """Blocks the event loop too, at most for 10 s."""
    end = time.monotonic() + 10
    while not written(file) and time.monotonic() < end:
        time.sleep(0.001)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.long
async def test_cancellation_during_the_start_ends_the_program_and_its_children(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    call = asyncio.create_task(run(["sh", "-c", _SLEEPS.format(file=file)], limit=60))
    await asyncio.sleep(0)  # it is spawned, and the loop has not yet heard so
    block_until_written(file)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await gone(written(file))


async def test_a_program_has_its_output_and_its_exit_code() -> None:
    done = await run(["sh", "-c", "cat; echo bad >&2; exit 3"], stdin=b"fed", limit=10)
    assert done == Finished(3, "fed", "bad\n")


async def test_without_input_a_program_reads_nothing() -> None:
    assert await run(["cat"], limit=10) == Finished(0, "", "")


async def test_a_program_need_not_read_its_input() -> None:
    assert (await run(["true"], stdin=b"x" * 1_000_000, limit=10)).code == 0


async def test_a_missing_program_has_exit_code_127() -> None:
    done = await run(["/no/such/program"], limit=10)
    assert done == Finished(127, "", "/no/such/program: No such file or directory\n")


async def test_a_program_killed_by_a_signal_has_the_exit_code_of_a_shell() -> None:
    assert (await run(["sh", "-c", "kill -TERM $$"], limit=10)).code == 128 + signal.SIGTERM


async def test_a_listener_gets_each_line_without_symbols() -> None:
    lines: list[str] = []
    await run(["printf", r"\033[1mone\033[0m\n\ntwo\rthree"], limit=10, on_line=lines.append)
    assert lines == ["one", "two", "three"]


async def test_a_listener_gets_lines_for_a_silent_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "QUIET", 0.05)
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        if line.startswith("working ("):
            (tmp_path / "heard").touch()

    script = f"echo working; until [ -e {tmp_path}/heard ]; do sleep 0.01; done"
    await run(["sh", "-c", script], limit=60, on_line=hear)
    said = lines[lines.index("working") + 1 :]  # before it, a slow start is told of
    assert [line for line in said if not re.fullmatch(r"working \(\d+ s\)", line)] == []
    assert said


async def test_the_environment_is_extended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "a")
    done = await run(["sh", "-c", "echo $MINE $YOURS"], limit=10, environment={"YOURS": "b"})
    assert done.stdout == "a b\n"


async def test_a_timeout_ends_the_program_and_its_children(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        await run(["sh", "-c", _SLEEPS.format(file=tmp_path / "pids")], limit=1)
    assert await gone(await appeared(tmp_path / "pids"))


async def test_cancellation_ends_the_program_and_its_children(tmp_path: Path) -> None:
    task = asyncio.create_task(run(["sh", "-c", _SLEEPS.format(file=tmp_path / "pids")], limit=60))
    pids = await appeared(tmp_path / "pids")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert await gone(pids)


async def test_a_program_and_its_children_end_when_the_caller_is_killed(tmp_path: Path) -> None:
    asker = f"""if True:
        import asyncio
        from drahealth.suites.processes.child import run
        asyncio.run(run(["sh", "-c", {_SLEEPS.format(file=tmp_path / "pids")!r}], limit=60))"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", asker)
    pids = await appeared(tmp_path / "pids")
    process.kill()
    await process.wait()
    assert await gone(pids)


async def test_a_child_that_holds_the_output_does_not_delay_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "LINGER", 0.1)
    begun = time.monotonic()
    done = await run(["sh", "-c", "sleep 20 & echo $!"], limit=15)
    os.kill(int(done.stdout), signal.SIGKILL)
    assert time.monotonic() - begun < 10


async def test_an_error_of_the_listener_is_raised() -> None:
    def refuse(line: str) -> None:
        raise LookupError(line)

    with pytest.raises(LookupError, match=r"^word$"):
        await run(["echo", "word"], limit=10, on_line=refuse)


def test_a_clean_line_has_no_control_sequences() -> None:
    assert clean("\x1b[32m ✓\x1b[0m Done\x07 \x1b[K") == "✓ Done"
