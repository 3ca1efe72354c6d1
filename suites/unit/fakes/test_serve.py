"""Fake drivers in a process of their own."""

import asyncio
import json
import signal
import socket
import sys
from pathlib import Path
from typing import IO

import pytest
from watchfiles import awatch

from drahealth.fakes.control.remote import ControlFailed, RemoteDriver, RemoteHost
from drahealth.fakes.control.wire import LINE_LIMIT, FileWriter, Writer
from drahealth.proto.events import Registered
from drahealth.proto.values import Health
from drahealth.suites.unit.command_process import run_async
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig
from drahealth.suites.unit.manager.rig import until

PROGRAM = "drahealth.fakes.serve.session_process"
SESSION = f"from {PROGRAM} import main\nmain()"
Process = asyncio.subprocess.Process


async def run(module: str, *arguments: str, **streams: IO[bytes] | int) -> Process:
    """With pipes for standard streams that are not given."""
    given = {**dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE), **streams}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        limit=LINE_LIMIT,
        stdin=given["stdin"],
        stdout=given["stdout"],
        stderr=given["stderr"],
    )


def left_behind(path: Path) -> None:
    """A socket as a process that was killed leaves it."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


async def driver_of(rig: Rig, process: Process) -> RemoteDriver:
    """A driver that has started, at the other end of a process' standard streams."""

    async def connect() -> tuple[asyncio.StreamReader, Writer]:
        assert process.stdin
        assert process.stdout
        return process.stdout, process.stdin

    host = RemoteHost(connect)
    rig.on_close(host.close)
    async with asyncio.timeout(PATIENCE):
        driver = await host.make(rig.options(), lambda record: rig.events.append(record.what))
        await driver.start()
    return driver


async def test_process_executes_commands_and_exits_when_stdin_closes(rig: Rig, kubeconfig: Path) -> None:
    process = await run(PROGRAM, "--kubeconfig", str(kubeconfig), "--jumping-clock")
    driver = await driver_of(rig, process)
    await rig.notify_registration()
    async with asyncio.timeout(PATIENCE):
        await driver.wait_registered()
    await driver.set_health("gpu-0", Health.UNHEALTHY, "xid 79")
    await driver.host.jump(1000)
    async with rig.watch(driver) as stream:
        assert (await stream.shows())["gpu-0"] == "Unhealthy: xid 79"
    assert process.stdin
    assert process.stderr
    process.stdin.close()
    assert await asyncio.wait_for(process.stderr.read(), PATIENCE) == b""
    await process.wait()
    assert (process.returncode, rig.sockets(), await rig.slices()) == (0, [], [])
    assert rig.happened(Registered) == [Registered(DRIVER, "", ok=True)]


async def test_drivers_retire_on_sigterm(rig: Rig, kubeconfig: Path) -> None:
    process = await run(PROGRAM, "--kubeconfig", str(kubeconfig))
    driver = await driver_of(rig, process)
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    assert (rig.sockets(), await rig.slices()) == ([], [])
    with pytest.raises(ControlFailed):
        await driver.state()


async def test_a_process_that_was_killed_leaves_the_sockets(rig: Rig, kubeconfig: Path) -> None:
    process = await run(PROGRAM, "--kubeconfig", str(kubeconfig))
    await driver_of(rig, process)
    process.kill()
    await process.wait()
    assert {"data/dra.sock", f"registry/{DRIVER}-reg.sock"} <= set(rig.sockets())


async def test_process_accepts_commands_over_a_socket(rig: Rig, kubeconfig: Path) -> None:
    path = rig.root / "control.sock"
    left_behind(path)
    serving = await run(PROGRAM, "--kubeconfig", str(kubeconfig), "--socket", str(path))
    async for _ in awatch(rig.root, step=10):
        if path.is_socket():
            break
    joining = await run("drahealth.fakes.control.connect", str(path))
    driver = await driver_of(rig, joining)
    assert ((await driver.state()).running, path.stat().st_mode & 0o077) == (True, 0)
    serving.send_signal(signal.SIGTERM)
    for process in (serving, joining):
        assert process.stderr
        assert await asyncio.wait_for(process.stderr.read(), PATIENCE) == b""
        await process.wait()
    assert (serving.returncode, joining.returncode, rig.sockets(), path.exists()) == (0, 0, [], False)


@pytest.mark.parametrize(
    ("there", "reason"),
    [("a file", "{} is not a socket"), ("a server", "another process listens at {}")],
)
async def test_live_socket_or_regular_file_is_not_replaced(rig: Rig, kubeconfig: Path, there: str, reason: str) -> None:
    path = rig.root / "control.sock"
    with socket.socket(socket.AF_UNIX) as theirs:
        if there == "a file":
            path.write_text("precious")
        else:
            theirs.bind(str(path))
            theirs.listen()
        done = await run_async(SESSION, "--kubeconfig", str(kubeconfig), "--socket", str(path))
        assert (done.returncode, done.stderr) == (2, f"{PROGRAM}: {reason.format(path)}; pass another --socket\n")
        assert path.read_text() == "precious" if there == "a file" else path.is_socket()


async def test_connect_to_a_socket_without_a_listener_reports_an_error(rig: Rig) -> None:
    process = await run("drahealth.fakes.control.connect", str(rig.root / "no.sock"))
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, said.decode()) == (
        1,
        f"no process listens at {rig.root}/no.sock: No such file or directory\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--socket", "/" + "x" * 107), 2, "the socket path /xxx"),
        (
            ("--kubeconfig", "/nowhere"),
            3,
            "kubeconfig /nowhere: No such file or directory; pass a kubeconfig with --kubeconfig",
        ),
        (
            ("--kubeconfig", "/"),
            3,
            "kubeconfig /: Is a directory; pass a kubeconfig with --kubeconfig (`drahealth manager`",
        ),
        ((), 3, "not running in a pod with a service account"),
    ],
)
async def test_invalid_options_are_reported_on_one_line(arguments: tuple[str, ...], code: int, reason: str) -> None:
    done = await run_async(SESSION, *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert done.stderr.startswith(f"{PROGRAM}: {reason}")


async def test_replies_can_be_written_to_a_file(rig: Rig, kubeconfig: Path) -> None:
    output = rig.root / "lines"
    with output.open("wb") as file:
        process = await run(PROGRAM, "--kubeconfig", str(kubeconfig), stdout=file)
    assert process.stdin
    process.stdin.write(b'{"attach": "me"}\nno call\n')
    await until(lambda: output.read_bytes().count(b"\n") == 2, within=20)
    process.stdin.close()
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    attached, answer = map(json.loads, output.read_text().splitlines())
    assert (process.returncode, said, attached["attached"]["taken"]) == (0, b"", 0)
    assert answer["error"].startswith("a call must be a JSON object")


async def test_stdin_can_be_a_file(rig: Rig, kubeconfig: Path) -> None:
    (rig.root / "given").write_bytes(b'{"attach": "me"}\n')
    with (rig.root / "given").open("rb") as file:
        process = await run(PROGRAM, "--kubeconfig", str(kubeconfig), stdin=file)
    told, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, list(json.loads(told)), said) == (0, ["attached"], b"")


async def test_process_without_input_exits_with_code_0(kubeconfig: Path) -> None:
    nothing = asyncio.subprocess.DEVNULL
    process = await run(PROGRAM, "--kubeconfig", str(kubeconfig), stdin=nothing)
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, said) == (0, b"")


def test_write_error_on_a_full_disk_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123
        writer = FileWriter(full.fileno())
        writer.write(b"a line")
        writer.write(b"another")
    assert (writer.is_closing(), len(caplog.records)) == (True, 1)
