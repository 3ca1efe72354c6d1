"""Evictions, bindings and reviews: requests that no object is stored for."""

from typing import Any

import pytest

from drahealth.fakes.cluster.api import BUDGETS, NODES, PODS, REPLICA_SETS, Object
from drahealth.fakes.cluster.api_server.pod_requests import budget_status, selects
from drahealth.suites.unit.fakes.test_api_http import Web, web

__all__ = ["web"]  # the fixture

PATH = "/api/v1/namespaces/default/pods/train"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
LABELS = {"app": "train"}


async def run_pod(web: Web, name: str = "train", status: Object = READY) -> Object:
    metadata = {"name": name, "namespace": "default", "labels": LABELS}
    pod = await web.server.create(
        PODS, {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "training"}]}}
    )
    return await web.server.replace_status(PODS, {**pod, "status": status})


async def create_budget(web: Web, **spec: Any) -> None:
    metadata = {"name": "few", "namespace": "default"}
    await web.server.create(BUDGETS, {"metadata": metadata, "spec": {"selector": {"matchLabels": LABELS}, **spec}})


def eviction(name: str = "train", **options: Any) -> Object:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}


async def test_an_eviction_deletes_the_pod_with_a_condition(web: Web) -> None:
    pod = await run_pod(web)
    async with web.session.get(f"{web.http.url}{PATH.removesuffix('/train')}?watch=1") as watch:
        await watch.content.readline()
        code, body = await web.call("POST", f"{PATH}/eviction", json=eviction(gracePeriodSeconds=0))
        changed = (await watch.content.readline()).decode()
    assert (code, body["status"], await web.server.list(PODS)) == (201, "Success", [])
    assert pod["metadata"]["uid"] in changed
    assert '"DisruptionTarget"' in changed


@pytest.mark.parametrize(
    ("spec", "status", "code"),
    [
        ({"minAvailable": 1}, READY, 429),
        ({"minAvailable": "100%"}, READY, 429),
        ({"minAvailable": 0}, READY, 201),
        ({"maxUnavailable": 1}, READY, 429),
        ({"minAvailable": 1}, {"phase": "Running"}, 429),
        ({"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, {"phase": "Running"}, 201),
        ({"minAvailable": 1}, {"phase": "Pending"}, 201),
        ({"minAvailable": 1}, {"phase": "Failed"}, 201),
        ({"minAvailable": 1, "selector": {"matchLabels": {"app": "other"}}}, READY, 201),
    ],
)
async def test_a_budget_forbids_the_eviction_of_its_last_healthy_pods(
    web: Web, spec: Object, status: Object, code: int
) -> None:
    await create_budget(web, **spec)
    await run_pod(web, status=status)
    answered, body = await web.call("POST", f"{PATH}/eviction", json=eviction())
    causes = [cause["reason"] for cause in body.get("details", {}).get("causes", [])]
    assert (answered, causes) == (code, ["DisruptionBudget"] if code == 429 else [])


async def test_the_status_of_a_budget_follows_its_pods(web: Web) -> None:
    await create_budget(web, minAvailable=1)
    allowed = []
    for name in ("a", "b"):
        await run_pod(web, name)
        allowed.append((await web.server.get(BUDGETS, "few", "default"))["status"]["disruptionsAllowed"])
    await web.server.delete(PODS, "a", "default")
    status = (await web.server.get(BUDGETS, "few", "default"))["status"]
    assert allowed == [0, 1]
    assert (status["disruptionsAllowed"], status["currentHealthy"], status["expectedPods"]) == (0, 1, 1)


async def test_a_percentage_is_that_of_the_wanted_replicas(web: Web) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "training"}]}}
    spec = {"replicas": 4, "selector": {"matchLabels": LABELS}, "template": template}
    owner = await web.server.create(REPLICA_SETS, {"metadata": {"name": "set", "namespace": "default"}, "spec": spec})
    reference = {"uid": owner["metadata"]["uid"], "controller": True}
    metadata = {"name": "p", "labels": LABELS, "ownerReferences": [reference]}
    budget = {"metadata": {"generation": 2}, "spec": {"selector": {}, "maxUnavailable": "30%"}}
    scales = {owner["metadata"]["uid"]: 4}
    status = budget_status(budget, [{"metadata": metadata, "status": READY}] * 4, scales, "2026-11-24T12:00:00Z")
    assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (4, 2, 2)


async def test_a_dry_run_evicts_nothing(web: Web) -> None:
    pod = await run_pod(web)
    code, _ = await web.call("POST", f"{PATH}/eviction?dryRun=All", json=eviction())
    assert (code, await web.server.list(PODS)) == (201, [pod])


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("none", eviction("none"), 404),
        ("train", eviction("other"), 400),
        ("train", {"kind": "Pod", "metadata": {"name": "train"}}, 400),
        ("train", eviction(preconditions={"uid": "other"}), 409),
    ],
)
async def test_wrong_evictions_are_rejected(web: Web, name: str, body: Object, code: int) -> None:
    pod = await run_pod(web)
    answered, _ = await web.call("POST", f"/api/v1/namespaces/default/pods/{name}/eviction", json=body)
    assert (answered, await web.server.list(PODS)) == (code, [pod])


