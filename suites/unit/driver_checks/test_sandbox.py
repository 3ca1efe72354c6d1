"""The sandbox of a driver: its private directories, and its complete removal."""

import asyncio
import errno
import os
import socket
import subprocess
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from drahealth.suites.driver_checks.subject.places import private_places, sandboxed
from drahealth.suites.driver_checks.subject.sandbox import ALWAYS_PRIVATE, Sandbox
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.processes import mounts
from drahealth.suites.processes.child import Child
from drahealth.suites.processes.mounts import MountPlan
from drahealth.suites.processes.sandbox import WITH_USER, RunningSandbox, sandbox
from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import COMMAND
from drahealth.suites.unit.endings import PATIENCE

pytestmark = pytest.mark.usefixtures("user_namespaces")

KINDS = [Sandbox(), Sandbox(("user", "mount", "network", "pid"))]
ESCAPES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
"""
AS_NOBODY = """
import os, sys
from pathlib import Path
from drahealth.suites.processes.mounts import MountPlan, Mounts

shown, (python, *words) = Path(sys.argv[1], "shown"), sys.argv[2:]
shown.mkdir(mode=0o755)
places = [sys.prefix, sys.base_prefix, *filter(os.path.exists, sys.path)]
hidden = [folder for place in places for folder in Path(place).parents if not folder.stat().st_mode & 1]
Mounts().make(MountPlan({str(folder): str(shown) for folder in hidden[-1:]}, places))  # the home of root, for instance
os.setgroups([]), os.setgid(65534), os.setuid(65534)
os.execv(python, [python, *words])
"""
"""A program that gives up its rights, and then runs another one, whose Python other users can read from now on."""
FORBID = 'for name in user mnt net pid; do echo 0 > /proc/sys/user/max_${name}_namespaces; done; exec "$@"'
WITHOUT_NAMESPACES = ["unshare", "--user", "--map-root-user", "sh", "-c", FORBID, "sh"]
"""The words before a command that run it where no namespace can be made."""
OWNER = """
import asyncio, os, sys
from pathlib import Path
from drahealth.suites.driver_checks.subject.sandbox import Sandbox
from drahealth.suites.driver_checks.subject.places import private_places, sandboxed
from drahealth.suites.processes.child import Child

async def main(root):
    declared = Sandbox()
    private_places(declared, root, None, "", "")
    async with sandboxed(declared, root) as running:
        process = await Child.start(sys.argv[2:], os.environ, entry=running.entry)
        if "--then-wait" in sys.argv:
            print(running.entry[2], flush=True)
            await asyncio.sleep(600)
        await process.exited()
        print(*process.output(), sep="\\n", flush=True)

asyncio.run(main(Path(sys.argv[1])))
"""


@asynccontextmanager
async def in_sandbox(root: Path, declared: Sandbox) -> AsyncGenerator[RunningSandbox, None]:
    private_places(declared, root, None, "", "")
    async with sandboxed(declared, root) as running:
        yield running


async def output_of(running: RunningSandbox, *argv: str) -> tuple[str, ...]:
    process = await Child.start(argv, os.environ, entry=running.entry)
    await process.exited()
    await process.close()
    return process.output()


def environments() -> list[bytes]:
    """The environments of all processes that can be read."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


async def ended(pid: int) -> None:
    """Waits for the end of any process."""
    try:
        gone, handle = asyncio.Event(), os.pidfd_open(pid)
    except ProcessLookupError:  # it has already ended
        return
    asyncio.get_running_loop().add_reader(handle, gone.set)
    async with asyncio.timeout(PATIENCE):
        await gone.wait()
    asyncio.get_running_loop().remove_reader(handle)
    os.close(handle)


@pytest.mark.parametrize("declared", KINDS)
async def test_written_files_are_in_the_folder_of_the_run(tmp_path: Path, declared: Sandbox) -> None:
    script = "ls -A /var/lib/kubelet; touch /var/lib/kubelet/plugins/a /var/run/cdi/b /etc/cdi/c"
    async with in_sandbox(tmp_path, declared) as running:
        seen = await output_of(running, "sh", "-c", script)
    written = [path for path in ("k/plugins/a", "c/b", "private/etc/cdi/c") if (tmp_path / path).exists()]
    assert (seen, len(written)) == (("device-plugins", "plugins", "plugins_registry"), 3)


