"""The devices of one pod: its claims, their preparation, and its extended resources."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from drahealth.fakes.cluster.api import CLAIMS, Api, ApiError, Object
from drahealth.fakes.cluster.pods import init_containers, requests_by_container
from drahealth.fakes.waiting import Retry, cancel_and_wait
from drahealth.manager.manager import DeviceManager
from drahealth.manager.pod_worker.pod_object import PodObject
from drahealth.manager.pod_worker.pod_status import Waiting, is_sidecar
from drahealth.proto.clock import Clock
from drahealth.proto.values import (
    AdmissionError,
    AllocatedClaim,
    AllocatedResources,
    ClaimRef,
    ClaimUse,
    Grant,
    PodClaims,
    PreparedDevice,
)

# The claims of a pod: their objects, whether they are ready, and the devices of each container. Pure.
#
# Source: the Pod API, `spec.resourceClaims` and `status.resourceClaimStatuses`, and the ResourceClaim API
# resource.k8s.io/v1.


class ClaimsNotReadyError(Exception):
    """A claim of the pod does not exist, is not allocated, or is not reserved for the pod; the message says which."""


def claim_names(pod: Object) -> dict[str, str]:
    """The names of the pod's ResourceClaim objects, by their names in the pod.

    For a claim from a template, the pod's status has the object's name; an entry without a name needs no claim. The
    claim for extended resources has the name of its object (`extendedResourceClaimStatus`, KEP-5004).
    """
    made = {status["name"]: status for status in pod.get("status", {}).get("resourceClaimStatuses") or ()}
    names = {}
    for claim in pod["spec"].get("resourceClaims") or ():
        if claim.get("resourceClaimName"):
            names[claim["name"]] = claim["resourceClaimName"]
        elif claim["name"] not in made:
            raise ClaimsNotReadyError(
                f"the ResourceClaim for claim {claim['name']!r} has not been created from its template yet"
            )
        elif made[claim["name"]].get("resourceClaimName"):
            names[claim["name"]] = made[claim["name"]]["resourceClaimName"]
    if extended := _extended(pod).get("resourceClaimName"):
        names[extended] = extended
    return names


def allocated_claim(claim: Object, pod_uid: str) -> AllocatedClaim:
    """The claim with the drivers of its devices, without duplicates. Raises `ClaimsNotReadyError`."""
    metadata, status = claim["metadata"], claim.get("status") or {}
    words = f"ResourceClaim {metadata['namespace']}/{metadata['name']}"
    if not status.get("allocation"):
        raise ClaimsNotReadyError(f"{words} is not allocated yet")
    if not any(consumer.get("uid") == pod_uid for consumer in status.get("reservedFor") or ()):
        raise ClaimsNotReadyError(f"{words} is not reserved for the pod")
    results = (status["allocation"].get("devices") or {}).get("results") or ()
    drivers = dict.fromkeys(result["driver"] for result in results)
    return AllocatedClaim(ClaimRef(metadata["namespace"], metadata["name"], metadata["uid"]), tuple(drivers))


def claim_uses(pod: Object, claim_uids: Mapping[str, str]) -> PodClaims:
    """The claims that each container uses, given the claims' UIDs by their names in the pod; every container has
    a key.
    """
    listed = {status["name"] for status in pod.get("status", {}).get("resourceClaimStatuses") or ()}
    extended = _extended(pod).get("resourceClaimName", "")
    mappings = _extended(pod).get("requestMappings") or () if extended in claim_uids else ()

    def use(name: str, request: str | None = None) -> ClaimUse:
        return ClaimUse(name, claim_uids[name], request, name in listed)

    def for_resources(container: str) -> Iterator[ClaimUse]:
        for mapping in mappings:
            if mapping["containerName"] == container:
                yield ClaimUse(extended, claim_uids[extended], mapping["requestName"], extended=True)

    def uses(field: str) -> dict[str, tuple[ClaimUse, ...]]:
        return {
            container["name"]: (
                *(
                    use(claim["name"], claim.get("request"))
                    for claim in (container.get("resources") or {}).get("claims") or ()
                    if claim["name"] in claim_uids
                ),
                *for_resources(container["name"]),
            )
            for container in pod["spec"].get(field) or ()
        }

    containers, init_containers = uses("containers"), uses("initContainers")
    used = {use.name for uses in (*containers.values(), *init_containers.values()) for use in uses}
    sidecars = frozenset(one["name"] for one in pod["spec"].get("initContainers") or () if is_sidecar(one))
    return PodClaims(containers, init_containers, tuple(use(name) for name in claim_uids if name not in used), sidecars)


def _extended(pod: Object) -> Object:
    return pod.get("status", {}).get("extendedResourceClaimStatus") or {}


def cdi_devices(uses: Sequence[ClaimUse], prepared: Mapping[str, Sequence[PreparedDevice]]) -> tuple[str, ...]:
    """The CDI names for a container with these claims, without duplicates."""
    names = (
        name
        for use in uses
        for device in prepared.get(use.claim_uid, ())
        if use.request is None or not device.requests or use.request.split("/")[0] in device.requests
        for name in device.cdi_ids
    )
    return tuple(dict.fromkeys(names))


# The devices of one pod: resolves and prepares its claims and releases them, in the background, with retries.

log = logging.getLogger(__name__)


class PodDevices:
    """The devices of one pod in the device manager. Calls `wake` after each change."""

    def __init__(
        self, api: Api, devices: DeviceManager, clock: Clock, pod: PodObject, wake: Callable[[], None]
    ) -> None:
        self.is_released = False
        """The devices are released."""
        self.problem: Waiting | None = None
        """Error of the last failed attempt."""
        self.refusal = ""
        """Reason why the pod cannot run on this node."""
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
    def is_preparing(self) -> bool:
        """Whether their preparation has started."""
        return self._preparing is not None

    @property
    def are_held(self) -> bool:
        """Whether the pod holds claims or devices of device plugins."""
        return self._pod.uid in self._devices.pods()

    @property
    def is_releasing(self) -> bool:
        """Whether they are being released."""
        return self._releasing is not None and not self.is_released

    @property
    def is_prepared(self) -> bool:
        return self._prepared is not None

    @property
    def is_resolved(self) -> bool:
        """Whether the pod's claims are known, or the first attempt to read them has failed."""
        return self._claim_uids is not None or self.problem is not None

    def prepare(self) -> None:
        """Starts to prepare the pod's claims, unless that has started."""
        if self._preparing is None:
            self._preparing = asyncio.create_task(self._until_done(self._prepare))

    def release(self) -> None:
        """Starts to release the devices, unless that has started; cancels a running preparation."""
        if self._releasing is None:
            self._releasing = asyncio.create_task(self._release())

    def cdi_devices(self, container: str) -> tuple[str, ...]:
        """The CDI names for a container of a pod with prepared devices."""
        uses = claim_uses(self._pod.newest, self._claim_uids or {})
        claimed = cdi_devices({**uses.init_containers, **uses.containers}[container], self._prepared or {})
        return (*self.grant(container).cdi_devices, *claimed)

    def grant(self, container: str) -> Grant:
        """The additions to the container for its devices of device plugins."""
        return self._granted.get(container, Grant())

    def is_pre_started(self, container: str, attempt: int) -> bool:
        """Whether the container can start; calls `pre_start` of a device plugin first, if required."""
        if not self._devices.wants_pre_start(self._pod.uid, container):
            return True
        key = (container, attempt)
        if key not in self._announced:
            tell = self._until_done(lambda: self._devices.pre_start(self._pod.uid, container))
            self._announced[key] = asyncio.create_task(tell)
        return self._announced[key].done()

    def health(self) -> AllocatedResources:
        """The health of the pod's devices, by container."""
        uses = claim_uses(self._pod.newest, self._claim_uids or {})
        return self._devices.allocated_resources_status(self._pod.uid, uses)

    def forget(self) -> None:
        """Removes a deleted pod."""
        self._devices.forget(self._pod.uid)

    async def close(self) -> None:
        """Ends all tasks; releases nothing."""
        tasks = [task for task in (self._preparing, self._releasing, *self._announced.values()) if task is not None]
        await cancel_and_wait(*tasks)

    async def _prepare(self) -> None:
        if wanted := requests_by_container(self._pod.newest):
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
        await cancel_and_wait(*under_way)
        self.problem = None
        if self._claim_uids is None:
            await self._learn_what_is_released()
        await self._until_done(lambda: self._devices.unprepare(self._pod.uid))
        self.is_released = True
        self._wake()

    async def _learn_what_is_released(self) -> None:
        """Reads the claims, so that the status shows health until the end; a deleted pod has no status."""
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
            log.warning("devices of pod %s: %s; retrying with back-off", self._pod.uid, error)
            self.problem = problem
            self._wake()
