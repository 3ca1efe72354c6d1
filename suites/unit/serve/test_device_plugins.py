"""Device plugins served from a file, with or without drivers, controlled with `drahealth ctl`."""

import asyncio
import io
import json
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from drahealth.fakes.control.news import News
from drahealth.fakes.control.remote import ControlFailed, RemoteHost
from drahealth.fakes.control.replies import ListedDevice
from drahealth.fakes.control.wire import LINE_LIMIT, to_line
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.serve.live_view import LiveView
from drahealth.fakes.serve.program import Program
from drahealth.fakes.sockets import ServedSocket
from drahealth.proto.events import DeviceChanged, DevicesListed, DeviceUnlisted, Event, ReportSummary
from drahealth.proto.services import REGISTER
from drahealth.proto.values import PluginDevice
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.serve.rig import DRIVER, FILE, Rig, Said
from drahealth.suites.unit.serve.test_program import line
from drahealth.suites.unit.serve.test_sessions import ALMOST, ATTACH, JSON, USE, call

RESOURCE = "example.com/gpu"
SOCKET = "device-plugins/example.com_gpu.sock"
PLUGINS = """
plugins:
  - {resource: example.com/gpu, devices: [{name: gpu, count: 2}, {name: split, partitions: [{name: mig}]}]}
"""
ALONE = f"format: inventory/v1{PLUGINS}"
BOTH = FILE + PLUGINS
DONE = Said(0, "", "")
WELL = {"gpu-0": "Healthy", "gpu-1": "Healthy", "split-mig": "Healthy"}


@pytest.fixture
async def alone(rig: Rig) -> Rig:
    """A device plugin stands, and nothing else."""
    rig.file.write_text(ALONE)
    await rig.serve()
    return rig


class Kubelet:
    """The kubelet's registration socket."""

    def __init__(self, rig: Rig) -> None:
        folder = rig.root / "device-plugins"
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.socket = ServedSocket(folder / "kubelet.sock", folder / ".kubelet", {REGISTER: self._register})

    async def _register(self, request: Any, context: Any) -> Any:
        self.asked.put_nowait(request.endpoint)
        return REGISTER.response()


@pytest.fixture
async def kubelet(rig: Rig) -> AsyncIterator[Kubelet]:
    kubelet = Kubelet(rig)
    await kubelet.socket.start()
    yield kubelet
    await kubelet.socket.stop()


async def unlisted(rig: Rig) -> list[str]:
    return [device["device"] for device in await rig.told("devices", RESOURCE) if not device["listed"]]


# -- as a process


async def test_device_plugins_alone_need_no_api_server(rig: Rig, kubelet: Kubelet) -> None:
    rig.file.write_text(ALONE)
    where = ("--kubelet-dir", str(rig.root), "--socket", str(rig.socket), "--node-name", "node-a")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "drahealth.fakes", "driver", "serve", "-f", str(rig.file), *where),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    rig.processes.append(process)
    started, registered = await line(process, "driver-started"), await line(process, "registered")
    assert (started["driver"], started["devices"], registered["ok"]) == (RESOURCE, 3, True)
    process.send_signal(signal.SIGTERM)
    await line(process, "driver-retired")
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, said, (rig.root / SOCKET).exists()) == (0, b"", False)


async def test_plugin_registers_again_after_a_kubelet_restart(alone: Rig) -> None:
    for _ in range(2):
        for path in (alone.root / "device-plugins").iterdir():
            path.unlink()
        kubelet = Kubelet(alone)
        await kubelet.socket.start()
        assert await asyncio.wait_for(kubelet.asked.get(), PATIENCE) == "example.com_gpu.sock"
        assert (alone.root / SOCKET).is_socket()
        await kubelet.socket.stop()


