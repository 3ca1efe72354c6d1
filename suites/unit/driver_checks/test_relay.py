"""A device plugin behind a relay, with the reference as the kubelet."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from drahealth.fakes.control.fake_options import PluginOptions
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.manager.calls import Context
from drahealth.manager.device_plugins import DevicePluginManager
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import Event, GrpcCall, ListReceived, StreamClosed
from drahealth.proto.values import AdmissionError
from drahealth.suites.driver_checks.device_plugins.kubelet import RegisteredPlugin, Relay
from drahealth.suites.driver_checks.evidence import CANCELLED_BY_US
from drahealth.suites.driver_checks.experiments import Incomplete
from drahealth.suites.unit.driver_checks.lab_rig import LabRig

RESOURCE = "example.com/gpu"


class RelayRig(LabRig):
    """A device plugin, a kubelet in other directories, and the relay between them."""

    def __init__(self) -> None:
        super().__init__()
        self.plugin_dir, root = self.places.device_plugins_dir, self.places.plugins_dir / "k"
        self.kubelet = DevicePluginManager(root, Context())
        self.kubelet_dir = root / "device-plugins"
        self.changed = asyncio.Event()
        self.kubelet.subscribe_to_amounts(self.changed.set)
        self.closed = asyncio.get_running_loop().create_future()
        """How the stream to the plugin ended."""

    async def start(self) -> FakeDevicePlugin:
        """The device plugin, which serves its socket."""
        await self.kubelet.start()
        self._closing.append(self.kubelet.close)
        data_dir = str(self.places.plugins_dir / "d")
        options = PluginOptions(RESOURCE, ("gpu-0", "gpu-1"), plugins_dir=str(self.plugin_dir), data_dir=data_dir)
        plugin = FakeDevicePlugin(options, clock=SystemClock())
        self._closing.append(plugin.stop)
        await plugin.start()
        return plugin

    def observe(self, event: Event) -> None:
        """Keeps an event of the relay."""
        self.events.append(event)
        if isinstance(event, StreamClosed):
            self.closed.set_result(event.why)

    async def listed(self) -> None:
        """Waits until the kubelet has the list."""
        while self.kubelet.amounts()[RESOURCE].allocatable < 2:
            await self.changed.wait()
            self.changed.clear()

    async def relay(self, resource: str = RESOURCE) -> Relay:
        """A started relay."""
        plugin = RegisteredPlugin(resource, self.plugin_dir / "example.com_gpu.sock", "kubelet.sock")
        relay = Relay(plugin, self.kubelet_dir, "r0", SystemClock(), self.observe)
        self._closing.append(relay.stop)
        await relay.start()
        return relay


@pytest.fixture
async def rig() -> AsyncIterator[RelayRig]:
    rig = RelayRig()
    yield rig
    await rig.close()


async def test_kubelet_lists_and_allocates_through_the_relay(rig: RelayRig) -> None:
    plugin = await rig.start()
    await rig.relay()
    await rig.listed()
    await rig.kubelet.allocate("pod", {"main": {RESOURCE: 1}})
    calls = [event.method.rpartition("/")[2] for event in rig.events if isinstance(event, GrpcCall)]
    lists = [len(event.devices) for event in rig.events if isinstance(event, ListReceived)]
    assert (calls, lists, (await plugin.state()).streams) == (["GetDevicePluginOptions", "Allocate"], [2], 1)


async def test_error_of_the_plugin_reaches_the_kubelet(rig: RelayRig) -> None:
    plugin = await rig.start()
    await rig.relay()
    await rig.listed()
    await plugin.stop()
    with pytest.raises(AdmissionError):
        await rig.kubelet.allocate("pod", {"main": {RESOURCE: 1}})


async def test_relay_refused_by_the_kubelet_is_incomplete(rig: RelayRig) -> None:
    await rig.start()
    with pytest.raises(Incomplete, match="refused"):
        await rig.relay("kubernetes.io/gpu")


async def test_stopped_relay_cancels_the_stream_of_the_plugin(rig: RelayRig) -> None:
    await rig.start()
    relay = await rig.relay()
    await rig.listed()
    await relay.stop()
    assert await rig.closed == CANCELLED_BY_US
