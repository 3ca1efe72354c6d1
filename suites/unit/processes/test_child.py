"""Child processes: no process is left after their end."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.processes.child import FIRST_LINES, OUTPUT_LINES, Child, guarded
from drahealth.suites.unit.endings import PATIENCE

CHILD_IN_ITS_OWN_SESSION = """
import os, sys, time
told, tells = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("child", os.getpid(), flush=True)
        os.write(tells, b".")
        time.sleep(600)
    os._exit(0)
os.wait()
os.read(told, 1)
"""


@asynccontextmanager
async def python(code: str) -> AsyncGenerator[Child, None]:
    process = await Child.start([sys.executable, "-c", code], os.environ)
    try:
        yield process
    finally:
        await process.close()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_exit_code_and_output_are_reported() -> None:
    async with python("print('hello'); raise SystemExit(7)") as process:
        assert (await process.exited(), process.output()) == ((7, 0), ("hello",))


async def test_relative_folder_is_that_of_the_caller_in_a_sandbox() -> None:
    elsewhere = ("sh", "-c", 'cd / && exec "$@"', "sh")  # as nsenter into a mount namespace
    process = await Child.start(["pwd"], os.environ, Path(), entry=elsewhere)
    assert (await process.exited(), await process.close(), process.output()) == ((0, 0), 0, (str(Path.cwd()),))


async def test_signal_reaches_the_driver() -> None:
    async with python("import time; time.sleep(600)") as process:
        process.signal(signal.SIGTERM)
        assert await process.exited() == (-signal.SIGTERM, 0)


async def test_driver_is_stopped_when_the_guard_has_stopped_it() -> None:
    async with python("import time; time.sleep(600)") as process:
        guard_process = psutil.Process(process.pid).parent()
        assert guard_process
        guard_process.suspend()  # as on a busy machine
        process.signal(signal.SIGSTOP)
        stopping = asyncio.create_task(process.stopped())
        await asyncio.sleep(0)
        before = (stopping.done(), psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
        guard_process.resume()
        await stopping
        assert (before, psutil.Process(process.pid).status()) == ((False, False), psutil.STATUS_STOPPED)


async def test_stopped_driver_that_is_killed_has_ended() -> None:
    async with python("import time; time.sleep(600)") as process:
        for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP, signal.SIGKILL):
            process.signal(number)
        assert await process.exited() == (-signal.SIGKILL, 0)
        await process.stopped()


async def test_child_in_a_session_of_its_own_is_counted_and_killed() -> None:
    async with python(CHILD_IN_ITS_OWN_SESSION) as process:
        found = (await process.exited(), await process.close())
        pid = int(process.output()[0].split()[1])
        assert (found, is_running(pid)) == (((0, 1), 1), False)


async def test_child_that_ends_after_the_driver_is_not_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "end")
    code = f"import subprocess; subprocess.Popen(['cat', {str(tmp_path / 'end')!r}])"
    async with python(code) as process:
        exited = await process.exited()
        (tmp_path / "end").write_text("last words")
        await process.children_ended()
        assert (exited, await process.close(), process.output()) == ((0, 1), 0, ("last words",))


async def test_close_kills_the_driver_and_its_children() -> None:
    process = await Child.start([sys.executable, "-c", "import time; time.sleep(600)"], os.environ)
    await process.close()
    assert not is_running(process.pid)


async def test_driver_ends_with_the_process_that_started_it() -> None:
    code = (
        "import asyncio, os, sys\n"
        "from drahealth.suites.processes.child import Child\n"
        "async def main():\n"
        "    process = await Child.start([sys.executable, '-c', 'import time; time.sleep(600)'], os.environ)\n"
        "    print(process.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())"
    )
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout
    pid = int(await owner.stdout.readline())
    ended = asyncio.Event()
    driver = os.pidfd_open(pid)
    asyncio.get_running_loop().add_reader(driver, ended.set)
    owner.kill()
    await owner.wait()
    async with asyncio.timeout(PATIENCE):
        await ended.wait()
    asyncio.get_running_loop().remove_reader(driver)
    os.close(driver)


async def test_driver_ends_if_the_caller_ends_before_the_driver_has_started() -> None:
    watched, held = os.pipe()
    source, sink = os.pipe()
    os.close(source)  # so the guard cannot report that the driver has started
    started = await asyncio.create_subprocess_exec(
        *guarded(watched, sink, ["cat"]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        pass_fds=[watched, sink],
    )
    assert started.stdin
    for descriptor in (watched, sink, held):
        os.close(descriptor)
    try:
        async with asyncio.timeout(PATIENCE):
            await started.wait()  # its output ends with the driver
    finally:
        started.stdin.close()


async def test_flood_of_output_keeps_the_first_and_the_last_lines() -> None:
    async with python("for i in range(100_000): print('x' * 100, i)") as process:
        await process.exited()
        assert process.output_bytes > 100 * 100_000
        numbers = [*range(FIRST_LINES), *range(100_000 - OUTPUT_LINES, 100_000)]
        shown = [line for line in process.output() if not line.startswith("[")]
        assert [int(line.split()[-1]) for line in shown] == numbers
        assert f"[{100_000 - len(numbers)} more lines]" in process.output()


async def test_lines_that_are_kept_are_not_counted_as_left_out() -> None:
    lines = FIRST_LINES + OUTPUT_LINES
    async with python(f"for i in range({lines}): print(i)") as process:
        await process.exited()
        assert process.output() == tuple(map(str, range(lines)))


@pytest.mark.parametrize("program", ["/no/such/driver", "/etc/hostname", "/tmp"])
async def test_program_that_cannot_be_run_is_named(program: str) -> None:
    with pytest.raises(ConfigurationError, match=program):
        await Child.start([program], os.environ)


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 10, 100])
async def test_cancelled_start_leaves_no_process(tmp_path: Path, turns: int) -> None:
    before = set(psutil.Process().children())  # maybe an ended child of another test, which is gone afterwards
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    opener = os.open(gate, os.O_RDWR)
    waits = ("sh", "-c", f'read _ < {gate}; exec "$@"', "sh")  # so the start cannot end before it is cancelled
    starting = asyncio.create_task(Child.start(["sleep", "600"], os.environ, entry=waits))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    os.write(opener, b"\n")
    with pytest.raises(asyncio.CancelledError):
        await starting
    os.close(opener)
    assert set(psutil.Process().children()) - before == set()
