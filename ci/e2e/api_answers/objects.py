"""The scenarios of slices, budgets, options, reviews and scales: what kube-apiserver answers to unusual requests."""

from typing import Any

from api_answers.comparison import APPLY, MERGE, STRATEGIC, Request, Scenario, create, get
from api_answers.kinds import CONTAINER, Object

_PODS, _CONFIG = "/api/v1/namespaces/$NS/pods", "/api/v1/namespaces/$NS/configmaps"
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_BUDGETS = "/apis/policy/v1/namespaces/$NS/poddisruptionbudgets"
_SETS = "/apis/apps/v1/namespaces/$NS/replicasets"
_AUTHORIZATION = "/apis/authorization.k8s.io/v1"
_LABELS = {"app": "a"}


def _pod(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [CONTAINER]}}


def _slice(label: str, **fields: Any) -> Request:
    spec = {
        "driver": "a.example.com",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
        **fields,
    }
    spec = {key: value for key, value in spec.items() if value is not None}
    return create(label, _SLICES, {"metadata": {"name": "$NS-a"}, "spec": spec})


def _change(label: str, change: Object) -> Request:
    return Request(label, "PATCH", f"{_SLICES}/$NS-a", {"spec": change}, MERGE)


SLICES = Scenario(
    "slices",
    [
        _slice("no-pool", pool=None),
        _slice("pool-without-name", pool={"generation": 1, "resourceSliceCount": 1}),
        _slice("pool-name", pool={"name": "A b", "generation": 1, "resourceSliceCount": 1}),
        _slice("pool-with-part", pool={"name": "a/B c", "generation": 1, "resourceSliceCount": 1}),
        _slice("pool-too-long", pool={"name": "a" * 254, "generation": 1, "resourceSliceCount": 1}),
        _slice("pool-count", pool={"name": "a", "generation": 1, "resourceSliceCount": 0}),
        _slice("pool-generation", pool={"name": "a", "generation": -1, "resourceSliceCount": 1}),
        _slice("same-devices", devices=[{"name": "gpu-0"}, {"name": "gpu-0"}]),
        _slice("device-without-name", devices=[{}]),
        _slice("device-name", devices=[{"name": "GPU"}]),
        _slice("no-driver", driver=None),
        _slice("driver-name", driver="a b"),
        _slice("node-name", nodeName="A b"),
        _slice("no-node", nodeName=None),
        _slice("node-and-all", allNodes=True),
        _slice("right"),
        _change("change-node", {"nodeName": "b"}),
        _change("change-driver", {"driver": "b.example.com"}),
        _change("change-pool-name", {"pool": {"name": "b"}}),
        _change("change-generation", {"pool": {"generation": 2}}),
        _change("change-devices", {"devices": [{"name": "gpu-1"}]}),
        _change("change-to-same", {"devices": [{"name": "gpu-1"}, {"name": "gpu-1"}]}),
        _change("change-to-all", {"nodeName": None, "allNodes": True}),
        Request("delete", "DELETE", f"{_SLICES}/$NS-a"),
    ],
)


def _budget(label: str, name: str = "wrong", **spec: Any) -> Request:
    return create(label, _BUDGETS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": _LABELS}, **spec}})


def _eviction(label: str, name: str) -> Request:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return create(label, f"{_PODS}/{name}/eviction", body)


BUDGETS = Scenario(
    "budgets",
    [
        _budget("negative", minAvailable=-1),
        _budget("negative-most", maxUnavailable=-1),
        _budget("percent-form", minAvailable="50"),
        _budget("percent-text", maxUnavailable="half"),
        _budget("percent-negative", maxUnavailable="-5%"),
        _budget("percent-large", minAvailable="150%"),
        _budget("both", minAvailable=1, maxUnavailable=1),
        _budget("policy", minAvailable=1, unhealthyPodEvictionPolicy="Sometimes"),
        _budget("operator", minAvailable=1, selector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
        _budget("create", "first", minAvailable=1),
        create("pod", _PODS, {**_pod("a", labels=_LABELS)}),
        Request(
            "run",
            "PATCH",
            f"{_PODS}/a/status",
            {
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                }
            },
            STRATEGIC,
        ),
        create(
            "evict", f"{_PODS}/a/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
        ),
        _budget("create-percent", "second", maxUnavailable="50%"),
        _eviction("evict-with-two", "a"),
        Request("change", "PATCH", f"{_BUDGETS}/first", {"spec": {"minAvailable": -3}}, MERGE),
        Request("delete", "DELETE", f"{_BUDGETS}/first"),
    ],
)

_REVIEW = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "$NS"}}
REVIEWS = Scenario(
    "reviews",
    [
        create("self-empty", f"{_AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {}}),
        create("self-nothing", f"{_AUTHORIZATION}/selfsubjectaccessreviews", {}),
        create(
            "self-both",
            f"{_AUTHORIZATION}/selfsubjectaccessreviews",
            {"spec": {**_REVIEW, "nonResourceAttributes": {"path": "/", "verb": "get"}}},
        ),
        create(
            "access",
            f"{_AUTHORIZATION}/subjectaccessreviews",
            {"spec": {**_REVIEW, "user": "a", "groups": ["system:masters"]}},
        ),
        create(
            "access-path",
            f"{_AUTHORIZATION}/subjectaccessreviews",
            {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}, "groups": ["system:masters"]}},
        ),
        create("access-empty", f"{_AUTHORIZATION}/subjectaccessreviews", {"spec": {}}),
        create("access-without-user", f"{_AUTHORIZATION}/subjectaccessreviews", {"spec": _REVIEW}),
        create(
            "local",
            f"{_AUTHORIZATION}/namespaces/$NS/localsubjectaccessreviews",
            {"spec": {**_REVIEW, "groups": ["system:masters"]}, "metadata": {"namespace": "$NS"}},
        ),
        create(
            "local-without-namespace",
            f"{_AUTHORIZATION}/namespaces/$NS/localsubjectaccessreviews",
            {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}, "groups": ["system:masters"]}},
        ),
        create("local-empty", f"{_AUTHORIZATION}/namespaces/$NS/localsubjectaccessreviews", {"spec": {}}),
        get("list", f"{_AUTHORIZATION}/subjectaccessreviews"),
    ],
)