@pytest.mark.parametrize("declared", KINDS)
async def test_mounts_of_the_machine_do_not_change(tmp_path: Path, declared: Sandbox) -> None:
    before = mounts.table()
    async with in_sandbox(tmp_path, declared) as running:
        inside = await output_of(running, "cat", "/proc/self/mountinfo")
        assert (mounts.table(), any(" /var/lib/kubelet " in line for line in inside)) == (before, True)
    assert mounts.table() == before


@pytest.mark.parametrize("declared", KINDS)
async def test_missing_directories_are_not_created_on_the_machine(tmp_path: Path, declared: Sandbox) -> None:
    missing = Path(f"/run/drahealth-{os.getpid()}")
    with_missing = replace(declared, private=(str(missing / "deeper"),))
    async with in_sandbox(tmp_path, with_missing) as running:
        seen = await output_of(running, "sh", "-c", f"touch {missing}/deeper/file; ls {missing}")
        assert (seen, found_in("/run", f"{missing.name}*")) == (("deeper",), [])


async def test_sys_is_read_only(tmp_path: Path) -> None:
    async with in_sandbox(tmp_path, Sandbox()) as running:
        (line,) = await output_of(running, "sh", "-c", "LC_ALL=C touch /sys/fs/drahealth 2>&1")
    assert "Read-only file system" in line


async def test_private_dev_has_the_devices_of_containers_alone(tmp_path: Path) -> None:
    async with in_sandbox(tmp_path, Sandbox(private=("/dev",))) as running:
        seen = await output_of(running, "sh", "-c", "echo lost > /dev/null; ls /dev | xargs")
    assert seen == ("fd full null ptmx pts random shm stderr stdin stdout tty urandom zero",)


async def test_private_tmp_keeps_the_folder_of_the_run(tmp_path: Path) -> None:
    top = Path("/", tmp_path.parts[1])
    with tempfile.NamedTemporaryFile(dir=top) as hidden:
        async with in_sandbox(tmp_path, Sandbox(private=(str(top),))) as running:
            seen = await output_of(running, "ls", str(top))
    assert (tmp_path.parts[2] in seen, Path(hidden.name).name in seen) == (True, False)


async def test_driver_reaches_our_socket_on_a_loopback_of_its_own(tmp_path: Path) -> None:
    async with in_sandbox(tmp_path, Sandbox()) as running:
        with socket.socket() as taken, socket.socket() as outside:
            taken.bind(("127.0.0.1", 0))  # so that no other process of the machine listens at this port
            port = taken.getsockname()[1]
            with await running.bound(port) as listening:
                listening.listen()
                listening.setblocking(False)
                code = f"import socket; socket.create_connection(('127.0.0.1', {port})).send(b'hello')"
                caller = asyncio.create_task(output_of(running, sys.executable, "-c", code))
                async with asyncio.timeout(PATIENCE):
                    connection, _ = await asyncio.get_running_loop().sock_accept(listening)
                with connection:
                    assert await asyncio.get_running_loop().sock_recv(connection, 10) == b"hello"
                    assert outside.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED
                await caller


@pytest.mark.parametrize("declared", KINDS)
async def test_folder_can_be_mounted_later(tmp_path: Path, declared: Sandbox) -> None:
    (tmp_path / "kubelet" / "plugins").mkdir(parents=True)
    async with in_sandbox(tmp_path, declared) as running:
        await running.mount(tmp_path / "kubelet", "/var/lib/kubelet")
        assert await output_of(running, "ls", "/var/lib/kubelet") == ("plugins",)
        with pytest.raises(HarnessError, match="No such file"):
            await running.mount(tmp_path / "kubelet", "/var/lib/kubelet/other")


@pytest.mark.parametrize("declared", [*KINDS, Sandbox(("mount",))])
async def test_child_that_escapes_is_killed(tmp_path: Path, declared: Sandbox) -> None:
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    async with in_sandbox(tmp_path, declared) as running:
        process = await Child.start([sys.executable, "-c", ESCAPES], {**os.environ, "MARK": mark}, entry=running.entry)
        assert await process.exited() == (0, 1)
        await process.close()
        assert [one for one in environments() if mark.encode() in one] == []


