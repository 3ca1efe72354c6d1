"""The versions that the API server serves, and the conversion of objects between them."""

import json
from typing import Any

import pytest

from drahealth.fakes.cluster.api import BINDINGS, EVICTIONS, OTHER_KINDS, Object
from drahealth.fakes.cluster.api_server.body_decoding import MESSAGES
from drahealth.fakes.cluster.api_server.served_kinds import REVIEWS, SERVED
from drahealth.suites.unit.fakes.test_api_http import JSON, Web, web
from drahealth.suites.unit.fakes.test_protobuf_bodies import FROM_CLIENT_GO

__all__ = ["web"]  # the fixture

BY_NAME = {(served.kind.api_version, served.kind.kind): served for served in SERVED}
SENT = [one["object"] for one in FROM_CLIENT_GO if (one["object"]["apiVersion"], one["object"]["kind"]) in BY_NAME]
V1 = "resource.k8s.io/v1"
BETA_1 = "resource.k8s.io/v1beta1"


def slice_in(version: str, device: Object) -> Object:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "node-a",
        "pool": {"name": "node-a", "resourceSliceCount": 1},
        "devices": [device],
    }
    return {"apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": "gpus"}, "spec": spec}


def claim_in(version: str, request: Object) -> Object:
    metadata = {"name": "gpu", "namespace": "default"}
    spec = {"devices": {"requests": [request]}}
    return {"apiVersion": version, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def event_in(version: str, **fields: Any) -> Object:
    return {"apiVersion": version, "kind": "Event", "metadata": {"name": "e", "namespace": "default"}, **fields}


COUNTED: Object = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
SOURCE: Object = {"component": "driver"}
NO_TIMES: Object = {"eventTime": None, "reportingInstance": ""}
PAIRS = [
    (
        slice_in(BETA_1, {"name": "gpu-0", "basic": {"attributes": {"id": {"int": 1}}}}),
        slice_in(V1, {"name": "gpu-0", "attributes": {"id": {"int": 1}}}),
    ),
    (
        claim_in(BETA_1, {"name": "gpu", **COUNTED, "count": 2}),
        claim_in(V1, {"name": "gpu", "exactly": {**COUNTED, "count": 2}}),
    ),
    (
        claim_in(BETA_1, {"name": "gpu", "firstAvailable": [{"name": "big", **COUNTED}]}),
        claim_in(V1, {"name": "gpu", "firstAvailable": [{"name": "big", **COUNTED}]}),
    ),
    (
        event_in(
            "events.k8s.io/v1",
            **{"regarding": {"name": "job"}, "note": "lost", "reportingController": "driver", **NO_TIMES},
            deprecatedSource=SOURCE,
            deprecatedFirstTimestamp=None,
            deprecatedLastTimestamp=None,
        ),
        event_in(
            "v1",
            **{"involvedObject": {"name": "job"}, "message": "lost", "reportingComponent": "driver", **NO_TIMES},
            source=SOURCE,
            firstTimestamp=None,
            lastTimestamp=None,
        ),
    ),
]


@pytest.mark.parametrize(("served", "stored"), PAIRS, ids=["slice", "claim", "alternatives", "event"])
async def test_each_version_shows_the_same_object(web: Web, served: Object, stored: Object) -> None:
    here, there = (BY_NAME[obj["apiVersion"], obj["kind"]].kind for obj in (served, stored))
    status, created = await web.call("POST", here.path("default"), data=json.dumps(served), **JSON)
    name = served["metadata"]["name"]
    found = [(await web.call("GET", kind.path("default", name)))[1] for kind in (here, there)]
    assert (status, found[0]) == (201, created)
    assert [fields(obj) for obj in found] == [fields(served), fields(stored)]


def fields(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


@pytest.mark.parametrize("obj", SENT, ids=lambda obj: f"{obj['apiVersion']}-{obj['kind']}")
def test_an_object_of_client_go_survives_its_storage(obj: Object) -> None:
    served = BY_NAME[obj["apiVersion"], obj["kind"]]
    assert served.serve(served.store(obj)) == obj


def test_every_kind_with_a_message_is_served() -> None:
    others = {(kind.api_version, kind.kind) for kind in OTHER_KINDS}
    unstored = {(kind.api_version, kind.kind) for kind in (BINDINGS, EVICTIONS, *REVIEWS)}
    assert MESSAGES.keys() <= BY_NAME.keys() | others | unstored


async def test_discovery_lists_the_versions(web: Web) -> None:
    groups = (await web.call("GET", "/apis"))[1]["groups"]
    versions = {group["name"]: [entry["version"] for entry in group["versions"]] for group in groups}
    assert versions["resource.k8s.io"] == ["v1", "v1beta2", "v1beta1"]
    listed = (await web.call("GET", f"/apis/{BETA_1}"))[1]["resources"]
    assert {"resourceslices", "resourceclaims", "resourceclaims/status"} <= {entry["name"] for entry in listed}


async def test_lists_and_watches_have_the_version_of_the_path(web: Web) -> None:
    path = f"/apis/{BETA_1}/resourceslices"
    await web.call("POST", path, data=json.dumps(PAIRS[0][0]), **JSON)
    _, listed = await web.call("GET", path)
    async with web.session.get(f"{web.http.url}{path}?watch=true") as response:
        event = json.loads(await response.content.readline())
    assert listed["apiVersion"] == BETA_1
    (item,) = listed["items"]
    kind = {"apiVersion": BETA_1, "kind": "ResourceSlice"}
    assert [fields({**item, **kind}), fields(event["object"])] == [fields(PAIRS[0][0])] * 2


async def test_a_body_of_another_version_is_a_bad_request(web: Web) -> None:
    status, _ = await web.call("POST", f"/apis/{BETA_1}/resourceslices", data=json.dumps(PAIRS[0][1]), **JSON)
    assert status == 400


@pytest.mark.parametrize("conditions", [{"uid": "other"}, {"resourceVersion": "1000"}])
async def test_delete_checks_its_preconditions(web: Web, conditions: Object) -> None:
    path = f"/apis/{V1}/resourceslices"
    _, created = await web.call("POST", path, data=json.dumps(PAIRS[0][1]), **JSON)
    same = {key: created["metadata"][key] for key in conditions}
    answers = [
        await web.call("DELETE", f"{path}/gpus", data=json.dumps({"preconditions": wanted}), **JSON)
        for wanted in (conditions, same)
    ]
    assert [(status, answer.get("reason")) for status, answer in answers] == [(409, "Conflict"), (200, None)]
