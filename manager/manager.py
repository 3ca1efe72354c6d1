"""The device manager: joins its two halves, and is the interface to the rest of a kubelet."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from drahealth.manager.calls import Context
from drahealth.manager.device_plugins import DevicePluginManager, Wanted
from drahealth.manager.dra import Device, DraManager, Notify, NotifyConnection
from drahealth.manager.profile import KEP, Gates, Profile
from drahealth.manager.registration import Handler, RegistrationDirectory
from drahealth.proto.clock import SYSTEM_CLOCK, Clock
from drahealth.proto.events import Observe, ignore
from drahealth.proto.values import AllocatedClaim, AllocatedResources, Amount, Grant, PodClaims, PreparedDevice


class DeviceManager:
    """The device manager of a kubelet: registration, claims, device plugins and health.

    `root` is the kubelet's root directory, with checkpoints and registration sockets in `root/plugins_registry`. Device
    plugins can also register at `root/device-plugins/kubelet.sock`. Use it with `async with`, or call `start` and
    `stop`. A stopped manager leaves its files, and a new one with the same directory continues with them. `observe`
    receives all events. `dra` creates the half for dynamic resource allocation, `device_plugins` that for device
    plugins.
    """

    def __init__(
        self,
        root: Path,
        *,
        profile: Profile = KEP,
        gates: Gates | None = None,
        clock: Clock | None = None,
        observe: Observe = ignore,
        dra: type[DraManager] = DraManager,
        device_plugins: type[DevicePluginManager] = DevicePluginManager,
    ) -> None:
        context = Context(profile, gates or Gates(), clock or SYSTEM_CLOCK, observe)
        self._root = root
        self._has_dra = context.gates.dynamic_resource_allocation
        self._dra = dra(root, context)
        self._device_plugins = device_plugins(root, context)
        handlers: dict[str, Handler] = {"DRAPlugin": self._dra} if self._has_dra else {}
        handlers["DevicePlugin"] = self._device_plugins
        self._directory = RegistrationDirectory(root / "plugins_registry", context.clock, handlers, observe)

    async def start(self) -> None:
        """Loads the checkpoints and starts to register plugins."""
        self._root.mkdir(parents=True, exist_ok=True)
        if self._has_dra:
            self._dra.load()
        self._device_plugins.load()
        await self._device_plugins.start()
        await self._directory.start()

    async def stop(self) -> None:
        """Ends all streams and connections. The checkpoints keep the state."""
        await self._directory.stop()
        await self._device_plugins.close()
        await self._dra.close()

    async def kill(self) -> None:
        """Ends everything like `stop`, but writes nothing that is pending, as after SIGKILL."""
        self._dra.abandon()
        await self.stop()

    async def settled(self) -> None:
        """Waits until all attempts to connect have ended, and the checkpoint has all changes of health."""
        await self._dra.settled()

    async def __aenter__(self) -> "DeviceManager":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def allocate(self, pod_uid: str, wanted: Wanted, init: Collection[str] = ()) -> Mapping[str, Grant]:
        """Allocates extended resources to the containers of a pod; repeating the call is no error.

        Later containers can reuse the devices of init containers in `init`. Unknown resources are skipped. Returns the
        additions to each container. Raises AdmissionError if the pod must not run.
        """
        return await self._device_plugins.allocate(pod_uid, wanted, init)

    def wants_pre_start(self, pod_uid: str, container: str) -> bool:
        """Whether `pre_start` must be called before the container starts."""
        return self._device_plugins.wants_pre_start(pod_uid, container)

    async def pre_start(self, pod_uid: str, container: str) -> None:
        """Announces a container's start to the device plugins that require it. Raises PluginError."""
        await self._device_plugins.pre_start(pod_uid, container)

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, tuple[PreparedDevice, ...]]:
        """Prepares the claims of a pod, except prepared ones. Raises PrepareError.

        Returns the devices by claim UID, with the CDI ids for the containers. Without DRA there are none.
        """
        if not self._has_dra:
            return {claim.ref.uid: () for claim in claims}
        return await self._dra.prepare(pod_uid, claims)

    async def unprepare(self, pod_uid: str) -> None:
        """Unprepares claims that no other pod holds. Raises PrepareError; then the pod still holds these claims.

        Its devices of device plugins are free then.
        """
        await self._dra.unprepare(pod_uid)
        self._device_plugins.end(pod_uid)

    def pods(self) -> frozenset[str]:
        """The UIDs of all pods that hold claims or devices of device plugins, even if the API no longer has them."""
        return self._dra.pods() | self._device_plugins.pods()

    def forget(self, pod_uid: str) -> None:
        """Removes a deleted pod."""
        self._dra.forget(pod_uid)
        self._device_plugins.forget(pod_uid)

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        """The current entries of a pod's status; empty with the gate disabled.

        The caller knows the names in the pod and their claims; this class knows devices and health.
        """
        shown = self._dra.allocated_resources_status(pod_uid, uses)
        plugins = self._device_plugins.allocated_resources_status(pod_uid, uses)
        names = (*plugins, *(name for name in shown.containers if name not in plugins))
        both = {name: (*plugins.get(name, ()), *shown.containers.get(name, ())) for name in names}
        return replace(shown, containers=both)

    def devices(self) -> Iterator[Device]:
        """All reported devices with their current health."""
        return self._dra.devices()

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        """Calls `notify(pod_uids)` when the health of their devices has changed; `notify` must not block.

        Returns the function that ends it.
        """
        leave = (self._dra.subscribe(notify), self._device_plugins.subscribe(notify))

        def end() -> None:
            for stop in leave:
                stop()

        return end

    def connected(self, driver: str) -> bool:
        """Whether an instance of the driver is registered and its connection is open."""
        return self._dra.connected(driver)

    def subscribe_to_connections(self, notify: NotifyConnection) -> Callable[[], None]:
        """Calls `notify(driver)` when `connected(driver)` may have changed; `notify` must not block.

        Returns the function that ends it.
        """
        return self._dra.subscribe_to_connections(notify)

    def amounts(self) -> Mapping[str, Amount]:
        """The node's amount of each extended resource, for its status."""
        return self._device_plugins.amounts()

    def subscribe_to_amounts(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Calls `notify()` when `amounts` may have changed; `notify` must not block.

        Returns the function that ends it.
        """
        return self._device_plugins.subscribe_to_amounts(notify)
