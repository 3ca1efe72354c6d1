"""Unknown fields of requests, as a real API server treats them. The messages are those of kube-apiserver 1.37.1."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from drahealth.fakes.cluster.api import PODS
from drahealth.fakes.cluster.api_server.body_decoding import unknown_fields
from drahealth.suites.unit.fakes.test_api_http import Web, session_with

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "bad", "foo": 1},
    "spec": {
        "contaienrs": [],
        "containers": [
            {"name": "c", "image": "c", "resources": {"claims": [{"name": "g", "requests": 1}]}, "resourcess": {}}
        ],
        "resourceClaims": [{"name": "g", "resourceClaimName": "g"}],
    },
}
UNKNOWN = [
    "metadata.foo",
    "spec.contaienrs",
    "spec.containers[0].resources.claims[0].requests",
    "spec.containers[0].resourcess",
]
PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    web = Web()
    await web.http.start()
    async with session_with(web.http) as web.session:
        yield web
    await web.http.stop()


async def warnings(web: Web, method: str, path: str, body: Any, **headers: str) -> list[str]:
    """The warnings of an accepted request."""
    async with web.session.request(method, web.http.url + path, json=body, headers=headers) as response:
        assert response.ok, await response.text()
        return response.headers.getall("Warning", [])


def test_unknown_fields_have_their_paths() -> None:
    assert unknown_fields(PODS, POD) == UNKNOWN


@pytest.mark.parametrize(
    "pod",
    [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"any": "thing"}, "creationTimestamp": None}},
        {"spec": {"containers": [{"resources": {"limits": {"example.com/gpu": 1}}}], "nodeSelector": {"a": "b"}}},
        {"spec": {"containers": 7, "volumes": {}}, "metadata": []},  # wrong types are another error
        {"status": {"allocatedResourcesStatus": [{"name": "claim:a"}]}},  # KEP-4680
    ],
)
def test_known_fields_are_not_reported(pod: dict[str, Any]) -> None:
    assert unknown_fields(PODS, pod) == []


async def test_a_strict_request_with_unknown_fields_is_rejected(web: Web) -> None:
    status, answer = await web.call("POST", f"{PATH}?fieldValidation=Strict", json=POD)
    listed = ", ".join(f'unknown field "{path}"' for path in UNKNOWN)
    message = f'Pod in version "v1" cannot be handled as a Pod: strict decoding error: {listed}'
    assert (status, answer["reason"], answer["message"]) == (400, "BadRequest", message)
    assert (await web.call("GET", PATH))[1]["items"] == []


async def test_other_requests_with_unknown_fields_get_warnings_or_nothing(web: Web) -> None:
    assert await warnings(web, "POST", PATH, POD) == [rf'299 - "unknown field \"{path}\""' for path in UNKNOWN]
    other = {**POD, "metadata": {"name": "other", "foo": 1}}
    assert await warnings(web, "POST", f"{PATH}?fieldValidation=Ignore", other) == []


async def test_the_result_of_a_strict_patch_is_checked(web: Web) -> None:
    good = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "good"},
        "spec": {"containers": [{"name": "c", "image": "c"}]},
    }
    assert await warnings(web, "POST", f"{PATH}?fieldValidation=Strict", good) == []
    patch = {"headers": {"Content-Type": "application/merge-patch+json"}, "json": {"metadata": {"foo": 1}}}
    status, answer = await web.call("PATCH", f"{PATH}/good?fieldValidation=Strict", **patch)
    assert (status, 'unknown field "metadata.foo"' in answer["message"]) == (422, True)


async def test_an_unknown_kind_of_validation_is_rejected(web: Web) -> None:
    status, answer = await web.call("POST", f"{PATH}?fieldValidation=strict", json=POD)
    cause = answer["details"]["causes"][0]
    assert (status, cause["field"], cause["reason"]) == (422, "fieldValidation", "FieldValueNotSupported")


async def test_openapi_says_that_patches_can_be_strict(web: Web) -> None:
    _, root = await web.call("GET", "/openapi/v3")
    _, core = await web.call("GET", root["paths"]["api/v1"]["serverRelativeURL"])
    patch = core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert [parameter["name"] for parameter in patch["parameters"]] == ["fieldValidation"]
