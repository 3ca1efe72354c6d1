"""The processes of a node in their own namespaces: they end with them, and these with their parent."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psutil
import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.processes.sandbox import RunningSandbox, sandbox, ways
from drahealth.suites.targets.kubelet.layout import Layout
from drahealth.suites.targets.kubelet.processes import Process
from drahealth.suites.targets.run_directory import RunDirectory
from drahealth.suites.unit.endings import PATIENCE

pytestmark = pytest.mark.usefixtures("private_namespaces")

MASTER = """
import asyncio, sys
from pathlib import Path
from drahealth.suites.processes.sandbox import sandbox, ways
from drahealth.suites.targets.kubelet.layout import Layout
from drahealth.suites.targets.kubelet.processes import Process
from drahealth.suites.targets.run_directory import RunDirectory

async def main():
    run = RunDirectory.create()
    layout = Layout(run.path)
    layout.make(node_names=["node-a"])
    if "keep" not in sys.argv:
        run.remove_if_killed()
    async with sandbox(ways(), layout.mount_plan([]), held=[run.lock]) as running:
        await Process.start(running, "sleeper", ["/bin/sleep", sys.argv[1]], {}, run.path, run.path / "log")
        print(run.path, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
async def run() -> AsyncIterator[RunDirectory]:
    made = RunDirectory.create()
    Layout(made.path).make(node_names=["node-a"])
    yield made
    made.remove()


def node_sandbox(run: RunDirectory) -> AbstractAsyncContextManager[RunningSandbox]:
    return sandbox(ways(), Layout(run.path).mount_plan([]), held=[run.lock])


@pytest.fixture
async def running(run: RunDirectory) -> AsyncIterator[RunningSandbox]:
    async with node_sandbox(run) as started:
        yield started


@pytest.fixture
def mark() -> str:
    """An argument by which a process is found among all of the machine: a number of seconds like no other."""
    return f"60.{uuid.uuid4().int % 10**12}"


async def start(running: RunningSandbox, run: RunDirectory, *argv: str) -> Process:
    return await Process.start(running, argv[0], argv, {"PATH": os.environ["PATH"]}, run.path, run.path / "log")


async def shell(running: RunningSandbox, run: RunDirectory, script: str) -> Process:
    return await Process.start(
        running, "sh", ["/bin/sh", "-c", script], {"PATH": os.environ["PATH"]}, run.path, run.path / "log"
    )


def marked(mark: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["cmdline"]) if mark in (process.info["cmdline"] or ())]


def found(mark: str) -> list[psutil.Process]:
    """Those with the mark, once there are any: a program's arguments show a moment after it was started."""
    end = time.monotonic() + PATIENCE
    while not (processes := marked(mark)) and time.monotonic() < end:
        time.sleep(0.01)
    return processes


def gone(mark: str) -> bool:
    psutil.wait_procs(marked(mark), timeout=PATIENCE)
    return not marked(mark)


async def test_a_process_has_its_exit_code_and_output(running: RunningSandbox, run: RunDirectory) -> None:
    process = await shell(running, run, "echo told; echo wrong >&2; exit 3")
    assert await process.exited == 3
    assert process.log.read_text() == "told\nwrong\n"
    assert str(process.failure()) == "sh has ended (exit code 3): wrong"


async def test_a_killed_process_has_its_signal(running: RunningSandbox, run: RunDirectory) -> None:
    process = await shell(running, run, "sleep 60")
    await process.end(signal.SIGTERM)
    assert process.exited.result() == -signal.SIGTERM
    await process.end()  # again is no error


async def test_a_program_that_does_not_exist_is_an_error(running: RunningSandbox, run: RunDirectory) -> None:
    with pytest.raises(HarnessError, match=r"cannot start x: /no/x: No such file or directory; check the path"):
        await Process.start(running, "x", ["/no/x"], {}, run.path, run.path / "log")


async def test_orphans_of_a_process_end_with_it(running: RunningSandbox, run: RunDirectory, mark: str) -> None:
    process = await shell(running, run, f"for i in 1 2 3; do (setsid sleep {mark} &) ; done")
    await process.exited
    assert gone(mark)


async def test_a_process_inherits_only_its_log(running: RunningSandbox, run: RunDirectory) -> None:
    process = await start(running, run, "/bin/ls", "/proc/self/fd")
    await process.exited
    assert process.log.read_text().split() == ["0", "1", "2", "3"]  # 3 is the folder that ls reads


