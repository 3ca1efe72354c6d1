"""Health from Pod annotations: `health.example.com/gpu-0: unhealthy`, as in the example driver of DRA.

A pod of the node sets the health of devices of its prepared claims; the driver's own pod sets that of all devices. The
worst of several values counts. An annotation never improves a device's health.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from drahealth.fakes.cluster.api import CLAIMS, Api, ApiError, Object
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.kubelet_plugin.health_streams.overrides import HealthOverride
from drahealth.fakes.serve.node_pods import NodePods
from drahealth.proto.quoting import one_line
from drahealth.proto.values import DeviceId, Health

PREFIX = "health.example.com"
RETRY = 1.0
"""Seconds until a failed read of claims is repeated."""

_MOST_LOGGED = 1000
"""Warnings that are remembered, so that each is logged once."""

log = logging.getLogger(__name__)

_HEALTH = {health.lower(): health for health in Health}


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation: a device, by its name in the API, and its health."""

    key: str
    """With the pod: `pod NAMESPACE/NAME, KEY`."""
    device: str
    override: HealthOverride


def annotations_of(pod: Object, prefix: str) -> Iterator[Annotation | str]:
    """The annotations of a pod; an error message for an invalid one."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for key, value in sorted((pod["metadata"].get("annotations") or {}).items()):
        group, _, device = key.partition("/")
        if group != prefix:
            continue
        if health := _HEALTH.get(value.strip().lower()):
            override = HealthOverride(health, f"set {health} by annotation {key} of pod {name}")
            yield Annotation(f"pod {name}, {key}", device, override)
        else:
            odd = one_line(value, 60)
            yield f"pod {name}, {key}: unknown health {odd!r}; use healthy, unhealthy or unknown; ignoring it"


def claims_of(pod: Object) -> Iterator[str]:
    """The names of the pod's claims, in its namespace."""
    made = {
        one["name"]: one.get("resourceClaimName") for one in pod.get("status", {}).get("resourceClaimStatuses") or ()
    }
    for claim in pod["spec"].get("resourceClaims") or ():
        if name := claim.get("resourceClaimName") or made.get(claim["name"]):
            yield name


def worst_overrides(annotations: Iterable[tuple[Annotation, Collection[DeviceId]]]) -> dict[DeviceId, HealthOverride]:
    """The override of each device from the permitted pods: the worst health, the first of equal ones."""
    worst: dict[DeviceId, HealthOverride] = {}
    for one, devices in annotations:
        for device in devices:
            if device.device == one.device:
                worst[device] = worst[device] | one.override if device in worst else one.override
    return worst


class PodAnnotations:
    """Follows the pods of a node, and sets overrides in these drivers.

    The caller keeps `pods` current, `api` is for claims, `own` is the namespace and name of the pod in which this
    process runs, if any. During an API server outage the last overrides stay.
    """

    def __init__(
        self,
        pods: NodePods,
        api: Api,
        drivers: Sequence[FakeDriver],
        *,
        prefix: str = PREFIX,
        own: tuple[str, str] | None = None,
    ) -> None:
        self._pods = pods
        self._api = api
        self._drivers = drivers
        self._prefix = prefix
        self._own = own
        self._ours = frozenset(device for driver in drivers for device in _all(driver))
        self._known = frozenset(device.device for device in self._ours)
        self._logged: set[str] = set()
        self._woken = asyncio.Event()
        pods.add(self.wake)

    def wake(self) -> None:
        """Called after pods or prepared claims have changed."""
        self._woken.set()

    async def run(self) -> None:
        """Applies annotations until cancelled, while the caller keeps the pods current."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            with suppress(ApiError):  # a claim cannot be read: the last overrides stay
                await self.apply()
                continue
            await asyncio.sleep(RETRY)
            self._woken.set()

    async def apply(self) -> None:
        """Sets the current overrides. Raises ApiError if a claim cannot be read; then nothing changes."""
        found = [(one, pod) for pod in self._pods.all() for one in self._valid(pod)]
        held = {uid: await self._held(pod) for uid, pod in {id(pod): pod for _, pod in found}.items()}
        worst = worst_overrides((one, held[id(pod)]) for one, pod in found)
        for driver in self._drivers:
            name = driver.options.name
            driver.health.table.set_overrides(
                {(d.pool, d.device): override for d, override in worst.items() if d.driver == name}
            )

    # -- inside

    def _valid(self, pod: Object) -> Iterator[Annotation]:
        for one in annotations_of(pod, self._prefix):
            if isinstance(one, str):
                self._warn_once(one)
            elif one.device not in self._known:
                self._warn_once(f"{one.key}: unknown device {one_line(one.device, 80)!r}; ignoring it")
            else:
                yield one

    def _warn_once(self, sentence: str) -> None:
        if len(self._logged) > _MOST_LOGGED:
            self._logged.clear()
        if sentence not in self._logged:
            self._logged.add(sentence)
            log.warning("%s", sentence)

    async def _held(self, pod: Object) -> Collection[DeviceId]:
        """The devices that a pod may override."""
        metadata = pod["metadata"]
        if self._own == (metadata["namespace"], metadata["name"]):
            return self._ours
        found = set[DeviceId]()
        prepared = {driver.options.name: frozenset((await driver.state()).prepared) for driver in self._drivers}
        for name in claims_of(pod):
            claim = await self._claim(name, metadata["namespace"])
            found |= {
                device for device in _allocated(claim) if claim["metadata"]["uid"] in prepared.get(device.driver, ())
            }
        return found & self._ours  # a device that was prepared earlier may be removed by now

    async def _claim(self, name: str, namespace: str) -> Object:
        try:
            return await self._api.get(CLAIMS, name, namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return {"metadata": {"uid": ""}}


def _all(driver: FakeDriver) -> Iterator[DeviceId]:
    return (DeviceId(driver.options.name, device.pool, device.device) for device in driver.health.all())


def _allocated(claim: Mapping[str, Object]) -> Iterator[DeviceId]:
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return (DeviceId(result["driver"], result["pool"], result["device"]) for result in results)
