"""The official Python client, asynchronous, on a node of `drahealth up`. `ci/step api-server` has a real one."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client, config, watch
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.utils import create_from_dict

from drahealth.fakes.cluster.api import Object
from drahealth.suites.unit.clients import manifests
from drahealth.suites.unit.endings import PATIENCE


class Cluster:
    """A node as the official client sees it, with a namespace of this test."""

    def __init__(self, api: client.ApiClient) -> None:
        self.client = api
        self.core = client.CoreV1Api(api)
        self.resources = client.ResourceV1Api(api)
        self.namespace = f"t-{uuid.uuid4().hex[:8]}"

    async def wait(self, is_reached: Callable[[Any], bool], name: str = "train", since: Any = None) -> Any:
        """The Pod, when a watch shows that it has reached a state; `since` is an earlier state."""
        selected: dict[str, Any] = {"field_selector": f"metadata.name={name}", "timeout_seconds": int(PATIENCE)}
        if since is not None:
            selected["resource_version"] = since.metadata.resource_version
        async with watch.Watch() as watched:
            async for event in watched.stream(self.core.list_namespaced_pod, self.namespace, **selected):
                if is_reached(event["object"]):
                    return event["object"]
        raise AssertionError(f"{name} did not reach the state")

    async def run_pod(self, manifest: Object) -> Any:
        await self.core.create_namespaced_pod(self.namespace, manifest)
        return await self.wait(lambda pod: bool(pod.status.phase == "Running"))


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[Cluster]:
    configuration = client.Configuration()
    await config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        cluster = Cluster(api)
        await cluster.core.create_namespace({"metadata": {"name": cluster.namespace}})
        yield cluster
        for pod in (await cluster.core.list_namespaced_pod(cluster.namespace)).items:
            await cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace, grace_period_seconds=0)
        await cluster.core.delete_namespace(cluster.namespace)


async def refused(call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> int:
    """The HTTP status of a rejected call."""
    with pytest.raises(ApiException) as error:
        await call(*arguments, **options)
    return int(error.value.status)


def names(listed: Any) -> list[str]:
    return [item.metadata.name for item in listed.items]


async def test_a_pod_is_created_runs_and_is_deleted(cluster: Cluster) -> None:
    running = await cluster.run_pod(manifests.pod())
    assert await refused(cluster.core.create_namespaced_pod, cluster.namespace, manifests.pod()) == 409
    deleted = await cluster.core.delete_namespaced_pod("train", cluster.namespace, grace_period_seconds=0)
    assert deleted.metadata.uid == running.metadata.uid
    assert await refused(cluster.core.read_namespaced_pod, "train", cluster.namespace) == 404


async def test_the_status_of_a_pod_has_the_health_of_its_device(cluster: Cluster) -> None:
    await cluster.resources.create_namespaced_resource_claim(cluster.namespace, manifests.claim())
    await cluster.core.create_namespaced_pod(cluster.namespace, manifests.pod_with_claim())
    pod = await cluster.wait(
        lambda pod: any(one.allocated_resources_status for one in pod.status.container_statuses or ())
    )
    (entry,) = pod.status.container_statuses[0].allocated_resources_status
    claim = await cluster.resources.read_namespaced_resource_claim("gpu", cluster.namespace)
    assert [device.health for device in entry.resources] == ["Healthy"]
    assert claim.status.allocation.devices.results[0].driver == manifests.CLASS


async def test_a_watch_ends_after_its_timeout_and_resumes_where_it_ended(cluster: Cluster) -> None:
    async def seen() -> list[str]:
        options: dict[str, Any] = {"label_selector": "app", "timeout_seconds": 1}
        if watched.resource_version:
            options["resource_version"] = watched.resource_version
        stream = watched.stream(cluster.core.list_namespaced_config_map, cluster.namespace, **options)
        return [event["object"].metadata.name async for event in stream]

    watched = watch.Watch()
    found = []
    for name in "ab":
        await cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map(name))
        found.append(await seen())
    await watched.close()
    assert found == [["a"], ["b"]]


async def test_a_list_comes_in_pages(cluster: Cluster) -> None:
    for name in "abc":
        await cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map(name))
    options: dict[str, Any] = {"label_selector": "app", "limit": 2}
    first = await cluster.core.list_namespaced_config_map(cluster.namespace, **options)
    rest = await cluster.core.list_namespaced_config_map(
        cluster.namespace, **options, _continue=first.metadata._continue
    )
    assert (names(first), names(rest), rest.metadata._continue) == (["a", "b"], ["c"], None)


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        ("application/merge-patch+json", {"data": {"b": "2"}}),
        ("application/strategic-merge-patch+json", {"data": {"b": "2"}}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/b", "value": "2"}]),
        ("application/apply-patch+yaml", {**manifests.config_map(b="2")}),
    ],
)
async def test_each_kind_of_patch_changes_an_object(cluster: Cluster, content_type: str, patch: Any) -> None:
    await cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map(a="1"))
    options = {"field_manager": "one"} if "apply" in content_type else {}
    patched = await cluster.core.patch_namespaced_config_map(
        "settings", cluster.namespace, patch, _content_type=content_type, **options
    )
    assert patched.data == {"a": "1", "b": "2"}


async def test_a_replacement_with_an_old_revision_is_a_conflict(cluster: Cluster) -> None:
    created = await cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map(a="1"))
    created.data = {"a": "2"}
    replaced = await cluster.core.replace_namespaced_config_map("settings", cluster.namespace, created)
    assert replaced.data == {"a": "2"}
    assert await refused(cluster.core.replace_namespaced_config_map, "settings", cluster.namespace, created) == 409


async def test_a_collection_is_deleted_by_its_labels(cluster: Cluster) -> None:
    for name in ("a", "b"):
        await cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map(name))
    await cluster.core.delete_collection_namespaced_config_map(cluster.namespace, label_selector="app=a")
    assert names(await cluster.core.list_namespaced_config_map(cluster.namespace, label_selector="app")) == ["b"]


async def test_a_budget_forbids_the_eviction_of_a_pod(cluster: Cluster) -> None:
    running = await cluster.run_pod(manifests.pod())
    policy = client.PolicyV1Api(cluster.client)
    await policy.create_namespaced_pod_disruption_budget(cluster.namespace, manifests.budget("train", 1))
    evict = cluster.core.create_namespaced_pod_eviction
    assert await refused(evict, "train", cluster.namespace, manifests.eviction("train")) == 429
    await policy.delete_namespaced_pod_disruption_budget("train", cluster.namespace)
    await evict("train", cluster.namespace, manifests.eviction("train"))
    evicted = await cluster.wait(lambda pod: bool(pod.metadata.deletion_timestamp), since=running)
    assert "DisruptionTarget" in [condition.type for condition in evicted.status.conditions]


async def test_the_dynamic_client_finds_and_uses_kinds(cluster: Cluster) -> None:
    dynamic = await DynamicClient(cluster.client)
    maps = await dynamic.resources.get(api_version="v1", kind="ConfigMap")
    await maps.create(body=manifests.config_map(a="1"), namespace=cluster.namespace)
    merge = {"content_type": "application/merge-patch+json"}
    patched = await maps.patch(body={"data": {"b": "2"}}, name="settings", namespace=cluster.namespace, **merge)
    deleted = await maps.delete(name="settings", namespace=cluster.namespace)
    assert (patched.data.to_dict(), deleted.status) == ({"a": "1", "b": "2"}, "Success")


async def test_objects_are_created_from_a_manifest(cluster: Cluster) -> None:
    await create_from_dict(cluster.client, manifests.config_map(a="1"), namespace=cluster.namespace)
    assert (await cluster.core.read_namespaced_config_map("settings", cluster.namespace)).data == {"a": "1"}
