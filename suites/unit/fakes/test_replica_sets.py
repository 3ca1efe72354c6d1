"""ReplicaSets keep as many pods as they ask for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from drahealth.fakes.cluster.api import PODS, REPLICA_SETS, ApiError, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.scheduler import ReplicaSetController
from drahealth.suites.unit.endings import PATIENCE

POD: Object = {"metadata": {"labels": {"app": "job"}}, "spec": {"containers": [{"name": "main", "image": "training"}]}}


def replica_set(replicas: Any = 2, template: Any = POD) -> Object:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "job"}}, "template": template}
    return {"metadata": {"name": "job", "namespace": "default"}, "spec": spec}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """One whose sets are looked after."""
    made = ApiServer()
    controller = ReplicaSetController(made)
    await controller.start()
    yield made
    await controller.stop()


async def pods(server: ApiServer, count: int) -> list[Object]:
    """Returns once there are so many that nobody has deleted."""
    async with asyncio.timeout(PATIENCE), aclosing(server.watch(PODS)) as changes:
        async for _ in changes:
            found = [pod for pod in await server.list(PODS) if "deletionTimestamp" not in pod["metadata"]]
            if len(found) == count:
                return found
    raise AssertionError("the watch has ended")


async def test_a_set_makes_its_pods_from_its_template(server: ApiServer) -> None:
    made = await server.create(REPLICA_SETS, replica_set())
    found = await pods(server, 2)
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in found}
    assert (owners, found[0]["metadata"]["labels"]) == ({made["metadata"]["uid"]}, {"app": "job"})


async def test_deleted_pod_is_replaced_under_another_name(server: ApiServer) -> None:
    await server.create(REPLICA_SETS, replica_set(replicas=1))
    [old] = await pods(server, 1)
    await server.delete(PODS, old["metadata"]["name"], "default")
    [new] = await pods(server, 1)
    assert new["metadata"]["name"] != old["metadata"]["name"]


async def test_a_pod_that_has_ended_is_replaced(server: ApiServer) -> None:
    await server.create(REPLICA_SETS, replica_set(replicas=1))
    [old] = await pods(server, 1)
    await server.replace_status(PODS, {**old, "status": {"phase": "Failed"}})
    phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in await pods(server, 2)}
    assert (phases.pop(old["metadata"]["name"]), [*phases.values()]) == ("Failed", ["Pending"])


async def test_surplus_pods_are_deleted_and_all_with_their_set(server: ApiServer) -> None:
    made = await server.create(REPLICA_SETS, replica_set())
    await pods(server, 2)
    await server.replace(REPLICA_SETS, {**made, "spec": {**made["spec"], "replicas": 1}})
    await pods(server, 1)
    await server.create(PODS, {"metadata": {"name": "alone", "namespace": "default"}, "spec": POD["spec"]})
    await server.delete(REPLICA_SETS, "job", "default")
    assert [pod["metadata"]["name"] for pod in await pods(server, 1)] == ["alone"]


@pytest.mark.parametrize("wrong", [{"replicas": -1}, {"replicas": "two"}, {"template": {}}, {"template": {"spec": []}}])
async def test_invalid_replica_set_is_rejected(server: ApiServer, wrong: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        await server.create(REPLICA_SETS, replica_set(**wrong))
    assert refused.value.status in (400, 422)
