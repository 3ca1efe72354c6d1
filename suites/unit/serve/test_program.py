"""The `drahealth driver serve` process: start, rejected options, and cleanup at exit."""

import asyncio
import json
import signal
import socket
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from drahealth.fakes.cluster.api import SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.control.news import News
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.serve.program import Program
from drahealth.suites.unit.command_process import FAKES, run_async
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.serve.rig import DRIVER, Rig, Said

SOCKETS = [
    "control.sock",
    f"plugins/{DRIVER}/.dra",
    f"plugins/{DRIVER}/dra.sock",
    f"plugins_registry/.{DRIVER}-reg",
    f"plugins_registry/{DRIVER}-reg.sock",
]
Process = asyncio.subprocess.Process


async def run(rig: Rig, kubeconfig: Path, *arguments: str) -> Process:
    """The command, with the rig's folder, on pipes."""
    where = ("--kubelet-dir", str(rig.root), "--kubeconfig", str(kubeconfig), "--socket", str(rig.socket))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "drahealth.fakes", "driver", "serve", "-f", str(rig.file), "--node-name", "node-a", *where, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    rig.processes.append(process)
    return process


async def line(process: Process, event: str) -> Object:
    """The next line of that event."""
    assert process.stdout
    async with asyncio.timeout(PATIENCE):
        while said := await process.stdout.readline():
            found: Object = json.loads(said)
            if found["event"] == event:
                return found
    raise AssertionError(f"it ended without {event}")


async def test_program_publishes_slices_and_sockets_and_removes_them_at_exit(rig: Rig) -> None:
    await rig.serve()
    assert (rig.sockets(), await rig.slices()) == (SOCKETS, 1)
    assert rig.socket.stat().st_mode & 0o777 == 0o600
    await rig.end()
    assert (rig.sockets(), await rig.slices(), (rig.root / "plugins" / DRIVER).exists()) == ([], 0, False)


async def test_new_socket_directory_is_accessible_only_to_its_owner(rig: Rig) -> None:
    rig.socket = rig.root / "run" / "control.sock"
    await rig.serve()
    assert (rig.socket.parent.stat().st_mode & 0o777, rig.socket.stat().st_mode & 0o777) == (0o700, 0o600)


async def test_log_lines_record_all_events_and_sigterm_retires_the_driver(rig: Rig, kubeconfig: Path) -> None:
    process = await run(rig, kubeconfig)
    started, serving = await line(process, "driver-started"), await line(process, "serving")
    assert (started["driver"], started["devices"], serving["socket"]) == (DRIVER, 4, str(rig.socket))
    await rig.ctl("inject", "xid/79", "gpu-0")
    assert (await line(process, "command"))["args"] == {"fault": "xid/79", "device": "gpu-0"}
    process.send_signal(signal.SIGTERM)
    await line(process, "driver-retired")
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, said, rig.sockets(), await rig.slices()) == (0, b"", [], 0)


async def test_sockets_and_slices_of_a_killed_process_are_replaced(rig: Rig, kubeconfig: Path) -> None:
    process = await run(rig, kubeconfig)
    await line(process, "serving")
    process.kill()
    await process.communicate()
    assert rig.sockets() == SOCKETS
    await rig.serve()
    assert (await rig.told("state"))["running"]
    await rig.end()
    assert (rig.sockets(), await rig.slices()) == ([], 0)


async def test_second_process_on_the_same_control_socket_is_rejected(rig: Rig, kubeconfig: Path) -> None:
    await rig.serve()
    second = await run(rig, kubeconfig)
    _, said = await asyncio.wait_for(second.communicate(), PATIENCE)
    assert (second.returncode, str(rig.socket) in said.decode()) == (2, True)
    assert (rig.sockets(), (await rig.told("state"))["running"]) == (SOCKETS, True)


async def test_second_driver_on_the_same_dra_socket_is_rejected(rig: Rig) -> None:
    await rig.serve()
    with pytest.raises(CommandError) as refused:
        await rig.serve(socket=rig.root / "other.sock")
    where = rig.root / "plugins" / DRIVER / "dra.sock"
    assert str(refused.value).startswith(f"driver {DRIVER} is already served at {where}; end that process, or")
    assert (rig.sockets(), await rig.slices(), (await rig.told("state"))["running"]) == (SOCKETS, 1, True)


