"""The kubelet of a device plugin: registrations, calls, streams, and the relay to a real kubelet."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import grpc
import grpc.aio

from drahealth.fakes.sockets import ServedSocket
from drahealth.fakes.waiting import cancel_and_wait, poll, within
from drahealth.manager.calls import PluginCalls, malformed_received, next_stream, path_text
from drahealth.manager.device_plugins import API, CALL_LIMIT
from drahealth.manager.plugin import describe_end
from drahealth.manager.registration import DIAL_LIMIT, KubeletSocket, Refused
from drahealth.proto.clock import Clock
from drahealth.proto.events import KubeletSwitched, ListReceived, Observe, StreamClosed, StreamOpened
from drahealth.proto.plain_messages import undecoded_list
from drahealth.proto.services import (
    ALLOCATE,
    DEVICE_PLUGIN,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    KUBELET_SOCKET,
    LIST_AND_WATCH,
    PRE_START_CONTAINER,
    REGISTER,
    VERSION,
    MalformedMessage,
    Method,
    Unary,
)
from drahealth.proto.sockets import check_path, is_served, target
from drahealth.proto.values import PluginDevice
from drahealth.suites.driver_checks.device_plugins.observed import registration_problem
from drahealth.suites.driver_checks.evidence import CANCELLED_BY_US
from drahealth.suites.driver_checks.experiments import Incomplete, Process
from drahealth.suites.driver_checks.scripted_kubelet import (
    ACCEPT,
    PAUSE,
    REPORTS_LIMIT,
    Answer,
    Discovery,
    Found,
    Registrar,
    connected,
    registrar,
)
from drahealth.suites.driver_checks.subject.places import Places
from drahealth.suites.errors import HarnessError

# A registered device plugin, and what a kubelet requires of a registration. Values.

Way = Literal["kubelet.sock", "plugins_registry"]
"""How a plugin registers: it calls the kubelet's socket, or the kubelet finds its registration socket."""


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A device plugin after its registration, with its options."""

    resource: str
    endpoint: Path
    """Socket of the DevicePlugin service."""
    way: Way
    has_preference: bool = False
    """Whether it advertises GetPreferredAllocation."""
    wants_pre_start: bool = False
    """Whether it requires PreStartContainer."""


# The calls of a kubelet to a device plugin. A call that fails raises nothing; failures are events.


class Unanswered(Exception):
    """A call failed; the message says how."""


class PluginClient:
    """The unary calls of one connection."""

    def __init__(
        self, channel: grpc.aio.Channel, clock: Clock, observe: Observe, endpoint: Path, resource: str
    ) -> None:
        self._call = PluginCalls(channel, clock, observe, endpoint, resource)

    async def options(self) -> Any:
        """DevicePluginOptions. Raises Unanswered."""
        return await self._ask(GET_OPTIONS, GET_OPTIONS.request())

    async def allocate(self, *containers: Sequence[str]) -> bool:
        """Allocates the devices of each container; returns whether the call succeeded."""
        requests = [{"devices_ids": list(devices)} for devices in containers]
        return await self._succeeds(ALLOCATE, ALLOCATE.request(container_requests=requests))

    async def prefer(self, *wanted: tuple[Sequence[str], Sequence[str], int]) -> bool:
        """Asks for preferred devices: for each container the available ones, those to include, and the number."""
        requests = [
            {"available_deviceIDs": available, "must_include_deviceIDs": included, "allocation_size": size}
            for available, included, size in wanted
        ]
        request = GET_PREFERRED_ALLOCATION.request(container_requests=requests)
        return await self._succeeds(GET_PREFERRED_ALLOCATION, request)

    async def pre_start(self, devices: Sequence[str]) -> bool:
        """Announces the start of a container; returns whether the call succeeded."""
        return await self._succeeds(PRE_START_CONTAINER, PRE_START_CONTAINER.request(devices_ids=devices))

    async def _succeeds(self, method: Unary[Any, Any], request: Any) -> bool:
        try:
            await self._ask(method, request)
        except Unanswered:
            return False
        return True

    async def _ask(self, method: Unary[Any, Any], request: Any) -> Any:
        try:
            return await self._call(method, request, CALL_LIMIT)
        except grpc.aio.AioRpcError as error:
            raise Unanswered(describe_end(error)) from None
        except MalformedMessage as malformed:
            raise Unanswered(str(malformed)) from None


@asynccontextmanager
async def plugin_client(
    endpoint: Path, resource: str, clock: Clock, observe: Observe
) -> AsyncGenerator[PluginClient, None]:
    """A connection of its own to a plugin. Raises ValueError for an invalid path."""
    async with connected(endpoint) as channel:
        yield PluginClient(channel, clock, observe, endpoint, resource)


async def served(endpoint: Path, clock: Clock) -> bool:
    """Whether a server listens at the endpoint, within the time in which a kubelet must be connected."""
    return await poll(lambda: is_served(endpoint), PAUSE, DIAL_LIMIT, clock)


# One ListAndWatch stream, as a kubelet opens it.


class ListStream:
    """A stream from `listed` to its end."""

    def __init__(self, channel: grpc.aio.Channel, clock: Clock, observe: Observe, plugin: RegisteredPlugin) -> None:
        self.first: asyncio.Future[tuple[PluginDevice, ...]] = asyncio.get_running_loop().create_future()
        self.latest: tuple[PluginDevice, ...] = ()
        """The last list."""
        self._clock = clock
        self._observe = observe
        self._plugin = plugin
        self._channel = channel
        self._task = asyncio.create_task(self._read(), name=f"ListAndWatch of {plugin.resource}")

    async def devices(self, limit: float) -> tuple[PluginDevice, ...] | None:
        """The first list; None if it does not come within the limit, or if the stream ends before."""
        try:
            await within(self._clock, limit, self._first_or_end())
        except TimeoutError:
            return None
        return self.first.result() if self.first.done() else None

    async def cancel(self) -> None:
        """Ends the stream; no effect if it has ended."""
        await cancel_and_wait(self._task)

    async def _first_or_end(self) -> None:
        waits: list[asyncio.Future[Any]] = [self.first, self._task]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)

    async def _read(self) -> None:
        resource, endpoint, stream = self._plugin.resource, path_text(self._plugin.endpoint), next_stream()
        self._observe(StreamOpened(resource, "", stream, API, endpoint))
        responses = LIST_AND_WATCH.stub(self._channel)(LIST_AND_WATCH.request())
        count, why, code = 0, CANCELLED_BY_US, "CANCELLED"
        try:
            async for response in responses:
                devices = tuple(PluginDevice(device.ID, device.health) for device in response.devices)
                more = undecoded_list(response)
                self._observe(ListReceived(resource, endpoint, stream, responses.size, devices, more))
                self.latest = devices
                if not self.first.done():
                    self.first.set_result(devices)
                count += 1
                if count >= REPORTS_LIMIT:
                    why = f"{CANCELLED_BY_US} after {count} lists"
                    return
            why, code = "ended by the plugin", "OK"
        except grpc.aio.AioRpcError as error:
            why, code = describe_end(error), error.code().name
        except MalformedMessage as malformed:
            self._observe(malformed_received(resource, self._plugin.endpoint, stream, malformed))
            why, code = str(malformed), ""
        finally:
            responses.cancel()
            self._observe(StreamClosed(resource, "", stream, why, endpoint, code))


@asynccontextmanager
async def listed(plugin: RegisteredPlugin, clock: Clock, observe: Observe) -> AsyncGenerator[ListStream, None]:
    """A stream on a connection of its own; it is cancelled at the end."""
    async with connected(plugin.endpoint) as channel:
        stream = ListStream(channel, clock, observe, plugin)
        try:
            yield stream
        finally:
            await stream.cancel()


# The kubelet of a device plugin: it accepts or refuses registrations, answers late, and restarts.

DOWN = 2.0
"""Seconds between the stop and the start of a kubelet that restarts."""


class DevicePluginKubelet:
    """Serves kubelet.sock, and looks for registration sockets, until it is stopped."""

    def __init__(self, label: Process, places: Places, clock: Clock, observe: Observe) -> None:
        self.answer: Answer = ACCEPT
        """The answer to each registration."""
        self.refusal = ""
        """Why it refused the last registration, apart from `answer`; empty if it refused none since its start."""
        self.refused_at = 0.0
        """When."""
        self._label = label
        self._places = places
        self._clock = clock
        self._observe = observe
        self._socket = KubeletSocket(places.device_plugins_dir, self._called, clock, observe, logs=False)
        self._answered: asyncio.Queue[RegisteredPlugin] = asyncio.Queue()
        self._search: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Removes the sockets of all device plugins, as a starting kubelet does, and serves. Raises HarnessError."""
        self.refusal = ""
        await self._socket.start()
        if not self._socket.path.exists():
            raise HarnessError(f"cannot serve {self._socket.path}", "set TMPDIR to a short path on a local disk")
        self._observe(KubeletSwitched(self._label, running=True))
        self._search = asyncio.create_task(self._find())

    async def stop(self) -> None:
        """Stops to serve; no effect if it does not run."""
        search, self._search = self._search, None
        if search:
            await cancel_and_wait(search)
            await self._socket.stop()
            self._socket.path.unlink(missing_ok=True)
            self._observe(KubeletSwitched(self._label, running=False))

    async def restart(self) -> None:
        """Stops, and starts again. Registrations from before no longer count."""
        await self.stop()
        await self._clock.sleep(DOWN)
        self.forget()
        await self.start()

    def forget(self) -> None:
        """Registrations from before no longer count."""
        while not self._answered.empty():
            self._answered.get_nowait()

    async def answered(self) -> RegisteredPlugin:
        """The next plugin whose registration was answered: accepted, or refused by `answer`."""
        return await self._answered.get()

    async def _called(self, resource: str, endpoint: Path, version: str) -> None:
        """Handles a call of Register. Raises Refused."""
        answer = self.answer  # an experiment can change it before the delay has passed
        plugin = await self._accepted(RegisteredPlugin(resource, endpoint, "kubelet.sock"), version)
        await self._clock.sleep(answer.delay)
        self._answered.put_nowait(plugin)
        if not answer.registered:
            raise Refused(answer.error)

    async def _find(self) -> None:
        """Registers the plugin of the first registration socket in the other directory."""
        known: set[Any] = set()
        while True:
            discovery = Discovery(
                self._places.registry_dir,
                self._clock,
                self._observe,
                suits=lambda socket: socket not in known,
                kind=DEVICE_PLUGIN,
            )
            found = await discovery.find(DIAL_LIMIT, lambda: None)
            if found:
                known.add(found.socket)
            if found and found.info is not None and found.info.type == DEVICE_PLUGIN:
                async with registrar(found.socket, self._clock, self._observe) as calls:
                    await self._found(found, calls)

    async def _found(self, found: Found, calls: Registrar) -> None:
        info = found.info
        endpoint = self._places.outside(Path(info.endpoint)) if info.endpoint else found.socket.path
        described = RegisteredPlugin(info.name, endpoint, "plugins_registry")
        try:
            plugin = await self._accepted(described, *info.supported_versions)
        except Refused as refused:
            await calls.notify(Answer(registered=False, error=str(refused)))
            return
        await calls.notify(self.answer)
        self._answered.put_nowait(plugin)

    async def _accepted(self, plugin: RegisteredPlugin, *versions: str) -> RegisteredPlugin:
        """The plugin with its options, if its registration is valid. Raises Refused."""
        try:
            if problem := registration_problem(plugin.resource, *versions):
                raise Refused(problem)
            return await self._described(plugin)
        except Refused as refused:
            self.refusal, self.refused_at = str(refused), self._clock.now()
            raise

    async def _described(self, plugin: RegisteredPlugin) -> RegisteredPlugin:
        """The plugin with its options: a kubelet connects, and asks for them. Raises Refused."""
        try:
            check_path(plugin.endpoint)
        except ValueError as error:
            raise Refused(f"invalid endpoint: {error}") from None
        if not await served(plugin.endpoint, self._clock):
            raise Refused(f"no server listens at endpoint {plugin.endpoint.name} within {DIAL_LIMIT:g} s")
        async with plugin_client(plugin.endpoint, plugin.resource, self._clock, self._observe) as client:
            try:
                options = await client.options()
            except Unanswered as error:
                raise Refused(f"GetDevicePluginOptions of {VERSION} failed: {error}") from None
        return RegisteredPlugin(
            plugin.resource,
            plugin.endpoint,
            plugin.way,
            has_preference=options.get_preferred_allocation_available,
            wants_pre_start=options.pre_start_required,
        )