async def test_two_budgets_for_one_pod_are_an_error(web: Web) -> None:
    await run_pod(web)
    await create_budget(web, minAvailable=0)
    other = {"metadata": {"name": "other", "namespace": "default"}, "spec": {"selector": {}, "minAvailable": 0}}
    await web.server.create(BUDGETS, other)
    assert (await web.call("POST", f"{PATH}/eviction", json=eviction()))[0] == 500


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
    ],
)
def test_selectors_match_labels(selector: Object | None, matches: bool) -> None:
    assert selects(selector, {"app": "a"}) is matches


@pytest.mark.parametrize("path", [f"{PATH}/binding", "/api/v1/namespaces/default/bindings"])
async def test_a_binding_puts_the_pod_on_its_node_once(web: Web, path: str) -> None:
    await web.server.create(NODES, {"metadata": {"name": "node-a"}})
    await run_pod(web)
    body = {"metadata": {"name": "train"}, "target": {"kind": "Node", "name": "node-a"}}
    codes = [(await web.call("POST", path, json=body))[0] for _ in range(2)]
    assert codes == [201, 409]
    assert (await web.server.get(PODS, "train", "default"))["spec"]["nodeName"] == "node-a"


async def test_binding_needs_no_node_and_adds_annotations(web: Web) -> None:
    await run_pod(web)
    body = {"metadata": {"name": "train", "annotations": {"a": "b"}}, "target": {"name": "none"}}
    assert (await web.call("POST", f"{PATH}/binding", json=body))[0] == 201
    pod = await web.server.get(PODS, "train", "default")
    assert (pod["spec"]["nodeName"], pod["metadata"]["annotations"]) == ("none", {"a": "b"})


@pytest.mark.parametrize(
    ("metadata", "target", "code"),
    [
        ({"name": "train", "uid": "other"}, {"name": "node-a"}, 409),
        ({"name": "other"}, {"name": "node-a"}, 400),
        ({"name": "train"}, {"kind": "Pod", "name": "node-a"}, 500),
        ({"name": "train"}, {}, 500),
    ],
)
async def test_wrong_binding_is_rejected(web: Web, metadata: Object, target: Object, code: int) -> None:
    await run_pod(web)
    body = {"metadata": metadata, "target": target}
    assert (await web.call("POST", f"{PATH}/binding", json=body))[0] == code


async def test_terminating_pod_is_not_bound(web: Web) -> None:
    metadata = {"name": "train", "namespace": "default", "finalizers": ["example.com/held"]}
    await web.server.create(PODS, {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "a"}]}})
    await web.server.delete(PODS, "train", "default")
    body = {"metadata": {"name": "train"}, "target": {"name": "node-a"}}
    code, answer = await web.call("POST", f"{PATH}/binding", json=body)
    assert (code, "is being deleted" in answer["message"]) == (409, True)


async def test_gated_pod_is_bound_after_the_removal_of_its_gates(web: Web) -> None:
    spec = {"containers": [{"name": "main", "image": "a"}], "schedulingGates": [{"name": "example.com/quota"}]}
    body = {"metadata": {"name": "train", "namespace": "default"}, "spec": spec}
    pod = await web.server.create(PODS, body)
    assert [one["reason"] for one in pod["status"]["conditions"]] == ["SchedulingGated"]
    merge: Object = {"headers": {"Content-Type": "application/merge-patch+json"}}
    binding = {"metadata": {"name": "train"}, "target": {"name": "node-a"}}
    other = {"spec": {"schedulingGates": [{"name": "example.com/other"}]}}
    codes = [
        (await web.call("POST", f"{PATH}/binding", json=binding))[0],
        (await web.call("PATCH", PATH, json=other, **merge))[0],
        (await web.call("PATCH", PATH, json={"spec": {"schedulingGates": None}}, **merge))[0],
        (await web.call("POST", f"{PATH}/binding", json=binding))[0],
    ]
    assert codes == [409, 422, 200, 201]


@pytest.mark.parametrize(
    ("path", "spec", "status"),
    [
        ("authorization.k8s.io/v1/selfsubjectaccessreviews", {"resourceAttributes": {"verb": "get"}}, "allowed"),
        ("authorization.k8s.io/v1/selfsubjectrulesreviews", {"namespace": "default"}, "resourceRules"),
        ("authentication.k8s.io/v1/selfsubjectreviews", None, "userInfo"),
    ],
)
async def test_a_client_can_ask_what_it_can_do(web: Web, path: str, spec: Object | None, status: str) -> None:
    code, body = await web.call("POST", f"/apis/{path}", json={"spec": spec} if spec else {})
    assert (code, body.get("spec"), bool(body["status"][status])) == (201, spec, True)
