"""The devices that a Pod object holds, from its spec and the allocations of its claims. Pure."""

from collections.abc import Iterator, Mapping

from drahealth.fakes.cluster.api import Object
from drahealth.proto.events import DevicesHeld, HeldDevice, HeldResource
from drahealth.proto.extended_resources import is_extended_resource


def claim_names(pod: Object) -> dict[str, str]:
    """The names of the pod's ResourceClaims, by their names in the pod. Claims that do not exist yet are missing.

    The claim for its extended resources (KEP-5004) is not in its spec. It has the name of its object.
    """
    made = {
        one["name"]: one.get("resourceClaimName") for one in pod.get("status", {}).get("resourceClaimStatuses") or ()
    }
    named = {one["name"]: one.get("resourceClaimName") for one in pod["spec"].get("resourceClaims") or ()}
    extended = _extended(pod).get("resourceClaimName")
    found = {name: found for name, given in named.items() if (found := given or made.get(name))}
    return {**found, extended: extended} if extended else found


def devices_held(pod: Object, claims: Mapping[str, Object]) -> DevicesHeld:
    """The devices of the pod. `claims` has allocated ResourceClaims by name; others have no devices."""
    meta = pod["metadata"]
    return DevicesHeld(meta["name"], meta["uid"], tuple(_claimed(pod, claims)), tuple(_requested(pod)))


def _claimed(pod: Object, claims: Mapping[str, Object]) -> Iterator[HeldDevice]:
    uses: dict[str, list[tuple[str, str | None]]] = {}
    for container in _containers(pod):
        for use in container.get("resources", {}).get("claims") or ():
            uses.setdefault(use["name"], []).append((container["name"], use.get("request")))
    for mapping in _extended(pod).get("requestMappings") or ():
        name = _extended(pod)["resourceClaimName"]
        uses.setdefault(name, []).append((mapping["containerName"], mapping["requestName"]))
    for name, object_name in claim_names(pod).items():
        if object_name not in claims:
            continue
        results = claims[object_name]["status"]["allocation"].get("devices", {}).get("results") or ()
        for container_name, request in uses.get(name, [("", None)]):
            for result in results:
                if request in (None, result["request"].partition("/")[0]):
                    device = (result["driver"], result["pool"], result["device"])
                    yield HeldDevice(container_name, name, result["request"], *device)


def _requested(pod: Object) -> Iterator[HeldResource]:
    for container in _containers(pod):
        for resource, amount in (container.get("resources", {}).get("limits") or {}).items():
            if is_extended_resource(resource):
                yield HeldResource(container["name"], resource, int(amount))


def _extended(pod: Object) -> Object:
    return pod.get("status", {}).get("extendedResourceClaimStatus") or {}


def _containers(pod: Object) -> Iterator[Object]:
    yield from pod["spec"].get("initContainers") or ()
    yield from pod["spec"]["containers"]
