"""The allocation of published devices to requests, and the changes that a control plane makes to claims. Pure."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.pods import allocatable, requests_of, requests_of_pod
from drahealth.proto.values import DeviceId

# A claim's requests as values, combined with their device classes.
#
# A class or request can select devices only by their driver, in the CEL form `device.driver == "NAME"`. Other
# expressions are rejected with a message and never allocated. Source: API resource.k8s.io/v1, `DeviceClaim`.

_DRIVER_SELECTOR = re.compile(r"""\s*device\.driver\s*==\s*(["'])([^"'\\]+)\1\s*""")
_UNSUPPORTED = ("capacity", "derivedAttributes")


class UnschedulableError(Exception):
    """A pod cannot be scheduled now; the text is for its PodScheduled condition."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a device (`DeviceTaint`)."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """Taints that a request tolerates (`DeviceToleration`); an empty key or effect matches all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        return (
            self.key in ("", taint.key)
            and self.effect in ("", taint.effect)
            and (self.operator == "Exists" or self.value == taint.value)
        )


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """The number of devices of one request; `count` None means all that match (allocationMode All)."""

    request: str
    """Name in allocation results: the request, or `request/subrequest` in a prioritized list."""
    device_class: str
    drivers: tuple[str, ...] = ()
    """Drivers named by the selectors; the device's driver must equal each of them."""
    count: int | None = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()

    def matches(self, driver: str) -> bool:
        return all(wanted == driver for wanted in self.drivers)

    def tolerates(self, taints: Sequence[Taint]) -> bool:
        return all(any(toleration.tolerates(taint) for toleration in self.tolerations) for taint in taints)


Alternatives = tuple[DeviceRequest, ...]
"""One request: its alternatives, the preferred one first."""


def requests_of_claim(claim: Object, classes: Mapping[str, Object]) -> list[Alternatives]:
    """The claim's requests in order. `UnschedulableError` for an unknown class or an unsupported expression."""
    metadata, devices = claim["metadata"], claim["spec"].get("devices", {})
    name = metadata.get("name") or metadata["generateName"]
    try:
        if devices.get("constraints"):
            raise UnschedulableError("constraints are not supported; remove them")
        return [_alternatives(request, classes) for request in devices.get("requests", ())]
    except UnschedulableError as why:
        raise UnschedulableError(f"claim {name}: {why}") from None


def _alternatives(request: Object, classes: Mapping[str, Object]) -> Alternatives:
    name = request["name"]
    if exactly := request.get("exactly"):
        return (_wanted(name, exactly, classes),)
    if listed := request.get("firstAvailable"):
        return tuple(_wanted(f"{name}/{one['name']}", one, classes) for one in listed)
    raise UnschedulableError(f"request {name}: set `exactly` or `firstAvailable`")


def _wanted(name: str, request: Object, classes: Mapping[str, Object]) -> DeviceRequest:
    device_class = request.get("deviceClassName", "")
    if device_class not in classes:
        raise UnschedulableError(f"request {name}: device class {device_class} does not exist")
    if unsupported := [field for field in _UNSUPPORTED if request.get(field)]:
        raise UnschedulableError(f"request {name}: {unsupported[0]} is not supported; remove it")
    selectors = [*classes[device_class].get("spec", {}).get("selectors", ()), *request.get("selectors", ())]
    return DeviceRequest(
        name,
        device_class,
        drivers=tuple(_driver(name, selector) for selector in selectors),
        count=_count(name, request),
        admin=bool(request.get("adminAccess")),
        tolerations=tuple(_toleration(toleration) for toleration in request.get("tolerations", ())),
    )


def _driver(name: str, selector: Any) -> str:
    expression = selector.get("cel", {}).get("expression", "")
    if form := _DRIVER_SELECTOR.fullmatch(expression):
        return form[2]
    raise UnschedulableError(
        f'request {name}: this scheduler understands no selector but device.driver == "NAME", not {expression}'
    )


def _count(name: str, request: Object) -> int | None:
    mode = request.get("allocationMode") or "ExactCount"
    if mode == "All":
        return None
    if mode != "ExactCount":
        raise UnschedulableError(f"request {name}: allocationMode must be ExactCount or All, got {mode}")
    return int(request.get("count") or 1)


def _toleration(toleration: Object) -> Toleration:
    return Toleration(
        toleration.get("key", ""),
        toleration.get("operator") or "Equal",
        toleration.get("value", ""),
        toleration.get("effect", ""),
    )


# Published devices as values: the devices of each pool that a node can use. Source: API `ResourceSliceSpec`.
#
# Only the newest generation of a pool counts. Devices with shared counters and devices with a node selector are not
# offered, because neither is implemented here.

_PREVENTING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Offer:
    """A device that a node can use, and its taints."""

    id: DeviceId
    taints: tuple[Taint, ...] = ()
    node_local: bool = True


@dataclass(frozen=True, slots=True)
class Pool:
    """The devices of one pool; incomplete while slices of the newest generation are missing."""

    driver: str
    offers: tuple[Offer, ...]
    complete: bool = True


def pools_on(node: str, slices: Iterable[Object]) -> list[Pool]:
    """The pools with devices for this node, ordered by driver and pool; a pool with a duplicate device is ignored."""
    by_pool: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for slice_ in slices:
        by_pool[slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]].append(slice_)
    pools = (_pool(node, by_pool[key]) for key in sorted(by_pool))
    return [pool for pool in pools if pool is not None and pool.offers]


def _pool(node: str, slices: list[Object]) -> Pool | None:
    newest = max(_generation(slice_) for slice_ in slices)
    current = [slice_["spec"] for slice_ in _by_name(slices) if _generation(slice_) == newest]
    names = [device["name"] for spec in current for device in spec.get("devices") or ()]
    if len(set(names)) < len(names):
        return None
    offers = tuple(offer for spec in current for offer in _offers(node, spec))
    return Pool(current[0]["driver"], offers, len(current) >= current[0]["pool"].get("resourceSliceCount", 1))


def _offers(node: str, spec: Object) -> Iterator[Offer]:
    for device in spec.get("devices") or ():
        placed = device if spec.get("perDeviceNodeSelection") else spec
        is_here = placed.get("nodeName") == node or placed.get("allNodes")
        if is_here and not device.get("consumesCounters"):
            device_id = DeviceId(spec["driver"], spec["pool"]["name"], device["name"])
            yield Offer(device_id, _taints(device), not placed.get("allNodes"))


def _taints(device: Object) -> tuple[Taint, ...]:
    return tuple(
        Taint(taint.get("key", ""), taint.get("value", ""), taint["effect"])
        for taint in device.get("taints") or ()
        if taint.get("effect") in _PREVENTING
    )


def _generation(slice_: Object) -> int:
    return int(slice_["spec"]["pool"].get("generation", 0))


def _by_name(slices: list[Object]) -> list[Object]:
    return sorted(slices, key=lambda slice_: str(slice_["metadata"]["name"]))


# Allocates devices to requests: all or nothing, no device twice. Pure.
#
# The search backtracks if a choice leaves a later request without devices, as the real allocator does. To stay fast,
# it treats devices that suit exactly the same requests as one group, and only tries how many of each group a request
# takes.


@dataclass(frozen=True, slots=True)
class Grant:
    """The devices of one request, and the chosen alternative."""

    request: DeviceRequest
    offers: tuple[Offer, ...]


def allocate(
    requests: Sequence[Alternatives], pools: Sequence[Pool], in_use: Collection[DeviceId]
) -> list[Grant] | None:
    """One grant for each request, or None if they cannot all be met. `in_use`: devices that other claims hold."""
    return _Search(requests, pools, in_use).grants(0, ())


_Choice = tuple[tuple[Offer, ...], tuple[int, ...]]
"""The devices for one request, and the number of allocated devices of each group after it."""


class _Search:
    """`taken` counts the allocated devices of each group; the devices of a group are used in order."""

    def __init__(self, requests: Sequence[Alternatives], pools: Sequence[Pool], in_use: Collection[DeviceId]) -> None:
        self._requests = requests
        self._pools = pools
        self._in_use = in_use
        self._offers = [offer for pool in pools for offer in pool.offers]
        self._groups = self._grouped()

    def grants(self, index: int, taken: tuple[int, ...]) -> list[Grant] | None:
        """Grants for the requests from `index` on."""
        if index == len(self._requests):
            return []
        for request in self._requests[index]:
            for offers, taken_then in self._ways(request, taken or (0,) * len(self._groups)):
                rest = self.grants(index + 1, taken_then)
                if rest is not None:
                    return [Grant(request, offers), *rest]
        return None

    def _ways(self, request: DeviceRequest, taken: tuple[int, ...]) -> Iterator[_Choice]:
        if request.count is None:
            yield from self._all(request, taken)
        elif request.admin:
            suitable = tuple(offer for offer in self._offers if _suits(request, offer))[: request.count]
            if len(suitable) == request.count:
                yield suitable, taken
        else:
            yield from self._counted(request, request.count, taken)

    def _all(self, request: DeviceRequest, taken: tuple[int, ...]) -> Iterator[_Choice]:
        """Every matching device, if there is at least one, all are allocatable, and their pools are complete."""
        pools = [pool for pool in self._pools if request.matches(pool.driver)]
        offers = tuple(offer for pool in pools for offer in pool.offers)
        may = all(pool.complete for pool in pools) and all(request.tolerates(offer.taints) for offer in offers)
        if not offers or not may:
            return
        if request.admin:
            yield offers, taken
        elif self._away(taken).isdisjoint(offer.id for offer in offers):
            whole = [len(g) if _suits(request, g[0]) else n for g, n in zip(self._groups, taken, strict=True)]
            yield offers, tuple(whole)

    def _counted(self, request: DeviceRequest, count: int, taken: tuple[int, ...]) -> Iterator[_Choice]:
        pairs = list(zip(self._groups, taken, strict=True))
        room = [len(group) - n if _suits(request, group[0]) else 0 for group, n in pairs]
        for split in _splits(count, room):
            chosen = [group[n : n + more] for (group, n), more in zip(pairs, split, strict=True)]
            then = tuple(n + more for n, more in zip(taken, split, strict=True))
            yield tuple(offer for part in chosen for offer in part), then

    def _away(self, taken: tuple[int, ...]) -> set[DeviceId]:
        """The devices that are no longer free."""
        given = (offer.id for group, n in zip(self._groups, taken, strict=True) for offer in group[:n])
        return {*self._in_use, *given}

    def _grouped(self) -> list[list[Offer]]:
        """The free devices, grouped by the requests that they suit."""
        groups: dict[tuple[bool, ...], list[Offer]] = {}
        for offer in self._offers:
            if offer.id not in self._in_use:
                suits = tuple(_suits(request, offer) for alternatives in self._requests for request in alternatives)
                groups.setdefault(suits, []).append(offer)
        return list(groups.values())


def _suits(request: DeviceRequest, offer: Offer) -> bool:
    return request.matches(offer.id.driver) and request.tolerates(offer.taints)


def _splits(count: int, room: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The ways to take `count` from groups of these sizes, as many as possible from the first ones first."""
    if count > sum(room):
        return
    if not room:
        yield ()
        return
    for first in range(min(count, room[0]), -1, -1):
        for rest in _splits(count - first, room[1:]):
            yield (first, *rest)


# The changes that a control plane makes to claim objects. Pure functions; source: API resource.k8s.io/v1.
#
# An allocated claim has a finalizer, so that it is not deleted while a pod uses it.

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim from a template, with the claim's name in the pod."""
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that a scheduler creates for the extended resources of a pod (KEP-5004)."""


def from_template(pod: Object, pod_claim: str, template: Object) -> Object:
    """The claim for one entry of the pod's `resourceClaims`, without a name."""
    meta = template["spec"].get("metadata") or {}
    metadata = {
        "generateName": f"{pod['metadata']['name']}-{pod_claim}-",
        "namespace": pod["metadata"]["namespace"],
        "labels": dict(meta.get("labels") or {}),
        "annotations": {**(meta.get("annotations") or {}), POD_CLAIM: pod_claim},
        "ownerReferences": [owner_reference(pod)],
    }
    return {"metadata": metadata, "spec": template["spec"]["spec"]}


def owner_reference(pod: Object) -> Object:
    """The reference of a claim to the pod for which it was created."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    return {**owner, "controller": True, "blockOwnerDeletion": True}


def owner_uid(claim: Object) -> str | None:
    """The UID of the pod for which the claim was created; None for other claims."""
    metadata = claim["metadata"]
    if not {POD_CLAIM, EXTENDED} & (metadata.get("annotations") or {}).keys():
        return None
    owners = metadata.get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("kind") == "Pod" and owner.get("controller")), None)


def is_allocated(claim: Object) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def consumers(claim: Object) -> list[Object]:
    """The pods for which the claim is reserved: `resource`, `name` and `uid` of each."""
    return list((claim.get("status") or {}).get("reservedFor") or ())


def devices_held(claim: Object) -> set[DeviceId]:
    """The devices that are not available to other claims."""
    if not is_allocated(claim):
        return set()
    results = claim["status"]["allocation"].get("devices", {}).get("results") or ()
    return {DeviceId(r["driver"], r["pool"], r["device"]) for r in results if not r.get("adminAccess")}


def suits_node(claim: Object, node: str) -> bool:
    """Whether an allocated claim can be used on this node."""
    selector = claim["status"]["allocation"].get("nodeSelector")
    return selector is None or any(
        all(node in field.get("values", ()) for field in term.get("matchFields") or ())
        for term in selector.get("nodeSelectorTerms") or ()
    )


def allocation(claim: Object, grants: Sequence[Grant], classes: Mapping[str, Object], node: str) -> Object:
    """The allocation in the claim's status. It names the node if one of the devices is local to it."""
    results = [_result(grant, offer.id) for grant in grants for offer in grant.offers]
    devices: Object = {"results": results}
    if config := _config(claim, grants, classes):
        devices["config"] = config
    if not any(offer.node_local for grant in grants for offer in grant.offers):
        return {"devices": devices}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"devices": devices, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def protected(claim: Object, *, held: bool) -> Object:
    """The claim with or without the finalizer of allocated claims."""
    others = [name for name in claim["metadata"].get("finalizers") or () if name != FINALIZER]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": [*others, FINALIZER] if held else others}}


def is_protected(claim: Object) -> bool:
    return FINALIZER in (claim["metadata"].get("finalizers") or ())


def reserved(claim: Object, pod: Object) -> Object:
    """The claim with the pod among its consumers."""
    uid = pod["metadata"]["uid"]
    others = [consumer for consumer in consumers(claim) if consumer["uid"] != uid]
    this = {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid}
    return {**claim, "status": {**(claim.get("status") or {}), "reservedFor": [*others, this]}}


def released(claim: Object, gone: set[str]) -> Object:
    """The claim without these consumers; without any consumer it loses its allocation."""
    left = [consumer for consumer in consumers(claim) if consumer["uid"] not in gone]
    status = {key: value for key, value in (claim.get("status") or {}).items() if key != "reservedFor"}
    if left:
        return {**claim, "status": {**status, "reservedFor": left}}
    return {**claim, "status": {key: value for key, value in status.items() if key not in ("allocation", "devices")}}


def _result(grant: Grant, device: DeviceId) -> Object:
    wanted = grant.request
    result: Object = {"request": wanted.request, "driver": device.driver, "pool": device.pool, "device": device.device}
    if wanted.admin:
        result["adminAccess"] = True
    if wanted.tolerations:
        result["tolerations"] = [
            {"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect} for t in wanted.tolerations
        ]
    return result


def _config(claim: Object, grants: Sequence[Grant], classes: Mapping[str, Object]) -> list[Object]:
    """Parameters for drivers: first those of the classes, then those of the claim."""
    from_classes = [
        {"source": "FromClass", "requests": [grant.request.request], **entry}
        for grant in grants
        for entry in classes[grant.request.device_class].get("spec", {}).get("config") or ()
    ]
    granted = {grant.request.request for grant in grants}
    names = granted | {name.partition("/")[0] for name in granted}
    from_claim = [
        {"source": "FromClaim", **entry}
        for entry in claim["spec"].get("devices", {}).get("config") or ()
        if not entry.get("requests") or names & set(entry["requests"])
    ]
    return from_classes + from_claim


# The claim that a scheduler creates for extended resources of a pod, if a DeviceClass names them. Pure.
#
# Source: KEP-5004. A container requests such a resource in its limits, and the pod's spec has no claim for it. The
# status of the pod names the claim, and maps the resources of each container to the requests of the claim
# (`extendedResourceClaimStatus`).


@dataclass(frozen=True, slots=True)
class _Request:
    """The request of the claim for one resource of one container."""

    name: str
    container: str
    resource: str
    count: int


def claimed_resources(pod: Object, node: Object, classes: Mapping[str, Object]) -> dict[str, str]:
    """The DeviceClass of each resource that the pod needs and for which this node has no device plugin."""
    by_resource = {
        one["spec"]["extendedResourceName"]: name
        for name, one in sorted(classes.items(), reverse=True)
        if one.get("spec", {}).get("extendedResourceName")
    }
    has = allocatable(node)
    return {name: by_resource[name] for name in requests_of_pod(pod) if name in by_resource and not has.get(name)}


def extended_claim(pod: Object, resources: Mapping[str, str]) -> Object:
    """The claim for these resources of the pod, without a name. `resources` maps each to its DeviceClass."""
    requests = [
        {
            "name": one.name,
            "exactly": {
                "deviceClassName": resources[one.resource],
                "allocationMode": "ExactCount",
                "count": one.count,
            },
        }
        for one in _requests(pod, resources)
    ]
    metadata = {
        "generateName": f"{pod['metadata']['name']}-extended-resources-",
        "namespace": pod["metadata"]["namespace"],
        "annotations": {EXTENDED: "true"},
        "ownerReferences": [owner_reference(pod)],
    }
    return {"metadata": metadata, "spec": {"devices": {"requests": requests}}}


def is_extended_claim(claim: Object) -> bool:
    return EXTENDED in (claim["metadata"].get("annotations") or {})


def claim_status(pod: Object, claim: Object, resources: Collection[str]) -> Object:
    """The `extendedResourceClaimStatus` of the pod with this claim for these resources."""
    mappings = [
        {"containerName": one.container, "resourceName": one.resource, "requestName": one.name}
        for one in _requests(pod, resources)
    ]
    return {"resourceClaimName": claim["metadata"]["name"], "requestMappings": mappings}


def _requests(pod: Object, resources: Collection[str]) -> Iterator[_Request]:
    """A request for each resource of each container, named by the place of both, as kube-scheduler names it."""
    for place, container in enumerate((*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])):
        wanted = requests_of(container)
        for index, name in enumerate(sorted((container.get("resources") or {}).get("requests") or ())):
            if name in resources and wanted.get(name):
                yield _Request(f"container-{place}-request-{index}", container["name"], name, wanted[name])
