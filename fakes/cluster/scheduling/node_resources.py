"""Checks whether a node has the extended resources of a pod. Pure."""

from collections import Counter
from collections.abc import Iterable

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.extended_resources import requests_of_pod
from drahealth.fakes.cluster.pods import is_terminal


def allocatable(node: Object) -> dict[str, int]:
    """The allocatable whole-number resources of the node."""
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return {name: int(amount) for name, amount in amounts.items() if str(amount).isdecimal()}


def insufficient(pod: Object, node: Object, others: Iterable[Object]) -> str:
    """The resources that are insufficient on the node for the pod, next to these other pods; empty if it fits."""
    wanted = requests_of_pod(pod)
    if not wanted:
        return ""
    used: Counter[str] = Counter()
    for other in others:
        if not is_terminal(other):
            used.update(requests_of_pod(other))
    has = allocatable(node)
    return next((f"Insufficient {name}" for name, n in sorted(wanted.items()) if n + used[name] > has.get(name, 0)), "")
