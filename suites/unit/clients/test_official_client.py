"""The official Python client, synchronous, on a node of `drahealth up`. `ci/step api-server` has a real one."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.informer import SharedInformer
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from drahealth.fakes.cluster.api import Object
from drahealth.suites.unit.clients import manifests
from drahealth.suites.unit.endings import PATIENCE

NODE = "drahealth"


class Cluster:
    """A node as the official client sees it, with a namespace of this test."""

    def __init__(self, kubeconfig: Path) -> None:
        configuration = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=configuration)
        client.Configuration.set_default(configuration)  # LeaseLock makes its own client
        self.client = client.ApiClient(configuration)
        self.core = client.CoreV1Api(self.client)
        self.resources = client.ResourceV1Api(self.client)
        self.namespace = f"t-{uuid.uuid4().hex[:8]}"

    def create_pod(self, manifest: Object | None = None, **spec: Any) -> Any:
        return self.core.create_namespaced_pod(self.namespace, manifest or manifests.pod(**spec))

    def wait(self, is_reached: Callable[[Any], bool], name: str = "train", since: Any = None) -> Any:
        """The Pod, when a watch shows that it has reached a state; `since` is an earlier state."""
        options: dict[str, Any] = {"field_selector": f"metadata.name={name}", "timeout_seconds": int(PATIENCE)}
        if since is not None:
            options["resource_version"] = since.metadata.resource_version
        watched = watch.Watch()
        stream = watched.stream(self.core.list_namespaced_pod, self.namespace, **options)
        for event in stream:
            if is_reached(event["object"]):
                watched.stop()
                return event["object"]
        raise AssertionError(f"{name} did not reach the state")

    def run_pod(self, manifest: Object | None = None) -> Any:
        created = self.create_pod(manifest)
        return self.wait(is_running, created.metadata.name)


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client.Configuration, "_default", None)
        cluster = Cluster(kubeconfig)
        cluster.core.create_namespace({"metadata": {"name": cluster.namespace}})
        yield cluster
        for pod in cluster.core.list_namespaced_pod(cluster.namespace).items:
            cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace, grace_period_seconds=0)
        cluster.core.delete_namespace(cluster.namespace)
        cluster.client.close()


def is_running(pod: Any) -> bool:
    return bool(pod.status.phase == "Running")


def refused(call: Callable[..., Any], *arguments: Any, **options: Any) -> int:
    """The HTTP status of a rejected call."""
    with pytest.raises(ApiException) as error:
        call(*arguments, **options)
    return int(error.value.status)


def names(listed: Any) -> list[str]:
    return [item.metadata.name for item in listed.items]


def test_a_pod_is_created_runs_and_is_deleted(cluster: Cluster) -> None:
    running = cluster.run_pod()
    assert running.spec.node_name == NODE
    assert cluster.core.read_namespaced_pod("train", cluster.namespace).metadata.uid == running.metadata.uid
    assert refused(cluster.core.create_namespaced_pod, cluster.namespace, manifests.pod()) == 409
    deleted = cluster.core.delete_namespaced_pod("train", cluster.namespace, grace_period_seconds=0)
    assert deleted.metadata.uid == running.metadata.uid
    assert refused(cluster.core.read_namespaced_pod, "train", cluster.namespace) == 404


def test_a_graceful_deletion_is_watched_to_its_end(cluster: Cluster) -> None:
    cluster.run_pod()
    deleted = cluster.core.delete_namespaced_pod("train", cluster.namespace, grace_period_seconds=1)
    assert (deleted.kind, deleted.metadata.deletion_grace_period_seconds) == ("Pod", 1)
    stream = watch.Watch().stream(
        cluster.core.list_namespaced_pod,
        cluster.namespace,
        resource_version=deleted.metadata.resource_version,
        timeout_seconds=int(PATIENCE),
    )
    assert next(event["object"] for event in stream if event["type"] == "DELETED").metadata.uid == deleted.metadata.uid


def test_the_status_of_a_pod_has_the_health_of_its_device(cluster: Cluster) -> None:
    cluster.resources.create_namespaced_resource_claim(cluster.namespace, manifests.claim())
    cluster.create_pod(manifests.pod_with_claim())
    pod = cluster.wait(
        lambda pod: is_running(pod) and bool(pod.status.container_statuses[0].allocated_resources_status)
    )
    (entry,) = pod.status.container_statuses[0].allocated_resources_status
    assert [device.health for device in entry.resources] == ["Healthy"]
    claim = cluster.resources.read_namespaced_resource_claim("gpu", cluster.namespace)
    assert claim.status.reserved_for[0].name == "train"
    assert claim.status.allocation.devices.results[0].driver == manifests.CLASS


def test_slices_and_device_classes_are_listed(cluster: Cluster) -> None:
    slices = cluster.resources.list_resource_slice(field_selector=f"spec.driver={manifests.CLASS}").items
    assert {device.name for one in slices for device in one.spec.devices} == {"gpu-0", "gpu-1"}
    assert manifests.CLASS in names(cluster.resources.list_device_class())


def test_a_claim_template_and_a_device_class_are_created_and_deleted(cluster: Cluster) -> None:
    template = {"metadata": {"name": "gpu"}, "spec": {"spec": manifests.claim()["spec"]}}
    cluster.resources.create_namespaced_resource_claim_template(cluster.namespace, template)
    assert names(cluster.resources.list_namespaced_resource_claim_template(cluster.namespace)) == ["gpu"]
    deleted = cluster.resources.delete_namespaced_resource_claim_template("gpu", cluster.namespace)
    selector = {"cel": {"expression": "device.driver == 'none.example.com'"}}
    body = {"metadata": {"name": f"{cluster.namespace}.example.com"}, "spec": {"selectors": [selector]}}
    created = cluster.resources.create_device_class(body)
    assert (deleted.metadata.name, created.spec.selectors[0].cel.expression) == ("gpu", selector["cel"]["expression"])
    assert cluster.resources.delete_device_class(created.metadata.name).metadata.uid == created.metadata.uid


def test_a_watch_ends_after_its_timeout_and_resumes_where_it_ended(cluster: Cluster) -> None:
    api, namespace = cluster.core, cluster.namespace
    api.create_namespaced_config_map(namespace, manifests.config_map("a"))
    watched = watch.Watch()
    options: dict[str, Any] = {"label_selector": "app", "timeout_seconds": 1}
    first = [
        event["object"].metadata.name for event in watched.stream(api.list_namespaced_config_map, namespace, **options)
    ]
    api.create_namespaced_config_map(namespace, manifests.config_map("b"))
    options["resource_version"] = watched.resource_version
    second = [
        event["object"].metadata.name for event in watched.stream(api.list_namespaced_config_map, namespace, **options)
    ]
    assert (first, second) == (["a"], ["b"])


def test_a_list_comes_in_pages(cluster: Cluster) -> None:
    for name in "abcde":
        cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map(name))
    pages, token = [], None
    while token != "":
        options = {"label_selector": "app", "limit": 2, **({"_continue": token} if token else {})}
        page = cluster.core.list_namespaced_config_map(cluster.namespace, **options)
        pages.append(names(page))
        token = page.metadata._continue or ""
    assert pages == [["a", "b"], ["c", "d"], ["e"]]


def test_lists_select_by_labels_and_fields(cluster: Cluster) -> None:
    for name in ("a", "b"):
        cluster.create_pod(name=name)
    listed = cluster.core.list_namespaced_pod
    assert names(listed(cluster.namespace, label_selector="app in (a, c)")) == ["a"]
    assert names(listed(cluster.namespace, field_selector="metadata.name!=a")) == ["b"]
    found = cluster.core.list_pod_for_all_namespaces(field_selector=f"metadata.namespace={cluster.namespace}")
    assert names(found) == ["a", "b"]
    assert refused(listed, cluster.namespace, label_selector="a b") == 400


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (None, {"data": {"b": "2"}}),
        ("application/merge-patch+json", {"data": {"b": "2"}}),
        ("application/strategic-merge-patch+json", {"data": {"b": "2"}}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/b", "value": "2"}]),
    ],
)
def test_each_kind_of_patch_changes_an_object(cluster: Cluster, content_type: str | None, patch: Any) -> None:
    cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map(a="1"))
    options = {"_content_type": content_type} if content_type else {}
    patched = cluster.core.patch_namespaced_config_map("settings", cluster.namespace, patch, **options)
    assert patched.data == {"a": "1", "b": "2"}


def test_an_apply_patch_creates_and_changes_an_object_and_finds_conflicts(cluster: Cluster) -> None:
    def apply(manager: str, **data: str) -> Any:
        options = {"field_manager": manager, "_content_type": "application/apply-patch+yaml"}
        return cluster.core.patch_namespaced_config_map(
            "settings", cluster.namespace, manifests.config_map(**data), **options
        )

    assert apply("one", a="1", b="1").data == {"a": "1", "b": "1"}
    assert apply("one", a="2").data == {"a": "2"}
    assert refused(apply, "two", a="3") == 409
    assert [entry.manager for entry in apply("two", a="2").metadata.managed_fields] == ["two", "one"]


def test_a_replacement_with_an_old_revision_is_a_conflict(cluster: Cluster) -> None:
    created = cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map(a="1"))
    created.data = {"a": "2"}
    replaced = cluster.core.replace_namespaced_config_map("settings", cluster.namespace, created)
    assert replaced.data == {"a": "2"}
    assert refused(cluster.core.replace_namespaced_config_map, "settings", cluster.namespace, created) == 409


def test_the_status_is_changed_apart(cluster: Cluster) -> None:
    cluster.create_pod(schedulerName="none")
    condition = {"type": "example.com/checked", "status": "True"}
    cluster.core.patch_namespaced_pod_status("train", cluster.namespace, {"status": {"conditions": [condition]}})
    status = cluster.core.read_namespaced_pod_status("train", cluster.namespace).status
    assert "example.com/checked" in [one.type for one in status.conditions]
    cluster.core.patch_namespaced_pod("train", cluster.namespace, {"status": {"phase": "Failed"}})
    assert cluster.core.read_namespaced_pod("train", cluster.namespace).status.phase == "Pending"


def test_an_object_with_a_finalizer_stays_until_the_finalizer_is_removed(cluster: Cluster) -> None:
    manifest = manifests.config_map()
    manifest["metadata"]["finalizers"] = ["example.com/keep"]
    cluster.core.create_namespaced_config_map(cluster.namespace, manifest)
    cluster.core.delete_namespaced_config_map("settings", cluster.namespace)
    kept = cluster.core.read_namespaced_config_map("settings", cluster.namespace)
    assert kept.metadata.deletion_timestamp is not None
    cluster.core.patch_namespaced_config_map("settings", cluster.namespace, {"metadata": {"finalizers": None}})
    assert refused(cluster.core.read_namespaced_config_map, "settings", cluster.namespace) == 404


def test_a_collection_is_deleted_by_its_labels(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map(name))
    cluster.core.delete_collection_namespaced_config_map(cluster.namespace, label_selector="app in (a, b)")
    assert names(cluster.core.list_namespaced_config_map(cluster.namespace, label_selector="app")) == ["c"]


def test_a_dry_run_changes_nothing(cluster: Cluster) -> None:
    created = cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map(), dry_run="All")
    assert created.metadata.name == "settings"
    assert refused(cluster.core.read_namespaced_config_map, "settings", cluster.namespace) == 404


def test_a_budget_forbids_the_eviction_of_a_pod(cluster: Cluster) -> None:
    running = cluster.run_pod()
    policy = client.PolicyV1Api(cluster.client)
    policy.create_namespaced_pod_disruption_budget(cluster.namespace, manifests.budget("train", 1))
    evict = cluster.core.create_namespaced_pod_eviction
    assert refused(evict, "train", cluster.namespace, manifests.eviction("train")) == 429
    policy.delete_namespaced_pod_disruption_budget("train", cluster.namespace)
    evict("train", cluster.namespace, manifests.eviction("train"))
    evicted = cluster.wait(lambda pod: bool(pod.metadata.deletion_timestamp), since=running)
    assert "DisruptionTarget" in [condition.type for condition in evicted.status.conditions]


def test_a_scheduler_binds_a_pod(cluster: Cluster) -> None:
    cluster.create_pod(schedulerName="none")
    body = manifests.binding("train", NODE)
    cluster.core.create_namespaced_pod_binding("train", cluster.namespace, body, _preload_content=False)
    assert cluster.wait(is_running).spec.node_name == NODE
    assert refused(cluster.core.create_namespaced_binding, cluster.namespace, body, _preload_content=False) == 409


def test_events_of_both_groups_are_the_same_objects(cluster: Cluster) -> None:
    involved = {"kind": "ConfigMap", "name": "settings", "namespace": cluster.namespace}
    body = {
        "metadata": {"generateName": "e-"},
        "involvedObject": involved,
        "reason": "Checked",
        "message": "done",
        "eventTime": "2026-11-24T12:00:00.000001Z",
        "action": "Check",  # required with eventTime, as are the fields of the reporter
        "reportingComponent": "example.com/test",
        "reportingInstance": "test-1",
    }
    cluster.core.create_namespaced_event(cluster.namespace, {**body, "type": "Normal"})
    events = client.EventsV1Api(cluster.client).list_namespaced_event(
        cluster.namespace, field_selector="reason=Checked"
    )
    assert [(event.note, event.regarding.name) for event in events.items] == [("done", "settings")]


def test_objects_are_created_from_yaml(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: gpu}\n"
        "spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}\n"
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1'}\n"
    )
    utils.create_from_yaml(cluster.client, str(file), namespace=cluster.namespace)
    assert cluster.core.read_namespaced_config_map("settings", cluster.namespace).data == {"a": "1"}
    assert names(cluster.resources.list_namespaced_resource_claim_template(cluster.namespace)) == ["gpu"]


def test_the_dynamic_client_finds_and_uses_kinds(cluster: Cluster) -> None:
    maps = dynamic.DynamicClient(cluster.client).resources.get(api_version="v1", kind="ConfigMap")
    namespace = {"namespace": cluster.namespace}
    maps.create(body=manifests.config_map(a="1"), **namespace)
    merge = {"content_type": "application/merge-patch+json"}
    patched = maps.patch(body={"data": {"b": "2"}}, name="settings", **namespace, **merge)
    applied = maps.server_side_apply(
        body={**manifests.config_map("other", a="1")}, name="other", field_manager="test", **namespace
    )
    listed = [item.metadata.name for item in maps.get(label_selector="app", **namespace).items]
    watched = [event["object"].metadata.name for event in maps.watch(label_selector="app", timeout=1, **namespace)]
    maps.delete(name="settings", **namespace)
    assert (patched.data.to_dict(), applied.data.a) == ({"a": "1", "b": "2"}, "1")
    assert (sorted(listed), sorted(watched)) == (["other", "settings"], ["other", "settings"])


def test_custom_resources_are_served_after_their_definition(cluster: Cluster) -> None:
    group = f"{cluster.namespace}.example.com"
    definitions, custom = client.ApiextensionsV1Api(cluster.client), client.CustomObjectsApi(cluster.client)
    definitions.create_custom_resource_definition(manifests.definition(group))
    selected = {"field_selector": f"metadata.name=racks.{group}", "timeout_seconds": int(PATIENCE)}
    for event in watch.Watch().stream(definitions.list_custom_resource_definition, **selected):
        conditions = {one.type: one.status for one in event["object"].status.conditions or ()}
        if conditions.get("Established") == "True":
            break
    place = (group, "v1", cluster.namespace, "racks")
    custom.create_namespaced_custom_object(
        *place, {"apiVersion": f"{group}/v1", "kind": "Rack", "metadata": {"name": "one"}, "spec": {"size": 1}}
    )
    custom.patch_namespaced_custom_object_status(*place, "one", {"status": {"free": 1}})
    patched = custom.patch_namespaced_custom_object(*place, "one", {"spec": {"size": 2}})
    listed = custom.list_namespaced_custom_object(*place)
    custom.delete_namespaced_custom_object(*place, "one")
    definitions.delete_custom_resource_definition(f"racks.{group}")
    assert (patched["spec"], [item["metadata"]["name"] for item in listed["items"]]) == ({"size": 2}, ["one"])


def test_an_informer_follows_a_collection(cluster: Cluster) -> None:
    cluster.core.create_namespaced_config_map(cluster.namespace, manifests.config_map("a"))
    informer = SharedInformer(cluster.core.list_namespaced_config_map, cluster.namespace, label_selector="app")
    seen: SimpleQueue[tuple[str, str]] = SimpleQueue()
    for type_ in ("ADDED", "MODIFIED", "DELETED"):
        informer.add_event_handler(type_, lambda obj, type_=type_: seen.put((type_, obj.metadata.name)))
    informer.start()
    got = [seen.get(timeout=PATIENCE)]
    cluster.core.patch_namespaced_config_map("a", cluster.namespace, {"data": {"x": "1"}})
    got.append(seen.get(timeout=PATIENCE))
    cluster.core.delete_namespaced_config_map("a", cluster.namespace)
    got.append(seen.get(timeout=PATIENCE))
    informer.stop()
    assert got == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_a_leader_is_elected_with_a_lease(cluster: Cluster) -> None:
    lock = LeaseLock("leader", cluster.namespace, "me")
    election = LeaderElection(Config(lock, 3, 2, 1, lambda: None, lambda: None))
    assert (election.try_acquire_or_renew(), election.try_acquire_or_renew()) == (True, True)
    other = LeaderElection(Config(LeaseLock("leader", cluster.namespace, "other"), 3, 2, 1, lambda: None, lambda: None))
    assert other.try_acquire_or_renew() is False
    lease = client.CoordinationV1Api(cluster.client).read_namespaced_lease("leader", cluster.namespace)
    assert lease.spec.holder_identity == "me"


def test_a_client_can_read_versions_groups_and_its_permissions(cluster: Cluster) -> None:
    assert client.VersionApi(cluster.client).get_code().major == "1"
    assert "resource.k8s.io" in [group.name for group in client.ApisApi(cluster.client).get_api_versions().groups]
    assert client.CoreApi(cluster.client).get_api_versions().versions == ["v1"]
    assert "pods" in [one.name for one in cluster.core.get_api_resources().resources]
    review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": cluster.namespace}}}
    authorization = client.AuthorizationV1Api(cluster.client)
    assert authorization.create_self_subject_access_review(review).status.allowed
    assert client.AuthenticationV1Api(cluster.client).create_self_subject_review({}).status.user_info.username
