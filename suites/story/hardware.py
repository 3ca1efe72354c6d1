"""The DRA drivers and device plugins of a scenario, and their devices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from drahealth.fakes.cluster.api import DEVICE_CLASSES, SLICES, Object
from drahealth.fakes.cluster.mirror import until_object
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
from drahealth.fakes.hardware.devices import inventory_of
from drahealth.fakes.hardware.instances import begin_upgrade
from drahealth.manager.profile import Profile
from drahealth.manager.stream import pick_health_api
from drahealth.proto.events import (
    Registered,
    RegistrationCallFailed,
    ReportSent,
    StatusSeen,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.values import DeviceHealth, DeviceId, Health
from drahealth.suites.judging.status_content import Sought
from drahealth.suites.story.history import History
from drahealth.suites.targets.target import Target, Window

# The interface that the objects of a story (driver, device plugin, pod, ReplicaSet) use of their node.
#
# `node.Node` implements these protocols. The other modules do not import `node`, so there is no import cycle.


class StoryNode(Protocol):
    """A node with a history, and with methods that wait and check."""

    @property
    def target(self) -> Target: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def history(self) -> History: ...

    def log(self, text: str) -> None:
        """Add a line to the history."""

    async def add_driver(self, options: DriverOptions) -> "Driver":
        """Create a driver with exactly these options. It is not started."""

    def requires_messages_of(self, driver: "Driver") -> bool:
        """Whether the pod status must show the messages of this driver."""

    def latest(self, pod_uid: str) -> StatusSeen | None:
        """The newest status of the pod that the client received."""

    async def until(
        self, true: Callable[[], bool], window: Window, expected: str, seen: object, sought: Sought | None = None
    ) -> None:
        """Wait for the condition. Raises Violation with the last seen state at the end of the window.

        `sought` is the same for the diagnosis of a failure.
        """

    def check(self, true: bool, expected: str, seen: object, sought: Sought | None = None) -> None:
        """Raises Violation if the condition is false now. `sought` as in `until`."""


# The DRA drivers of a scenario, and their devices.


@dataclass(frozen=True)
class DriverResource:
    """An extended resource that DRA provides: a container's request for a number of devices of a driver (KEP-5004)."""

    driver: "Driver"
    count: int = 1

    @property
    def resource(self) -> str:
        """The name of the resource."""
        return f"{self.driver.name}/gpu"


@dataclass(frozen=True)
class Gpu:
    """One device of a fake driver."""

    driver: "Driver"
    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def entry(self) -> None:
        """None: the device can be in entries with different names."""

    @property
    def id(self) -> DeviceId:
        return DeviceId(self.driver.name, self.driver.pool_of(self.name), self.name)

    @property
    def cdi_id(self) -> str:
        """Its CDI id, if its driver returns CDI ids."""
        return self.driver.options.cdi_id(self.name)

    def resource_id(self, profile: Profile) -> str:
        """The ID of the device in a pod status of this profile."""
        if profile.device_id == "first CDI id" and self.driver.options.cdi_ids:
            return self.cdi_id
        return str(self.id)

    def sought(self, profile: Profile) -> Sought:
        """The device, for the diagnosis of a failed check."""
        driver = self.driver.sought
        return replace(driver, device=(self.driver.name, self.id.pool, self.name), id=self.resource_id(profile))

    def reading(self, health: Health, message: str = "", timeout: int = 0) -> DeviceHealth:
        """A reading of this device for a report. `timeout` in seconds; 0 uses the driver's default."""
        return DeviceHealth(self.id.pool, self.name, health, message, timeout or self.driver.options.timeout)

    async def becomes(self, health: Health, message: str = "", timeout: int | None = None) -> None:
        """Set the health of the device; its driver reports it at once. `timeout` in seconds; None keeps it."""
        await self.driver.control.set_health(self.name, health, message, timeout)

    @property
    def path(self) -> str:
        """The path of the device in the driver's inventory."""
        return dict(zip(self.driver.options.device_names, self.driver.options.devices, strict=True))[self.name]

    async def fails_with(self, fault: str) -> None:
        """Inject this fault of the driver's catalogue."""
        self.driver.node.log(f"{self} fails with {fault}")
        await self.driver.control.inject(fault, self.path)

    async def gets_taint(self, key: str, effect: str) -> None:
        """Taint the device, and wait until the API server has its ResourceSlice with the taint."""
        node = self.driver.node
        node.log(f"{self} is tainted with {key}:{effect}")
        await self.driver.control.taint(self.path, key, effect=effect)
        published = await until_object(
            node.target.api, SLICES, lambda found: (key, effect) in self._taints_in(found), node.target.windows["start"]
        )
        node.check(published, f"the ResourceSlice shows {self} with the taint {key}:{effect}", "other taints, or none")

    def _taints_in(self, slice_: Object) -> set[tuple[str, str]]:
        """The taints of this device in a ResourceSlice."""
        spec = slice_["spec"]
        mine = [device for device in spec.get("devices") or () if device["name"] == self.name]
        is_ours = (spec["driver"], spec["pool"]["name"]) == (self.driver.name, self.id.pool)
        return {(t["key"], t["effect"]) for device in mine if is_ours for t in device.get("taints") or ()}


