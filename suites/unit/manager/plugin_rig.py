"""Device plugins on a node of the manager's tests, and pods that hold their devices."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from drahealth.fakes.control.fake_options import PluginOptions
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.sockets import ServedSocket
from drahealth.proto.services import ALLOCATE, GET_OPTIONS, LIST_AND_WATCH, REGISTER, VERSION, Method
from drahealth.proto.sockets import target
from drahealth.proto.values import Amount, Grant, PodClaims
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import Node, until

RESOURCE = "example.com/gpu"
PODS_CONTAINER = "main"


def plugin_of(
    node: Node, resource: str = RESOURCE, devices: tuple[str, ...] = ("gpu-0", "gpu-1"), **how: Any
) -> FakeDevicePlugin:
    """A fake device plugin that was not started yet."""
    folders: dict[str, Any] = {"registry_dir": str(node.registry), "data_dir": str(node.root / "plugins" / "dp")}
    options = PluginOptions(resource, devices, str(node.root / "device-plugins"), **folders, **how)
    plugin = FakeDevicePlugin(options, observe=node.events.append)
    node.on_close(plugin.stop)
    return plugin


async def run_plugin(node: Node, resource: str = RESOURCE, **how: Any) -> FakeDevicePlugin:
    """A fake device plugin that is registered, with its list taken."""
    plugin = plugin_of(node, resource, **how)
    await plugin.start()
    await listed(node, plugin)
    return plugin


async def listed(node: Node, plugin: FakeDevicePlugin) -> None:
    """The plugin is registered and its devices are the node's."""
    await asyncio.wait_for(plugin.wait_registered(), PATIENCE)
    await until(lambda: node.manager.amounts().get(plugin.options.resource, Amount(0, 0)).allocatable)


async def run_pod(node: Node, pod: str, count: int = 1, resource: str = RESOURCE) -> Grant:
    """A pod with one container that gets so many devices."""
    grants = await node.manager.allocate(pod, {PODS_CONTAINER: {resource: count}})
    return grants[PODS_CONTAINER]


def entries(node: Node, pod: str) -> dict[str, dict[str, str]]:
    """What the status of the pod's container would say now, by entry and device."""
    shown = node.manager.allocated_resources_status(pod, PodClaims({PODS_CONTAINER: ()}))
    found = shown.containers.get(PODS_CONTAINER, ())
    return {entry.name: {r.resource_id: str(r.health) for r in entry.resources} for entry in found}


def health(node: Node, pod: str, resource: str = RESOURCE) -> Mapping[str, str]:
    """The health of the pod's devices of the resource."""
    return entries(node, pod).get(resource, {})


class OddDevicePlugin:
    """A device plugin by hand: it lists messages or bytes until it ends with a text; each call may hang or fail."""

    def __init__(self, *lists: Any) -> None:
        self.lists = asyncio.Queue[Any]()
        for devices in lists:
            self.lists.put_nowait(devices)
        self.options: Any = GET_OPTIONS.response()
        self.opened = self.open = 0
        self.answer: Callable[[Any, Any], Awaitable[Any]] = self._grant
        self.allocating = asyncio.Event()
        self.more: dict[Method, Any] = {}

    @property
    def methods(self) -> dict[Method, Any]:
        return {GET_OPTIONS: self._get_options, LIST_AND_WATCH: self._list, ALLOCATE: self._allocate, **self.more}

    async def _get_options(self, request: Any, context: Any) -> Any:
        return self.options

    async def _list(self, request: Any, context: Any) -> Any:
        self.opened += 1
        self.open += 1
        try:
            while True:
                devices = await self.lists.get()
                if isinstance(devices, str):
                    await context.abort(grpc.StatusCode.ABORTED, devices)
                yield devices
        finally:
            self.open -= 1

    async def _allocate(self, request: Any, context: Any) -> Any:
        self.allocating.set()
        return await self.answer(request, context)

    async def _grant(self, request: Any, context: Any) -> Any:
        return ALLOCATE.response(container_responses=[{}])


def of(*ids: str, health: str = "Healthy") -> Any:
    """A list of these devices."""
    return LIST_AND_WATCH.response(devices=[{"ID": name, "health": health} for name in ids])


async def serve(node: Node, plugin: OddDevicePlugin, name: str = "odd.sock") -> ServedSocket:
    """Serves a plugin by hand beside the kubelet's socket."""
    folder = node.root / "device-plugins"
    served = ServedSocket(folder / name, folder / f".{name}", plugin.methods)
    await served.start()
    node.on_close(served.stop)
    return served


async def call_register(node: Node, **request: Any) -> str:
    """Registers at the kubelet's socket. Returns the error; empty if the kubelet accepted it."""
    asked = {"version": VERSION, "endpoint": "odd.sock", "resource_name": RESOURCE, **request}
    async with grpc.aio.insecure_channel(target(node.root / "device-plugins" / "kubelet.sock")) as channel:
        try:
            await REGISTER.stub(channel)(REGISTER.request(**asked), timeout=PATIENCE)
        except grpc.aio.AioRpcError as error:
            return str(error.details())
    return ""


async def run_odd(node: Node, *lists: Any) -> OddDevicePlugin:
    """A plugin by hand that is registered."""
    plugin = OddDevicePlugin(*lists)
    await serve(node, plugin)
    assert await call_register(node) == ""
    return plugin
