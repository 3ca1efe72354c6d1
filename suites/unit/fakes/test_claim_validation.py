"""Validation of ResourceClaims: their requests, and the changes of their status."""

import pytest

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, ApiError, Object
from drahealth.fakes.cluster.api_server.server import ApiServer

EXACTLY: Object = {"deviceClassName": "gpu.example.com"}
METADATA: Object = {"name": "gpu", "namespace": "default"}
RESERVED: Object = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}


def allocation(device: str) -> Object:
    return {"allocation": {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": device}]}}}


def wrong_fields(error: ApiError) -> list[str]:
    return [cause["field"] for cause in (error.details or {})["causes"]]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({}, ""),
        ({"exactly": {}}, ".exactly.deviceClassName"),
        ({"exactly": {**EXACTLY, "allocationMode": "Some"}}, ".exactly.allocationMode"),
        ({"exactly": {**EXACTLY, "count": -1}}, ".exactly.count"),
        ({"exactly": EXACTLY, "firstAvailable": [{"name": "a", **EXACTLY}]}, ""),
    ],
)
async def test_wrong_request_is_named(request_: Object, field: str) -> None:
    spec = {"devices": {"requests": [{"name": "gpu", **request_}]}}
    with pytest.raises(ApiError) as claim:
        await ApiServer().create(CLAIMS, {"metadata": METADATA, "spec": spec})
    with pytest.raises(ApiError) as template:
        await ApiServer().create(CLAIM_TEMPLATES, {"metadata": METADATA, "spec": {"spec": spec}})
    assert wrong_fields(claim.value) == [f"spec.devices.requests[0]{field}"]
    assert wrong_fields(template.value) == [f"spec.spec.devices.requests[0]{field}"]


@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        ({}, RESERVED, "status.reservedFor"),
        ({**allocation("one"), **RESERVED}, RESERVED, "status.reservedFor"),
        (allocation("one"), allocation("two"), "status.allocation"),
    ],
)
async def test_wrong_change_of_the_status_is_named(first: Object, second: Object, field: str) -> None:
    server = ApiServer()
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": EXACTLY}]}}
    claim = await server.create(CLAIMS, {"metadata": METADATA, "spec": spec})
    claim = await server.replace_status(CLAIMS, {**claim, "status": first})
    with pytest.raises(ApiError) as found:
        await server.replace_status(CLAIMS, {**claim, "status": second})
    assert (found.value.status, wrong_fields(found.value)) == (422, [field])
    assert (await server.replace_status(CLAIMS, {**claim, "status": {}}))["status"] == {}
