"""Validation of ConfigMaps, Secrets, finalizers and owners."""

from typing import Any

import pytest

from drahealth.fakes.cluster.api import DATA_KINDS, ApiError, Object
from drahealth.fakes.cluster.api_server.server import ApiServer

CONFIG, SECRET = (next(one for one in DATA_KINDS if one.kind == name) for name in ("ConfigMap", "Secret"))
OWNER: Object = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1"}


def metadata(**more: Any) -> Object:
    return {"name": "a", "namespace": "default", **more}


@pytest.mark.parametrize(
    ("obj", "fields"),
    [
        ({"data": {"a b": "c"}}, ["data[a b]"]),
        ({"data": {"a": "c"}, "binaryData": {"a": "YQ=="}}, ["data[a]"]),
        ({"metadata": metadata(finalizers=["held"])}, ["metadata.finalizers[0]"]),
        ({"metadata": metadata(finalizers=["orphan", "foregroundDeletion"])}, ["metadata.finalizers"]),
        ({"metadata": metadata(ownerReferences=[{**OWNER, "uid": ""}])}, ["metadata.ownerReferences[0].uid"]),
        ({"metadata": metadata(ownerReferences=[{**OWNER, "kind": "Event"}])}, ["metadata.ownerReferences[0]"]),
        (
            {"metadata": metadata(ownerReferences=[{**OWNER, "controller": True}, {**OWNER, "controller": True}])},
            ["metadata.ownerReferences"],
        ),
    ],
)
async def test_wrong_field_is_named(obj: Object, fields: list[str]) -> None:
    with pytest.raises(ApiError) as found:
        await ApiServer().create(CONFIG, {"metadata": metadata(), **obj})
    assert found.value.status == 422
    assert [cause["field"] for cause in (found.value.details or {})["causes"]] == fields


@pytest.mark.parametrize("change", [{"data": {"a": "2"}}, {"immutable": False}])
async def test_immutable_config_keeps_its_data(change: Object) -> None:
    server = ApiServer()
    stored = await server.create(CONFIG, {"metadata": metadata(), "data": {"a": "1"}, "immutable": True})
    with pytest.raises(ApiError) as found:
        await server.replace(CONFIG, {**stored, **change})
    assert found.value.status == 422
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
    assert (await server.replace(CONFIG, labelled))["metadata"]["labels"] == {"a": "b"}


async def test_secret_keeps_its_type() -> None:
    server = ApiServer()
    stored = await server.create(SECRET, {"metadata": metadata(), "data": {"a": "YQ=="}})
    with pytest.raises(ApiError) as found:
        await server.replace(SECRET, {**stored, "type": "example.com/other"})
    assert found.value.status == 422