async def test_drivers_and_device_plugins_begin_and_end_together(rig: Rig) -> None:
    rig.file.write_text(BOTH)
    await rig.serve()
    assert ({SOCKET, f"plugins/{DRIVER}/dra.sock"} <= set(rig.sockets()), await rig.slices()) == (True, 1)
    await rig.end()
    assert (rig.sockets(), await rig.slices()) == ([], 0)
    assert [name for name, told in rig.heard if told["event"] == "driver-retired"] == [RESOURCE, DRIVER]


async def test_no_driver_starts_when_a_device_plugin_fails_to_start(alone: Rig) -> None:
    heard = len(alone.heard)
    alone.file.write_text(BOTH)
    with pytest.raises(CommandError, match=RESOURCE):
        await alone.serve(alone.api, socket=alone.root / "other.sock")
    assert ([told["event"] for _, told in alone.heard[heard:]], await alone.slices()) == ([], 0)


async def test_second_device_plugin_on_the_same_socket_is_rejected(alone: Rig) -> None:
    with pytest.raises(CommandError) as refused:
        await alone.serve(socket=alone.root / "other.sock")
    assert (RESOURCE in str(refused.value), str(alone.root / SOCKET) in str(refused.value)) == (True, True)
    assert (await alone.told("state"))["running"]


async def test_a_plugin_that_stopped_is_not_registered(alone: Rig) -> None:
    await alone.told("stop")
    state = await alone.told("state")
    assert (state["running"], state["registered"]) == (False, False)


async def test_stopped_plugin_does_not_start_on_a_socket_in_use(alone: Rig) -> None:
    await alone.told("stop")
    await alone.serve(socket=alone.root / "other.sock")
    refused = await alone.ctl("start")
    assert (refused.code, "already served" in refused.err) == (2, True)
    assert (await alone.told("state"))["running"] is False


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pod_annotations": True}, "--pod-annotations "),
        ({"play": "x.timeline.yaml"}, "--play "),
    ],
)
async def test_driver_options_are_rejected_for_a_file_without_drivers(rig: Rig, given: Any, words: str) -> None:
    rig.file.write_text(ALONE)
    with pytest.raises(CommandError, match=words):
        rig.settings(**given)


# -- told by ctl


async def test_a_fault_is_injected_and_recovered_by_what_is_enough(alone: Rig) -> None:
    assert await alone.ctl("inject", "xid/95", "split") == DONE
    assert await alone.health() == {**WELL, "split-mig": "Unhealthy"}
    assert await alone.ctl("recover", "app-restart") == Said(1, "left: xid/95 on split\n", "")
    assert await alone.ctl("recover", "gpu-reset", "split") == Said(0, "cleared: xid/95 on split\n", "")
    assert await alone.health() == WELL


async def test_set_accepts_any_health_word_and_unlists_a_device(alone: Rig) -> None:
    assert await alone.ctl("set", "split/mig", "--health", "healthy", "--unlisted") == DONE
    assert (await alone.health(), await unlisted(alone)) == ({**WELL, "split-mig": "healthy"}, ["split-mig"])
    assert await alone.ctl("set", "split/mig", "--listed") == DONE
    assert await unlisted(alone) == []


async def test_clear_removes_one_fault_and_reset_removes_all(alone: Rig) -> None:
    await alone.ctl("inject", "xid/79", "gpu-0")
    await alone.ctl("inject", "xid/95", "gpu-1")
    assert (await alone.ctl("clear", "xid/95", "gpu-1"), await unlisted(alone)) == (DONE, ["gpu-0"])
    assert (await alone.ctl("reset"), await unlisted(alone)) == (DONE, [])
    assert (await alone.health(), (await alone.told("state"))["faults"]) == (WELL, {})


