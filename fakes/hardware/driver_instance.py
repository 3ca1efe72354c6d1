"""One instance of a fake driver: its sockets and its registration, its health streams, what it publishes and writes.

In a rolling update there are two of them for a while, which share the devices and the claims that are prepared.
"""

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.control.driver import DriverOptions
from drahealth.fakes.files.socket_files import is_served
from drahealth.fakes.hardware.call_counts import CallCounts
from drahealth.fakes.hardware.devices import Devices
from drahealth.fakes.hardware.fake_plugin import FakePlugin
from drahealth.fakes.hardware.prepared import PreparedClaims
from drahealth.fakes.health.streams import HealthStreams
from drahealth.fakes.inventory import cdi
from drahealth.fakes.inventory.devices import Device
from drahealth.fakes.kubelet_plugin import Helper, Options, RegistrationStatus
from drahealth.fakes.kubelet_plugin.call_lock import LOCK_FILE
from drahealth.proto import events
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe
from drahealth.proto.quoting import one_line
from drahealth.proto.services import PREPARE

log = logging.getLogger(__name__)


class DriverInstance:
    """It may start again after it has ended. `told(self)` is called when a kubelet has said something of it.

    `asked` and `counts` count the calls of all instances of the driver.
    """

    def __init__(
        self,
        options: DriverOptions,
        devices: Devices,
        api: ListWatch,
        clock: Clock,
        observe: Observe,
        told: Callable[["DriverInstance"], None],
        asked: Counter[str],
        counts: CallCounts,
    ) -> None:
        self.options = options
        self.heartbeat = options.heartbeat
        self.running = False
        self._served = False
        self.registered = False
        """A kubelet has said so since the last start, and it has not ended since."""
        self.notified = False
        """A kubelet has said anything of it since."""
        self.registration_error = ""
        self.prepared = PreparedClaims(Path(options.data_dir))
        self.health = HealthStreams(
            options.name, options.instance, devices.table, observe, self.prepared.devices, clock, options.seed, asked
        )
        self._devices = devices
        self._api = api
        self._clock = clock
        self._observe = observe
        self._told = told
        self._counts = counts
        self._plugin = FakePlugin(options, self.prepared, observe, self.health.report_prepared)
        self._made_folder: bool | None = None
        self._dropped: ValueError | None = None
        self._helper = self._new_helper()
        self.endpoint = self._helper.options.plugin_socket

    @property
    def sockets(self) -> tuple[Path, Path]:
        """Where it is reached while it runs: the driver's own, and that of its registration."""
        return self.endpoint, self._helper.options.registration_socket

    # -- its life

    def follow(self, older: "DriverInstance") -> None:
        """It is to take over from this one, in whose folder it is."""
        self.heartbeat = older.heartbeat
        self._made_folder = older._made_folder

    async def start(self) -> None:
        """Opens the sockets and publishes the devices. Raises ApiError, ValueError, OSError, and then has ended.

        Raises SocketInUse where another process serves its sockets, before anything is written.
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
            await self._helper.start()
            self._served = True
        except BaseException:
            with suppress(ApiError):
                await self.retire()
            raise

    def unregister(self) -> None:
        """Takes away the registration socket alone."""
        self.registered = False
        self._helper.unregister()

    def register_again(self) -> None:
        """Puts it back; nothing where it is yet to be made. Raises SocketInUse."""
        if self._served:
            self._helper.register_again()

    async def stop(self) -> None:
        """Ends in order; also removes the sockets that a crash has left."""
        self.running = self._served = False
        self.unregister()
        await self._helper.stop()

    async def crash(self) -> None:
        """Is gone at once, the socket files stay."""
        self.running = self.registered = self._served = False
        await self._helper.crash()

    async def retire(self) -> None:
        """Stops for good: what it published is deleted, unless another instance has made it its own since."""
        await self.stop()
        # What is on the node goes, whether the API server is there or not, but for what is of who has its sockets now.
        if self.options.cdi_dir and not is_served(self.endpoint):
            cdi.remove(Path(self.options.cdi_dir), cdi.kind_of(self.options.name), self.options.instance)
        self._leave_folder()
        await self._helper.withdraw_resources()

    def forget(self) -> None:
        """It has nothing to say of the devices any more."""
        self._devices.table.remove(self.health)

    # -- what it does while it runs

    async def publish(self, *, new_generation: bool = False) -> None:
        """The devices as they are; without its API server it goes on, and publishes once that is back.

        `new_generation`: with a new generation, also where nothing has changed. Raises what the API server refuses, and
        ValueError for what it drops without a word.
        """
        self._dropped = None
        taints = self._devices.taints
        self.publish_later(new_generation=new_generation)
        error = await self._helper.publish_attempted() or self._dropped
        if not error:
            self._devices.taken = taints
        elif not (isinstance(error, ApiError) and error.status == 503):
            raise error

    def publish_later(self, *, new_generation: bool = False) -> None:
        """The same, and returns at once."""
        self._helper.publish_resources(self._devices.pools(), new_generation=new_generation)

    async def leave_published(self) -> None:
        """Another instance publishes from now on."""
        await self._helper.stop_publishing()

    def set_heartbeat(self, seconds: float) -> None:
        """So long between complete reports; 0: none."""
        self.heartbeat = seconds
        if self.running:
            self._helper.set_heartbeat(seconds)

    def write_cdi(self) -> None:
        """The specification of its devices, in place of another instance's."""
        o = self.options
        if o.cdi_dir:
            named: dict[str, Device | None] = {device.name: device for device in self._devices.given}
            shared: dict[str, Device | None] = {cdi.SHARED: None} if o.shared_cdi_id else {}
            cdi.write(Path(o.cdi_dir), cdi.kind_of(o.name), o.name, o.instance, {**named, **shared})

    # -- inside

    async def _publish_first(self) -> None:
        """Taints that were told while nobody published do not keep it from starting: refused, they are dropped."""
        told, taken = self._devices.taints, self._devices.taints_taken()
        try:
            await self.publish(new_generation=True)
        except (ApiError, ValueError) as refusal:
            if taken == told:
                raise
            self._devices.taints = taken
            try:
                await self.publish(new_generation=True)
            except BaseException:  # so it is not for the taints
                self._devices.taints = told
                raise
            for path, taints in told.items():
                for taint in (taint for taint in taints if taint not in taken.get(path, ())):
                    log.warning(
                        "driver %s starts without %s:%s of %s, which was refused: %s",
                        *(self.options.name, taint.key, taint.effect, path, one_line(str(refusal), 500)),
                    )

    def _enter_folder(self) -> None:
        """One with sockets was made for an instance before this one, which left it to this one or was killed."""
        folder = Path(self.options.data_dir)
        if self._made_folder is None:
            self._made_folder = not folder.exists() or any(folder.glob("dra*.sock"))

    def _leave_folder(self) -> None:
        """Removes what it kept, and the folder that was made for it, unless another instance is still in it."""
        if not any(Path(self.options.data_dir).glob("dra*.sock")):
            self.prepared.forget()
            (Path(self.options.data_dir) / LOCK_FILE).unlink(missing_ok=True)
        if self._made_folder:
            with suppress(OSError):
                Path(self.options.data_dir).rmdir()
        self._made_folder = None

    def _noticed(self, error: Exception) -> None:
        if isinstance(error, ValueError):
            self._dropped = error

    def _new_helper(self) -> Helper:
        """A helper starts and stops once."""
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
            on_error=self._noticed,
            verbatim=True,
            main_pool=o.pool_name,
        )
        return Helper(self._plugin, options, clock=self._clock, health=self.health, on_status=self._notified)

    def _notified(self, status: RegistrationStatus) -> None:
        self.notified = True
        self.registration_error = status.error
        self.registered = self.registered or status.plugin_registered
        o = self.options
        self._observe(events.Registered(o.name, o.instance, status.plugin_registered, status.error))
        self._told(self)