_OWNER: Object = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "1"}
OPTIONS = Scenario(
    "options",
    [
        create("create", _CONFIG, {"metadata": {"name": "a"}}),
        get("get-at-text", f"{_CONFIG}/a?resourceVersion=x"),
        get("get-at-future", f"{_CONFIG}/a?resourceVersion=999999999"),
        get("watch-continue", f"{_CONFIG}?watch=1&timeoutSeconds=1&continue=x"),
        get("watch-continue-rv", f"{_CONFIG}?watch=1&timeoutSeconds=1&continue=x&resourceVersion=1"),
        get("cbor", f"{_CONFIG}/a", headers={"Accept": "application/cbor"}),
        get("any-application", f"{_CONFIG}/a", headers={"Accept": "application/*"}),
        get("any-text", f"{_CONFIG}/a", headers={"Accept": "text/*"}),
        get("cbor-first", f"{_CONFIG}/a", headers={"Accept": "application/cbor,application/json"}),
        Request("collection-at-text", "DELETE", f"{_CONFIG}?resourceVersion=x"),
        Request("collection-at-future", "DELETE", f"{_CONFIG}?resourceVersion=999999999&labelSelector=a"),
        Request("collection-at", "DELETE", f"{_CONFIG}?resourceVersion=1&labelSelector=a"),
        Request(
            "collection-exact",
            "DELETE",
            f"{_CONFIG}?resourceVersion=$rv:create&resourceVersionMatch=Exact&labelSelector=a",
        ),
        Request(
            "apply-without-name",
            "PATCH",
            f"{_CONFIG}/n?fieldManager=a",
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}},
            APPLY,
        ),
        Request(
            "apply-existing-without-name",
            "PATCH",
            f"{_CONFIG}/a?fieldManager=a",
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}},
            APPLY,
        ),
        Request("apply-empty", "PATCH", f"{_CONFIG}/a?fieldManager=a", {}, APPLY),
        get("slash", f"{_CONFIG}/"),
        get("slash-one", f"{_CONFIG}/a/"),
        create("slash-create", f"{_CONFIG}/", {"metadata": {"name": "s"}}),
        get("slash-status", f"{_PODS}/x/status/"),
        create("pod", _PODS, _pod("p")),
        Request(
            "status-owners",
            "PATCH",
            f"{_PODS}/p/status",
            {"metadata": {"ownerReferences": [_OWNER], "labels": {"a": "b"}}},
            MERGE,
        ),
        Request(
            "status-finalizers", "PATCH", f"{_PODS}/p/status", {"metadata": {"finalizers": ["example.com/a"]}}, MERGE
        ),
        get("log", f"{_PODS}/p/log"),
        get("log-container", f"{_PODS}/p/log?container=other"),
        get("log-lines", f"{_PODS}/p/log?tailLines=-1"),
        get("log-missing", f"{_PODS}/x/log"),
        get("pod-after", f"{_PODS}/p"),
    ],
)

_SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "s", "namespace": "$NS"}}
SCALES = Scenario(
    "scales",
    [
        create(
            "create",
            _SETS,
            {
                "metadata": {"name": "s"},
                "spec": {
                    "replicas": 0,
                    "selector": {
                        "matchLabels": _LABELS,
                        "matchExpressions": [{"key": "b", "operator": "In", "values": ["c", "d"]}],
                    },
                    "template": {"metadata": {"labels": {**_LABELS, "b": "c"}}, "spec": {"containers": [CONTAINER]}},
                },
            },
        ),
        get("get", f"{_SETS}/s/scale"),
        get("missing", f"{_SETS}/x/scale"),
        Request("patch", "PATCH", f"{_SETS}/s/scale", {"spec": {"replicas": 2}}, MERGE),
        Request("negative", "PATCH", f"{_SETS}/s/scale", {"spec": {"replicas": -1}}, MERGE),
        Request("replace", "PUT", f"{_SETS}/s/scale", {**_SCALE, "spec": {"replicas": 0}}),
        Request(
            "replace-missing",
            "PUT",
            f"{_SETS}/x/scale",
            {**_SCALE, "metadata": {"name": "x", "namespace": "$NS"}, "spec": {"replicas": 0}},
        ),
        Request(
            "replace-stale",
            "PUT",
            f"{_SETS}/s/scale",
            {**_SCALE, "metadata": {"name": "s", "namespace": "$NS", "resourceVersion": "1"}, "spec": {"replicas": 0}},
        ),
        get("set", f"{_SETS}/s"),
    ],
)
