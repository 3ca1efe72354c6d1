"""Objects of a cluster with one node and one driver, and the facts of their changes over time."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.suites.observing.facts import EventFact, NodeFacts, pod_fact, slice_fact, uses

DRIVER = "gpu.example.com"
ID = f"{DRIVER}/node/gpu-0"
END = 150.0


def claim(devices: Sequence[str] = ("gpu-0",)) -> Object:
    results = [{"request": "gpu", "driver": DRIVER, "pool": "node", "device": name} for name in devices]
    return {
        "metadata": {"name": "gpu", "namespace": "default"},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def entry(*resources: Mapping[str, Any], name: str = "claim:gpu") -> Object:
    return {"name": name, "resources": list(resources)}


def shown(health: str = "Healthy", message: str = "", name: str = ID) -> Object:
    return {"resourceID": name, "health": health} | ({"message": message} if message else {})


def pod(*entries: Object, state: str = "running", phase: str = "Running") -> Object:
    """A Pod with one container that uses the claim, and these entries in its status."""
    status = {"name": "main", "state": {state: {}}, "allocatedResourcesStatus": list(entries)}
    return {
        "metadata": {"name": "job", "namespace": "default", "uid": "1"},
        "spec": {
            "nodeName": "node",
            "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
        },
        "status": {"phase": phase, "containerStatuses": [status]},
    }


def resource_slice(
    devices: Iterable[str] = ("gpu-0", "gpu-1"),
    *,
    generation: int = 1,
    count: int = 1,
    taints: Mapping[str, str] | None = None,
) -> Object:
    """A slice; `taints` are effects by device."""
    found = [
        {"name": name} | ({"taints": [{"key": "a/b", "effect": taints[name]}]} if taints and name in taints else {})
        for name in devices
    ]
    pool = {"name": "node", "generation": generation, "resourceSliceCount": count}
    return {"metadata": {"name": "slice"}, "spec": {"pool": pool, "devices": found}}


def seen(
    pods: Sequence[tuple[float, Object]] = (),
    slices: Sequence[tuple[float, Object]] = ((0.0, resource_slice()),),
    events: Sequence[EventFact] = (),
    devices: Sequence[str] = ("gpu-0",),
) -> NodeFacts:
    """The facts of these objects, each from a time on."""
    claims = {("default", "gpu"): claim(devices)}
    return NodeFacts(
        "node",
        pods=[pod_fact(at, one, uses(one, claims, DRIVER)) for at, one in pods],
        slices=[slice_fact(at, one) for at, one in slices],
        events=list(events),
    )
