"""A fake device plugin, controlled in this process or over a stream, and a kubelet's end of its sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio
import pytest

from drahealth.fakes.control.fake_options import KEPT, PluginControl, PluginOptions
from drahealth.fakes.control.remote import ControlFailed
from drahealth.fakes.control.replies import PluginState
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.sockets import ServedSocket
from drahealth.proto.events import Registered, StreamClosed, StreamOpened
from drahealth.proto.services import (
    ALLOCATE,
    GET_INFO,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    LIST_AND_WATCH,
    NOTIFY_REGISTRATION,
    PRE_START_CONTAINER,
    REGISTER,
)
from drahealth.proto.sockets import SocketInUse, target
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.driver_rig import Rig
from drahealth.suites.unit.manager.pod_world import until

RESOURCE = "example.com/gpu"
SOCKET = "device-plugins/example.com_gpu.sock"


def options(rig: Rig, **how: Any) -> PluginOptions:
    folders = {"registry_dir": str(rig.root / "registry"), "data_dir": str(rig.root / "data")}
    given: dict[str, Any] = {"resource": RESOURCE, "devices": ("gpu-0", "gpu-1"), **folders, **how}
    return PluginOptions(plugins_dir=str(rig.root / "device-plugins"), **given)


@pytest.fixture(params=["here", "there"])
async def plugin(rig: Rig, request: pytest.FixtureRequest) -> PluginControl:
    """A plugin, not started; told what to do in this process, or over a stream."""
    made = options(rig, preferred=("gpu-1",), cdi_kind="example.com/gpu")
    if request.param == "here":
        here = FakeDevicePlugin(made, observe=rig.events.append)
        rig.on_close(here.stop)
        return here
    host = await rig.host()
    return await host.make_plugin(made, lambda record: rig.events.append(record.what))


class Kubelet:
    """The kubelet's registration socket; answers with an error if it has one, and not at all if it hangs."""

    def __init__(self, rig: Rig, *, hangs: bool = False) -> None:
        folder = rig.root / "device-plugins"
        self.asked: asyncio.Queue[Any] = asyncio.Queue()
        self.error = ""
        self.hangs = hangs
        lock = folder / (".hanging" if hangs else ".kubelet")
        self.socket = ServedSocket(folder / "kubelet.sock", lock, {REGISTER: self._register})
        rig.on_close(self.socket.stop)

    async def _register(self, request: Any, context: Any) -> Any:
        self.asked.put_nowait(request)
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.error)
        return REGISTER.response()

    async def is_asked(self) -> Any:
        return await asyncio.wait_for(self.asked.get(), PATIENCE)


@asynccontextmanager
async def lists(rig: Rig) -> AsyncIterator[Any]:
    """The next list of the plugin, each time it is called. The plugin knows of its end when it is over."""
    async with grpc.aio.insecure_channel(target(rig.root / SOCKET)) as channel:
        responses = LIST_AND_WATCH.stub(channel)(LIST_AND_WATCH.request())
        reading = aiter(responses)

        async def following() -> dict[str, str]:
            response = await asyncio.wait_for(anext(reading), PATIENCE)
            return {device.ID: device.health for device in response.devices}

        yield following
        responses.cancel()
    await until(lambda: len(rig.happened(StreamClosed)) == len(rig.happened(StreamOpened)))


async def test_it_registers_with_the_kubelet_that_is_there(rig: Rig, plugin: PluginControl) -> None:
    kubelet = Kubelet(rig)
    await kubelet.socket.start()
    await plugin.start()
    asked = await kubelet.is_asked()
    assert (asked.version, asked.endpoint, asked.resource_name) == ("v1beta1", "example.com_gpu.sock", RESOURCE)
    await asyncio.wait_for(plugin.wait_registered(), PATIENCE)
    state = await plugin.state()
    assert (state.running, state.registered, rig.events) == (True, True, [Registered(RESOURCE, "", True)])


async def test_it_registers_again_with_a_kubelet_that_removed_its_socket(rig: Rig, plugin: PluginControl) -> None:
    await plugin.start()
    for _ in range(2):
        for path in (rig.root / "device-plugins").iterdir():
            path.unlink()
        kubelet = Kubelet(rig)
        await kubelet.socket.start()
        await kubelet.is_asked()
        assert (rig.root / SOCKET).is_socket()
        await kubelet.socket.stop()


