"""The API object of one pod, and the status that a kubelet writes to it."""

import pytest

from drahealth.fakes.cluster.api import PODS, Kind, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.manager.pod_worker.pod_object import PodObject
from drahealth.proto.values import MESSAGE_GATE, STATUS_GATE

MANIFEST = {
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"nodeName": "node-a", "containers": [{"name": "main", "image": "training"}]},
}


class CountingServer(ApiServer):
    """An API server that counts the statuses written to it."""

    writes = 0

    async def replace_status(self, kind: Kind, obj: Object) -> Object:
        self.writes += 1
        return await super().replace_status(kind, obj)


@pytest.fixture
def api() -> CountingServer:
    return CountingServer()


def with_reason(pod: Object) -> Object:
    return {**pod["status"], "reason": "mine"}


async def stored(api: ApiServer) -> Object:
    return await api.get(PODS, "train", "default")


async def test_only_a_changed_status_is_written(api: CountingServer) -> None:
    pod = PodObject(api, await api.create(PODS, MANIFEST))
    results = [await pod.write_status(with_reason) for _ in range(3)]
    assert (results, api.writes) == ([True] * 3, 1)
    assert await stored(api) == pod.newest


async def test_conflict_is_retried_on_the_newest_object(api: CountingServer) -> None:
    pod = PodObject(api, await api.create(PODS, MANIFEST))
    await api.replace_status(PODS, {**pod.newest, "status": {"phase": "Pending", "message": "theirs"}})
    written = await pod.write_status(with_reason)
    expected = {"phase": "Pending", "message": "theirs", "reason": "mine", "qosClass": "BestEffort"}
    assert (written, (await stored(api))["status"]) == (True, expected)


async def test_concurrently_written_terminal_phase_is_not_overwritten(api: CountingServer) -> None:
    pod = PodObject(api, await api.create(PODS, MANIFEST))
    await api.replace_status(PODS, {**pod.newest, "status": {"phase": "Failed"}})
    written = await pod.write_status(with_reason)
    assert (written, (await stored(api))["status"]) == (True, {"phase": "Failed", "qosClass": "BestEffort"})


async def test_dropped_field_is_not_sent_again_until_a_restart() -> None:
    api = CountingServer(gates={STATUS_GATE: False, MESSAGE_GATE: False})
    pod = PodObject(api, await api.create(PODS, MANIFEST))
    container = {"name": "main", "allocatedResourcesStatus": [{"name": "claim:c", "resources": []}]}
    for _ in range(3):
        await pod.write_status(lambda pod: {**pod["status"], "containerStatuses": [container]})
    before = api.writes
    pod.relisted(pod.newest)
    await pod.write_status(lambda pod: {**pod["status"], "containerStatuses": [container]})
    assert (before, api.writes) == (1, 2)


async def test_another_pod_of_the_same_name_is_not_touched(api: CountingServer) -> None:
    pod = PodObject(api, await api.create(PODS, MANIFEST))
    await api.delete(PODS, "train", "default", grace=0)
    other = await api.create(PODS, MANIFEST)
    written, deleted = await pod.write_status(with_reason), await pod.delete()
    assert (written, deleted, pod.is_gone, await stored(api)) == (False, True, True, other)


async def test_status_write_to_a_deleted_pod_marks_it_gone(api: CountingServer) -> None:
    pod = PodObject(api, await api.create(PODS, MANIFEST))
    await api.delete(PODS, "train", "default", grace=0)
    assert (await pod.write_status(with_reason), pod.is_gone) == (False, True)


async def test_older_pod_versions_are_ignored(api: CountingServer) -> None:
    pod = PodObject(api, await api.create(PODS, MANIFEST))
    old = pod.newest
    await pod.write_status(with_reason)
    assert (pod.take(old), pod.take(pod.newest), pod.newest["status"]["reason"]) == (False, False, "mine")


async def test_rejection_is_logged_once_per_reason(api: CountingServer, caplog: pytest.LogCaptureFixture) -> None:
    pod = PodObject(api, await api.create(PODS, MANIFEST))
    api.down()
    away = [await pod.write_status(with_reason), await pod.delete(), await pod.write_status(with_reason)]
    api.up()
    assert (away, await pod.write_status(with_reason)) == ([False] * 3, True)
    [record] = caplog.records
    assert record.getMessage().startswith("pod default/train: failed to write its status: ServiceUnavailable: ")
