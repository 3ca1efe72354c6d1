"""Requests of pods for extended resources, and the resources of nodes. Pure.

A request is a whole number of devices in the limits of a container.

Kubernetes does not allow overcommitment: a request equals its limit.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.pods import is_terminal
from drahealth.proto.extended_resources import is_extended_resource


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
