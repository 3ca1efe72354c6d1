"""One instance of a fake driver: its sockets, registration, health streams, ResourceSlices, claims, calls."""

import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import grpc.aio

from drahealth.fakes.cluster.api import ApiError, ListWatch, Object
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.control.without_subcommand import FailClaims
from drahealth.fakes.hardware.devices import Devices
from drahealth.fakes.inventory import devices as cdi
from drahealth.fakes.inventory.devices import Device
from drahealth.fakes.kubelet_plugin import Helper, Options, RegistrationStatus
from drahealth.fakes.kubelet_plugin.health_streams import HealthStreams
from drahealth.fakes.kubelet_plugin.interface import Device as AnsweredDevice
from drahealth.fakes.kubelet_plugin.interface import NamespacedObject, PrepareResult
from drahealth.fakes.kubelet_plugin.services import LOCK_FILE
from drahealth.fakes.program.private_files import replace_file
from drahealth.proto import events
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe
from drahealth.proto.quoting import one_line
from drahealth.proto.services import (
    ALLOCATE,
    GET_INFO,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    LIST_AND_WATCH,
    NOTIFY_REGISTRATION,
    PRE_START_CONTAINER,
    PREPARE,
    UNPREPARE,
    Method,
)
from drahealth.proto.sockets import is_served
from drahealth.proto.values import DeviceId, PreparedDevice

# The prepared claims of a fake driver, in a file next to its socket.
#
# All instances of a driver share the file. So a newer instance in a rolling update, or a driver that restarts after a
# crash, knows the claims that were prepared before.

log = logging.getLogger(__name__)

Claims = dict[str, tuple[PreparedDevice, ...]]


class PreparedClaims:
    """Prepared devices by claim uid. An unreadable file counts as empty."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "prepared.json"

    def all(self) -> Claims:
        """The claims, in order of preparation."""
        try:
            found: Claims = _reader().validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("ignoring unreadable file %s: %s", self._path, str(error).splitlines()[0])
            return {}
        return found

    def devices(self) -> dict[tuple[str, str], PreparedDevice]:
        """The devices of all claims, by pool and name; a shared device has the requests of all its claims."""
        merged: dict[tuple[str, str], PreparedDevice] = {}
        for device in (device for devices in self.all().values() for device in devices):
            name = (device.id.pool, device.id.device)
            other = merged.get(name, replace(device, requests=(), cdi_ids=()))
            requests = _joined(other.requests, device.requests)
            merged[name] = replace(device, requests=requests, cdi_ids=_joined(other.cdi_ids, device.cdi_ids))
        return merged

    def add(self, uid: str, devices: Iterable[PreparedDevice]) -> None:
        """Records a prepared claim. Raises OSError."""
        self._write({**self.all(), uid: tuple(devices)})

    def remove(self, uid: str) -> None:
        """Removes a claim, if it is prepared. Raises OSError."""
        claims = self.all()
        if claims.pop(uid, None) is not None:
            self._write(claims)

    def delete_file(self) -> None:
        """Deletes the file."""
        self._path.unlink(missing_ok=True)

    def _write(self, claims: Claims) -> None:
        data = {uid: [asdict(device) for device in devices] for uid, devices in claims.items()}
        replace_file(self._path, json.dumps(data).encode())


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


@cache
def _reader() -> Any:
    from pydantic import TypeAdapter  # slow import, needed only after the first prepared claim

    return TypeAdapter(Claims)


# The claims part of a fake driver (`kubelet_plugin.interface.DRAPlugin`): it stores the prepared claims in a file.


class FakeDraPlugin:
    """Stores prepared claims for `devices` in `prepared`; calls `changed()` after each change.

    `errors` has what fails, by call: prepare, unprepare.
    """

    def __init__(
        self,
        options: DriverOptions,
        devices: Set[DeviceId],
        prepared: PreparedClaims,
        observe: Observe,
        changed: Callable[[], None],
        errors: Mapping[str, FailClaims],
    ) -> None:
        self._options = options
        self._devices = devices
        self._prepared = prepared
        self._observe = observe
        self._changed = changed
        self._errors = errors

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        if self._failure("prepare").omit:
            return {}
        results = {claim["metadata"]["uid"]: self._prepare(claim) for claim in claims}
        self._changed()
        return results

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        failure = self._failure("unprepare")
        if failure.omit or failure.error:
            return {} if failure.omit else {claim.uid: ValueError(failure.error) for claim in claims}
        for claim in claims:
            self._prepared.remove(claim.uid)
            self._observe(events.Unprepared(self._options.name, self._options.instance, claim.uid))
        self._changed()
        return {claim.uid: None for claim in claims}

    def _prepare(self, claim: Object) -> PrepareResult:
        uid = claim["metadata"]["uid"]
        results = claim["status"]["allocation"].get("devices", {}).get("results", [])
        own = [result for result in results if result["driver"] == self._options.name]
        if problem := self._failure("prepare").error or self._refusal(uid, own):
            return PrepareResult(error=ValueError(problem))
        devices = [device for result in own for device in self._returned(result)]
        self._prepared.add(uid, devices)
        names = tuple(device.id.device for device in devices)
        self._observe(events.Prepared(self._options.name, self._options.instance, uid, names))
        return PrepareResult(
            tuple(AnsweredDevice(d.id.pool, d.id.device, d.requests, d.cdi_ids, d.share_id) for d in devices),
        )

    def _failure(self, call: str) -> FailClaims:
        return self._errors.get(call, FailClaims(call))

    def _refusal(self, uid: str, results: Sequence[dict[str, Any]]) -> str:
        """Why devices cannot be prepared for this claim; empty if they can.

        Claims with admin access, and shares of a device, may use a device that another claim holds. A claim that is
        prepared stays so if a newer driver does not publish its devices.
        """
        prepared = self._prepared.all()
        held = {device.id for claim, devices in prepared.items() if claim != uid for device in devices}
        for result in results:
            device = DeviceId(self._options.name, result["pool"], result["device"])
            if device not in self._devices and uid not in prepared:
                return f"driver {device.driver} does not publish device {device.device} of pool {device.pool}"
            if device in held and not (result.get("adminAccess") or result.get("shareID")):
                return f"device {device.device} is prepared for another claim"
        return ""

    def _returned(self, result: dict[str, Any]) -> list[PreparedDevice]:
        """The prepared devices for an allocated device: itself, or its replacements in the options."""
        driver, request = self._options.name, (result["request"].split("/")[0],)
        if result["device"] not in self._options.returns:
            name = DeviceId(driver, result["pool"], result["device"])
            return [PreparedDevice(name, request, self._cdi_ids(result["device"]), result.get("shareID"))]
        return [
            PreparedDevice(
                DeviceId(driver, replacement.pool, replacement.device),
                request if replacement.requests is None else replacement.requests,
                self._cdi_ids(replacement.device) if replacement.cdi_ids is None else replacement.cdi_ids,
                replacement.share_id or None,
            )
            for replacement in self._options.returns[result["device"]]
        ]

    def _cdi_ids(self, device: str) -> tuple[str, ...]:
        """The CDI ids of a device of the driver."""
        return (self._options.cdi_id(device),) if self._options.cdi_ids else ()


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