async def test_interrupt_of_a_terminal_does_not_reach_the_processes(running: RunningSandbox, run: RunDirectory) -> None:
    mark = str(run.path)
    await start(running, run, "/bin/sh", "-c", "sleep 60", mark)
    sessions = {os.getsid(process.pid) for process in found(mark)}
    assert sessions
    assert os.getsid(0) not in sessions


async def test_only_the_run_folder_is_writable(running: RunningSandbox, run: RunDirectory, tmp_path: Path) -> None:
    script = f"touch {run.path}/mine; touch {tmp_path}/theirs; echo 1 > /proc/sys/vm/overcommit_memory"
    await (await shell(running, run, script)).exited
    assert (run.path / "mine").exists()
    assert not (tmp_path / "theirs").exists()
    assert (run.path / "log").read_text().count("Read-only file system") == 2


async def test_device_plugin_folder_is_at_the_path_of_the_kubelet(running: RunningSandbox, run: RunDirectory) -> None:
    await (await shell(running, run, "ls -A /var/lib /var/log; touch /var/lib/kubelet/device-plugins/here")).exited
    assert (run.path / "log").read_text() == "/var/lib:\nkubelet\n\n/var/log:\n"
    assert (Layout(run.path).device_plugins_dir / "here").exists()


async def test_the_files_of_the_run_resolve_names(running: RunningSandbox, run: RunDirectory) -> None:
    await (await shell(running, run, "cat /etc/hosts /etc/resolv.conf")).exited
    assert (run.path / "log").read_text() == "127.0.0.1 localhost node-a\nnameserver 127.255.255.254\n"


async def test_the_end_of_the_sandbox_ends_all_processes(run: RunDirectory, mark: str) -> None:
    async with node_sandbox(run) as running:
        script = f"mkdir m; mount -t tmpfs none m; touch m/x; (sleep {mark} &) ; sleep {mark}"
        process = await shell(running, run, script)
        assert found(mark)
    assert await process.exited == -signal.SIGKILL
    assert gone(mark)
    run.remove()
    assert not run.path.exists()


async def test_a_killed_keeper_ends_its_processes(run: RunDirectory, mark: str) -> None:
    async with node_sandbox(run) as running:
        process = await start(running, run, "/bin/sleep", mark)
        os.kill(int(running.entry[2]), signal.SIGKILL)
        await process.exited
        assert gone(mark)
        assert "keeper of the cluster's processes has ended" in str(process.failure())
        with pytest.raises(HarnessError, match="keeper of the cluster's processes has ended"):
            await start(running, run, "/bin/sleep", mark)


@pytest.mark.parametrize(("end", "named"), [("kill -KILL $$", False), ("exit 3", True)])
async def test_only_a_process_that_was_not_killed_is_explained_by_its_log(
    running: RunningSandbox, run: RunDirectory, end: str, named: bool
) -> None:
    process = await shell(running, run, f"echo 'E1121 11:30:51.9 16 run.go:72] no runtime'; {end}")
    await process.exited
    failure = process.failure()
    assert ("no runtime" in str(failure), ["no runtime" in note for note in failure.__notes__]) == (named, [True])


def test_a_killed_parent_ends_the_keeper_and_removes_the_folder(mark: str) -> None:
    with subprocess.Popen([sys.executable, "-c", MASTER, mark], stdout=subprocess.PIPE, text=True) as master:
        assert master.stdout is not None
        folder = Path(master.stdout.readline().strip())
        assert found(mark)
        master.kill()
    assert gone(mark)
    assert gone(str(folder))  # the keeper and the remover, which have it as an argument
    assert not folder.exists()


def test_a_killed_parent_of_a_run_to_keep_ends_the_keeper_and_leaves_the_folder(mark: str) -> None:
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as base:  # a folder that other runs do not sweep
        command = [sys.executable, "-c", MASTER, mark, "keep"]
        environment = {**os.environ, "TMPDIR": base}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as master:
            assert master.stdout is not None
            folder = Path(master.stdout.readline().strip())
            master.kill()
        assert gone(mark)
        assert gone(str(folder))
        assert (folder.parent, (folder / "log").exists()) == (Path(base), True)


async def test_the_lock_is_held_until_the_keeper_has_ended(run: RunDirectory) -> None:
    async with node_sandbox(run):
        run.release()
        other = RunDirectory.create(run.path.parent)
        assert run.path.exists()
        other.remove()