async def test_plugin_crashes_stops_and_starts_while_its_process_keeps_running(alone: Rig) -> None:
    for verb, left in (("crash", True), ("start", True), ("stop", False), ("restart", True)):
        assert await alone.ctl(verb) == DONE
        assert (verb, (alone.root / SOCKET).is_socket()) == (verb, left)
    assert (await alone.told("state"))["running"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("stream", "silence"),
            f"device plugin {RESOURCE} has no `stream silence`; it has inject, clear",
        ),
        (("taint", "gpu-0", "a/b"), f"device plugin {RESOURCE} has no `taint`"),
        (("upgrade",), f"device plugin {RESOURCE} has no `upgrade`"),
        (("restart", "--offer", "v1"), f"device plugin {RESOURCE}: `restart` has no option --offer"),
        (("unregister",), f"device plugin {RESOURCE} has no `unregister`"),
        (("set", "gpu-0", "--health", "x", "--message", "y"), f"device plugin {RESOURCE} has no --message"),
        (
            ("set", "--heartbeat", "3"),
            f"device plugin {RESOURCE} has no --heartbeat",
        ),
        (("set", "gpu-9", "--health", "x"), "'gpu-9'"),
        (("set", "gpu-0", "--health", "x", "--listed"), f"device plugin {RESOURCE} already lists gpu-0"),
        (("inject", "xid/97", "gpu-0"), "'xid/97'"),
        (("inject", "xid/79", "gpu-9"), "'gpu-9'"),
    ],
)
async def test_invalid_device_plugin_commands_give_a_one_line_error(
    alone: Rig, arguments: tuple[str, ...], words: str
) -> None:
    said = await alone.ctl(*arguments)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert words in said.err
    assert (await alone.health(), await unlisted(alone)) == (WELL, [])


async def test_unlisted_option_is_rejected_for_a_driver(rig: Rig) -> None:
    rig.file.write_text(BOTH)
    await rig.serve()
    which = await rig.ctl("set", "gpu-0", "--unlisted")
    refused = await rig.ctl("--driver", DRIVER, "set", "gpu-0", "--health", "Unknown", "--unlisted")
    assert (which.code, DRIVER in which.err, RESOURCE in which.err) == (2, True, True)
    assert refused.err == f"drahealth: driver {DRIVER} has no --listed and --unlisted; they are for device plugins\n"
    assert (await rig.ctl("--driver", RESOURCE, "set", "gpu-0", "--unlisted"), await unlisted(rig)) == (DONE, ["gpu-0"])


# -- shown


async def test_status_shows_health_and_listing_of_plugin_devices(rig: Rig) -> None:
    rig.file.write_text(BOTH)
    await rig.serve()
    await rig.told("inject", RESOURCE, fault="xid/79", device="gpu-1")
    shown = (await rig.ctl("status")).out.splitlines()
    first, second = json.loads((await rig.ctl("status", "--json")).out)["drivers"]
    assert (first["kind"], second["kind"], second["faults"]) == ("driver", "device-plugin", {"gpu-1": ["xid/79"]})
    assert shown[7] == f"{RESOURCE}, a device plugin: running, not registered"
    assert shown[8] == "health streams: 0, allocations so far: 0, devices: 2 Healthy, 1 Unhealthy"
    assert [row.split() for row in shown[10:12]] == [
        ["gpu-1", "Unhealthy", "no", "xid/79"],
        ["gpu-0", "Healthy", "yes"],
    ]


async def test_metrics_label_device_plugins_with_their_resource(rig: Rig, kubelet: Kubelet) -> None:
    rig.file.write_text(ALONE)
    await rig.serve(metrics_port=0)
    await until(lambda: any(told["event"] == "registered" for _, told in rig.heard), PATIENCE)
    await rig.told("inject", fault="xid/79", device="gpu-0")
    lines = (await rig.metrics()).splitlines()
    label = f'driver="{RESOURCE}"'
    for said in (
        f'drahealth_fake_devices{{{label},health="Unhealthy"}} 1.0',
        f'drahealth_fake_faults{{{label},fault="xid/79"}} 1.0',
        f'drahealth_fake_commands_total{{command="inject",{label}}} 1.0',
        f"drahealth_fake_listed_devices{{{label}}} 2.0",
        f"drahealth_fake_registered{{{label}}} 1.0",
    ):
        assert said in lines


