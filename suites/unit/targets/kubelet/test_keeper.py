"""The keeper in its own namespaces: its processes end with it, and it ends with its parent."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kubelet.node.layout import Layout
from drahealth.suites.targets.kubelet.node.processes import Keeper, Process
from drahealth.suites.targets.run_directory import RunDirectory
from drahealth.suites.unit.endings import PATIENCE

pytestmark = pytest.mark.usefixtures("private_namespaces")

MASTER = """
import asyncio, sys
from pathlib import Path
from drahealth.suites.targets.kubelet.node.layout import Layout
from drahealth.suites.targets.kubelet.node.processes import Keeper
from drahealth.suites.targets.run_directory import RunDirectory

async def main():
    run = RunDirectory.create()
    Layout(run.path).make(node_name="node-a")
    keeper = await Keeper.start(run, keep="keep" in sys.argv)
    await keeper.spawn("sleeper", ["/bin/sleep", sys.argv[1]], {}, run.path / "log")
    print(run.path, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
async def run() -> AsyncIterator[RunDirectory]:
    made = RunDirectory.create()
    Layout(made.path).make(node_name="node-a")
    yield made
    made.remove()


@pytest.fixture
async def keeper(run: RunDirectory) -> AsyncIterator[Keeper]:
    started = await Keeper.start(run)
    yield started
    await started.close(remove=True)


@pytest.fixture
def mark() -> str:
    """An argument by which a process is found among all of the machine: a number of seconds like no other."""
    return f"60.{uuid.uuid4().int % 10**12}"


async def shell(keeper: Keeper, run: RunDirectory, script: str) -> Process:
    return await keeper.spawn("sh", ["/bin/sh", "-c", script], {"PATH": os.environ["PATH"]}, run.path / "log")


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


async def test_a_process_has_its_exit_code_and_output(keeper: Keeper, run: RunDirectory) -> None:
    process = await shell(keeper, run, "echo told; echo wrong >&2; exit 3")
    assert await process.exited == 3
    assert process.log.read_text() == "told\nwrong\n"
    assert str(process.failure()) == "sh has ended (exit code 3): wrong"


async def test_a_killed_process_has_its_signal(keeper: Keeper, run: RunDirectory) -> None:
    process = await shell(keeper, run, "sleep 60")
    await process.end(signal.SIGTERM)
    assert process.exited.result() == -signal.SIGTERM
    await process.end()  # again is no error


async def test_a_cancelled_wait_for_a_process_has_no_effect(keeper: Keeper, run: RunDirectory) -> None:
    impatient = await shell(keeper, run, "sleep 0.1")
    impatient.exited.cancel()
    assert await (await shell(keeper, run, "sleep 0.2; exit 4")).exited == 4


async def test_a_program_that_does_not_exist_is_an_error(keeper: Keeper, run: RunDirectory) -> None:
    with pytest.raises(HarnessError, match=r"cannot start x: /no/x: No such file or directory; check the path"):
        await keeper.spawn("x", ["/no/x"], {}, run.path / "log")


async def test_many_orphans_that_end_together_are_reaped(keeper: Keeper, run: RunDirectory) -> None:
    await (await shell(keeper, run, "for i in 1 2 3 4 5 6 7 8 9; do (sleep 60 &) ; done")).exited
    [first] = [process for process in marked(str(run.path)) if process.name() != "unshare"]
    orphans = first.children()
    first.suspend()  # so that it is told of all their deaths by one signal
    for orphan in orphans:
        orphan.kill()
    first.resume()
    assert len(orphans) == 9
    assert psutil.wait_procs(orphans, timeout=PATIENCE)[1] == []


async def test_a_process_inherits_only_its_log(keeper: Keeper, run: RunDirectory) -> None:
    process = await keeper.spawn("ls", ["/bin/ls", "/proc/self/fd"], {}, run.path / "log")
    await process.exited
    assert process.log.read_text().split() == ["0", "1", "2", "3"]  # 3 is the folder that ls reads


async def test_the_interrupt_of_a_terminal_does_not_reach_the_processes(keeper: Keeper, run: RunDirectory) -> None:
    mark = str(run.path)
    await keeper.spawn("sleep", ["/bin/sh", "-c", "sleep 60", mark], {}, run.path / "log")
    sessions = {os.getsid(process.pid) for process in found(mark)}
    assert sessions
    assert os.getsid(0) not in sessions


async def test_only_the_run_folder_is_writable(keeper: Keeper, run: RunDirectory, tmp_path: Path) -> None:
    script = f"touch {run.path}/mine; touch {tmp_path}/theirs; echo 1 > /proc/sys/vm/overcommit_memory"
    await (await shell(keeper, run, script)).exited
    assert keeper.writable == []
    assert (run.path / "mine").exists()
    assert not (tmp_path / "theirs").exists()
    assert (run.path / "log").read_text().count("Read-only file system") == 2


async def test_the_device_plugin_folder_is_at_the_path_of_the_kubelet(keeper: Keeper, run: RunDirectory) -> None:
    await (await shell(keeper, run, "ls -A /var/lib /var/log; touch /var/lib/kubelet/device-plugins/here")).exited
    assert (run.path / "log").read_text() == "/var/lib:\nkubelet\n\n/var/log:\n"
    assert (Layout(run.path).device_plugins_dir / "here").exists()


async def test_the_files_of_the_run_resolve_names(keeper: Keeper, run: RunDirectory) -> None:
    await (await shell(keeper, run, "cat /etc/hosts /etc/resolv.conf")).exited
    assert (run.path / "log").read_text() == "127.0.0.1 localhost node-a\nnameserver 127.255.255.254\n"


async def test_close_ends_all_processes_and_removes_the_folder(run: RunDirectory, mark: str) -> None:
    keeper = await Keeper.start(run)
    process = await shell(keeper, run, f"mkdir m; mount -t tmpfs none m; touch m/x; (sleep {mark} &) ; sleep {mark}")
    await keeper.close(remove=True)
    assert process.exited.result() == -signal.SIGKILL
    assert not run.path.exists()
    assert gone(mark)


async def test_close_can_keep_the_folder(run: RunDirectory) -> None:
    keeper = await Keeper.start(run)
    await (await shell(keeper, run, "echo kept")).exited
    await keeper.close(remove=False)
    assert (run.path / "log").read_text() == "kept\n"


async def test_a_killed_keeper_ends_its_processes(run: RunDirectory, mark: str) -> None:
    keeper = await Keeper.start(run)
    process = await keeper.spawn("sleep", ["/bin/sleep", mark], {}, run.path / "log")
    [seen] = found(mark)
    os.kill(seen.ppid(), signal.SIGKILL)
    await process.exited
    assert gone(mark)
    with pytest.raises(HarnessError, match="keeper of the cluster's processes has ended"):
        keeper.send(do="signal", id=1, signal=9)
    await keeper.close(remove=True)


@pytest.mark.parametrize(("end", "named"), [("kill -KILL $$", False), ("exit 3", True)])
async def test_only_a_process_that_was_not_killed_is_explained_by_its_log(
    keeper: Keeper, run: RunDirectory, end: str, named: bool
) -> None:
    process = await shell(keeper, run, f"echo 'E1121 11:30:51.9 16 run.go:72] no runtime'; {end}")
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
    assert gone(str(folder))  # the keeper, which has it as an argument
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
    keeper = await Keeper.start(run)
    run.release()
    other = RunDirectory.create(run.path.parent)
    assert run.path.exists()
    other.remove()
    await keeper.close(remove=True)


def test_the_keeper_needs_its_own_namespace(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "drahealth.suites.targets.kubelet.node.keeper", str(tmp_path), "0", "remove"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (
        1,
        "The keeper must be the first process of a process namespace of its own",
    )
