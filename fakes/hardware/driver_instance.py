"""One instance of a fake driver: its sockets, registration, health streams, ResourceSlices, and counted calls."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio

from drahealth.fakes.cluster.api import ApiError, ListWatch
from drahealth.fakes.control.commands.without_subcommand import FailClaims
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.hardware.devices import Devices
from drahealth.fakes.hardware.fake_dra_plugin import FakeDraPlugin, PreparedClaims
from drahealth.fakes.inventory import devices as cdi
from drahealth.fakes.inventory.devices import Device
from drahealth.fakes.kubelet_plugin import Helper, Options, RegistrationStatus
from drahealth.fakes.kubelet_plugin.health_streams import HealthStreams
from drahealth.fakes.kubelet_plugin.services import LOCK_FILE
from drahealth.proto import events
from drahealth.proto.clock import Clock
from drahealth.proto.device_plugin import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    LIST_AND_WATCH,
    PRE_START_CONTAINER,
)
from drahealth.proto.events import Observe
from drahealth.proto.quoting import one_line
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, UNPREPARE, Method
from drahealth.proto.sockets import is_served

# Count the gRPC calls of a driver or a device plugin.

DRIVER: tuple[Method, ...] = (GET_INFO, NOTIFY_REGISTRATION, *PREPARE.values(), *UNPREPARE.values())
PLUGIN: tuple[Method, ...] = (
    GET_INFO,
    NOTIFY_REGISTRATION,
    GET_OPTIONS,
    LIST_AND_WATCH,
    GET_PREFERRED_ALLOCATION,
    ALLOCATE,
    PRE_START_CONTAINER,
)


class CallCounts(grpc.aio.ServerInterceptor):
    """Counts calls of these methods, by method path. Passes all calls on."""

    def __init__(self, counted: Iterable[Method] = DRIVER) -> None:
        self._counted = frozenset(method.path for method in counted)
        self.calls = Counter[str]()

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        if details.method in self._counted:
            self.calls[details.method] += 1
        return await continuation(details)


# One instance of a fake driver: its sockets, registration, health streams, ResourceSlices and files.
#
# In a rolling update two instances overlap. They share the devices and the prepared claims.

log = logging.getLogger(__name__)


class DriverInstance:
    """An instance; it can start again after it has stopped. Calls `on_status(self)` after each registration status.

    `requests` and `counts` count the calls of all instances of the driver. `claim_errors` and `registration_errors`
    have their errors by call.
    """

    def __init__(
        self,
        options: DriverOptions,
        devices: Devices,
        api: ListWatch,
        clock: Clock,
        observe: Observe,
        on_status: Callable[["DriverInstance"], None],
        requests: Counter[str],
        counts: CallCounts,
        claim_errors: Mapping[str, FailClaims],
        registration_errors: Mapping[str, str],
    ) -> None:
        self.options = options
        self.heartbeat = options.heartbeat
        self.serves_endpoint = True
        """Whether it serves the plugin's socket while it runs."""
        self.running = False
        self._served = False
        self.registered = False
        """A kubelet has registered this instance since its last start or stop."""
        self.notified = False
        """A kubelet has sent a registration status since the last start."""
        self.registration_error = ""
        self.prepared = PreparedClaims(Path(options.data_dir))
        self.health = HealthStreams(
            options.name, options.instance, devices.table, observe, self.prepared.devices, clock, options.seed, requests
        )
        self._devices = devices
        self._api = api
        self._clock = clock
        self._observe = observe
        self._on_status = on_status
        self._counts = counts
        self._registration_errors = registration_errors
        self._plugin = FakeDraPlugin(
            options, devices.ids(), self.prepared, observe, self.health.report_prepared, claim_errors
        )
        self._made_folder: bool | None = None
        self._dropped: ValueError | None = None
        self._helper = self._new_helper()
        self.endpoint = self._helper.options.plugin_socket

    @property
    def sockets(self) -> tuple[Path, Path]:
        """The plugin's socket and the registration socket."""
        return self.endpoint, self._helper.options.registration_socket

    # -- lifecycle

    def inherit(self, older: "DriverInstance") -> None:
        """Takes over the heartbeat and the folder of the older instance."""
        self.heartbeat = older.heartbeat
        self._made_folder = older._made_folder

    async def start(self) -> None:
        """Opens the sockets and publishes the devices. After ApiError, ValueError or OSError it is stopped again.

        Raises SocketInUse before any write if another process serves at its sockets.
        """
        self.registered = self.notified = False
        self.registration_error = ""
        helper = self._new_helper()
        helper.check_free()
        self._helper = helper
        self.running = True
        try:
            self._enter_folder()
            self.write_cdi()
            await self._publish_first()
            await self._helper.set_endpoint(served=self.serves_endpoint)
            await self._helper.start()
            self._served = True
        except BaseException:
            with suppress(ApiError):
                await self.retire()
            raise

    def unregister(self) -> None:
        """Removes only the registration socket."""
        self._leave()
        self._helper.unregister()

    def register_again(self) -> None:
        """Restores the registration socket, if the instance has started. Raises SocketInUse."""
        if self._served:
            self._helper.register_again()

    async def stop(self) -> None:
        """Stops in order; also removes sockets that a crash has left."""
        self.running = self._served = False
        self.unregister()
        await self._helper.stop()

    async def crash(self) -> None:
        """Ends at once, as after SIGKILL; the socket files stay."""
        self.running = self._served = False
        self._leave()
        await self._helper.crash()

    async def retire(self) -> None:
        """Stops permanently, and deletes its ResourceSlices unless another instance has written them since."""
        await self.stop()
        # Delete the files even without the API server, but not those of a process that serves the sockets now.
        if self.options.cdi_dir and not is_served(self.endpoint):
            cdi.remove(Path(self.options.cdi_dir), cdi.kind_of(self.options.name), self.options.instance)
        self._leave_folder()
        await self._helper.withdraw_resources()

    def detach(self) -> None:
        """Stops reporting changes of the devices."""
        self._devices.table.remove(self.health)

    # -- while it runs

    async def publish(self, *, new_generation: bool = False) -> None:
        """Publishes the devices. If the API server is unavailable, returns and publishes later.

        `new_generation`: increases the generation even if nothing has changed. Raises the error of the API server,
        and ValueError for fields that it dropped silently.
        """
        self._dropped = None
        taints = self._devices.taints
        self.publish_later(new_generation=new_generation)
        error = await self._helper.publish_attempted() or self._dropped
        if not error:
            self._devices.published_taints = taints
        elif not (isinstance(error, ApiError) and error.status == 503):
            raise error

    def publish_later(self, *, new_generation: bool = False) -> None:
        """Publishes the devices in the background."""
        self._helper.publish_resources(self._devices.pools(), new_generation=new_generation)

    async def stop_publishing(self) -> None:
        """Stops publishing; ResourceSlices stay for another instance."""
        await self._helper.stop_publishing()

    def set_heartbeat(self, seconds: float) -> None:
        """Sets the seconds between complete reports; 0: none."""
        self.heartbeat = seconds
        if self.running:
            self._helper.set_heartbeat(seconds)

    async def set_endpoint(self, *, served: bool) -> None:
        """Starts or stops serving the plugin's socket. Raises ValueError with one socket, and OSError."""
        await self._helper.set_endpoint(served=served)
        self.serves_endpoint = served

    def write_cdi(self) -> None:
        """Writes the CDI specification of the devices, and replaces that of another instance."""
        o = self.options
        if o.cdi_dir:
            named: dict[str, Device | None] = {device.name: device for device in self._devices.allocatable}
            shared: dict[str, Device | None] = {cdi.SHARED: None} if o.shared_cdi_id else {}
            cdi.write(Path(o.cdi_dir), cdi.kind_of(o.name), o.name, o.instance, {**named, **shared})

    # -- internals

    def _leave(self) -> None:
        if self.registered:
            self._observe(events.Unregistered(self.options.name, self.options.instance))
        self.registered = False

    async def _publish_first(self) -> None:
        """Publishes at the start. Drops taints that were set while stopped if the API server rejects them."""
        on_status, taken = self._devices.taints, self._devices.accepted_taints()
        try:
            await self.publish(new_generation=True)
        except (ApiError, ValueError) as error:
            if taken == on_status:
                raise
            self._devices.taints = taken
            try:
                await self.publish(new_generation=True)
            except BaseException:  # the taints are not the cause
                self._devices.taints = on_status
                raise
            for path, taints in on_status.items():
                for taint in (taint for taint in taints if taint not in taken.get(path, ())):
                    log.warning(
                        "driver %s starts without taint %s:%s of %s, which the API server rejected: %s",
                        *(self.options.name, taint.key, taint.effect, path, one_line(str(error), 500)),
                    )

    def _enter_folder(self) -> None:
        """Records whether to delete the folder at the end: it is new, or a killed instance left sockets in it."""
        folder = Path(self.options.data_dir)
        if self._made_folder is None:
            self._made_folder = not folder.exists() or any(folder.glob("dra*.sock"))

    def _leave_folder(self) -> None:
        """Removes its files, and the folder if a driver created it, unless another instance uses it."""
        if not any(Path(self.options.data_dir).glob("dra*.sock")):
            self.prepared.delete_file()
            (Path(self.options.data_dir) / LOCK_FILE).unlink(missing_ok=True)
        if self._made_folder:
            with suppress(OSError):
                Path(self.options.data_dir).rmdir()
        self._made_folder = None

    def _record_error(self, error: Exception) -> None:
        if isinstance(error, ValueError):
            self._dropped = error

    def _new_helper(self) -> Helper:
        """A new helper for the next start; a helper starts and stops once."""
        o = self.options
        options = Options(
            o.name,
            node_name=o.node,
            owned_by_node=False,
            api=self._api,
            registrar_dir=Path(o.registry_dir),
            plugin_data_dir=Path(o.data_dir),
            rolling_update=o.instance,
            dra_versions=tuple(version for version in o.dra_versions if version in PREPARE),
            health_apis=o.health_apis,
            served_health=o.served_health_apis,
            advertised=(*o.dra_versions, *o.health_apis),
            heartbeat=self.heartbeat,
            interceptors=(self._counts,),
            on_error=self._record_error,
            verbatim=True,
            main_pool=o.pool_name,
            plugin_type=o.plugin_type,
            one_socket=o.one_socket,
            registration_error=self._registration_error,
        )
        return Helper(self._plugin, options, clock=self._clock, health=self.health, on_status=self._notified)

    def _registration_error(self, call: str) -> str:
        error = self._registration_errors.get(call, "")
        if error:
            self._observe(events.RegistrationCallFailed(self.options.name, self.options.instance, call, error))
        return error

    def _notified(self, status: RegistrationStatus) -> None:
        self.notified = True
        self.registration_error = status.error
        self.registered = self.registered or status.plugin_registered
        o = self.options
        self._observe(events.Registered(o.name, o.instance, status.plugin_registered, status.error))
        self._on_status(self)
