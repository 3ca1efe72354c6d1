"""Behavior of the in-memory API server outside the API contract: restarts, namespaces, bindings, copies."""

import asyncio
from contextlib import aclosing

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import CLAIMS, EVENTS, NAMESPACES, NODES, PODS, ApiError, Object, WatchEvent, timestamp
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.api_server.storage import HISTORY

POD: Object = {
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "training"}]},
}
CLAIM: Object = {"metadata": {"name": "gpu", "namespace": "other", "finalizers": ["example.com/held"]}, "spec": {}}


async def test_callers_have_copies_of_their_own() -> None:
    server = ApiServer()
    mine: Object = {
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "training"}]},
    }
    created = await server.create(PODS, mine)
    mine["spec"]["containers"].clear()
    created["spec"]["containers"].clear()
    async with aclosing(server.watch(PODS)) as watch:
        (await anext(watch)).object["spec"].clear()
    assert [c["name"] for c in (await server.get(PODS, "train", "default"))["spec"]["containers"]] == ["main"]


async def test_a_status_write_of_a_pod_replaces_its_labels() -> None:
    server = ApiServer()
    pod = await server.create(PODS, POD)
    stored = await server.replace_status(PODS, {**pod, "metadata": {**pod["metadata"], "labels": {"a": "b"}}})
    assert (stored["metadata"]["labels"], stored["spec"]) == ({"a": "b"}, pod["spec"])


async def test_slow_watcher_loses_no_events_and_delays_no_other_watcher() -> None:
    server = ApiServer()
    pod = await server.create(PODS, POD)
    async with aclosing(server.watch(PODS)) as slow, aclosing(server.watch(PODS)) as quick:
        await anext(slow)
        await anext(quick)
        for number in range(3000):
            await server.replace_status(PODS, {**pod, "metadata": POD["metadata"], "status": {"message": str(number)}})
            assert (await anext(quick)).object["status"]["message"] == str(number)
        assert [(await anext(slow)).object["status"]["message"] for _ in range(3000)] == [str(n) for n in range(3000)]


async def test_a_restart_keeps_the_objects_and_ends_the_watches() -> None:
    server = ApiServer()
    await server.create(PODS, POD)
    watching = asyncio.create_task(_until_the_end(server))
    await asyncio.sleep(0)
    server.restart()
    assert [event.type for event in await watching] == ["ADDED"]
    assert len(await server.list(PODS)) == 1


async def test_events_are_forgotten_after_an_hour_of_silence() -> None:
    clock = JumpClock()
    server = ApiServer(clock=clock)
    for name in ("first", "second", "third"):
        event = {"metadata": {"name": name, "namespace": "default"}, "lastTimestamp": timestamp(clock.wall())}
        await server.create(EVENTS, event)
        clock.jump(3000)
    assert [event["metadata"]["name"] for event in await server.list(EVENTS)] == ["second", "third"]


async def test_calls_fail_while_the_server_is_down() -> None:
    server = ApiServer()
    server.down()
    waiting = asyncio.create_task(server.wait_ready())
    for call in (
        server.list(PODS),
        server.create(PODS, POD),
        server.delete(PODS, "x", "default"),
        _until_the_end(server),
    ):
        with pytest.raises(ApiError) as refusal:
            await call
        assert (refusal.value.status, refusal.value.reason) == (503, "ServiceUnavailable")
    assert not waiting.done()
    server.up()
    await waiting
    assert await server.list(PODS) == []


async def test_a_watch_from_before_the_history_is_expired() -> None:
    server = ApiServer()
    pod = await server.create(PODS, POD)
    _, revision = await server.snapshot(PODS)
    for number in range(HISTORY + 1):
        await server.replace_status(PODS, {**pod, "metadata": POD["metadata"], "status": {"message": str(number)}})
    with pytest.raises(ApiError) as refusal:
        await anext(server.watch(PODS, since=revision))
    assert (refusal.value.status, refusal.value.reason) == (410, "Expired")


async def test_namespace_is_deleted_with_its_objects_after_the_last_finalizer() -> None:
    server = ApiServer()
    await server.create(NAMESPACES, {"metadata": {"name": "other"}})
    await server.create(CLAIMS, CLAIM)
    await server.create(PODS, {**POD, "metadata": {"name": "train", "namespace": "other"}})
    await server.delete(NAMESPACES, "other")
    assert (await server.get(NAMESPACES, "other"))["status"] == {"phase": "Terminating"}
    with pytest.raises(ApiError, match="because it is being terminated"):
        await server.create(PODS, {**POD, "metadata": {"name": "late", "namespace": "other"}})
    await server.replace(CLAIMS, {**CLAIM, "metadata": {"name": "gpu", "namespace": "other"}})
    assert await server.list(PODS) == []
    assert [n["metadata"]["name"] for n in await server.list(NAMESPACES)] == ["default", "kube-system"]


async def test_pod_is_bound_once_and_has_condition_pod_scheduled() -> None:
    server = ApiServer(clock=JumpClock())
    await server.create(PODS, POD)
    await server.create(NODES, {"metadata": {"name": "node"}})
    await server.bind("train", "default", "node")
    pod = await server.get(PODS, "train", "default")
    assert pod["spec"]["nodeName"] == "node"
    assert [(c["type"], c["status"]) for c in pod["status"]["conditions"]] == [("PodScheduled", "True")]
    with pytest.raises(ApiError, match='already assigned to node "node"'):
        await server.bind("train", "default", "node")


async def test_missing_request_defaults_to_the_limit() -> None:
    resources = {"limits": {"example.com/gpu": "1", "cpu": "2"}, "requests": {"cpu": "1"}}
    pod = await ApiServer().create(
        PODS, {**POD, "spec": {"containers": [{"name": "main", "image": "training", "resources": resources}]}}
    )
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"example.com/gpu": "1", "cpu": "1"}


async def test_a_resize_changes_limits_and_requests_and_is_a_new_generation() -> None:
    server = ApiServer()
    resources = {"limits": {"example.com/gpu": "1", "cpu": "2"}, "requests": {"example.com/gpu": "1", "cpu": "1"}}
    await server.create(
        PODS, {**POD, "spec": {"containers": [{"name": "main", "image": "training", "resources": resources}]}}
    )
    await server.resize_pod("train", "default", {"cpu": "8"})
    pod, sizes = await server.get(PODS, "train", "default"), {"example.com/gpu": "1", "cpu": "8"}
    assert [one["resources"] for one in pod["spec"]["containers"]] == [{"limits": sizes, "requests": sizes}]
    assert pod["metadata"]["generation"] == 2


async def _until_the_end(server: ApiServer) -> list[WatchEvent]:
    return [event async for event in server.watch(PODS)]