class Driver:
    """One instance of a fake driver on the node."""

    def __init__(self, node: StoryNode, options: DriverOptions, control: DriverControl) -> None:
        self.node = node
        self.options = options
        self.control = control
        self._inventory = inventory_of(options)
        self._opened_before = 0
        self.gpus = tuple(Gpu(self, name) for name in options.device_names)

    def pool_of(self, device: str) -> str:
        """The pool of the device with this name."""
        known = self._inventory.find(device)
        return (known and known.pool) or self.options.pool_name

    def __str__(self) -> str:
        return f"{self.name} ({self.options.instance})" if self.options.instance else self.name

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def sought(self) -> Sought:
        """The driver, for the diagnosis of a failed check."""
        return Sought(driver=self.name, instance=self.options.instance)

    @property
    def health_api(self) -> HealthApi | None:
        """The health API that the kubelet uses with this driver; None if there is none."""
        called = pick_health_api(self.options.health_apis, self.node.profile)
        return next((api for api in called if api in self.options.answered_apis), None)

    async def provides_a_resource(self) -> DriverResource:
        """Let the DeviceClass of the driver name an extended resource. The scheduler then creates claims for it."""
        api, provided = self.node.target.api, DriverResource(self)
        device_class = await api.get(DEVICE_CLASSES, self.name)
        spec = {**device_class["spec"], "extendedResourceName": provided.resource}
        await api.replace(DEVICE_CLASSES, {**device_class, "spec": spec})
        return provided

    async def starts(self) -> None:
        """Start the driver and wait until the kubelet has registered it."""
        self.node.log(f"driver {self} starts")
        before = self.registrations
        await self.control.start()
        await self.is_registered(before)

    async def starts_in_vain(self) -> str:
        """Start the driver and wait until the kubelet has rejected it. Returns the error that the kubelet sent."""
        self.node.log(f"driver {self} starts")
        await self.control.start()
        await self.node.until(
            lambda: bool(self._rejections()), "start", f"the kubelet rejects driver {self}", "no rejection"
        )
        return self._rejections()[-1]

    async def stops(self) -> None:
        """Stop the driver gracefully. It deregisters."""
        self.node.log(f"driver {self} stops")
        await self.control.stop()

    async def restarts(self, offer: Sequence[str] = ()) -> None:
        """Stop and start the driver, and wait for its registration. `offer` replaces its health APIs, if given."""
        self.node.log(f"driver {self} restarts")
        before = self.registrations
        await self.control.restart(offer)
        self.options = self.options.offering(offer)
        await self.is_registered(before)

    async def upgrades(self, overlap: float, offer: Sequence[str] = ()) -> None:
        """Replace the driver by a newer instance in a rolling update. The older one stops after `overlap` seconds.

        Faults of the devices remain. This object stands for the newer instance afterwards.
        """
        self.node.log(f"driver {self} is upgraded")
        instance = await begin_upgrade(self.control, overlap, offer)
        self.options = replace(self.options.offering(offer), instance=instance)

    async def unregisters(self) -> None:
        """Deregister the driver. It keeps running."""
        self.node.log(f"driver {self} deregisters")
        await self.control.unregister()

    async def has_no_stream(self) -> None:
        """Wait until the driver has no open health stream."""
        await self.node.until(
            lambda: not self._streams(), "push", f"driver {self} has no open health stream", "an open stream"
        )

    async def closes_its_endpoint(self) -> None:
        """Stop serving the plugin's socket. The registration socket stays, also over a restart of the driver."""
        self.node.log(f"driver {self} closes its endpoint")
        await self.control.close_endpoint()

    async def opens_its_endpoint(self) -> None:
        """Serve the plugin's socket again."""
        self.node.log(f"driver {self} opens its endpoint")
        await self.control.open_endpoint()

    async def crashes(self) -> None:
        """Kill the driver. Its socket files remain."""
        self.node.log(f"driver {self} crashes")
        await self.control.crash()

    async def is_silenced(self) -> None:
        """Silence the driver: it keeps running, and sends no reports of its own."""
        self.node.log(f"driver {self} is silenced")
        self._opened_before = len(self._opened())
        await self.control.stream_silence()

    async def resumes(self) -> None:
        """End the silence: report changes, heartbeats and new streams again."""
        self.node.log(f"driver {self} reports again")
        await self.control.stream_restore("silence")

    async def stream_ends(self, code: str) -> None:
        """End the health streams of the driver with this gRPC status. It keeps running, and stays registered."""
        self.node.log(f"the health stream of driver {self} ends with {code}")
        self._opened_before = len(self._opened())
        await self.control.stream_close(code)

    async def sends_a_malformed_message(self) -> None:
        """Send a message on the health streams that nobody can decode."""
        self.node.log(f"driver {self} sends a malformed message")
        self._opened_before = len(self._opened())
        await self.control.stream_send("ff")

    async def has_new_stream(self) -> None:
        """Wait until the kubelet has opened a health stream since the last call that ended or silenced the streams."""
        expected = f"driver {self} has a new health stream"
        await self.node.until(
            lambda: len(self._opened()) > self._opened_before, "restart", expected, "no new stream", self.sought
        )

    async def is_watched(self) -> None:
        """Wait until the driver has an open health stream."""
        await self.node.until(
            lambda: bool(self._streams()),
            "restart",
            f"driver {self} has an open health stream",
            "no open stream",
            self.sought,
        )

    async def reports_again(self) -> None:
        """Wait for one more report of the driver."""
        before = len(self._own_reports())
        await self.node.until(
            lambda: len(self._own_reports()) > before,
            "start",
            f"driver {self} sends a report",
            "no report",
            self.sought,
        )

    async def has_reported(self, gpu: Gpu, health: Health) -> None:
        """Wait until the driver has reported this health of the device."""

        def reported() -> bool:
            devices = (device for report in self._own_reports() for device in report.devices)
            return any((device.device, device.health) == (gpu.name, health) for device in devices)

        sought = replace(gpu.sought(self.node.profile), health=health)
        expected = f"driver {self} has reported {gpu} as {health}"
        await self.node.until(reported, "push", expected, "no such report", sought)

    async def reports_in_a_row(self, changes: Sequence[DeviceHealth]) -> None:
        """Report these changes one after the other, without a pause."""
        self.node.log(f"driver {self} reports {len(changes)} changes in a row")
        await self.control.play(changes)

    async def newer_instance(self) -> "Driver":
        """Start a second instance of the same driver, as in a rolling update."""
        options = replace(self.options, instance=f"{self.options.instance or 'a'}b")
        newer = await self.node.add_driver(options)
        await newer.starts()
        return newer

    async def has_failed(self, call: str) -> None:
        """Wait until it has answered this call of the registration with an error."""

        def failed() -> bool:
            mine = (self.name, self.options.instance, call)
            return any((e.driver, e.instance, e.call) == mine for e in self.node.history.of(RegistrationCallFailed))

        await self.node.until(failed, "start", f"the kubelet calls {call} of driver {self}", "no call")

    async def is_registered(self, before: int) -> None:
        """Wait for one more registration than `before`."""
        await self.node.until(
            lambda: self.registrations > before,
            "start",
            f"the kubelet registers driver {self}",
            "no registration",
            replace(self.sought, is_registration=True),
        )

    def _streams(self) -> set[str]:
        """The open health streams, according to the history."""
        return self._opened() - {e.stream for e in self.node.history.of(StreamClosed)}

    def _opened(self) -> set[str]:
        """All its health streams so far, according to the history."""
        mine = (self.name, self.options.instance)
        return {e.stream for e in self.node.history.of(StreamOpened) if (e.driver, e.instance) == mine}

    def _own_reports(self) -> list[ReportSent]:
        mine = (self.name, self.options.instance)
        return [e for e in self.node.history.of(ReportSent) if (e.driver, e.instance) == mine]

    def _rejections(self) -> list[str]:
        mine = (self.name, self.options.instance, False)
        return [e.error for e in self.node.history.of(Registered) if (e.driver, e.instance, e.ok) == mine]

    @property
    def registrations(self) -> int:
        """How often the kubelet has registered it so far."""
        mine = (self.name, self.options.instance, True)
        return sum((e.driver, e.instance, e.ok) == mine for e in self.node.history.of(Registered))


