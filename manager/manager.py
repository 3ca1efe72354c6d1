"""The device manager: joins its halves, and is what the rest of a kubelet talks to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from drahealth.manager.dra import Device, DraManager, Notify
from drahealth.manager.gates import Gates
from drahealth.manager.observer import Observer, nobody
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.registration import RegistrationDirectory
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.values import AllocatedClaim, AllocatedResources, PodClaims, PreparedDevice


class DeviceManager:
    """All that a kubelet does with devices and their health.

    `root` is the kubelet's root directory: checkpoints in it, registration sockets in `root/plugins_registry`.
    Use it as `async with`, or call `start` and `stop`. A stopped manager leaves its files, and a new one on the same
    directory goes on from them. `observe` is told what
    happens. `dra` makes the half of dynamic resource allocation.
    """

    def __init__(
        self,
        root: Path,
        *,
        profile: Profile = KEP,
        gates: Gates | None = None,
        clock: Clock | None = None,
        observe: Observer = nobody,
        dra: type[DraManager] = DraManager,
    ) -> None:
        clock = clock or SystemClock()
        self._root = root
        self._dra = dra(root, profile=profile, gates=gates or Gates(), clock=clock, observe=observe)
        self._directory = RegistrationDirectory(root / "plugins_registry", clock, {"DRAPlugin": self._dra})

    async def start(self) -> None:
        """Loads the checkpoints and begins to register plugins."""
        self._root.mkdir(parents=True, exist_ok=True)
        self._dra.load()
        await self._directory.start()

    async def stop(self) -> None:
        """Ends all streams and connections. What is known stays in the checkpoints, as it was."""
        await self._directory.stop()
        await self._dra.close()

    async def __aenter__(self) -> "DeviceManager":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, tuple[PreparedDevice, ...]]:
        """Prepares the claims of a pod; what is prepared already is not asked for again. Raises PrepareError.

        Returns the devices by claim uid, with the CDI ids that the containers are to get.
        """
        return await self._dra.prepare(pod_uid, claims)

    async def unprepare(self, pod_uid: str) -> None:
        """Undoes what no other pod holds. Raises PrepareError; then the pod still holds the claims in question."""
        await self._dra.unprepare(pod_uid)

    def forget(self, pod_uid: str) -> None:
        """The pod is gone from the API."""
        self._dra.forget(pod_uid)

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        """The entries of a pod's status as they are now; nothing at all with the gate off.

        The pod-local names and the claims behind them are the caller's knowledge; devices and health are ours.
        """
        return self._dra.allocated_resources_status(pod_uid, uses)

    def devices(self) -> Iterator[Device]:
        """All devices that were reported, as they are now."""
        return self._dra.devices()

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        """`notify(pod_uids)` is called, and must not block, when the health of a device that they hold has changed.

        Returns the function that ends it.
        """
        return self._dra.subscribe(notify)
