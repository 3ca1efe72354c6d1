"""What an observer sees of one node: Pods with devices of the driver, its ResourceSlices, and Events. Pure.

All times are seconds since the start of the observation.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.pods import claim_names, status_seen
from drahealth.proto.events import StatusSeen
from drahealth.proto.values import DeviceId
from drahealth.suites.judging.status_content import is_of_request


@dataclass(frozen=True, slots=True)
class Use:
    """What a container uses of a claim: the devices of the driver."""

    container: str
    claim: str
    """The name of the claim in the Pod."""
    request: str
    """The only request that the container uses; empty for all."""
    allocated: tuple[tuple[str, DeviceId], ...]
    """The devices, each with its request, or with its request and subrequest."""

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        """The devices."""
        return tuple(device for _, device in self.allocated)

    @property
    def name(self) -> str:
        """The entry for all of it. A kubelet can also have an entry for each request."""
        return f"claim:{self.claim}" + (f"/{self.request}" if self.request else "")

    def of_entry(self, entry: str) -> tuple[DeviceId, ...]:
        """The devices that an entry of the container is for; none if it is for another claim or request."""
        claim, _, request = entry.removeprefix("claim:").partition("/")
        if not entry.startswith("claim:") or claim != self.claim:
            return ()
        return tuple(device for given, device in self.allocated if is_of_request(given, request))


@dataclass(frozen=True, slots=True)
class PodFact:
    """A Pod on the node, from a time on."""

    at: float
    name: str
    """Namespace and name."""
    status: StatusSeen
    uses: tuple[Use, ...]

    @property
    def uid(self) -> str:
        """The identity of the Pod."""
        return self.status.uid

    def devices(self) -> set[DeviceId]:
        """All devices of the driver that its containers use."""
        return {device for use in self.uses for device in use.devices}


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a published device."""

    key: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class SliceFact:
    """A ResourceSlice of the driver, from a time on."""

    at: float
    name: str
    pool: str
    generation: int
    count: int
    """`resourceSliceCount`: the slices of the pool."""
    taints: Mapping[str, tuple[Taint, ...]] = field(default_factory=dict)
    """The taints of each device, by its name."""
    content: str = ""
    """The devices as text, to compare."""
    gone: bool = False


@dataclass(frozen=True, slots=True)
class EventFact:
    """A Warning of the kubelet about the devices of a Pod."""

    at: float
    about: str
    reason: str
    message: str


@dataclass(slots=True)
class NodeFacts:
    """All that was seen of one node, in the order of time."""

    node: str
    kubelet: str = ""
    """Version of its kubelet, such as v1.37.1."""
    pods: list[PodFact] = field(default_factory=list)
    gone: dict[str, float] = field(default_factory=dict)
    """When a Pod was deleted, by its UID."""
    slices: list[SliceFact] = field(default_factory=list)
    events: list[EventFact] = field(default_factory=list)
    lost: tuple[float, str] | None = None
    """Since when the node is missing or not Ready, and why; None while it is Ready."""
    own_problem: str = ""
    """Why the Pod of the observer does not run; empty if it does. Without a free device it cannot."""


def uses(pod: Object, claims: Mapping[tuple[str, str], Object], driver: str) -> Iterator[Use]:
    """The devices of the driver that containers of a Pod use; `claims` are the ResourceClaims by namespace and name."""
    names, namespace = claim_names(pod), pod["metadata"]["namespace"]
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        for one in (container.get("resources") or {}).get("claims") or ():
            claim = claims.get((namespace, names.get(one["name"], "")))
            request = one.get("request", "")
            if allocated := tuple(_allocated(claim or {}, driver, request)):
                yield Use(container["name"], one["name"], request, allocated)


def _allocated(claim: Object, driver: str, request: str) -> Iterator[tuple[str, DeviceId]]:
    found = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
    for one in found.get("results") or ():
        if one["driver"] == driver and is_of_request(one["request"], request):
            yield one["request"], DeviceId(driver, one["pool"], one["device"])


def pod_fact(at: float, pod: Object, used: Iterable[Use]) -> PodFact:
    """What a Pod object shows."""
    meta = pod["metadata"]
    return PodFact(at, f"{meta['namespace']}/{meta['name']}", status_seen(pod), tuple(used))


def slice_fact(at: float, obj: Object, *, gone: bool = False) -> SliceFact:
    """What a ResourceSlice object shows."""
    spec: dict[str, Any] = obj["spec"]
    devices = spec.get("devices") or []
    return SliceFact(
        at,
        obj["metadata"]["name"],
        spec["pool"]["name"],
        spec["pool"]["generation"],
        spec["pool"]["resourceSliceCount"],
        {one["name"]: tuple(Taint(t["key"], t["effect"]) for t in one.get("taints") or ()) for one in devices},
        json.dumps([devices, spec.get("sharedCounters")], sort_keys=True),
        gone,
    )


def moments(facts: NodeFacts, end: float) -> Iterator[tuple[float, list[PodFact], dict[str, list[SliceFact]]]]:
    """Each time at which something changed, with the Pods and the published slices from then on.

    The published slices of a pool are those of its newest generation.
    """
    changes: list[tuple[float, PodFact | SliceFact | str]] = [(one.at, one) for one in facts.pods]
    changes += [(one.at, one) for one in facts.slices]
    changes += [(at, uid) for uid, at in facts.gone.items()]
    pods: dict[str, PodFact] = {}
    slices: dict[str, SliceFact] = {}
    pools: dict[str, list[SliceFact]] = {}
    for at, group in groupby(sorted(changes, key=itemgetter(0)), key=itemgetter(0)):
        if at > end:
            return
        for _, change in group:
            if isinstance(change, str):
                pods.pop(change, None)
            elif isinstance(change, PodFact):
                pods[change.uid] = change
            elif change.gone:
                slices.pop(change.name, None)
            else:
                slices[change.name] = change
        pools = {}
        for one in slices.values():
            pools.setdefault(one.pool, []).append(one)
        yield at, list(pods.values()), {pool: _newest(found) for pool, found in pools.items()}


def _newest(slices: list[SliceFact]) -> list[SliceFact]:
    generation = max(one.generation for one in slices)
    return [one for one in slices if one.generation == generation]
