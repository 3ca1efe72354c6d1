"""The claims of a pod: their objects, whether they are ready, and the devices of each container. Pure.

Source: the Pod API, `spec.resourceClaims` and `status.resourceClaimStatuses`, and the ResourceClaim API
resource.k8s.io/v1.
"""

from collections.abc import Iterator, Mapping, Sequence

from drahealth.fakes.cluster.api import Object
from drahealth.proto.values import AllocatedClaim, ClaimRef, ClaimUse, PodClaims, PreparedDevice


class ClaimsNotReadyError(Exception):
    """A claim of the pod does not exist, is not allocated, or is not reserved for the pod; the message says which."""


def claim_names(pod: Object) -> dict[str, str]:
    """The names of the pod's ResourceClaim objects, by their names in the pod.

    For a claim from a template, the pod's status has the object's name; an entry without a name needs no claim. The
    claim for extended resources has the name of its object (`extendedResourceClaimStatus`, KEP-5004).
    """
    made = {status["name"]: status for status in pod.get("status", {}).get("resourceClaimStatuses") or ()}
    names = {}
    for claim in pod["spec"].get("resourceClaims") or ():
        if claim.get("resourceClaimName"):
            names[claim["name"]] = claim["resourceClaimName"]
        elif claim["name"] not in made:
            raise ClaimsNotReadyError(
                f"the ResourceClaim for claim {claim['name']!r} has not been created from its template yet"
            )
        elif made[claim["name"]].get("resourceClaimName"):
            names[claim["name"]] = made[claim["name"]]["resourceClaimName"]
    if extended := _extended(pod).get("resourceClaimName"):
        names[extended] = extended
    return names


def allocated_claim(claim: Object, pod_uid: str) -> AllocatedClaim:
    """The claim with the drivers of its devices, without duplicates. Raises `ClaimsNotReadyError`."""
    metadata, status = claim["metadata"], claim.get("status") or {}
    words = f"ResourceClaim {metadata['namespace']}/{metadata['name']}"
    if not status.get("allocation"):
        raise ClaimsNotReadyError(f"{words} is not allocated yet")
    if not any(consumer.get("uid") == pod_uid for consumer in status.get("reservedFor") or ()):
        raise ClaimsNotReadyError(f"{words} is not reserved for the pod")
    results = (status["allocation"].get("devices") or {}).get("results") or ()
    drivers = dict.fromkeys(result["driver"] for result in results)
    return AllocatedClaim(ClaimRef(metadata["namespace"], metadata["name"], metadata["uid"]), tuple(drivers))


def claim_uses(pod: Object, claim_uids: Mapping[str, str]) -> PodClaims:
    """The claims that each container uses, given the claims' UIDs by their names in the pod; every container has
    a key.
    """
    listed = {status["name"] for status in pod.get("status", {}).get("resourceClaimStatuses") or ()}
    extended = _extended(pod).get("resourceClaimName", "")
    mappings = _extended(pod).get("requestMappings") or () if extended in claim_uids else ()

    def use(name: str, request: str | None = None) -> ClaimUse:
        return ClaimUse(name, claim_uids[name], request, name in listed)

    def for_resources(container: str) -> Iterator[ClaimUse]:
        for mapping in mappings:
            if mapping["containerName"] == container:
                yield ClaimUse(extended, claim_uids[extended], mapping["requestName"], extended=True)

    def uses(field: str) -> dict[str, tuple[ClaimUse, ...]]:
        return {
            container["name"]: (
                *(
                    use(claim["name"], claim.get("request"))
                    for claim in (container.get("resources") or {}).get("claims") or ()
                    if claim["name"] in claim_uids
                ),
                *for_resources(container["name"]),
            )
            for container in pod["spec"].get(field) or ()
        }

    containers, init_containers = uses("containers"), uses("initContainers")
    used = {use.name for uses in (*containers.values(), *init_containers.values()) for use in uses}
    return PodClaims(containers, init_containers, tuple(use(name) for name in claim_uids if name not in used))


def _extended(pod: Object) -> Object:
    return pod.get("status", {}).get("extendedResourceClaimStatus") or {}


def cdi_devices(uses: Sequence[ClaimUse], prepared: Mapping[str, Sequence[PreparedDevice]]) -> tuple[str, ...]:
    """The CDI names for a container with these claims, without duplicates."""
    names = (
        name
        for use in uses
        for device in prepared.get(use.claim_uid, ())
        if use.request is None or not device.requests or use.request.split("/")[0] in device.requests
        for name in device.cdi_ids
    )
    return tuple(dict.fromkeys(names))
