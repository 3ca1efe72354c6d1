"""What a pod asks for of extended resources: whole numbers of devices, as its containers' limits. Pure.

Kubernetes does not let them be overcommitted: a request is there with a limit, and is equal to it.
"""

from collections import Counter
from collections.abc import Iterator

from drahealth.fakes.cluster.api import Object
from drahealth.proto.extended_resources import is_extended_resource


def wanted(container: Object) -> dict[str, int]:
    """How many devices of each extended resource a container asks for."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: int(str(amount)) for name, amount in limits.items() if is_extended_resource(name)}


def init_containers(pod: Object) -> list[Object]:
    """Those that end before the pod's containers start."""
    return [one for one in pod["spec"].get("initContainers") or () if not _is_sidecar(one)]


def wanted_by_container(pod: Object) -> dict[str, dict[str, int]]:
    """The same of each container of a pod that asks for any, in the order of their start."""
    containers = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    return {one["name"]: found for one in containers if (found := wanted(one))}


def wanted_by_pod(pod: Object) -> Counter[str]:
    """What a node must have for the pod: all that run at once together, or an init container that wants more."""
    whole: Counter[str] = Counter()
    for container in _running_at_once(pod):
        whole.update(wanted(container))
    for container in init_containers(pod):
        whole |= Counter(wanted(container))
    return whole


def _running_at_once(pod: Object) -> Iterator[Object]:
    yield from pod["spec"]["containers"]
    yield from (one for one in pod["spec"].get("initContainers") or () if _is_sidecar(one))


def _is_sidecar(container: Object) -> bool:
    return bool(container.get("restartPolicy") == "Always")
