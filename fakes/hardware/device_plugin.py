"""A fake device plugin: registers, lists its devices, and allocates them. Commands and faults change the list."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from drahealth.fakes.control.commands import (
    Crash,
    Register,
    Reset,
    RestartDevicePlugin,
    Retire,
    Start,
    Stop,
    UnregisterDevicePlugin,
    WaitRegistered,
)
from drahealth.fakes.control.definition import Devices, handles
from drahealth.fakes.control.fake_options import PluginControl, PluginOptions
from drahealth.fakes.control.replies import ListedDevice, PluginState
from drahealth.fakes.control.without_subcommand import (
    EndLists,
    GetListedDevices,
    GetPluginState,
    HoldLists,
    ReleaseLists,
    Remove,
    Restore,
    SetListedHealth,
)
from drahealth.fakes.faults.catalogue import policy
from drahealth.fakes.hardware import driver_instance
from drahealth.fakes.hardware.devices import plugin_options
from drahealth.fakes.hardware.failing import DeviceState, FailingDevices, FaultHandlers, Machine
from drahealth.fakes.hardware.plugin_list import Allocations, KubeletRegistration, PluginList, Response, ResponseQueue
from drahealth.fakes.hardware.registered import FakeNode, Registered, names_of
from drahealth.fakes.inventory import devices as cdi
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.sockets import ServedSocket
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto import events
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import CANCELLED, Observe
from drahealth.proto.services import (
    ALLOCATE,
    GET_INFO,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    LIST_AND_WATCH,
    NOTIFY_REGISTRATION,
    PRE_START_CONTAINER,
    REGISTER,
    VERSION,
    Method,
)
from drahealth.proto.sockets import SocketInUse, is_served

_serial = count(1)
_STOPPED = "the plugin has stopped"

log = logging.getLogger(__name__)


class FakeDevicePlugin(FaultHandlers, PluginControl, Registered):
    """A fake device plugin in this process.

    Enter it with `async with`: it is registered inside, and nothing of it is left afterwards.
    docs/reference/commands.md lists its commands.
    """

    def __init__(self, options: PluginOptions, *, clock: Clock | None = None, observe: Observe = events.ignore) -> None:
        self.options = options
        self._observe = observe
        self._ids = options.ids
        self._by_id = frozenset(self._ids.values())
        self._inventory = options.all_devices
        self._list = PluginList(options.resource, options.devices)
        machine = Machine(self._inventory, options.catalogue, policy(options.policy))
        self.failing = FailingDevices(
            machine, self._ids, seed=options.seed, clock=clock or SystemClock(), on_change=self._apply_states
        )
        self._waiting: dict[str, ResponseQueue] = {}
        self._calls: dict[asyncio.Task[Any], ResponseQueue] = {}
        self._allocations = Allocations(options)
        self._registered = asyncio.Event()
        self._registration_error = ""
        self._running = False
        self._lists_are_held = False
        self._registering: asyncio.Task[None] | None = None
        self._counts = counts = driver_instance.CallCounts(driver_instance.PLUGIN)
        self.sockets = options.sockets
        self.endpoint, *registration = options.sockets
        self._plugin = _socket(self.endpoint, self._plugin_methods(), counts)
        methods: dict[Method, Any] = {GET_INFO: self._get_info, NOTIFY_REGISTRATION: self._notified}
        self._registration = _socket(registration[0], methods, counts) if registration else None

    @classmethod
    def for_node(
        cls,
        node: FakeNode,
        devices: Sequence[str] | Inventory = ("gpu-0",),
        *,
        resource: str = "example.com/gpu",
        observe: Observe = events.ignore,
        **options: Any,
    ) -> "FakeDevicePlugin":
        """Create a device plugin for this node with Healthy devices. `options` are other fields of PluginOptions.

        Raises ValueError for invalid options.
        """
        folders = {"plugins_dir": str(node.device_plugins_dir), "registry_dir": str(node.registry_dir)}
        folders["data_dir"] = str(node.plugins_dir / resource.replace("/", "_"))
        given: dict[str, Any] = {"resource": resource, **folders, **options}
        if isinstance(devices, Inventory):
            made = plugin_options(devices, **given)
        else:
            made = PluginOptions(devices=names_of(devices), **given)
        return cls(made, clock=node.clock, observe=observe)

    def __str__(self) -> str:
        return f"device plugin {self.options.resource}"

    @property
    def calls(self) -> Mapping[str, int]:
        """Number of calls by method path."""
        return self._counts.calls

    @property
    def known(self) -> tuple[ListedDevice, ...]:
        """The state of all devices."""
        return self._list.all()

    @property
    def streams(self) -> int:
        """Number of open ListAndWatch streams."""
        return len(self._waiting)

    # -- commands

    @handles(Start)
    async def _start(self, command: Start) -> None:
        if self._running:
            return
        for free in filter(None, (self._plugin, self._registration)):
            free.check_free()  # before any write to shared files
        self._running = True
        self._registered.clear()
        try:
            await self._open()
        except BaseException:
            await self.retire()
            raise

    @handles(Stop)
    async def _stop(self, command: Stop) -> None:
        if self._registration:
            self._registration.remove()
        self._plugin.remove()
        await self.crash()

    @handles(RestartDevicePlugin)
    async def _restart(self, command: RestartDevicePlugin) -> None:
        await self.stop()
        await self.start()

    @handles(Register)
    async def _register_again(self, command: Register) -> None:
        if not self._running:
            raise ValueError(f"device plugin {self.options.resource} does not run; start it first")
        self._registered.clear()
        if self._registration:
            await self._registration.stop()
            await self._registration.start()
        else:
            await self._stop_registering()
            self._start_registering()

    @handles(UnregisterDevicePlugin)
    async def _unregister(self, command: UnregisterDevicePlugin) -> None:
        if not self._registration:
            raise ValueError(f"device plugin {self.options.resource} has no socket in the registration directory")
        self._registered.clear()
        self._observe(events.Unregistered(self.options.resource, self.options.instance))
        self._registration.remove()
        await self._registration.stop()

    @handles(Crash)
    async def _crash(self, command: Crash) -> None:
        self._running = False
        self._registered.clear()
        for stream in list(self._waiting):  # before a kubelet can report the end
            self._closed(stream, _STOPPED)
        await self._stop_registering()
        await self.failing.suspend()
        if self._registration:
            await self._registration.stop()
        await self._plugin.stop()
        await self._end_calls()

    @handles(Retire)
    async def _retire(self, command: Retire) -> None:
        await self.stop()
        if self.options.cdi_dir and self.options.cdi_kind and not is_served(self.endpoint):
            cdi.remove(Path(self.options.cdi_dir), self.options.cdi_kind, self.options.instance)
        if self._registration:
            self._leave_folder()

    @handles(WaitRegistered)
    async def _wait_registered(self, command: WaitRegistered) -> None:
        await self._registered.wait()

    @handles(SetListedHealth)
    async def _set_health(self, command: SetListedHealth) -> None:
        command.health.encode()
        self._list.set(command.health, *self._named(command.device))
        self._send(self._list.response())

    @handles(Remove)
    async def _remove(self, command: Remove) -> None:
        self._list.remove(*self._named(command.device))
        self._send(self._list.response())

    @handles(Restore)
    async def _restore(self, command: Restore) -> None:
        self._list.restore(*self._named(command.device))
        self._send(self._list.response())

    @handles(EndLists)
    async def _end_lists(self, command: EndLists) -> None:
        for waiting in self._waiting.values():
            waiting.end()

    @handles(HoldLists)
    async def _hold_lists(self, command: HoldLists) -> None:
        self._lists_are_held = True

    @handles(ReleaseLists)
    async def _release_lists(self, command: ReleaseLists) -> None:
        self._lists_are_held = False
        self._send(self._list.response())

    @handles(Reset)
    async def _reset(self, command: Reset) -> None:
        self.failing.reset()
        if self._list.reset():
            self._send(self._list.response())

    @handles(GetListedDevices)
    async def _get_devices(self, query: GetListedDevices) -> tuple[ListedDevice, ...]:
        return self.known

    @handles(GetPluginState)
    async def _get_state(self, query: GetPluginState) -> PluginState:
        return PluginState(
            running=self._running,
            registered=self._registered.is_set(),
            registration_error=self._registration_error,
            listed=tuple(device.id for device in self._list.response()),
            streams=self.streams,
            allocated=tuple(self._allocations.allocated.newest),
            started=tuple(self._allocations.started.newest),
            faults=self.failing.faults(),
            instance=self.options.instance,
            allocations=self._allocations.allocated.count,
            starts=self._allocations.started.count,
        )

    def _named(self, devices: Devices) -> list[str]:
        """The ids of these devices, of a divided one those of its partitions. Raises ValueError."""
        words = [devices] if isinstance(devices, str) else devices
        found = dict[str, None]()
        for word in words:
            paths = [] if word in self._by_id else self._inventory.named(word)
            inside = (path for named in paths for path in self._inventory.reached(named, "device"))
            found.update(
                dict.fromkeys([word] if word in self._by_id else [self._ids[p] for p in inside if p in self._ids])
            )
        return list(found)

    # -- lifecycle

    async def _open(self) -> None:
        o = self.options
        if o.cdi_dir and o.cdi_kind:
            named = {id_: self._inventory[path] for path, id_ in self._ids.items()}
            cdi.write(Path(o.cdi_dir), o.cdi_kind, o.resource, o.instance, named)
        await self._plugin.start()
        if self._registration:
            await self._registration.start()
        else:
            self._start_registering()
        self.failing.resume()

    async def _end_calls(self) -> None:
        """Ends the ListAndWatch calls, and waits for them. gRPC logs an error for calls that a closing loop cancels."""
        for waiting in self._calls.values():
            waiting.end()
        if self._calls:
            await asyncio.wait([*self._calls])

    def _leave_folder(self) -> None:
        with suppress(OSError):  # another process has files in it
            Path(self.options.data_dir).rmdir()

    # -- registration

    def _start_registering(self) -> None:
        self._registering = asyncio.create_task(self._register(), name=f"device plugin {self.options.resource}")

    async def _stop_registering(self) -> None:
        task, self._registering = self._registering, None
        if task:
            await cancel_and_wait(task)

    def _register(self) -> Coroutine[Any, Any, None]:
        o = self.options
        request = REGISTER.request(
            version=VERSION, endpoint=self.endpoint.name, resource_name=o.resource, options=self._plugin_options()
        )
        return KubeletRegistration(
            Path(o.plugins_dir), request, self._is_served, self._on_result, lambda: self._plugin.has_file
        ).run()

    async def _is_served(self) -> bool:
        """Whether the plugin is served. Restores a socket that a kubelet removed, unless another process uses it."""
        if self._plugin.has_file:
            return True
        await self._plugin.stop()
        try:
            await self._plugin.start()
        except (SocketInUse, OSError) as error:
            if self._registration_error != str(error):
                log.warning("device plugin %s is no longer served: %s", self.options.resource, error)
                self._on_result(False, str(error))
            return False
        return True

    def _on_result(self, ok: bool, error: str) -> None:
        self._registration_error = error
        if ok:
            self._registered.set()
        self._observe(events.Registered(self.options.resource, self.options.instance, ok, error))

    async def _get_info(self, request: Any, context: Any) -> Any:
        endpoint = str(self.endpoint)
        return GET_INFO.response(
            type="DevicePlugin", name=self.options.resource, endpoint=endpoint, supported_versions=[VERSION]
        )

    async def _notified(self, request: Any, context: Any) -> Any:
        self._on_result(request.plugin_registered, request.error)
        return NOTIFY_REGISTRATION.response()

    # -- the gRPC service

    def _plugin_methods(self) -> dict[Method, Any]:
        return {
            GET_OPTIONS: self._get_options,
            LIST_AND_WATCH: self._list_and_watch,
            GET_PREFERRED_ALLOCATION: self._allocations.prefer,
            ALLOCATE: self._allocations.allocate,
            PRE_START_CONTAINER: self._allocations.pre_start,
        }

    def _plugin_options(self) -> Any:
        o = self.options
        return GET_OPTIONS.response(
            pre_start_required=o.pre_start, get_preferred_allocation_available=bool(o.preferred)
        )

    async def _get_options(self, request: Any, context: Any) -> Any:
        return self._plugin_options()

    async def _list_and_watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        resource, instance = self.options.resource, self.options.instance
        stream = f"{resource}#{next(_serial)}"
        self._waiting[stream] = waiting = ResponseQueue(*(() if self._lists_are_held else (self._list.response(),)))
        if call := asyncio.current_task():
            self._calls[call] = waiting
            call.add_done_callback(self._calls.pop)
        self._observe(events.StreamOpened(resource, instance, stream, f"{VERSION}.DevicePlugin"))
        try:
            while (devices := await waiting.take()) is not None:
                self._observe(events.DevicesListed(resource, instance, stream, devices))
                yield LIST_AND_WATCH.response(devices=[{"ID": d.id, "health": d.health} for d in devices])
            self._closed(stream, "ended by the plugin" if self._running else _STOPPED)
        finally:
            self._closed(stream, CANCELLED if self._running else _STOPPED)

    def _closed(self, stream: str, why: str) -> None:
        if self._waiting.pop(stream, None) is not None:
            self._observe(events.StreamClosed(self.options.resource, self.options.instance, stream, why))

    def _apply_states(self, states: Mapping[str, DeviceState]) -> None:
        self._send(self._list.change({self._ids[path]: state for path, state in states.items()}))

    def _send(self, response: Response) -> None:
        for waiting in () if self._lists_are_held else self._waiting.values():
            waiting.put(response)


def _socket(path: Path, methods: Mapping[Method, Any], counts: driver_instance.CallCounts) -> ServedSocket:
    return ServedSocket(path, path.with_name(f".{path.name}"), methods, interceptors=(counts,))
