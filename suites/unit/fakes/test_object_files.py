"""An API server that keeps its objects across restarts."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drahealth.fakes.cluster.api import CLAIMS, NAMESPACES, PODS, SLICES, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.api_server.storage import RESTART_GAP, ObjectFiles
from drahealth.suites.unit.expected_errors import api_error

POD: Object = {
    "metadata": {"name": "pod", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "training"}]},
}
KINDS = (NAMESPACES, PODS, CLAIMS)


def server(folder: Path) -> ApiServer:
    return ApiServer(files=ObjectFiles(folder, KINDS))


async def everything(api: ApiServer) -> list[Object]:
    return [obj for kind in KINDS for obj in await api.list(kind)]


async def test_objects_survive_a_server_restart(tmp_path: Path) -> None:
    first = server(tmp_path)
    pod = await first.create(PODS, POD)
    await first.replace_status(PODS, {**pod, "status": {"phase": "Running"}})
    gone = await first.create(CLAIMS, {"metadata": {"name": "gone", "namespace": "default"}, "spec": {}})
    await first.delete(CLAIMS, gone["metadata"]["name"], "default")
    assert await everything(server(tmp_path)) == await everything(first)


async def test_revisions_of_an_earlier_process_are_not_reused(tmp_path: Path) -> None:
    pod = await server(tmp_path).create(PODS, POD)
    second = server(tmp_path)
    with api_error(410, "Expired"):
        await anext(second.watch(PODS, since=pod["metadata"]["resourceVersion"]))
    again = await second.replace_status(PODS, {**pod, "status": {"phase": "Running"}})
    assert int(again["metadata"]["resourceVersion"]) > RESTART_GAP


async def test_resource_slices_are_not_kept_across_restarts(tmp_path: Path) -> None:
    slice_ = {
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "allNodes": True, "pool": {"name": "p", "resourceSliceCount": 1}},
    }
    await server(tmp_path).create(SLICES, slice_)
    assert await server(tmp_path).list(SLICES) == []


async def test_failed_write_has_no_effect(tmp_path: Path) -> None:
    api = server(tmp_path)
    (tmp_path / "pods").write_text("in the way")
    with api_error(503, "ServiceUnavailable"):
        await api.create(PODS, POD)
    assert await api.list(PODS) == []


def stored(folder: Path, data: bytes) -> list[tuple[Any, Object]]:
    """The result of reading a pod's file with this content."""
    files = ObjectFiles(folder, [PODS])
    files.load()
    (folder / "pods" / "default").mkdir(parents=True, exist_ok=True)
    (folder / "pods" / "default" / "pod").write_bytes(data)
    return files.load()


@pytest.mark.parametrize("data", [b"", b"{", b"null", b"[]", b"\xff", json.dumps(POD).encode()])
def test_a_file_that_holds_no_object_is_left_out_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    assert stored(tmp_path, data) == []
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "ignoring invalid object file pods/default/pod"
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
paths = st.sampled_from(
    ["metadata", "metadata.uid", "metadata.resourceVersion", "metadata.finalizers", "spec", "spec.containers", "status"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(path=paths, value=json_values)
def test_invalid_file_does_not_affect_other_objects(tmp_path: Path, path: str, value: Any) -> None:
    logging.getLogger("drahealth.fakes.cluster.api_server.storage").setLevel(logging.CRITICAL)
    metadata = {**POD["metadata"], "uid": "u", "resourceVersion": "7", "creationTimestamp": "t", "generation": 1}
    obj: Any = {"metadata": metadata, "spec": POD["spec"], "status": {}}
    *way, last = path.split(".")
    (obj[way[0]] if way else obj)[last] = value
    assert len(stored(tmp_path, json.dumps(obj).encode())) <= 1