async def test_stopped_driver_does_not_start_on_sockets_in_use(rig: Rig) -> None:
    await rig.serve()
    await rig.told("stop")
    other = rig.root / "other.sock"
    await rig.serve(socket=other)
    refused = await rig.ctl("start")
    assert (refused.code, DRIVER in refused.err) == (2, True)
    assert (await rig.told("state"))["running"] is False


class Slow(ApiServer):
    """It takes its time, so that others have theirs while a driver publishes."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        await asyncio.sleep(0.05)
        return await super().create(kind, obj)


async def test_only_one_of_two_processes_started_together_serves_a_driver(rig: Rig) -> None:
    api, other = Slow(), rig.root / "other.sock"
    begun = await asyncio.gather(rig.serve(api), rig.serve(api, socket=other), return_exceptions=True)
    (refused,) = (one for one in begun if isinstance(one, CommandError))
    assert DRIVER in str(refused)


async def test_two_instances_of_a_driver_run_side_by_side(rig: Rig) -> None:
    await rig.serve(instance="a")
    await rig.serve(instance="b", socket=rig.root / "other.sock")
    assert [name for name in rig.sockets() if name.endswith("-reg.sock")] == [
        f"plugins_registry/{DRIVER}-a-reg.sock",
        f"plugins_registry/{DRIVER}-b-reg.sock",
    ]


@pytest.mark.parametrize("there", ["a file", "a folder"])
async def test_file_or_directory_at_the_socket_path_is_not_replaced(rig: Rig, there: str) -> None:
    if there == "a file":
        rig.socket.write_text("precious")
    else:
        rig.socket.mkdir()
    with pytest.raises(CommandError, match=str(rig.socket)):
        await rig.serve()
    assert rig.sockets() == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"policy": "nobodys"}, "unknown policy 'nobodys'"),
        ({"catalogue": "nvida"}, "--catalogue: "),
        ({"driver_name": "x y"}, "--driver-name: "),
        ({"instance": "a/b"}, "--instance: "),
        ({"node_name": "Node A"}, "'Node A'"),
        ({"metrics_port": 70000}, "70000"),
        ({"annotation_prefix": "health/x"}, "--annotation-prefix must be a DNS name such as"),
        ({"socket": Path("/" + "x" * 120)}, "the socket path /xxx"),
    ],
)
async def test_invalid_options_are_rejected_before_the_start(rig: Rig, given: Object, words: str) -> None:
    with pytest.raises(CommandError) as refused:
        rig.settings(**given)
    assert words in str(refused.value)
    assert refused.value.code == 2


@pytest.mark.parametrize("instance", ["0f6c8f5e-9d5b-4f0e-8a53-6f1f8b1d9b11", "gpu-driver-x2x7k.example", "b", ""])
async def test_an_instance_may_be_called_by_the_uid_or_name_of_its_pod(rig: Rig, instance: str) -> None:
    assert [driver.instance for driver in rig.settings(instance=instance).drivers] == [instance]


async def test_all_errors_of_an_invalid_inventory_file_are_reported(rig: Rig) -> None:
    rig.file.write_text("format: inventory/v1\ndevices:\n  - {nam: gpu}\n  - {name: spare, count: many}\n")
    with pytest.raises(CommandError) as refused:
        rig.settings()
    assert [said.partition(": ")[0] for said in str(refused.value).splitlines()] == [str(rig.file)] * 3
    rig.file.unlink()
    with pytest.raises(CommandError, match=r"gpus.yaml cannot be read: No such file or directory"):
        rig.settings()


async def test_too_long_socket_path_gives_a_one_line_error(rig: Rig, kubeconfig: Path) -> None:
    process = await run(rig, kubeconfig, "--plugins-dir", str(rig.root / ("x" * 90)))
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, said.count(b"\n")) == (2, 1)
    assert said.decode().startswith(f"drahealth: the socket path {rig.root}/xxx")


async def test_a_mistyped_kubelet_directory_is_not_created(rig: Rig) -> None:
    missing = rig.root / "kubelt"
    with pytest.raises(CommandError, match=f"--kubelet-dir {missing} is not a directory; start the kubelet first"):
        rig.settings(kubelet_dir=missing)
    own = {name: missing / name for name in ("registry_dir", "plugins_dir", "device_plugins_dir")}
    assert rig.settings(kubelet_dir=missing, **own).drivers  # no directory of the kubelet is used
    assert not missing.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--kubeconfig", "/nowhere", "--kubelet-dir", "/tmp"), 3, "kubeconfig /nowhere: "),
        (("-f", "x.yaml"), 2, "x.yaml cannot be read: No such file or directory"),
        (("-f", "x.yaml", "--jumping-clock"), 2, "--jumping-clock and -f exclude each other"),
        (("--policy", "strict"), 2, "--policy needs an inventory file; pass one with -f"),
        (("--sped", "3"), 2, "unknown option --sped; did you mean --speed or --seed? see "),
    ],
)
async def test_invalid_arguments_give_a_one_line_error(
    rig: Rig, arguments: tuple[str, ...], code: int, words: str
) -> None:
    given = ("-f", str(rig.file), *arguments) if arguments[0] == "--kubeconfig" else arguments
    done = await run_async(FAKES, "driver", "serve", *given)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert done.stderr.startswith(f"drahealth: {words}")


# -- the API server


class Refusing(ApiServer):
    """It lets nobody publish."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        if kind == SLICES:
            raise ApiError(403, "Forbidden", "resourceslices is forbidden")
        return await super().create(kind, obj)


