"""Objects of kinds that no fake works with, as clients of the in-memory API server see them."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.cluster.api import CRDS, NAMESPACES, ApiError, Object, plural_of
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.suites.unit.fakes.test_api_http import Web, web

__all__ = ["web"]  # the fixture

CONFIG: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gpus", "namespace": "default"}}
CONFIGS = "/api/v1/namespaces/default/configmaps"
LIMITS = "/api/v1/namespaces/default/limitranges"
WIDGETS = "/apis/example.com/v1/widgets"
MERGE = {"headers": {"Content-Type": "application/merge-patch+json"}}


def definition(**more: Any) -> Object:
    names = {"kind": "Widget", "plural": "widgets"}
    versions = [
        {"name": "v1beta1", "served": True, "storage": False, "subresources": {"status": {}}},
        {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}},
        {"name": "v1alpha1", "served": False, "storage": False},
    ]
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions, **more}
    return {"apiVersion": CRDS.api_version, "metadata": {"name": "widgets.example.com"}, "spec": spec}


def widget(**more: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 1}, **more}


async def created(server: ApiServer, obj: Object) -> Object:
    return await server.create(await server.kind_of(obj), obj)


async def test_kind_is_served_from_its_first_use(web: Web) -> None:
    assert (await web.call("GET", LIMITS))[0] == 404
    await created(web.server, {**CONFIG, "kind": "LimitRange", "spec": {"limits": []}})
    status, listed = await web.call("GET", LIMITS)
    assert (status, listed["kind"], listed["items"][0]["spec"]) == (200, "LimitRangeList", {"limits": []})
    resources = (await web.call("GET", "/api/v1"))[1]["resources"]
    assert {"LimitRange": "limitranges"}.items() <= {one["kind"]: one["name"] for one in resources}.items()


async def test_object_of_another_kind_is_patched_replaced_and_deleted(web: Web) -> None:
    await created(web.server, {**CONFIG, "data": {"mode": "mig"}})
    one = f"{CONFIGS}/gpus"
    _, patched = await web.call("PATCH", one, json={"data": {"count": "2"}}, **MERGE)
    assert patched["data"] == {"mode": "mig", "count": "2"}
    status, replaced = await web.call("PUT", one, json={**patched, "data": {}})
    assert (status, "data" in replaced) == (200, False)
    assert (await web.call("PUT", one, json=patched))[1]["reason"] == "Conflict"
    assert ((await web.call("DELETE", one))[0], (await web.call("GET", one))[0]) == (200, 404)


async def test_watch_sees_changes_of_another_kind(web: Web) -> None:
    await created(web.server, CONFIG)
    kind = await web.server.kind_of(CONFIG)
    async with aclosing(web.server.watch(kind, "default")) as watch:
        first = await anext(watch)
        await web.server.delete(kind, "gpus", "default")
        assert [first.type, (await anext(watch)).type] == ["ADDED", "DELETED"]


async def test_typed_client_in_go_can_write_config_maps(web: Web) -> None:
    """It sends protobuf: an envelope with apiVersion, kind and the message."""
    await web.server.kind_of(CONFIG)
    metadata = b"\x0a\x04gpus"
    message = b"\x0a" + bytes([len(metadata)]) + metadata + b"\x12\x0b\x0a\x04mode\x12\x03mig"
    type_meta = b"\x0a\x02v1\x12\x09ConfigMap"
    body = b"k8s\0" + b"\x0a" + bytes([len(type_meta)]) + type_meta + b"\x12" + bytes([len(message)]) + message
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    status, stored = await web.call("POST", CONFIGS, data=body, headers=headers)
    assert (status, stored["data"]) == (201, {"mode": "mig"})


async def test_definition_serves_its_kind_in_each_served_version(web: Web) -> None:
    status, stored = await web.call("POST", CRDS.path(), json=definition())
    assert (status, [one["type"] for one in stored["status"]["conditions"]]) == (201, ["NamesAccepted", "Established"])
    assert (await web.call("POST", WIDGETS, json=widget()))[0] == 201
    beta = (await web.call("GET", "/apis/example.com/v1beta1/widgets/one"))[1]
    assert (beta["apiVersion"], beta["spec"]) == ("example.com/v1beta1", {"size": 1})
    assert (await web.call("GET", "/apis/example.com/v1alpha1/widgets"))[0] == 404
    groups = {one["name"]: one["preferredVersion"]["version"] for one in (await web.call("GET", "/apis"))[1]["groups"]}
    assert groups["example.com"] == "v1"


async def test_custom_resource_has_a_status_of_its_own(web: Web) -> None:
    await web.call("POST", CRDS.path(), json=definition())
    assert "status" not in (await web.call("POST", WIDGETS, json=widget(status={"ready": True})))[1]
    status, _ = await web.call("PATCH", f"{WIDGETS}/one/status", json={"status": {"ready": True}}, **MERGE)
    assert status == 200
    changed = (await web.call("PATCH", f"{WIDGETS}/one", json={"spec": {"size": 2}}, **MERGE))[1]
    assert (changed["status"], changed["metadata"]["generation"]) == ({"ready": True}, 2)


async def test_deletion_of_a_definition_deletes_its_objects(web: Web) -> None:
    await web.call("POST", CRDS.path(), json=definition())
    await web.call("POST", WIDGETS, json=widget())
    await web.call("DELETE", f"{CRDS.path()}/widgets.example.com")
    assert (await web.call("GET", WIDGETS))[0] == 404
    await web.call("POST", CRDS.path(), json=definition())
    assert (await web.call("GET", WIDGETS))[1]["items"] == []


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        ({**definition(), "metadata": {"name": "widgets"}}, "metadata.name"),
        (definition(scope="Node"), "spec.scope"),
        (definition(versions=[]), "spec.versions"),
        (definition(names={"plural": "widgets"}), "spec.names.kind"),
    ],
)
async def test_incomplete_definition_is_rejected(obj: Object, field: str) -> None:
    with pytest.raises(ApiError) as error:
        await ApiServer().create(CRDS, obj)
    assert error.value.status == 422
    assert field in error.value.message


async def test_unknown_kind_of_kubernetes_is_rejected() -> None:
    with pytest.raises(ApiError) as error:
        await ApiServer().kind_of({"apiVersion": "v1", "kind": "ConfgMap", "metadata": {}})
    assert error.value.status == 404
    assert "ConfigMap" in error.value.message


async def test_namespace_is_deleted_with_objects_of_other_kinds() -> None:
    server = ApiServer()
    await server.create(NAMESPACES, {"metadata": {"name": "gpus"}})
    await created(server, {**CONFIG, "metadata": {"name": "gpus", "namespace": "gpus"}})
    await server.delete(NAMESPACES, "gpus")
    assert await server.list(await server.kind_of(CONFIG)) == []


async def test_text_of_a_secret_is_encoded() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}}
    stored = await created(ApiServer(), {**secret, "stringData": {"token": "abc"}})
    assert (stored["data"], "stringData" in stored) == ({"token": "YWJj"}, False)


async def test_name_of_a_role_can_have_colons() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "gpu:driver"}}
    assert (await created(ApiServer(), role))["metadata"]["name"] == "gpu:driver"


async def test_client_finds_kinds_by_discovery(web: Web, tmp_path: Path) -> None:
    await web.call("POST", CRDS.path(), json=definition())
    web.http.write_kubeconfig(tmp_path / "kubeconfig")
    client = await KubeClient.from_kubeconfig(tmp_path / "kubeconfig")
    try:
        kind = await client.kind_of(widget())
        assert (kind.plural, kind.namespaced, kind.has_status) == ("widgets", False, True)
        with pytest.raises(ApiError) as error:
            await client.kind_of({"apiVersion": "example.com/v1", "kind": "Gadget"})
        assert error.value.status == 404
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Ingress", "ingresses"), ("NetworkPolicy", "networkpolicies"), ("Endpoints", "endpoints"), ("Job", "jobs")],
)
def test_plural_of_a_kind_follows_english_rules(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural
