"""From a pod to its claims."""

from typing import Any

import pytest

from drahealth.manager.pod_worker.devices import (
    ClaimsNotReadyError,
    allocated_claim,
    cdi_devices,
    claim_names,
    claim_uses,
)
from drahealth.proto.values import AllocatedClaim, ClaimRef, ClaimUse, DeviceId, PodClaims, PreparedDevice

POD: dict[str, Any] = {
    "spec": {
        "resourceClaims": [
            {"name": "direct", "resourceClaimName": "claim-a"},
            {"name": "made", "resourceClaimTemplateName": "template"},
        ],
        "containers": [
            {"name": "both", "resources": {"claims": [{"name": "direct"}, {"name": "made", "request": "gpu"}]}},
            {"name": "none"},
        ],
    },
    "status": {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "pod-made-x"}]},
}


def claim(**status: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": "claim-a", "uid": "u-a"}, "status": status}


def device(name: str, *requests: str, cdi: tuple[str, ...]) -> PreparedDevice:
    return PreparedDevice(DeviceId("d.example.com", "pool", name), requests, cdi)


@pytest.mark.counterpart("TestUpdateAllocatedResourcesStatus")
def test_claims_are_named_by_the_spec_or_by_the_status() -> None:
    assert claim_names(POD) == {"direct": "claim-a", "made": "pod-made-x"}


def test_template_without_a_generated_claim_is_omitted() -> None:
    pod = {**POD, "status": {"resourceClaimStatuses": [{"name": "made"}]}}
    assert claim_names(pod) == {"direct": "claim-a"}


def test_a_template_without_its_claim_is_waited_for() -> None:
    with pytest.raises(ClaimsNotReadyError, match="claim 'made'"):
        claim_names({**POD, "status": {}})


def test_an_allocated_claim_names_each_driver_once() -> None:
    results = [{"driver": driver} for driver in ("b", "a", "b")]
    ready = claim(allocation={"devices": {"results": results}}, reservedFor=[{"uid": "other"}, {"uid": "pod"}])
    assert allocated_claim(ready, "pod") == AllocatedClaim(ClaimRef("ns", "claim-a", "u-a"), ("b", "a"))


@pytest.mark.parametrize(
    ("status", "why"),
    [({}, "is not allocated yet"), ({"allocation": {"devices": {}}}, "is not reserved for the pod")],
)
def test_claim_that_is_not_ready_raises_the_reason(status: dict[str, Any], why: str) -> None:
    with pytest.raises(ClaimsNotReadyError, match=f"^ResourceClaim ns/claim-a {why}$"):
        allocated_claim(claim(**status), "pod")


def test_every_container_has_its_uses() -> None:
    uses = claim_uses(POD, {"direct": "u-a", "made": "u-b"})
    assert uses == PodClaims(
        {"both": (ClaimUse("direct", "u-a"), ClaimUse("made", "u-b", "gpu", listed=True)), "none": ()}
    )


def test_claim_of_an_init_container_counts_as_used() -> None:
    first = {"name": "first", "resources": {"claims": [{"name": "made"}]}}
    spec = {**POD["spec"], "containers": [{"name": "main"}], "initContainers": [first]}
    uses = claim_uses({**POD, "spec": spec}, {"direct": "u-a", "made": "u-b"})
    made = ClaimUse("made", "u-b", listed=True)
    assert uses == PodClaims({"main": ()}, {"first": (made,)}, (ClaimUse("direct", "u-a"),))


def test_a_container_uses_the_claim_for_its_extended_resource() -> None:
    mapping = {"containerName": "none", "requestName": "container-1-request-0", "resourceName": "example.com/gpu"}
    extended = {"resourceClaimName": "pod-extended-x", "requestMappings": [mapping]}
    obj = {**POD, "status": {**POD["status"], "extendedResourceClaimStatus": extended}}
    assert claim_names(obj)["pod-extended-x"] == "pod-extended-x"
    uses = claim_uses(obj, {"pod-extended-x": "u-x"})
    use = ClaimUse("pod-extended-x", "u-x", "container-1-request-0", extended=True)
    assert uses == PodClaims({"both": (), "none": (use,)})


def test_claim_entry_without_a_claim_is_omitted() -> None:
    assert claim_uses(POD, {"direct": "u-a"}).containers["both"] == (ClaimUse("direct", "u-a"),)


def test_a_container_gets_the_devices_of_its_requests_each_once() -> None:
    prepared = {
        "u-a": [
            device("1", "big", cdi=("c=1",)),
            device("2", "small", cdi=("c=2",)),
            device("3", cdi=("c=3", "c=all")),
        ],
        "u-b": [device("4", cdi=("c=all",))],
    }
    assert cdi_devices([ClaimUse("a", "u-a", "big/sub"), ClaimUse("b", "u-b")], prepared) == ("c=1", "c=3", "c=all")
    assert cdi_devices([ClaimUse("a", "u-a")], prepared) == ("c=1", "c=2", "c=3", "c=all")
    assert cdi_devices([ClaimUse("c", "u-c")], prepared) == ()
