"""The claim that a scheduler creates for extended resources of a pod, if a DeviceClass names them. Pure.

Source: KEP-5004. A container requests such a resource in its limits, and the pod's spec has no claim for it. The status
of the pod names the claim, and maps the resources of each container to the requests of the claim
(`extendedResourceClaimStatus`).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.extended_resources import allocatable, requests_of, requests_of_pod
from drahealth.fakes.cluster.scheduling.claims import EXTENDED, owner_reference


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
