"""The experiments on device plugins, with fake plugins in this process."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from drahealth.fakes.control.fake_options import PluginOptions
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.waiting import poll
from drahealth.proto.events import (
    GrpcCall,
    KubeletSwitched,
    ListReceived,
    RegistrationFailed,
    SocketRemoved,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.services import KUBELET_SOCKET, REGISTER, VERSION
from drahealth.proto.sockets import is_served, target
from drahealth.proto.values import PluginDevice
from drahealth.suites.driver_checks.device_plugins.devices_experiments import (
    allocation,
    container_start,
    list_and_watch,
    preferred_allocation,
)
from drahealth.suites.driver_checks.device_plugins.fault_plan_experiments import PluginBench
from drahealth.suites.driver_checks.device_plugins.kubelet import RegisteredPlugin
from drahealth.suites.driver_checks.device_plugins.registration_experiments import (
    kubelet_of,
    plugin_kubelet_restart,
    plugin_registration,
    refused_plugin,
    remove_sockets,
    removed_socket,
)
from drahealth.suites.driver_checks.experiments import Incomplete, NotApplicable
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.registration_experiments import REFUSAL
from drahealth.suites.driver_checks.scripted_kubelet import ACCEPT, PAUSE
from drahealth.suites.unit.driver_checks.lab_rig import LabRig
from drahealth.suites.unit.endings import PATIENCE

RESOURCE, OTHER = "example.com/gpu", "example.com/nic"
DEVICES = ("gpu-0", "gpu-1", "gpu-2")
REGISTERED = ["GetDevicePluginOptions OK", "Register OK"]
FOUND = ["GetInfo OK", "GetDevicePluginOptions OK", "NotifyRegistrationStatus OK"]


class PluginRig(LabRig):
    """A lab with a device plugin."""

    def __init__(self) -> None:
        super().__init__()
        self.one_lab = self.lab()

    async def device_plugin(self, resource: str = RESOURCE, **options: Any) -> FakeDevicePlugin:
        """A started device plugin with three devices."""
        places = self.places
        folders = {"plugins_dir": str(places.device_plugins_dir), "registry_dir": str(places.registry_dir)}
        given: dict[str, Any] = {**folders, "data_dir": str(places.plugins_dir / "plugin"), **options}
        devices = tuple(given.pop("devices", DEVICES))
        plugin = FakeDevicePlugin(PluginOptions(resource, devices, **given), clock=self.clock)
        self._closing.append(plugin.stop)
        await plugin.start()
        return plugin

    async def close(self) -> None:
        await self.one_lab.subject.kept.aclose()
        await super().close()

    def story(self) -> list[str]:
        """What was recorded since the last call, in words."""
        words = [word for event in self.events if (word := _word(event))]
        self.events.clear()
        return words


def _word(event: object) -> str:
    match event:
        case GrpcCall(method=method, code=code):
            return f"{method.rpartition('/')[2]} {code}"
        case KubeletSwitched(running=running):
            return "kubelet up" if running else "kubelet down"
        case ListReceived(devices=devices):
            return f"{len(devices)} devices"
        case StreamOpened() | StreamClosed() | SocketRemoved() | RegistrationFailed():
            return event.event
    return ""


@pytest.fixture
async def rig() -> AsyncIterator[PluginRig]:
    rig = PluginRig()
    yield rig
    await rig.close()


@pytest.fixture
def lab(rig: PluginRig) -> Lab:
    return rig.one_lab


@pytest.mark.parametrize(("way", "calls"), [("kubelet.sock", REGISTERED), ("plugins_registry", FOUND)])
async def test_plugin_registers_in_both_ways(rig: PluginRig, lab: Lab, way: Any, calls: list[str]) -> None:
    await rig.device_plugin(registration=way)
    await plugin_registration(lab)
    assert rig.story() == ["kubelet up", *calls]
    assert [one.way for one in await lab.facts.device_plugins] == [way]


async def test_plugin_that_does_not_register_is_incomplete(rig: PluginRig, lab: Lab) -> None:
    async with rig.time_flies():
        with pytest.raises(Incomplete):
            await plugin_registration(lab)
    assert rig.story() == ["kubelet up", "registration-failed"]


async def test_second_stream_opens_after_the_first_one_ended(rig: PluginRig, lab: Lab) -> None:
    await rig.device_plugin()
    await plugin_registration(lab)
    rig.story()
    async with rig.time_flies():
        await list_and_watch(lab)
    assert rig.story() == ["stream-opened", "3 devices", "stream-closed"] * 2


@pytest.mark.parametrize(("devices", "calls"), [(("gpu-0", "gpu-1"), 5), (("gpu-0",), 3)])
async def test_allocation_makes_fewer_calls_with_one_device(
    rig: PluginRig, lab: Lab, devices: tuple[str, ...], calls: int
) -> None:
    await rig.device_plugin(devices=devices)
    await plugin_registration(lab)
    lab.facts.plugin_devices.set_result({RESOURCE: tuple(map(PluginDevice, devices))})
    rig.story()
    await allocation(lab)
    assert rig.story() == ["Allocate OK"] * (calls - 1) + ["Allocate NOT_FOUND"]


@pytest.mark.parametrize("experiment", [preferred_allocation, container_start])
async def test_optional_calls_are_made_only_if_they_are_advertised(rig: PluginRig, lab: Lab, experiment: Any) -> None:
    await rig.device_plugin()
    await plugin_registration(lab)
    lab.facts.plugin_devices.set_result({RESOURCE: tuple(map(PluginDevice, DEVICES))})
    with pytest.raises(NotApplicable):
        await experiment(lab)


async def test_advertised_calls_are_made(rig: PluginRig, lab: Lab) -> None:
    await rig.device_plugin(preferred=("gpu-1",), pre_start=True)
    await plugin_registration(lab)
    lab.facts.plugin_devices.set_result({RESOURCE: tuple(map(PluginDevice, DEVICES))})
    rig.story()
    await preferred_allocation(lab)
    await container_start(lab)
    assert rig.story() == ["GetPreferredAllocation OK"] * 6 + ["Allocate OK", "PreStartContainer OK"]


@pytest.mark.parametrize(("way", "calls"), [("kubelet.sock", REGISTERED), ("plugins_registry", FOUND)])
async def test_plugin_registers_with_a_restarted_kubelet(rig: PluginRig, lab: Lab, way: Any, calls: list[str]) -> None:
    await rig.device_plugin(registration=way)
    await plugin_registration(lab)
    rig.story()
    async with rig.time_flies():
        await plugin_kubelet_restart(lab)
    listed = ["stream-opened", "3 devices", "stream-closed", "Allocate OK"]
    assert rig.story() == ["kubelet down", "kubelet up", *calls, *listed]


async def test_refused_plugin_registers_with_the_next_kubelet(rig: PluginRig, lab: Lab) -> None:
    await rig.device_plugin()
    async with rig.time_flies():
        await refused_plugin(lab)
    refused = ["GetDevicePluginOptions OK", "Register INVALID_ARGUMENT"]
    assert rig.story() == ["kubelet up", *refused, "kubelet down", "kubelet up", *REGISTERED]


async def test_socket_is_removed_while_a_stream_is_open(rig: PluginRig, lab: Lab) -> None:
    await rig.device_plugin()
    await removed_socket(lab)
    removed = ["stream-opened", "3 devices", "socket-removed"]
    assert rig.story()[:6] == ["kubelet up", *REGISTERED, *removed]
    assert (rig.places.device_plugins_dir / "example.com_gpu.sock").is_socket()


async def test_registration_before_the_socket_was_removed_does_not_count(rig: PluginRig, lab: Lab) -> None:
    kubelet = await kubelet_of(lab)
    endpoint = (await rig.device_plugin()).endpoint
    plugin = await kubelet.answered()
    await register_again(rig, plugin)
    async with rig.time_flies():
        await remove_sockets(lab, kubelet, [plugin])
    assert is_served(endpoint)


async def test_pending_registration_receives_the_answer_set_at_its_start(rig: PluginRig, lab: Lab) -> None:
    kubelet = await kubelet_of(lab)
    await rig.device_plugin()
    plugin = await kubelet.answered()
    kubelet.answer = REFUSAL
    again = asyncio.create_task(register_again(rig, plugin))
    await poll(
        lambda: len(rig.happened(GrpcCall)) == 3, PAUSE, PATIENCE, rig.clock
    )  # it was asked for its options again
    kubelet.answer = ACCEPT
    rig.clock.jump(REFUSAL.delay)
    with pytest.raises(grpc.aio.AioRpcError):
        await again


async def register_again(rig: PluginRig, plugin: RegisteredPlugin) -> None:
    """Calls Register for a plugin once more. Raises AioRpcError."""
    request = REGISTER.request(version=VERSION, endpoint=plugin.endpoint.name, resource_name=plugin.resource)
    async with grpc.aio.insecure_channel(target(rig.places.device_plugins_dir / KUBELET_SOCKET)) as channel:
        await REGISTER.stub(channel)(request)


async def test_stream_is_opened_again_when_a_plugin_registers_once_more(rig: PluginRig, lab: Lab) -> None:
    kubelet = await kubelet_of(lab)
    await rig.device_plugin()
    plugin = await kubelet.answered()
    bench = PluginBench(lab, kubelet, [plugin])
    await bench.open()
    await register_again(rig, plugin)
    await poll(lambda: len(rig.happened(ListReceived)) == 2, PAUSE, PATIENCE, rig.clock)
    await bench.close()
    stream = ["stream-opened", "3 devices", "stream-closed"]
    assert rig.story() == ["kubelet up", *REGISTERED, *stream[:2], *REGISTERED, stream[-1], *stream]


async def test_device_is_allocated_again_while_it_breaks(rig: PluginRig, lab: Lab) -> None:
    kubelet = await kubelet_of(lab)
    await rig.device_plugin()
    bench = PluginBench(lab, kubelet, [await kubelet.answered()])
    rig.story()
    async with rig.time_flies(), bench.allocating([Device(RESOURCE, "gpu-1")]):
        await poll(lambda: len(rig.happened(GrpcCall)) == 3, PAUSE, PATIENCE, rig.clock)
    assert set(rig.story()) == {"Allocate OK"}


async def test_each_resource_of_a_process_is_listed_and_allocated(rig: PluginRig, lab: Lab) -> None:
    for resource in (RESOURCE, OTHER):
        await rig.device_plugin(resource)
    await plugin_registration(lab)
    async with rig.time_flies():
        await list_and_watch(lab)
    rig.story()
    await allocation(lab)
    assert {one.resource for one in await lab.facts.device_plugins} == {RESOURCE, OTHER}
    assert [event.driver for event in rig.events if isinstance(event, GrpcCall)] == [RESOURCE] * 5 + [OTHER] * 5


async def test_each_resource_registers_with_a_restarted_kubelet(rig: PluginRig, lab: Lab) -> None:
    for resource in (RESOURCE, OTHER):
        await rig.device_plugin(resource)
    await plugin_registration(lab)
    async with rig.time_flies():
        await plugin_kubelet_restart(lab)
    assert "registration-failed" not in rig.story()
