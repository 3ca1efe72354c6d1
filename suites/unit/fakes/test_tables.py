"""Tables and metadata in place of objects, as `kubectl get` and metadata informers ask for them."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from drahealth.fakes.cluster.api import CLAIMS, CRDS, KINDS, LEASES, NAMESPACES, NODES, PODS, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.messages import Form, requested_form
from drahealth.fakes.cluster.api_server.tables import columns_of, human_age, values_at
from drahealth.suites.unit.fakes.test_api_http import Web, web

__all__ = ["web"]  # the fixture

AS_TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
AS_METADATA = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
NOW = datetime(2026, 11, 24, 12, 0, 0, tzinfo=UTC)
CREATED = "2026-11-24T11:57:00Z"


def cells(kind: Kind, obj: Object) -> list[Any]:
    metadata = {"name": "a", "creationTimestamp": CREATED, **obj.get("metadata", {})}
    return [column.cell({**obj, "metadata": metadata}, NOW) for column in columns_of(kind)]


def status(state: Object, *, ready: bool = False, **fields: Any) -> Object:
    return {"name": "main", "state": state, "ready": ready, **fields}


RUNS = status({"running": {}}, ready=True)
FAILED = status({"terminated": {"exitCode": 1, "reason": "Error"}}, restartCount=2)
CRASHES = {
    **status({"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=2),
    "lastState": {"terminated": {"finishedAt": "2026-11-24T11:59:30Z"}},
}
DONE = status({"terminated": {"exitCode": 0, "reason": "Completed"}})
WAITS = status({"waiting": {"reason": "PodInitializing"}})
SIDECAR: Object = {"name": "main", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("pod", "shown"),
    [
        ({"phase": "Pending"}, ["0/1", "Pending", "0"]),
        ({"phase": "Running", "containerStatuses": [RUNS]}, ["1/1", "Running", "0"]),
        ({"phase": "Running", "containerStatuses": [CRASHES]}, ["0/1", "CrashLoopBackOff", "2 (30s ago)"]),
        ({"phase": "Failed", "containerStatuses": [FAILED]}, ["0/1", "Error", "2"]),
        ({"phase": "Failed", "reason": "Evicted"}, ["0/1", "Evicted", "0"]),
        ({"phase": "Succeeded", "containerStatuses": [DONE]}, ["0/1", "Completed", "0"]),
        ({"phase": "Running", "containerStatuses": [DONE, RUNS]}, ["1/1", "NotReady", "0"]),
        ({"phase": "Running", "containerStatuses": [DONE, FAILED]}, ["0/1", "Error", "2"]),
        ({"phase": "Pending", "initContainerStatuses": [WAITS]}, ["0/1", "Init:0/1", "0"]),
        ({"phase": "Pending", "initContainerStatuses": [FAILED]}, ["0/1", "Init:Error", "2"]),
    ],
)
def test_a_pod_shows_what_its_containers_do(pod: Object, shown: list[str]) -> None:
    spec = {
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "main"}] if "initContainerStatuses" in pod else [],
    }
    assert cells(PODS, {"spec": spec, "status": pod})[1:4] == shown


def test_a_restartable_init_container_counts_as_a_container() -> None:
    spec = {"containers": [{"name": "other"}], "initContainers": [SIDECAR]}
    statuses = {"initContainerStatuses": [{**RUNS, "started": True, "restartCount": 3}], "containerStatuses": [RUNS]}
    assert cells(PODS, {"spec": spec, "status": {"phase": "Running", **statuses}})[1:4] == ["2/2", "Running", "3"]


def test_a_deleted_pod_is_terminating_until_its_containers_have_ended() -> None:
    pod = {"metadata": {"deletionTimestamp": CREATED}, "spec": {"containers": [{"name": "main"}]}}
    shown = [cells(PODS, {**pod, "status": {"phase": phase}})[2] for phase in ("Running", "Succeeded")]
    assert shown == ["Terminating", "Succeeded"]


@pytest.mark.parametrize(
    ("kind", "obj", "shown"),
    [
        (
            NODES,
            {
                "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}},
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": [{"type": "Ready", "status": "False"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                    "nodeInfo": {"kubeletVersion": "v1.37.1", "kernelVersion": "6.1", "architecture": "amd64"},
                },
            },
            [
                *("NotReady,SchedulingDisabled", "gpu,worker", "3m", "v1.37.1"),
                *("10.0.0.1", "<none>", "<unknown>", "6.1 (amd64)", "<unknown>"),
            ],
        ),
        (CLAIMS, {}, ["pending", "3m"]),
        (CLAIMS, {"status": {"allocation": {}, "reservedFor": [{}]}}, ["allocated,reserved", "3m"]),
        (
            CLAIMS,
            {"metadata": {"deletionTimestamp": CREATED}, "status": {"allocation": {}}},
            ["deleted,allocated", "3m"],
        ),
        (NAMESPACES, {"status": {"phase": "Active"}}, ["Active", "3m"]),
        (LEASES, {"spec": {"holderIdentity": "me"}}, ["me", "3m"]),
    ],
)
def test_each_kind_has_its_columns(kind: Kind, obj: Object, shown: list[str]) -> None:
    assert cells(kind, obj)[1:] == shown


def test_an_event_shows_its_object_and_its_source() -> None:
    involved = {"kind": "Pod", "name": "train", "fieldPath": "spec.containers{main}"}
    event = {"type": "Normal", "reason": "Started", "involvedObject": involved, "message": "started\n", "count": 3}
    times = {"firstTimestamp": "2026-11-24T11:00:00Z", "lastTimestamp": CREATED}
    shown = cells(KINDS[2], {**event, **times, "source": {"component": "kubelet", "host": "node-a"}})
    assert shown[:6] == ["3m", "Normal", "Started", "pod/train", "spec.containers{main}", "kubelet, node-a"]
    assert shown[6:] == ["started", "60m", 3, "a"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-5, "<invalid>"), (-0.5, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (10799, "179m")),
        *((10800, "3h"), (10860, "3h1m"), (86400, "24h"), (172800, "2d"), (176400, "2d1h"), (700000, "8d")),
        *((86400 * 800, "2y70d"), (86400 * 365 * 9, "9y")),
    ],
)
def test_an_age_has_few_digits(seconds: float, text: str) -> None:
    assert human_age(seconds) == text


async def test_a_list_and_a_watch_give_tables_with_metadata(web: Web) -> None:
    created = await web.server.create(NODES, {"metadata": {"name": "a"}})
    _, listed = await web.call("GET", "/api/v1/nodes?includeObject=Object", headers=AS_TABLE)
    assert (listed["kind"], listed["metadata"]["resourceVersion"]) == ("Table", created["metadata"]["resourceVersion"])
    assert [column["name"] for column in listed["columnDefinitions"]][:3] == ["Name", "Status", "Roles"]
    assert listed["rows"][0]["object"] == created
    await web.server.create(NODES, {"metadata": {"name": "b"}})
    async with web.session.get(web.http.url + "/api/v1/nodes?watch=1", headers=AS_TABLE) as response:
        first, second = [json.loads(await response.content.readline())["object"] for _ in range(2)]
    assert (first["rows"][0]["cells"][0], second["columnDefinitions"]) == ("a", None)
    assert second["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_a_list_can_have_metadata_only(web: Web) -> None:
    created = await web.server.create(NODES, {"metadata": {"name": "a"}, "spec": {"unschedulable": True}})
    _, listed = await web.call("GET", "/api/v1/nodes", headers=AS_METADATA)
    item = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": created["metadata"]}
    assert (listed["kind"], listed["items"]) == ("PartialObjectMetadataList", [item])


async def test_an_event_of_both_groups_has_the_same_row(web: Web) -> None:
    event = {"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "train"}, "note": "hello"}
    path = "/namespaces/default/events"
    status_, _ = await web.call("POST", "/apis/events.k8s.io/v1" + path, json=event)
    tables = [
        (await web.call("GET", prefix + path, headers=AS_TABLE))[1] for prefix in ("/api/v1", "/apis/events.k8s.io/v1")
    ]
    assert status_ == 201
    assert [table["rows"][0]["cells"][3:7] for table in tables] == [["pod/train", "", "", "hello"]] * 2


async def test_a_custom_resource_has_the_columns_of_its_definition(web: Web) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status', "priority": 1},
    ]
    version = {"name": "v1", "served": True, "storage": True, "additionalPrinterColumns": columns}
    names = {"kind": "Rack", "plural": "racks"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    await web.server.create(CRDS, {"metadata": {"name": "racks.example.com"}, "spec": spec})
    rack = {"apiVersion": "example.com/v1", "kind": "Rack", "metadata": {"name": "a"}, "spec": {"size": 2}}
    await web.call("POST", "/apis/example.com/v1/racks", json=rack)
    _, listed = await web.call("GET", "/apis/example.com/v1/racks", headers=AS_TABLE)
    assert [(column["name"], column["priority"]) for column in listed["columnDefinitions"]] == [
        *(("Name", 0), ("Size", 0), ("Ready", 1)),
    ]
    assert listed["rows"][0]["cells"] == ["a", 2, None]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.items[0].name", ["x"]),
        (".spec.items[*].name", ["x", "y"]),
        ('.spec.items[?(@.name=="y")].size', [2]),
        (r".metadata.labels.example\.com/a", ["b"]),
        (".metadata.labels['example.com/a']", ["b"]),
        (".spec.none.name", []),
        ("spec", []),
    ],
)
def test_simple_paths_find_values(path: str, found: list[Any]) -> None:
    items = [{"name": "x", "size": 1}, {"name": "y", "size": 2}]
    assert values_at({"spec": {"items": items}, "metadata": {"labels": {"example.com/a": "b"}}}, path) == found


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/vnd.kubernetes.protobuf", Form()),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form("Table", "v1beta1")),
        ("application/json;as=Other;v=v1;g=meta.k8s.io,application/json", Form()),
    ],
)
def test_the_first_known_form_is_used(accept: str, form: Form) -> None:
    assert requested_form(accept, "") == form


@pytest.mark.parametrize(
    ("accept", "include", "code"),
    [("text/html", "", 406), ("application/json;as=Table;v=v2;g=meta.k8s.io", "", 406), ("*/*", "All", 400)],
)
def test_unknown_forms_are_rejected(accept: str, include: str, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        requested_form(accept, include)
    assert refused.value.status == code
