"""Reads and changes pod objects: their devices, extended resources and statuses. Pure functions."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from drahealth.fakes.cluster.api import Object
from drahealth.proto.events import ContainerSeen, StatusSeen
from drahealth.proto.values import Health, ResourceHealth, ResourceStatus, is_extended_resource

# Reads and changes pod objects for several fakes. Pure functions.


def is_terminal(pod: Object) -> bool:
    """Whether the pod has terminated."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def on_nodes(names: Iterable[str]) -> Object:
    """The affinity of a Pod to these nodes, by their names: a label of a node can have another one."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def with_condition(status: Object, kind: str, holds: bool, *, now: str, reason: str = "", message: str = "") -> Object:
    """The pod status with this condition (`kind` is its type); its transition time moves only when `holds` changes.

    `now` is RFC 3339 as in the API.
    """
    conditions = list(status.get("conditions") or ())
    old = next((condition for condition in conditions if condition["type"] == kind), None)
    new = {"type": kind, "status": str(holds), "lastTransitionTime": now}
    if old is not None and old["status"] == new["status"]:
        new["lastTransitionTime"] = old["lastTransitionTime"]
    new |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
    others = [condition for condition in conditions if condition["type"] != kind]
    return {**status, "conditions": [*others, new]}


def is_gated(pod: Object) -> bool:
    """Whether the pod has scheduling gates, and waits for their removal."""
    return bool(pod["spec"].get("schedulingGates"))


def resized(pod: Object, limits: Mapping[str, str]) -> Object:
    """The pod with these limits of each container, and with equal requests."""

    def sized(container: Object) -> Object:
        old = container.get("resources") or {}
        sizes = {key: {**(old.get(key) or {}), **limits} for key in ("limits", "requests")}
        return {**container, "resources": {**old, **sizes}}

    return {**pod, "spec": {**pod["spec"], "containers": [sized(one) for one in pod["spec"]["containers"]]}}


def claim_names(pod: Object) -> dict[str, str]:
    """The names of the pod's ResourceClaims, by their names in the pod. Claims that do not exist yet are missing.

    The claim for its extended resources (KEP-5004) is not in its spec. It has the name of its object.
    """
    status = pod.get("status", {})
    made = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    named = {one["name"]: one.get("resourceClaimName") for one in pod["spec"].get("resourceClaims") or ()}
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    found = {name: found for name, given in named.items() if (found := given or made.get(name))}
    return {**found, extended: extended} if extended else found


# Requests of pods for extended resources, and the resources of nodes. Pure.
#
# A request is a whole number of devices in the limits of a container.
#
# Kubernetes does not allow overcommitment: a request equals its limit.


def requests_of(container: Object) -> dict[str, int]:
    """The number of devices of each extended resource that a container requests."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: int(str(amount)) for name, amount in limits.items() if is_extended_resource(name)}


def init_containers(pod: Object) -> list[Object]:
    """The init containers that end before the pod's containers start."""
    return [one for one in pod["spec"].get("initContainers") or () if not _is_sidecar(one)]


def requests_by_container(pod: Object) -> dict[str, dict[str, int]]:
    """The same for each container with such requests, in the order of their start."""
    containers = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    return {one["name"]: found for one in containers if (found := requests_of(one))}


def requests_of_pod(pod: Object) -> Counter[str]:
    """The number that a node needs for the pod: all that run together, or an init container that requests more."""
    whole: Counter[str] = Counter()
    for container in _running_at_once(pod):
        whole.update(requests_of(container))
    for container in init_containers(pod):
        whole |= Counter(requests_of(container))
    return whole


def allocatable(node: Object) -> dict[str, int]:
    """The allocatable whole-number resources of the node."""
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return {name: int(amount) for name, amount in amounts.items() if str(amount).isdecimal()}


def insufficient(pod: Object, node: Object, others: Iterable[Object], claimed: Collection[str] = ()) -> str:
    """The resources that are insufficient on the node for the pod, next to these other pods; empty if it fits.

    The pod gets the `claimed` resources from a claim.
    """
    requests = {name: count for name, count in requests_of_pod(pod).items() if name not in claimed}
    if not requests:
        return ""
    used: Counter[str] = Counter()
    for other in others:
        if not is_terminal(other):
            used.update(requests_of_pod(other))
    has = allocatable(node)
    return next(
        (f"Insufficient {name}" for name, n in sorted(requests.items()) if n + used[name] > has.get(name, 0)), ""
    )


def _running_at_once(pod: Object) -> Iterator[Object]:
    yield from pod["spec"]["containers"]
    yield from (one for one in pod["spec"].get("initContainers") or () if _is_sidecar(one))


def _is_sidecar(container: Object) -> bool:
    return bool(container.get("restartPolicy") == "Always")


# Conversion of a Pod object to the status event of a history. Pure.


def status_seen(pod: Object) -> StatusSeen:
    """The status event for a Pod object."""
    status = pod.get("status", {})
    containers, initial = (
        tuple(_container_seen(c) for c in status.get(kind) or ())
        for kind in ("containerStatuses", "initContainerStatuses")
    )
    meta, phase = pod["metadata"], status.get("phase", "Pending")
    unknown = tuple(_unknown_keys(status))
    return StatusSeen(
        *(meta["name"], meta["uid"], phase, containers, initial, _resources(status)),
        unknown_keys=unknown,
        pending=_why_pending(pod) if phase == "Pending" else "",
    )


def _why_pending(pod: Object) -> str:
    """The scheduler's reason, or that of a waiting container; empty if there is none."""
    status = pod.get("status", {})
    for condition in () if pod.get("spec", {}).get("nodeName") else status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            return str(condition.get("message") or condition.get("reason") or "")
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    waiting = (container.get("state", {}).get("waiting") or {} for container in containers)
    return next((str(one["message"]) for one in waiting if one.get("message")), "")


def _container_seen(status: Object) -> ContainerSeen:
    state = status.get("state", {})
    kind = next(iter(state), "waiting")
    word = state[kind].get("reason", kind) if kind == "waiting" and state else kind
    return ContainerSeen(status["name"], word, status.get("restartCount", 0), _resources(status))


def _resources(status: Object) -> tuple[ResourceStatus, ...] | None:
    entries = status.get("allocatedResourcesStatus")
    return None if entries is None else tuple(_resource_status(entry) for entry in entries)


def _unknown_keys(status: Object) -> Iterator[str]:
    """The paths of keys that entries and their elements must not have."""
    lists = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    for owner in (status, *(container for kind in lists for container in status.get(kind) or ())):
        for entry in owner.get("allocatedResourcesStatus") or ():
            yield from (f"{entry['name']}.{key}" for key in entry.keys() - {"name", "resources"})
            for resource in entry.get("resources", ()):
                keys = sorted(resource.keys() - {"resourceID", "health", "message"})
                yield from (f"{entry['name']}.{resource['resourceID']}.{key}" for key in keys)


def _resource_status(entry: Object) -> ResourceStatus:
    found = (
        ResourceHealth(r["resourceID"], Health(r["health"]), r.get("message", "")) for r in entry.get("resources", [])
    )
    return ResourceStatus(entry["name"], tuple(found))