async def test_it_serves_and_registers_again_when_its_socket_was_removed(rig: Rig, plugin: PluginControl) -> None:
    kubelet = Kubelet(rig)
    await kubelet.socket.start()
    await plugin.start()
    await kubelet.is_asked()
    (rig.root / SOCKET).unlink()
    await kubelet.is_asked()
    assert (rig.root / SOCKET).is_socket()


async def test_it_registers_with_the_next_kubelet_if_one_never_answers(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drahealth.fakes.hardware.plugin_list.REGISTER_TIMEOUT", 3600.0)
    plugin = FakeDevicePlugin(options(rig), observe=rig.events.append)
    rig.on_close(plugin.stop)
    hanging, kubelet = Kubelet(rig, hangs=True), Kubelet(rig)
    await hanging.socket.start()
    await plugin.start()
    await hanging.is_asked()
    (rig.root / "device-plugins/kubelet.sock").unlink()
    await kubelet.socket.start()
    await kubelet.is_asked()
    await asyncio.wait_for(plugin.wait_registered(), PATIENCE)


async def test_it_registers_again_without_a_restart(rig: Rig, plugin: PluginControl) -> None:
    kubelet = Kubelet(rig)
    await kubelet.socket.start()
    await plugin.start()
    await kubelet.is_asked()
    async with lists(rig) as following:
        await following()
        await plugin.register()
        await kubelet.is_asked()
        await plugin.set_health("gpu-0", "Unhealthy")
        assert await following() == {"gpu-0": "Unhealthy", "gpu-1": "Healthy"}


async def test_in_the_registry_directory_it_registers_again_with_a_new_socket(rig: Rig) -> None:
    plugin = FakeDevicePlugin(options(rig, registration="plugins_registry"))
    rig.on_close(plugin.stop)
    await plugin.start()
    before = (rig.root / "registry/example.com_gpu.sock").stat()
    await plugin.register()
    after = (rig.root / "registry/example.com_gpu.sock").stat()
    info = await rig.call(GET_INFO, "registry/example.com_gpu.sock")
    assert (info.name, after.st_mtime_ns > before.st_mtime_ns) == (RESOURCE, True)


async def test_a_plugin_that_does_not_run_cannot_register_again(plugin: PluginControl) -> None:
    with pytest.raises((ValueError, ControlFailed), match="does not run"):
        await plugin.register()


async def test_its_lists_end_without_an_error(rig: Rig, plugin: PluginControl) -> None:
    await plugin.start()
    async with lists(rig) as following:
        await following()
        await plugin.end_lists()
        with pytest.raises(StopAsyncIteration):
            await following()
    assert (await plugin.state()).running


async def test_held_lists_are_sent_at_their_release(rig: Rig, plugin: PluginControl) -> None:
    await plugin.start()
    await plugin.hold_lists()
    async with lists(rig) as following:
        await until(lambda: bool(rig.happened(StreamOpened)))
        await plugin.set_health("gpu-0", "Unhealthy")
        await plugin.set_health("gpu-1", "Unhealthy")
        await plugin.release_lists()
        assert await following() == {"gpu-0": "Unhealthy", "gpu-1": "Unhealthy"}


async def test_allocation_of_an_unknown_device_fails(rig: Rig, plugin: PluginControl) -> None:
    await plugin.start()
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await rig.call(ALLOCATE, SOCKET, container_requests=[{"devices_ids": ["gpu-0", "gpu-9"]}])
    assert (failed.value.code(), (await plugin.state()).allocations) == (grpc.StatusCode.NOT_FOUND, 0)


async def test_a_plugin_that_deregisters_runs_on_without_its_registration_socket(rig: Rig) -> None:
    plugin = FakeDevicePlugin(options(rig, registration="plugins_registry"))
    rig.on_close(plugin.stop)
    await plugin.start()
    await plugin.unregister()
    assert ((await plugin.state()).running, (rig.root / "registry/example.com_gpu.sock").exists()) == (True, False)
    await plugin.register()
    assert (await rig.call(GET_INFO, "registry/example.com_gpu.sock")).name == RESOURCE


async def test_a_plugin_without_a_registration_socket_cannot_deregister(plugin: PluginControl) -> None:
    with pytest.raises((ValueError, ControlFailed), match="no socket in the registration directory"):
        await plugin.unregister()


async def test_rejected_registration_shows_in_the_state(rig: Rig, plugin: PluginControl) -> None:
    kubelet = Kubelet(rig)
    kubelet.error = "no such resource"
    await kubelet.socket.start()
    await plugin.start()
    await until(lambda: bool(rig.events))
    state = await plugin.state()
    assert (state.registered, state.registration_error) == (False, "INVALID_ARGUMENT: no such resource")


async def test_a_list_follows_each_change(rig: Rig, plugin: PluginControl) -> None:
    await plugin.start()
    async with lists(rig) as following:
        assert await following() == {"gpu-0": "Healthy", "gpu-1": "Healthy"}
        await plugin.set_health("gpu-1", "on fire")
        assert await following() == {"gpu-0": "Healthy", "gpu-1": "on fire"}
        await plugin.remove("gpu-1")
        assert await following() == {"gpu-0": "Healthy"}
        await plugin.restore("gpu-1")
        assert await following() == {"gpu-0": "Healthy", "gpu-1": "on fire"}


async def test_allocate_calls_are_answered_and_recorded(rig: Rig, plugin: PluginControl) -> None:
    await plugin.start()
    wanted = {"available_deviceIDs": ["gpu-0", "gpu-1"], "allocation_size": 1}
    chosen = await rig.call(GET_PREFERRED_ALLOCATION, SOCKET, container_requests=[wanted])
    answer = await rig.call(ALLOCATE, SOCKET, container_requests=[{"devices_ids": ["gpu-1"]}])
    await rig.call(PRE_START_CONTAINER, SOCKET, devices_ids=["gpu-1"])
    asked = await rig.call(GET_OPTIONS, SOCKET)
    (given,) = answer.container_responses
    assert list(chosen.container_responses[0].deviceIDs) == ["gpu-1"]
    assert (dict(given.envs), given.cdi_devices[0].name) == ({"DEVICES": "gpu-1"}, "example.com/gpu=gpu-1")
    assert (asked.pre_start_required, asked.get_preferred_allocation_available) == (False, True)
    listed, once = ("gpu-0", "gpu-1"), (("gpu-1",),)
    assert await plugin.state() == PluginState(True, False, "", 0, once, once, listed, allocations=1, starts=1)


async def test_newest_calls_are_kept_and_all_are_counted(rig: Rig, plugin: PluginControl) -> None:
    await plugin.start()
    for number in range(KEPT + 2):
        wanted = [f"gpu-{number % 2}"]
        await rig.call(ALLOCATE, SOCKET, container_requests=[{"devices_ids": wanted}])
        await rig.call(PRE_START_CONTAINER, SOCKET, devices_ids=wanted)
    await rig.call(ALLOCATE, SOCKET, container_requests=[{"devices_ids": ["gpu-0", "gpu-1"]}])
    state, newest = await plugin.state(), (("gpu-0",), ("gpu-1",)) * (KEPT // 2)
    assert (state.allocations, state.allocated) == (KEPT + 3, (*newest[1:], ("gpu-0", "gpu-1")))
    assert (state.starts, state.started) == (KEPT + 2, newest)


@pytest.mark.parametrize(("end", "left"), [("stop", []), ("crash", [SOCKET]), ("retire", [])])
async def test_stopped_plugin_leaves_no_files(rig: Rig, plugin: PluginControl, end: str, left: list[str]) -> None:
    await plugin.start()
    await getattr(plugin, end)()
    assert (rig.sockets(), (await plugin.state()).running) == (left, False)


class OpensAStreamWhileItStops(FakeDevicePlugin):
    """A plugin whose kubelet opens a stream after the plugin began to stop."""

    kubelet: "asyncio.Task[object] | None" = None

    async def _stop_registering(self) -> None:
        if self.kubelet is None:
            self.kubelet = asyncio.create_task(self._reads_a_list())
            await until(lambda: self.streams == 1)
        await super()._stop_registering()

    async def _reads_a_list(self) -> None:
        async with grpc.aio.insecure_channel(target(self.endpoint)) as channel:
            with suppress(grpc.aio.AioRpcError):
                async for _ in LIST_AND_WATCH.stub(channel)(LIST_AND_WATCH.request()):
                    pass


async def test_stream_opened_while_the_plugin_stops_is_not_ended_by_the_kubelet(rig: Rig) -> None:
    plugin = OpensAStreamWhileItStops(options(rig), observe=rig.events.append)
    await plugin.start()
    await plugin.crash()
    assert plugin.kubelet
    await plugin.kubelet
    assert [event.why for event in rig.happened(StreamClosed)] == ["the plugin has stopped"]


async def test_stopped_plugin_has_no_call_that_still_runs(rig: Rig) -> None:
    plugin = FakeDevicePlugin(options(rig), observe=rig.events.append)
    await plugin.start()
    async with lists(rig) as following:
        await following()
        await plugin.stop()
        assert [task for task in asyncio.all_tasks() if "_schedule_rpc_coro" in repr(task)] == []


@pytest.mark.parametrize("call", ["set_health", "remove", "restore"])
async def test_unknown_device_is_rejected(plugin: PluginControl, call: str) -> None:
    more = {"health": "Healthy"} if call == "set_health" else {}
    with pytest.raises((ValueError, ControlFailed), match="gpu-7"):
        await getattr(plugin, call)(device="gpu-7", **more)


async def test_plugin_with_an_occupied_socket_reports_it_and_returns_later(rig: Rig) -> None:
    await Kubelet(rig).socket.start()
    plugin = FakeDevicePlugin(options(rig), observe=rig.events.append)
    rig.on_close(plugin.stop)
    await plugin.start()
    await asyncio.wait_for(plugin.wait_registered(), PATIENCE)
    for path in (rig.root / "device-plugins").iterdir():
        path.unlink()
    other = ServedSocket(rig.root / SOCKET, rig.root / ".other", {})
    await other.start()
    kubelet = Kubelet(rig)
    await kubelet.socket.start()
    await until(lambda: len(rig.events) == 2)
    other.remove()
    await other.stop()
    await until(lambda: len(rig.events) == 3)
    outcomes = [event for event in rig.events if isinstance(event, Registered)]
    assert ([event.ok for event in outcomes], str(rig.root / SOCKET) in outcomes[1].error) == (
        [True, False, True],
        True,
    )


async def test_plugin_can_start_after_a_failed_start(rig: Rig) -> None:
    other = ServedSocket(rig.root / SOCKET, rig.root / ".other", {})
    await other.start()
    plugin = FakeDevicePlugin(options(rig))
    rig.on_close(plugin.stop)
    with pytest.raises(SocketInUse):
        await plugin.start()
    assert not (await plugin.state()).running
    other.remove()
    await other.stop()
    await plugin.start()
    assert (rig.root / SOCKET).is_socket()


@pytest.mark.parametrize("registration", ["kubelet.sock", "plugins_registry"])
async def test_occupied_socket_is_rejected_and_left_unchanged(rig: Rig, registration: Any) -> None:
    made = options(rig, registration=registration, cdi_kind="example.com/gpu", cdi_dir=str(rig.root / "cdi"))
    first, second = (FakeDevicePlugin(made) for _ in range(2))
    for plugin in (first, second):
        rig.on_close(plugin.stop)
    await first.start()
    before = [rig.sockets(), [path.read_text() for path in (rig.root / "cdi").iterdir()]]
    with pytest.raises(SocketInUse):
        await second.start()
    await second.retire()
    assert [rig.sockets(), [path.read_text() for path in (rig.root / "cdi").iterdir()]] == before


async def test_plugin_in_the_registry_directory_answers_get_info(rig: Rig) -> None:
    plugin = FakeDevicePlugin(options(rig, registration="plugins_registry"), observe=rig.events.append)
    await plugin.start()
    info = await rig.call(GET_INFO, "registry/example.com_gpu.sock")
    await rig.call(NOTIFY_REGISTRATION, "registry/example.com_gpu.sock", plugin_registered=True)
    assert (info.type, info.name, list(info.supported_versions)) == ("DevicePlugin", RESOURCE, ["v1beta1"])
    assert (info.endpoint, rig.events) == (
        str(rig.root / "data" / "example.com_gpu.sock"),
        [Registered(RESOURCE, "", True)],
    )
    await plugin.retire()
    assert (rig.sockets(), (rig.root / "data").exists()) == ([], False)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"resource": "cpu"}, "'cpu'"),
        ({"registration": "plugins_registry", "data_dir": ""}, "needs registry_dir and data_dir"),
    ],
)
async def test_invalid_plugin_options_are_rejected(rig: Rig, how: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        options(rig, **how)
