"""The subresources `ephemeralcontainers` and `resize` of Pods over HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from drahealth.fakes.cluster.api import PODS, Object
from drahealth.suites.unit.fakes.test_api_http import Web, session_with

POD = "/api/v1/namespaces/default/pods/train"
DEBUG: Object = {"name": "debug", "image": "tool"}


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    web = Web()
    await web.http.start()
    container = {"name": "main", "image": "training", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": "train", "namespace": "default"}
    await web.server.create(PODS, {"metadata": metadata, "spec": {"containers": [container]}})
    async with session_with(web.http) as web.session:
        yield web
    await web.http.stop()


async def patch(web: Web, part: str, spec: Object) -> tuple[int, Any]:
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    return await web.call("PATCH", f"{POD}/{part}", json={"spec": spec}, headers=headers)


async def test_ephemeral_container_is_added_and_nothing_else(web: Web) -> None:
    spec = {"ephemeralContainers": [DEBUG], "activeDeadlineSeconds": 5}
    status, pod = await patch(web, "ephemeralcontainers", spec)
    assert (status, pod["metadata"]["generation"], "activeDeadlineSeconds" in pod["spec"]) == (200, 2, False)
    assert [one["name"] for one in pod["spec"]["ephemeralContainers"]] == ["debug"]


async def test_existing_ephemeral_container_does_not_change(web: Web) -> None:
    await patch(web, "ephemeralcontainers", {"ephemeralContainers": [DEBUG]})
    status, body = await patch(web, "ephemeralcontainers", {"ephemeralContainers": [{**DEBUG, "image": "other"}]})
    assert (status, body["details"]["causes"][0]["field"]) == (422, "spec.ephemeralContainers")


async def test_resources_are_replaced_with_a_put(web: Web) -> None:
    _, pod = await web.call("GET", f"{POD}/resize")
    pod["spec"]["containers"][0] |= {"image": "ignored", "resources": {"requests": {"cpu": "2"}}}
    status, resized = await web.call("PUT", f"{POD}/resize", json=pod)
    (container,) = resized["spec"]["containers"]
    assert (status, container["image"], container["resources"]) == (200, "training", {"requests": {"cpu": "2"}})


async def test_resize_keeps_the_quality_of_service(web: Web) -> None:
    sizes = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    status, body = await patch(web, "resize", {"containers": [{"name": "main", "resources": sizes}]})
    assert (status, body["details"]["causes"][0]["field"]) == (422, "spec")