# Passes the calls of a real kubelet on to a device plugin, and records them.
#
# A device plugin can expect one ListAndWatch stream at a time, so drahealth does not open a second one beside that of
# the kubelet.

_REGISTER_LIMIT = 60.0
"""Seconds for the kubelet to answer Register: it connects to the plugin meanwhile."""

Handler = Callable[[Any, Any], Coroutine[Any, Any, Any]]


class Relay:
    """A socket in the directory of a kubelet, behind which is a device plugin."""

    def __init__(self, plugin: RegisteredPlugin, folder: Path, name: str, clock: Clock, observe: Observe) -> None:
        """`folder` has the socket of the kubelet; `name` is unique there."""
        self._plugin = plugin
        self._clock = clock
        self._observe = observe
        self._folder = folder
        unary = (GET_OPTIONS, GET_PREFERRED_ALLOCATION, ALLOCATE, PRE_START_CONTAINER)
        functions: dict[Method, Any] = {method: self._passing(method) for method in unary}
        functions[LIST_AND_WATCH] = self._lists
        self._socket = ServedSocket(folder / f"{name}.sock", folder / f".{name}", functions)
        self._opened = AsyncExitStack()
        self._channel: grpc.aio.Channel | None = None

    async def start(self) -> None:
        """Connects to the plugin, serves the socket, and registers at the kubelet. Raises Incomplete."""
        self._channel = await self._opened.enter_async_context(connected(self._plugin.endpoint))
        await self._socket.start()
        fields: dict[str, Any] = {
            "version": VERSION,
            "endpoint": self._socket.path.name,
            "resource_name": self._plugin.resource,
        }
        async with grpc.aio.insecure_channel(target(self._folder / KUBELET_SOCKET)) as kubelet:
            try:
                await REGISTER.stub(kubelet)(REGISTER.request(**fields), timeout=_REGISTER_LIMIT)
            except grpc.aio.AioRpcError as error:
                raise Incomplete(f"the kubelet refused the registration: {describe_end(error)}") from None

    async def stop(self) -> None:
        """Ends the socket, and the connection to the plugin."""
        self._socket.remove()
        await self._socket.stop()
        await self._opened.aclose()

    def _passing(self, method: Unary[Any, Any]) -> Handler:
        async def handle(request: Any, context: Any) -> Any:
            assert self._channel, "not started"
            plugin = self._plugin
            call = PluginCalls(self._channel, self._clock, self._observe, plugin.endpoint, plugin.resource)
            try:
                return await call(method, request, CALL_LIMIT)
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")
            except MalformedMessage as malformed:
                await context.abort(grpc.StatusCode.INTERNAL, str(malformed))

        return handle

    async def _lists(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:
        assert self._channel, "not started"
        resource, endpoint, stream = self._plugin.resource, path_text(self._plugin.endpoint), next_stream()
        self._observe(StreamOpened(resource, "", stream, API, endpoint))
        responses = LIST_AND_WATCH.stub(self._channel)(request)
        why, code = CANCELLED_BY_US, "CANCELLED"
        try:
            async for response in responses:
                devices = tuple(PluginDevice(device.ID, device.health) for device in response.devices)
                more = undecoded_list(response)
                self._observe(ListReceived(resource, endpoint, stream, responses.size, devices, more))
                yield response
            why, code = "ended by the plugin", "OK"
        except grpc.aio.AioRpcError as error:
            why, code = describe_end(error), error.code().name
            await context.abort(error.code(), error.details() or "")
        except MalformedMessage as malformed:
            self._observe(malformed_received(resource, self._plugin.endpoint, stream, malformed))
            why, code = str(malformed), ""
            await context.abort(grpc.StatusCode.INTERNAL, str(malformed))
        finally:
            responses.cancel()
            self._observe(StreamClosed(resource, "", stream, why, endpoint, code))