# The device plugins of a scenario, and their devices.


@dataclass(frozen=True)
class PluginGpu:
    """One device of a fake device plugin."""

    plugin: "DevicePlugin"
    name: str

    def __str__(self) -> str:
        return f"{self.name} of {self.plugin.resource}"

    @property
    def entry(self) -> str:
        """The name of its entry in the pod status."""
        return self.plugin.resource

    def resource_id(self, profile: Profile) -> str:
        """The ID of the device in a pod status (KEP-4680, `ResourceID`). It is the same for all profiles."""
        return self.name

    def sought(self, profile: Profile) -> Sought:
        """The device, for the diagnosis of a failed check."""
        device = (self.plugin.resource, "", self.name)
        return Sought(driver=self.plugin.resource, device=device, id=self.resource_id(profile))

    async def becomes(self, health: str) -> None:
        """List the device with this health from now on."""
        await self.plugin.control.set_health(self.name, str(health))

    async def is_removed(self) -> None:
        """Remove the device from the list."""
        self.plugin.node.log(f"{self} is removed from the list")
        await self.plugin.control.remove(self.name)

    async def is_restored(self) -> None:
        """List a removed device again, with its previous health."""
        self.plugin.node.log(f"{self} is listed again")
        await self.plugin.control.restore(self.name)


