"""The changes that a control plane makes to claim objects, also to those for extended resources. Pure functions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.pods import allocatable, requests_of, requests_of_pod
from drahealth.fakes.cluster.scheduling.allocation import Grant
from drahealth.proto.values import DeviceId

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