async def test_the_live_view_has_device_plugins_too(rig: Rig) -> None:
    rig.file.write_text(BOTH)
    program = await rig.serve()
    view, out = LiveView(Console(width=160, height=40, file=io.StringIO())), io.StringIO()
    with view.shown(program.drivers, program.plugins):
        await rig.told("inject", RESOURCE, fault="xid/79", device="split/mig")
        await rig.told("set_health", RESOURCE, device="gpu-1", health="h\x1bt")
        await view.look()
        Console(width=160, file=out).print(view.view())
    lines = [" ".join(shown.split()) for shown in out.getvalue().splitlines()]
    assert f"{RESOURCE} not registered 0 none" in lines
    assert [shown for shown in lines if shown.startswith(f"{RESOURCE}/")] == [
        f"{RESOURCE}/gpu-1 h\\x1bt",
        f"{RESOURCE}/split-mig Unhealthy, not listed xid/79",
        f"{RESOURCE}/gpu-0 Healthy",
    ]


def test_observer_reports_changed_and_unlisted_devices_of_each_list() -> None:
    news, heard = News(), list[Event]()
    news.add(heard.append)
    observe = news.observer()
    for said in ({"a": "Healthy", "b": "Hot"}, {"b": "Hot"}, {"a": "Healthy", "b": "Healthy"}):
        devices = tuple(PluginDevice(id_, health) for id_, health in said.items())
        observe(DevicesListed(RESOURCE, "", "s", devices))
    assert heard == [
        ReportSummary(RESOURCE, 2, 1, "s", complete=True),
        DeviceChanged(RESOURCE, "b", "Hot"),
        ReportSummary(RESOURCE, 1, 0, "s", complete=True),
        DeviceUnlisted(RESOURCE, "a"),
        ReportSummary(RESOURCE, 2, 2, "s", complete=True),
        DeviceChanged(RESOURCE, "a", "Healthy"),
        DeviceChanged(RESOURCE, "b", "Healthy"),
    ]


# -- at the ends of connections


async def test_python_client_uses_a_running_device_plugin(alone: Rig) -> None:
    host = RemoteHost(lambda: asyncio.open_unix_connection(str(alone.socket), limit=LINE_LIMIT))
    plugin = await host.use_plugin(RESOURCE)
    await plugin.inject("xid/95", "gpu-1")
    assert (await plugin.devices())[1] == ListedDevice("gpu-1", "Unhealthy")
    with pytest.raises(ControlFailed, match=f"{RESOURCE} is a device-plugin, not a driver"):
        await host.use(RESOURCE)
    await host.close()
    assert (await alone.health())["gpu-1"] == "Unhealthy"


async def test_session_without_an_api_server_cannot_make_a_driver(rig: Rig) -> None:
    rig.file.write_text(ALONE)
    program = Program(rig.settings(), None, News())
    options = {"name": DRIVER, "node": "node-a", "devices": ["gpu-0"], "registry_dir": "/r", "data_dir": "/d"}
    told = asyncio.Event()
    running = asyncio.create_task(program.run(told))
    await until(rig.socket.is_socket, PATIENCE)
    async with rig.line() as ends:
        refused = await ends.asks(ATTACH, call(1, "make", None, options=options))
    told.set()
    await asyncio.wait_for(running, PATIENCE)
    assert refused["error"].startswith("a driver needs an API server; pass --kubeconfig")


CALLS = st.sampled_from(["inject", "clear", "recover", "set_health", "remove", "restore", "watch", "make_plugin"])


@given(st.fixed_dictionaries({**ALMOST, "call": CALLS}) | JSON)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_line_that_makes_no_sense_does_anything(alone: Rig, said: Any) -> None:
    async with alone.line() as ends:
        await ends.asks(ATTACH, USE)
        ends.writer.write(to_line(said))
        devices = await ends.asks(call(100, "devices"), until=lambda told: told["id"] == 100)
    assert [(device["health"], device["listed"]) for device in devices["result"]] == [("Healthy", True)] * 3
