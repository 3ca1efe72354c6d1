"""A scenario's view of its Pods, also after a watch has ended."""

import asyncio

from drahealth.fakes.cluster.api import NAMESPACES, PODS
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.proto.events import StatusSeen
from drahealth.suites.story.history import History, ScenarioWatch

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod-1", "namespace": "scenario"},
    "spec": {"containers": [{"name": "main", "image": "image"}]},
}


async def test_a_pod_that_is_deleted_while_no_watch_is_open_is_gone_afterwards() -> None:
    server, history = ApiServer(), History()
    await server.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "scenario"}})
    uid = (await server.create(PODS, POD))["metadata"]["uid"]
    watch = ScenarioWatch(server, "scenario", history)
    watch.start()
    try:
        async with asyncio.timeout(60):
            await history.until(lambda: uid in watch.statuses, 60)
            server.restart()
            await server.delete(PODS, "pod-1", "scenario", grace=0)
            assert await history.until(lambda: not watch.statuses, 60)
    finally:
        await watch.stop()
    assert [seen.pod for seen in history.of(StatusSeen)] == ["pod-1"]
