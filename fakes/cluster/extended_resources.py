"""A pod's requests for extended resources: whole numbers of devices in its containers' limits. Pure.

Kubernetes does not allow overcommitment: a request equals its limit.
"""

from collections import Counter
from collections.abc import Iterator

from drahealth.fakes.cluster.api import Object
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


def _running_at_once(pod: Object) -> Iterator[Object]:
    yield from pod["spec"]["containers"]
    yield from (one for one in pod["spec"].get("initContainers") or () if _is_sidecar(one))


def _is_sidecar(container: Object) -> bool:
    return bool(container.get("restartPolicy") == "Always")