async def test_rejected_publish_fails_and_leaves_no_sockets(rig: Rig) -> None:
    with pytest.raises(CommandError) as refused:
        await rig.serve(Refusing())
    assert str(refused.value) == (f"driver {DRIVER} cannot publish its devices: Forbidden: resourceslices is forbidden")
    assert (refused.value.code, rig.sockets()) == (3, [])


async def test_start_rejected_by_the_api_server_exits_with_code_3(rig: Rig) -> None:
    rig.api = moody = Moody()
    await rig.serve()
    await rig.ctl("stop")
    for published in await moody.list(SLICES):
        await moody.delete(SLICES, published["metadata"]["name"])
    moody.refuses = True
    assert await rig.ctl("start") == Said(3, "", "drahealth: Forbidden: resourceslices is forbidden\n")


class Silent(ApiServer):
    """It never answers who publishes."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        if kind == SLICES:
            await asyncio.Event().wait()
        return await super().create(kind, obj)


async def test_program_ends_at_once_while_waiting_for_the_api_server(rig: Rig) -> None:
    program, told = Program(rig.settings(), Silent(), News()), asyncio.Event()
    running = asyncio.create_task(program.run(told))
    await until(lambda: (rig.root / "plugins_registry").is_dir(), PATIENCE)
    told.set()
    await asyncio.wait_for(running, PATIENCE)
    assert rig.sockets() == []


class Moody(ApiServer):
    """It lets drivers publish, until it does not."""

    refuses = False

    async def create(self, kind: Kind, obj: Object) -> Object:
        if self.refuses:
            raise ApiError(403, "Forbidden", f"{kind.plural} is forbidden")
        return await super().create(kind, obj)


async def test_rejected_republish_affects_no_health_and_is_retried(rig: Rig) -> None:
    rig.api = moody = Moody()
    await rig.serve()
    moody.refuses = True
    (published,) = await moody.list(SLICES)
    await moody.delete(SLICES, published["metadata"]["name"])
    await rig.told("inject", fault="xid/79", device="gpu-0")
    assert ((await rig.health())["gpu-0"], await rig.slices()) == ("Unhealthy", 0)
    moody.refuses = False
    async with asyncio.timeout(PATIENCE), aclosing(moody.watch(SLICES)) as changes:
        assert (await anext(changes)).type == "ADDED"
    assert (await rig.health())["gpu-0"] == "Unhealthy"


async def test_program_starts_without_the_api_server_and_publishes_later(rig: Rig) -> None:
    rig.api.down()
    await rig.serve()
    await rig.told("inject", fault="xid/79", device="gpu-0")
    assert (await rig.health())["gpu-0"] == "Unhealthy"
    rig.api.up()
    async with asyncio.timeout(PATIENCE):
        async for event in rig.api.watch(SLICES):
            assert event.object["spec"]["driver"] == DRIVER
            break
    assert (await rig.health())["gpu-0"] == "Unhealthy"


async def test_exit_without_the_api_server_logs_the_slices_left_behind(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.serve()
    rig.api.down()
    await rig.end()
    rig.api.up()
    assert (rig.sockets(), await rig.slices()) == ([], 1)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        f"driver {DRIVER} cannot delete its ResourceSlices"
    ]


async def test_stale_control_socket_is_replaced(rig: Rig) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(rig.socket))
    assert (await rig.ctl("status")).code == 3
    await rig.serve()
    assert await until(lambda: rig.socket.is_socket())
