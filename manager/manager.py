"""The device manager: joins its halves, and is what the rest of a kubelet talks to."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from drahealth.manager.device_plugins import DevicePluginManager, Wanted
from drahealth.manager.dra import Device, DraManager, Notify
from drahealth.manager.gates import Gates
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.registration import Handler, RegistrationDirectory
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import Observe, ignore
from drahealth.proto.extended_resources import Amount, Grant
from drahealth.proto.values import AllocatedClaim, AllocatedResources, PodClaims, PreparedDevice


class DeviceManager:
    """The device manager of a kubelet: registration, claims, device plugins and health.

    `root` is the kubelet's root directory: checkpoints in it, registration sockets in `root/plugins_registry`, and
    `root/device-plugins/kubelet.sock`, where device plugins may register too. Use it as `async with`, or call `start`
    and `stop`. A stopped manager leaves its files, and a new one on the same directory goes on from them. `observe` is
    told what happens. `dra` makes the half of dynamic resource allocation, `device_plugins` that of device plugins.
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
        clock = clock or SystemClock()
        self._root = root
        self._dra = dra(root, profile=profile, gates=gates or Gates(), clock=clock, observe=observe)
        self._device_plugins = device_plugins(
            root, profile=profile, gates=gates or Gates(), clock=clock, observe=observe
        )
        handlers: dict[str, Handler] = {"DRAPlugin": self._dra, "DevicePlugin": self._device_plugins}
        self._directory = RegistrationDirectory(root / "plugins_registry", clock, handlers, observe)

    async def start(self) -> None:
        """Loads the checkpoints and begins to register plugins."""
        self._root.mkdir(parents=True, exist_ok=True)
        self._dra.load()
        self._device_plugins.load()
        await self._device_plugins.start()
        await self._directory.start()

    async def stop(self) -> None:
        """Ends all streams and connections. What is known stays in the checkpoints, as it was."""
        await self._directory.stop()
        await self._device_plugins.close()
        await self._dra.close()

    async def __aenter__(self) -> "DeviceManager":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def allocate(self, pod_uid: str, wanted: Wanted, init: Collection[str] = ()) -> Mapping[str, Grant]:
        """Gives the containers of a pod the devices of extended resources that they ask for; again is no error.

        What init containers of the names in `init` hold is given to the containers after them again. Resources that
        no device plugin is known for are not looked at. Returns what each container is to be started with. Raises
        AdmissionError: the pod is not to run.
        """
        return await self._device_plugins.allocate(pod_uid, wanted, init)

    def wants_pre_start(self, pod_uid: str, container: str) -> bool:
        """Whether `pre_start` has to be called before the container is started."""
        return self._device_plugins.wants_pre_start(pod_uid, container)

    async def pre_start(self, pod_uid: str, container: str) -> None:
        """Tells device plugins that want to know that a container is about to start. Raises PluginError."""
        await self._device_plugins.pre_start(pod_uid, container)

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, tuple[PreparedDevice, ...]]:
        """Prepares the claims of a pod; what is prepared already is not asked for again. Raises PrepareError.

        Returns the devices by claim uid, with the CDI ids that the containers are to get.
        """
        return await self._dra.prepare(pod_uid, claims)

    async def unprepare(self, pod_uid: str) -> None:
        """Undoes what no other pod holds. Raises PrepareError; then the pod still holds the claims in question.

        Its devices of device plugins are free then.
        """
        await self._dra.unprepare(pod_uid)
        self._device_plugins.end(pod_uid)

    def forget(self, pod_uid: str) -> None:
        """The pod is gone from the API."""
        self._dra.forget(pod_uid)
        self._device_plugins.forget(pod_uid)

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        """The entries of a pod's status as they are now; nothing at all with the gate off.

        The pod-local names and the claims behind them are the caller's knowledge; devices and health are ours.
        """
        shown = self._dra.allocated_resources_status(pod_uid, uses)
        plugins = self._device_plugins.allocated_resources_status(pod_uid, uses)
        names = (*plugins, *(name for name in shown.containers if name not in plugins))
        both = {name: (*plugins.get(name, ()), *shown.containers.get(name, ())) for name in names}
        return replace(shown, containers=both)

    def devices(self) -> Iterator[Device]:
        """All devices that were reported, as they are now."""
        return self._dra.devices()

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        """`notify(pod_uids)` is called, and must not block, when the health of a device that they hold has changed.

        Returns the function that ends it.
        """
        leave = (self._dra.subscribe(notify), self._device_plugins.subscribe(notify))

        def end() -> None:
            for stop in leave:
                stop()

        return end

    def amounts(self) -> Mapping[str, Amount]:
        """What the node has of each extended resource, for its status."""
        return self._device_plugins.amounts()

    def subscribe_to_amounts(self, notify: Callable[[], None]) -> Callable[[], None]:
        """`notify()` is called, and must not block, when `amounts` may have changed.

        Returns the function that ends it.
        """
        return self._device_plugins.subscribe_to_amounts(notify)