@dataclass(frozen=True)
class ResourceRequest:
    """A container's request for a number of devices of a device plugin."""

    plugin: "DevicePlugin"
    count: int = 1

    @property
    def resource(self) -> str:
        """The name of the resource."""
        return self.plugin.resource

    @property
    def entry(self) -> str:
        """The name of its entry in the pod status."""
        return self.resource


class DevicePlugin:
    """A fake device plugin on the node."""

    def __init__(self, node: StoryNode, options: PluginOptions, control: PluginControl) -> None:
        self.node = node
        self.options = options
        self.control = control
        self.gpus = tuple(PluginGpu(self, name) for name in options.devices)

    def __str__(self) -> str:
        return self.resource

    @property
    def resource(self) -> str:
        return self.options.resource

    def request(self, count: int = 1) -> ResourceRequest:
        """A container's request for this number of devices."""
        return ResourceRequest(self, count)

    def gpu(self, name: str) -> PluginGpu:
        """The device with this name."""
        return PluginGpu(self, name)

    async def starts(self) -> None:
        """Start the plugin and wait until the kubelet has registered it."""
        self.node.log(f"device plugin {self} starts")
        before = self._registrations()
        await self.control.start()
        await self._is_registered_again(before)

    async def stops(self) -> None:
        """Stop the plugin gracefully."""
        self.node.log(f"device plugin {self} stops")
        await self.control.stop()

    async def registers_again(self) -> None:
        """Register the running plugin again, and wait until the kubelet has registered it."""
        self.node.log(f"device plugin {self} registers again")
        before = self._registrations()
        await self.control.register()
        await self._is_registered_again(before)

    async def unregisters(self) -> None:
        """Remove its registration socket. It keeps running. Only for one in the registration directory."""
        self.node.log(f"device plugin {self} deregisters")
        await self.control.unregister()

    async def list_ends(self) -> None:
        """End its ListAndWatch streams without an error. It keeps running."""
        self.node.log(f"the list of device plugin {self} ends")
        await self.control.end_lists()

    async def is_silenced(self) -> None:
        """Silence the plugin: it keeps running, and sends no lists, also none on a new stream."""
        self.node.log(f"device plugin {self} is silenced")
        await self.control.hold_lists()

    async def resumes(self) -> None:
        """End the silence: send the current list, and lists after further changes."""
        self.node.log(f"device plugin {self} sends lists again")
        await self.control.release_lists()

    async def crashes(self) -> None:
        """Kill the plugin. Its socket files remain."""
        self.node.log(f"device plugin {self} crashes")
        await self.control.crash()

    async def _is_registered_again(self, before: int) -> None:
        await self.node.until(
            lambda: self._registrations() > before,
            "start",
            f"the kubelet registers {self}",
            "no registration",
            Sought(driver=self.resource, is_registration=True),
        )

    def _registrations(self) -> int:
        mine = (self.resource, self.options.instance, True)
        return sum((e.driver, e.instance, e.ok) == mine for e in self.node.history.of(Registered))