async def test_all_sandbox_processes_end_with_their_owner(tmp_path: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OWNER, str(tmp_path), sys.executable, "-c", ESCAPES, "--then-wait"),
        stdin=DEVNULL,
        stdout=PIPE,
    )
    assert owner.stdout
    keeper = int(await owner.stdout.readline())
    owner.kill()
    await owner.wait()
    await ended(keeper)  # the kernel kills all processes of its namespace first


async def test_folder_that_is_missing_fails_the_start(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="/no/such"):
        async with sandbox([WITH_USER], MountPlan({"/var/lib/kubelet": "/no/such"})):
            pass


async def test_private_directory_directly_below_the_root_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="/no-such-directory"):
        async with in_sandbox(tmp_path, Sandbox(private=("/no-such-directory/below",))):
            pass


@pytest.mark.parametrize(
    ("namespaces", "private"),
    [(("mounts",), ()), (("pid",), ("/dev",)), (("mount",), ("dev",)), (("mount",), ("/a/../b",)), (("mount",), ("/",))]
    + [(("mount",), (path,)) for path in ("/proc", "/sys/fs", "/dev/")],
)
def test_invalid_sandbox_is_rejected(namespaces: tuple[str, ...], private: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError):
        Sandbox(namespaces, private)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declared", "root", "expected"),
    [
        (Sandbox(("mount",)), False, [["user", "mount"]]),
        (Sandbox(("mount",)), True, [["mount"], ["user", "mount"]]),
        (Sandbox(("mount", "user")), True, [["user", "mount"]]),
    ],
)
def test_user_namespace_is_tried_where_it_is_needed(declared: Sandbox, root: bool, expected: list[list[str]]) -> None:
    assert declared.ways(root=root) == expected


def test_machine_without_namespaces_gets_an_error_and_starts_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-c", COMMAND, "check", "--sandbox", "--", "touch", str(tmp_path / "started")]
    done = subprocess.run([*WITHOUT_NAMESPACES, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, "namespaces" in done.stderr, list(tmp_path.iterdir())) == (3, True, [])


def test_plan_prints_whether_the_sandbox_is_possible(tmp_path: Path) -> None:
    profile = tmp_path / "gpu.toml"
    profile.write_text('format = "driver-profile/v1"\n[driver]\ncommand = ["true"]\n[sandbox]\n')
    words = [sys.executable, "-c", COMMAND, "certify", "--plan", str(profile)]
    outputs = [
        subprocess.run([*inside, *words], capture_output=True, text=True, check=True).stdout.splitlines()
        for inside in ([], WITHOUT_NAMESPACES)
    ]
    assert [output[-1].partition(" here")[0] for output in outputs] == ["sandbox: possible", "sandbox: not possible"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_ordinary_user_gets_a_sandbox(tmp_path: Path) -> None:
    script = "id -u; touch /var/lib/kubelet/plugins/a && echo written"
    with tempfile.TemporaryDirectory(prefix="dra-", dir="/tmp") as folder:
        os.chown(folder, 65534, 65534)
        words = [
            sys.executable,
            "-c",
            AS_NOBODY,
            str(tmp_path),
            sys.executable,
            "-c",
            OWNER,
            folder,
            "sh",
            "-c",
            script,
        ]
        done = subprocess.run(["unshare", "--mount", *words], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\nwritten\n", "")


@pytest.mark.long
async def test_driver_with_fixed_paths_passes_in_two_parallel_runs(tmp_path: Path) -> None:
    inventory = tmp_path / "gpus.yaml"
    inventory.write_text("format: inventory/v1\ndevices: [{name: gpu, count: 2}]\n")
    driver = [sys.executable, "-c", COMMAND, "driver", "serve", "-f", str(inventory)]
    words = ["check", "--sandbox", "--private=/run/drahealth", "--requirement=PLUGIN-02", "--requirement=PLUGIN-10"]
    words += ["--", *driver, "--kubeconfig={kubeconfig}", "--node-name={node_name}"]
    before = [found_in(folder) for folder in ALWAYS_PRIVATE]
    done = await asyncio.gather(*(command_process.run_async(COMMAND, *words) for _ in range(2)))
    after = [found_in(folder) for folder in ALWAYS_PRIVATE]
    assert ([one.returncode for one in done], after) == ([0, 0], before), [one.stdout for one in done]


def found_in(folder: str, pattern: str = "**/*") -> list[Path]:
    """What a folder of the machine has that fits the pattern."""
    return sorted(Path(folder).glob(pattern))
