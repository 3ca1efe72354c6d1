"""The API objects that tests create. Pure."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, DEVICE_CLASSES, PODS, SLICES, Object
from drahealth.suites.targets.target import BELONGS

ClaimUse = tuple[str, str | None]
"""The name of a claim in the pod, and the name of a request or None."""


def device_class(driver: str, labels: Mapping[str, str] = BELONGS) -> Object:
    """A DeviceClass with all devices of the driver."""
    return {
        "apiVersion": DEVICE_CLASSES.api_version,
        "kind": DEVICE_CLASSES.kind,
        "metadata": {"name": driver, "labels": dict(labels)},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    }


def claim(
    namespace: str,
    name: str,
    requests: Mapping[str, tuple[str, int]],
    alternatives: Mapping[str, Sequence[str]] = MappingProxyType({}),
    *,
    admin: bool = False,
) -> Object:
    """A ResourceClaim. `requests` maps names to a driver and its number of devices.

    `alternatives` has the names of the subrequests of a request; all ask for the same. `admin` asks for devices that
    other claims can hold, too (adminAccess).
    """
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "devices": {
                "requests": [
                    _request(request, alternatives.get(request, ()), of, many, admin=admin)
                    for request, (of, many) in requests.items()
                ]
            }
        },
    }


def _request(name: str, alternatives: Sequence[str], driver: str, count: int, *, admin: bool) -> dict[str, Any]:
    asked = {"deviceClassName": driver, "allocationMode": "ExactCount", "count": count}
    if not alternatives:
        return {"name": name, "exactly": {**asked, "adminAccess": True} if admin else asked}
    return {"name": name, "firstAvailable": [{"name": alternative, **asked} for alternative in alternatives]}


def slice_of_another_node(driver: str, device: str, labels: Mapping[str, str] = BELONGS) -> Object:
    """A ResourceSlice of another node, whose pool has one device with this name. Each node has a pool of its name."""
    node = f"another-node-of-{driver}"
    return {
        "apiVersion": SLICES.api_version,
        "kind": SLICES.kind,
        "metadata": {"name": node, "labels": dict(labels)},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": device}],
        },
    }


def template(claim: Object) -> Object:
    """A ResourceClaimTemplate with the name and the requests of the claim."""
    return {**claim, "kind": CLAIM_TEMPLATES.kind, "spec": {"spec": claim["spec"]}}


def pod(
    namespace: str,
    name: str,
    containers: Mapping[str, Sequence[ClaimUse]],
    claims: Mapping[str, str],
    workload: Mapping[str, Any],
    *,
    templates: bool = False,
    limits: Mapping[str, int] | None = None,
) -> Object:
    """A Pod. `workload` are the image and the command of its containers.

    `claims` maps names in the pod to names of ResourceClaims, or of ResourceClaimTemplates with `templates`.
    `limits` maps extended resources to the number of devices for each container.
    """
    source = "resourceClaimTemplateName" if templates else "resourceClaimName"
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "resourceClaims": [{"name": own, source: theirs} for own, theirs in sorted(claims.items())],
            "containers": [_container(name, uses, workload, limits or {}) for name, uses in containers.items()],
        },
    }


def _container(
    name: str, uses: Sequence[ClaimUse], workload: Mapping[str, Any], limits: Mapping[str, int]
) -> dict[str, Any]:
    claims = [{"name": claim, **({"request": request} if request else {})} for claim, request in uses]
    resources = {"limits": {resource: str(count) for resource, count in limits.items()}} if limits else {}
    return {"name": name, **workload, "resources": {**resources, **({"claims": claims} if claims else {})}}
