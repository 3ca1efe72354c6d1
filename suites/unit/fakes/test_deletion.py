"""Delete requests and dry runs over HTTP: the answers, grace periods, finalizers and preconditions."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from drahealth.fakes.cluster.api import CLAIMS, NODES, PODS, Object
from drahealth.suites.unit.fakes.test_api_http import Web, session_with

POD = "/api/v1/namespaces/default/pods/train"
CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/gpu"


def pod(**spec: Any) -> Object:
    spec = {"containers": [{"name": "main", "image": "training"}], **spec}
    return {"metadata": {"name": "train", "namespace": "default"}, "spec": spec}


def claim(**metadata: Any) -> Object:
    return {"metadata": {"name": "gpu", "namespace": "default", **metadata}, "spec": {"devices": {}}}


def owned_by(owner: Object, obj: Object) -> Object:
    reference = {**{key: owner[key] for key in ("apiVersion", "kind")}, "name": owner["metadata"]["name"]}
    reference |= {"uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    web = Web()
    await web.http.start()
    async with session_with(web.http) as web.session:
        yield web
    await web.http.stop()


async def test_body_without_content_type_is_json(web: Web) -> None:
    data = b'{"metadata": {"name": "a"}}'
    options: Any = {"data": data, "skip_auto_headers": ["Content-Type"]}
    status, created = await web.call("POST", "/api/v1/nodes", **options)
    assert (status, created["kind"], created["metadata"]["name"]) == (201, "Node", "a")


async def test_pod_on_a_node_is_answered_while_it_terminates(web: Web) -> None:
    await web.server.create(PODS, pod(nodeName="node-a"))
    status, body = await web.call("DELETE", POD, json={"gracePeriodSeconds": 5})
    again, pending = await web.call("DELETE", POD, json={"gracePeriodSeconds": 60})
    metadata = body["metadata"]
    assert (status, body["kind"], metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (200, "Pod", 5, 2)
    assert (again, pending) == (200, body)


async def test_claim_is_answered_with_its_last_state(web: Web) -> None:
    created = await web.server.create(CLAIMS, claim())
    status, last = await web.call("DELETE", CLAIM)
    revision = (await web.server.snapshot(CLAIMS)).revision
    assert (status, last) == (200, {**created, "metadata": {**created["metadata"], "resourceVersion": revision}})
    assert await web.server.list(CLAIMS) == []


async def test_node_is_answered_with_a_status(web: Web) -> None:
    uid = (await web.server.create(NODES, {"metadata": {"name": "a"}}))["metadata"]["uid"]
    _, body = await web.call("DELETE", "/api/v1/nodes/a")
    assert (body["kind"], body["status"]) == ("Status", "Success")
    assert body["details"] == {"name": "a", "kind": "nodes", "uid": uid}


async def test_namespace_is_answered_as_terminating(web: Web) -> None:
    await web.call("POST", "/api/v1/namespaces", json={"metadata": {"name": "team"}})
    status, body = await web.call("DELETE", "/api/v1/namespaces/team")
    assert (status, body["kind"], body["status"]["phase"]) == (200, "Namespace", "Terminating")
    assert (await web.call("GET", "/api/v1/namespaces/team"))[0] == 404


@pytest.mark.parametrize(("precondition", "word"), [("uid", "UID"), ("resourceVersion", "ResourceVersion")])
async def test_other_object_than_the_wanted_one_is_kept(web: Web, precondition: str, word: str) -> None:
    await web.server.create(CLAIMS, claim())
    status, body = await web.call("DELETE", CLAIM, json={"preconditions": {precondition: "7"}})
    assert (status, body["reason"]) == (409, "Conflict")
    assert f"the {word} in the precondition (7) does not match" in body["message"]
    assert body["details"] == {"name": "gpu", "group": "resource.k8s.io", "kind": "ResourceClaim"}
    assert len(await web.server.list(CLAIMS)) == 1


async def test_object_with_a_finalizer_is_answered_as_marked(web: Web) -> None:
    await web.server.create(CLAIMS, claim(finalizers=["example.com/held"]))
    status, body = await web.call("DELETE", CLAIM, json={"orphanDependents": False})
    assert (status, body["kind"], "deletionTimestamp" in body["metadata"]) == (202, "ResourceClaim", True)


async def test_wrong_options_are_all_in_the_causes(web: Web) -> None:
    await web.server.create(CLAIMS, claim())
    status, body = await web.call("DELETE", CLAIM, json={"propagationPolicy": "Soon", "dryRun": ["Some"]})
    causes = [(cause["field"], cause["reason"]) for cause in body["details"]["causes"]]
    wrong = "FieldValueNotSupported"
    assert (status, causes) == (422, [("propagationPolicy", wrong), ("dryRun", wrong)])


async def test_dry_runs_answer_and_change_nothing(web: Web) -> None:
    created = await web.server.create(CLAIMS, claim())
    revision = (await web.server.snapshot(CLAIMS)).revision
    collection = CLAIM.rpartition("/")[0]
    _, new = await web.call("POST", f"{collection}?dryRun=All", json={"metadata": {"name": "b"}, "spec": {}})
    labels = {"metadata": {"labels": {"a": "b"}}}
    merge = {"headers": {"Content-Type": "application/merge-patch+json"}, "json": labels}
    _, patched = await web.call("PATCH", f"{CLAIM}?dryRun=All", **merge)
    assert (await web.call("DELETE", CLAIM, json={"dryRun": ["All"]})) == (200, created)
    assert "resourceVersion" not in new["metadata"]
    assert (patched["metadata"]["labels"], patched["spec"]) == ({"a": "b"}, created["spec"])
    assert await web.server.snapshot(CLAIMS) == ([created], revision)


@pytest.mark.parametrize(("policy", "left"), [("Foreground", []), ("Background", []), ("Orphan", ["train"])])
async def test_propagation_policy_decides_about_dependents(web: Web, policy: str, left: list[str]) -> None:
    owner = await web.server.create(CLAIMS, claim())
    dependent = owned_by(owner, pod())
    await web.server.create(PODS, dependent)
    await web.call("DELETE", CLAIM, json={"propagationPolicy": policy})
    assert await web.server.list(CLAIMS) == []
    assert [one["metadata"]["name"] for one in await web.server.list(PODS)] == left


async def test_owner_waits_for_a_dependent_that_terminates(web: Web) -> None:
    owner = await web.server.create(CLAIMS, claim())
    dependent = owned_by(owner, pod(nodeName="node-a"))
    await web.server.create(PODS, dependent)
    _, body = await web.call("DELETE", CLAIM, json={"propagationPolicy": "Foreground"})
    waiting = await web.server.list(CLAIMS)
    await web.server.delete(PODS, "train", "default", grace=0)
    assert body["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert ([one["metadata"]["name"] for one in waiting], await web.server.list(CLAIMS)) == (["gpu"], [])


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_dependent_of_two_owners_loses_a_reference(web: Web, policy: str) -> None:
    owner, other = await web.server.create(CLAIMS, claim()), await web.server.create(CLAIMS, claim(name="other"))
    dependent = owned_by(owner, pod())
    dependent["metadata"]["ownerReferences"] += owned_by(other, pod())["metadata"]["ownerReferences"]
    await web.server.create(PODS, dependent)
    await web.call("DELETE", f"{CLAIM}?propagationPolicy={policy}")
    [left] = await web.server.list(PODS)
    assert [one["name"] for one in left["metadata"]["ownerReferences"]] == ["other"]
    assert [one["metadata"]["name"] for one in await web.server.list(CLAIMS)] == ["other"]
