"""Whether a node has the extended resources that a pod asks for. Pure."""

from collections import Counter
from collections.abc import Iterable

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.extended_resources import wanted_by_pod
from drahealth.fakes.cluster.pods import is_terminal


def allocatable(node: Object) -> dict[str, int]:
    """What pods can be given on the node, of what is counted in whole numbers."""
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return {name: int(amount) for name, amount in amounts.items() if str(amount).isdecimal()}


def insufficient(pod: Object, node: Object, others: Iterable[Object]) -> str:
    """What the node has too little of for the pod beside these others, which are on it; empty if it fits."""
    wanted = wanted_by_pod(pod)
    if not wanted:
        return ""
    used: Counter[str] = Counter()
    for other in others:
        if not is_terminal(other):
            used.update(wanted_by_pod(other))
    has = allocatable(node)
    return next((f"Insufficient {name}" for name, n in sorted(wanted.items()) if n + used[name] > has.get(name, 0)), "")
