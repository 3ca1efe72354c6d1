"""The devices of one pod: its claims are resolved and prepared, and given back, in the background and until it works.

`DeviceManager` is the seam to what stands in for a kubelet's device manager.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from drahealth.fakes.cluster.api import CLAIMS, Api, ApiError, Object
from drahealth.fakes.cluster.extended_resources import init_containers, wanted_by_container
from drahealth.fakes.cluster.pod_worker.backoff import Retry
from drahealth.fakes.cluster.pod_worker.claims import (
    ClaimsNotReadyError,
    allocated_claim,
    cdi_devices,
    claim_names,
    claim_uses,
)
from drahealth.fakes.cluster.pod_worker.pod_object import PodObject
from drahealth.fakes.cluster.pod_worker.status import Waiting
from drahealth.proto.clock import Clock
from drahealth.proto.extended_resources import AdmissionError, Amount, Grant
from drahealth.proto.values import AllocatedClaim, AllocatedResources, PodClaims, PreparedDevice

log = logging.getLogger(__name__)


class DeviceManager(Protocol):
    """What a pod worker asks of a kubelet's device manager."""

    async def allocate(
        self, pod_uid: str, wanted: Mapping[str, Mapping[str, int]], init: Collection[str]
    ) -> Mapping[str, Grant]:
        """Gives containers devices of extended resources; again is no error. Raises AdmissionError.

        Those named in `init` are done before the others start.
        """

    def wants_pre_start(self, pod_uid: str, container: str) -> bool:
        """Whether `pre_start` comes before the container's start."""

    async def pre_start(self, pod_uid: str, container: str) -> None:
        """The container is about to start. Raises what says why it must not."""

    def amounts(self) -> Mapping[str, Amount]:
        """What the node has of extended resources."""

    def subscribe_to_amounts(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Calls `notify` when that may have changed; what it returns ends that."""

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, Sequence[PreparedDevice]]:
        """Prepares the pod's claims; again is no error. The devices by claim uid. Raises what says why not."""

    async def unprepare(self, pod_uid: str) -> None:
        """Gives back all that the pod holds; again is no error. Raises what says why not."""

    def forget(self, pod_uid: str) -> None:
        """The pod is gone from the API."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        """Every `allocatedResourcesStatus` of the pod; one without entries is left out."""

    def subscribe(self, notify: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        """Calls `notify` with the uids of pods whose health changed; what it returns ends that."""


class PodDevices:
    """One pod's share of the device manager. `wake` is called whenever something here has changed."""

    def __init__(
        self, api: Api, devices: DeviceManager, clock: Clock, pod: PodObject, wake: Callable[[], None]
    ) -> None:
        self.is_released = False
        """The devices were given back."""
        self.problem: Waiting | None = None
        """Why it is not done yet, after a try that failed."""
        self.refusal = ""
        """Why the pod is not to run here."""
        self._api = api
        self._devices = devices
        self._clock = clock
        self._pod = pod
        self._wake = wake
        self._claim_uids: Mapping[str, str] | None = None
        self._prepared: Mapping[str, Sequence[PreparedDevice]] | None = None
        self._granted: Mapping[str, Grant] = {}
        self._announced: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._preparing: asyncio.Task[None] | None = None
        self._releasing: asyncio.Task[None] | None = None

    @property
    def is_asked_for(self) -> bool:
        """Their preparation was begun."""
        return self._preparing is not None

    @property
    def is_releasing(self) -> bool:
        """They are being given back."""
        return self._releasing is not None and not self.is_released

    @property
    def is_prepared(self) -> bool:
        return self._prepared is not None

    @property
    def is_resolved(self) -> bool:
        """The pod's claims are known, or the first try to learn them has failed."""
        return self._claim_uids is not None or self.problem is not None

    def prepare(self) -> None:
        """Begins to prepare the claims of the pod, unless that was begun."""
        if self._preparing is None:
            self._preparing = asyncio.create_task(self._until_done(self._prepare))

    def release(self) -> None:
        """Begins to give the devices back, unless that was begun; what is being prepared is given up."""
        if self._releasing is None:
            self._releasing = asyncio.create_task(self._release())

    def cdi_devices(self, container: str) -> tuple[str, ...]:
        """The CDI names for a container of the pod whose devices are prepared."""
        uses = claim_uses(self._pod.newest, self._claim_uids or {})
        claimed = cdi_devices({**uses.init_containers, **uses.containers}[container], self._prepared or {})
        return (*self.grant(container).cdi_devices, *claimed)

    def grant(self, container: str) -> Grant:
        """What the container is to be started with for its devices of device plugins."""
        return self._granted.get(container, Grant())

    def is_announced(self, container: str, attempt: int) -> bool:
        """Whether the start may go on; where a device plugin has to be told first, that is begun."""
        if not self._devices.wants_pre_start(self._pod.uid, container):
            return True
        key = (container, attempt)
        if key not in self._announced:
            tell = self._until_done(lambda: self._devices.pre_start(self._pod.uid, container))
            self._announced[key] = asyncio.create_task(tell)
        return self._announced[key].done()

    def health(self) -> AllocatedResources:
        """The health of the pod's devices, by who uses them."""
        uses = claim_uses(self._pod.newest, self._claim_uids or {})
        return self._devices.allocated_resources_status(self._pod.uid, uses)

    def forget(self) -> None:
        """The pod is gone."""
        self._devices.forget(self._pod.uid)

    async def close(self) -> None:
        """Ends what is under way; nothing is given back."""
        tasks = [task for task in (self._preparing, self._releasing, *self._announced.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _prepare(self) -> None:
        if wanted := wanted_by_container(self._pod.newest):
            init = {container["name"] for container in init_containers(self._pod.newest)}
            try:
                self._granted = await self._devices.allocate(self._pod.uid, wanted, init)
            except AdmissionError as error:
                self.refusal = f"Allocate failed due to {error}, which is unexpected"
                return
        objects = await self._resolve()
        claims = [allocated_claim(claim, self._pod.uid) for claim in objects]
        self._prepared = await self._devices.prepare(self._pod.uid, claims) if claims else {}

    async def _resolve(self) -> list[Object]:
        names = claim_names(self._pod.newest)
        namespace = self._pod.newest["metadata"]["namespace"]
        objects = {name: await self._claim(name, namespace) for name in dict.fromkeys(names.values())}
        self._claim_uids = {local: objects[name]["metadata"]["uid"] for local, name in names.items()}
        self._wake()
        return list(objects.values())

    async def _claim(self, name: str, namespace: str) -> Object:
        try:
            return await self._api.get(CLAIMS, name, namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            raise ClaimsNotReadyError(f"ResourceClaim {namespace}/{name} does not exist yet") from None

    async def _release(self) -> None:
        under_way = [task for task in (self._preparing, *self._announced.values()) if task is not None]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        self.problem = None
        if self._claim_uids is None:
            await self._learn_what_is_released()
        await self._until_done(lambda: self._devices.unprepare(self._pod.uid))
        self.is_released = True
        self._wake()

    async def _learn_what_is_released(self) -> None:
        """So that the status goes on to show health while it lasts; a pod that is gone has no status."""
        try:
            if not self._pod.is_gone:
                await self._resolve()
        except (ApiError, ClaimsNotReadyError):
            pass
        self._claim_uids = self._claim_uids or {}

    async def _until_done(self, work: Callable[[], Awaitable[None]]) -> None:
        retry = Retry()
        while True:
            try:
                await work()
            except Exception as error:
                self._failed(error)
            else:
                self.problem = None
                return self._wake()
            await self._clock.sleep(retry.next())

    def _failed(self, error: Exception) -> None:
        reason = "ClaimsNotReady" if isinstance(error, ClaimsNotReadyError) else "FailedPrepareDynamicResources"
        if self.is_prepared:
            reason = "PreStartContainerError"
        problem = Waiting(reason, str(error))
        if problem != self.problem:
            log.warning("devices of pod %s: %s; tried again with back-off", self._pod.uid, error)
            self.problem = problem
            self._wake()
