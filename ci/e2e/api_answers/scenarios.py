"""Scenarios of single features: what depends on several objects, on a state, or on a kind."""

from typing import Any

from api_answers.comparison import APPLY, JSON_PATCH, MERGE, STRATEGIC, Request, Scenario, create, get
from api_answers.kinds import CONTAINER, Object
from api_answers.objects import BUDGETS, OPTIONS, REVIEWS, SCALES, SLICES
from api_answers.pod_specs import POD_SPECS

PODS, NODES = "/api/v1/namespaces/$NS/pods", "/api/v1/nodes"
CONFIG, CLAIMS = "/api/v1/namespaces/$NS/configmaps", "/apis/resource.k8s.io/v1/namespaces/$NS/resourceclaims"
SECRETS = "/api/v1/namespaces/$NS/secrets"
NAMESPACES, EVENTS = "/api/v1/namespaces", "/apis/events.k8s.io/v1/namespaces/$NS/events"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/$NS.example.com/v1/namespaces/$NS/widgets"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
METADATA = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
METADATA_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}


def pod(name: str, *, metadata: Object | None = None, **spec: Any) -> Object:
    spec = {"containers": [CONTAINER], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": spec}


def config(name: str, data: Object | None = None, **metadata: Any) -> Object:
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return head if data is None else {**head, "data": data}


_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def _owned(label: str, kind: str, name: str) -> list[Object]:
    reference = {"apiVersion": "v1", "kind": kind, "name": name, "uid": f"$uid:{label}"}
    return [{**reference, "blockOwnerDeletion": True}]


def _delete(label: str, path: str, body: Any = None) -> Request:
    return Request(label, "DELETE", path, body)


def _patch(label: str, path: str, body: Any, type_: str = MERGE) -> Request:
    return Request(label, "PATCH", path, body, type_)


_GRACE = Scenario(
    "grace",
    [
        create("create", PODS, pod("a", nodeName="node-a")),
        _delete("dry", f"{PODS}/a?dryRun=All"),
        _delete("default", f"{PODS}/a"),
        _delete("longer", f"{PODS}/a?gracePeriodSeconds=60"),
        _delete("shorter", f"{PODS}/a?gracePeriodSeconds=5"),
        _delete("without", f"{PODS}/a"),
        get("get", f"{PODS}/a"),
        _patch("label", f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}),
        _delete("zero", f"{PODS}/a?gracePeriodSeconds=0"),
        get("gone", f"{PODS}/a"),
        create("own", PODS, pod("b", nodeName="node-a", terminationGracePeriodSeconds=7)),
        _delete("own-default", f"{PODS}/b"),
        _delete("own-negative", f"{PODS}/b", {"gracePeriodSeconds": -1}),
        create("zero-spec", PODS, pod("c", nodeName="node-a", terminationGracePeriodSeconds=0)),
        _delete("zero-spec-delete", f"{PODS}/c"),
        get("zero-spec-gone", f"{PODS}/c"),
        create("held", PODS, pod("d", nodeName="node-a", metadata={"finalizers": ["example.com/a"]})),
        _delete("held-delete", f"{PODS}/d?gracePeriodSeconds=3"),
        _patch("held-release", f"{PODS}/d", {"metadata": {"finalizers": None}}),
        get("held-get", f"{PODS}/d"),
        _delete("held-zero", f"{PODS}/d?gracePeriodSeconds=0"),
        create("held-now", PODS, pod("e", nodeName="node-a", metadata={"finalizers": ["example.com/a"]})),
        _delete("held-now-delete", f"{PODS}/e?gracePeriodSeconds=0"),
        _delete("held-now-again", f"{PODS}/e"),
        _patch("held-now-release", f"{PODS}/e", {"metadata": {"finalizers": None}}),
        get("held-now-gone", f"{PODS}/e"),
        create("ended", PODS, pod("f", nodeName="node-a")),
        _patch("ended-status", f"{PODS}/f/status", {"status": {"phase": "Succeeded"}}, STRATEGIC),
        _delete("ended-delete", f"{PODS}/f"),
        get("ended-gone", f"{PODS}/f"),
        create("many-a", PODS, pod("g", nodeName="node-a", metadata={"labels": {"many": "yes"}})),
        create("many-b", PODS, pod("h", metadata={"labels": {"many": "yes"}})),
        _delete("many", f"{PODS}?labelSelector=many%3Dyes"),
        get("many-left", f"{PODS}?labelSelector=many%3Dyes"),
        _delete("many-zero", f"{PODS}?labelSelector=many%3Dyes&gracePeriodSeconds=0"),
        get("many-gone", f"{PODS}?labelSelector=many%3Dyes"),
        _delete("everywhere", "/api/v1/pods"),
    ],
)

_PATCHES = Scenario(
    "patches",
    [
        create("create", PODS, pod("a", metadata={"finalizers": ["example.com/a", "example.com/b"]})),
        _patch(
            "order",
            f"{PODS}/a",
            {
                "metadata": {
                    "$setElementOrder/finalizers": ["example.com/c", "example.com/b"],
                    "finalizers": ["example.com/c"],
                }
            },
            STRATEGIC,
        ),
        _patch(
            "order-all",
            f"{PODS}/a",
            {"metadata": {"$setElementOrder/finalizers": ["example.com/a", "example.com/c", "example.com/b"]}},
            STRATEGIC,
        ),
        _patch(
            "remove-one",
            f"{PODS}/a",
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/c"]}},
            STRATEGIC,
        ),
        _patch("image", f"{PODS}/a", {"spec": {"containers": [{"name": "main", "image": "other"}]}}, STRATEGIC),
        _patch("container", f"{PODS}/a", {"spec": {"containers": [{"name": "second", "image": "other"}]}}, STRATEGIC),
        _patch("without-key", f"{PODS}/a", {"spec": {"containers": [{"image": "other"}]}}, STRATEGIC),
        _patch("toleration", f"{PODS}/a", {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
        _patch(
            "deadline", f"{PODS}/a", [{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 60}], JSON_PATCH
        ),
        _patch("deadline-longer", f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 90}}),
        _patch("labels", f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}),
        _patch(
            "replace-directive", f"{PODS}/a", {"metadata": {"labels": {"$patch": "replace", "only": "this"}}}, STRATEGIC
        ),
        _patch("unknown-directive", f"{PODS}/a", {"metadata": {"labels": {"$patch": "other"}}}, STRATEGIC),
        _patch("null", f"{PODS}/a", {"metadata": {"labels": None}}, STRATEGIC),
        _patch(
            "status-and-labels", f"{PODS}/a/status", {"metadata": {"labels": {"x": "y"}}, "status": {"reason": "a"}}
        ),
        _patch(
            "status-and-spec", f"{PODS}/a/status", {"spec": {"activeDeadlineSeconds": 5}, "status": {"reason": "b"}}
        ),
        _patch(
            "conditions",
            f"{PODS}/a/status",
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            STRATEGIC,
        ),
        _patch(
            "more-conditions",
            f"{PODS}/a/status",
            {"status": {"conditions": [{"type": "New", "status": "True"}]}},
            STRATEGIC,
        ),
        _patch(
            "same-condition",
            f"{PODS}/a/status",
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            STRATEGIC,
        ),
        _patch("status-of-main", f"{PODS}/a", {"status": {"reason": "ignored"}}),
        _patch("uid", f"{PODS}/a", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        _patch("namespace", f"{PODS}/a", {"metadata": {"namespace": "other"}}),
        _patch("empty", f"{PODS}/a", {}),
        _patch("creation-time", f"{PODS}/a", {"metadata": {"creationTimestamp": None}}),
        _patch(
            "owner",
            f"{PODS}/a",
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]}},
            STRATEGIC,
        ),
        _patch("wrong-type", f"{PODS}/a", {"spec": {"activeDeadlineSeconds": "x"}}),
        create("config", CONFIG, config("a", {"a": "1", "b": "2"})),
        _patch(
            "json-many",
            f"{CONFIG}/a",
            [
                {"op": "replace", "path": "/data/a", "value": "3"},
                {"op": "remove", "path": "/data/b"},
                {"op": "add", "path": "/metadata/labels", "value": {}},
                {"op": "add", "path": "/metadata/labels/example.com~1a", "value": "x"},
            ],
            JSON_PATCH,
        ),
        _patch("json-copy", f"{CONFIG}/a", [{"op": "copy", "from": "/data/a", "path": "/data/c"}], JSON_PATCH),
        _patch("json-move", f"{CONFIG}/a", [{"op": "move", "from": "/data/c", "path": "/data/d"}], JSON_PATCH),
        _patch("json-test", f"{CONFIG}/a", [{"op": "test", "path": "/data/a", "value": "3"}], JSON_PATCH),
        _patch("json-replace-missing", f"{CONFIG}/a", [{"op": "replace", "path": "/data/x", "value": "3"}], JSON_PATCH),
        _patch("json-unknown", f"{CONFIG}/a", [{"op": "other", "path": "/data/x"}], JSON_PATCH),
        _patch("json-wrong-pointer", f"{CONFIG}/a", [{"op": "add", "path": "data", "value": 1}], JSON_PATCH),
        _patch("json-to-name", f"{CONFIG}/a", [{"op": "replace", "path": "/metadata/name", "value": "b"}], JSON_PATCH),
        _patch(
            "json-finalizers",
            f"{CONFIG}/a",
            [
                {"op": "add", "path": "/metadata/finalizers", "value": []},
                {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/x"},
            ],
            JSON_PATCH,
        ),
        _patch("json-index", f"{CONFIG}/a", [{"op": "remove", "path": "/metadata/finalizers/0"}], JSON_PATCH),
        _patch(
            "json-far-index",
            f"{CONFIG}/a",
            [{"op": "add", "path": "/metadata/finalizers/5", "value": "example.com/y"}],
            JSON_PATCH,
        ),
        _patch("json-empty", f"{CONFIG}/a", [], JSON_PATCH),
    ],
)

_UPDATES = Scenario(
    "updates",
    [
        create("pod", PODS, pod("a")),
        Request("pod-spec", "PUT", f"{PODS}/a", pod("a", hostNetwork=True)),
        Request("pod-image", "PUT", f"{PODS}/a", pod("a", containers=[{"name": "main", "image": "other"}])),
        Request("pod-without-containers", "PUT", f"{PODS}/a", pod("a", containers=[])),
        Request("pod-node", "PUT", f"{PODS}/a", pod("a", nodeName="node-a")),
        create(
            "claim",
            CLAIMS,
            {
                "metadata": {"name": "a"},
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "a"}}]}},
            },
        ),
        Request("claim-spec", "PUT", f"{CLAIMS}/a", {"metadata": {"name": "a"}, "spec": {"devices": {}}}),
        Request(
            "claim-labels",
            "PUT",
            f"{CLAIMS}/a",
            {
                "metadata": {"name": "a", "labels": {"a": "b"}},
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "a"}}]}},
            },
        ),
        _patch("claim-status-labels", f"{CLAIMS}/a/status", {"metadata": {"labels": {"c": "d"}}}),
        create("claim-empty", CLAIMS, {"metadata": {"name": "b"}}),
        create("pod-without-spec", PODS, {"metadata": {"name": "b"}}),
        create("pod-without-container-name", PODS, pod("b", containers=[{"image": "a"}])),
        create(
            "pod-with-unknown-claim",
            PODS,
            pod("b", containers=[{**CONTAINER, "resources": {"claims": [{"name": "x"}]}}]),
        ),
        create(
            "pod-qos",
            PODS,
            pod("q", containers=[{**CONTAINER, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]),
        ),
        create("pod-burstable", PODS, pod("r", containers=[{**CONTAINER, "resources": {"requests": {"cpu": "1"}}}])),
        create("pod-tag", PODS, pod("t", containers=[{"name": "main", "image": "registry.example.com:5000/a:v1"}])),
        create("pod-ports", PODS, pod("p", containers=[{**CONTAINER, "ports": [{"containerPort": 80}]}])),
        create("pod-tolerations", PODS, pod("o", tolerations=[{"operator": "Exists"}])),
        create(
            "slice-without-pool",
            "/apis/resource.k8s.io/v1/resourceslices",
            {
                "metadata": {"name": "$NS-a"},
                "spec": {"driver": "a.example.com", "nodeName": "a", "devices": [{"name": "gpu-0"}]},
            },
        ),
        create("status-at-creation", PODS, {**pod("s"), "status": {"phase": "Running"}}),
        create(
            "server-fields",
            CONFIG,
            config("f", uid="x", generation=7, creationTimestamp="2020-01-01T00:00:00Z", selfLink="/x"),
        ),
        create("long-name", CONFIG, config("a" * 254)),
        create("long-generated", CONFIG, {"metadata": {"generateName": "generated" + "b" * 70 + "-generated-"}}),
        create("name-and-generate", CONFIG, {"metadata": {"name": "both", "generateName": "generated-"}}),
        create("label-key", CONFIG, config("l", labels={"-a": "b"})),
        create("annotation-key", CONFIG, config("l", annotations={"a b": "b"})),
        create("no-namespace", "/api/v1/namespaces/$NS-missing/configmaps", config("a")),
        create("without-namespace", "/api/v1/configmaps", config("a")),
        create("yaml", CONFIG, "metadata: {name: yaml}\ndata: {a: b}\n", type="application/yaml"),
        Request("delete-without-type", "DELETE", f"{CONFIG}/yaml", {"gracePeriodSeconds": 0}, ""),
    ],
)

_NAMESPACES = Scenario(
    "namespaces",
    [
        create("create", NAMESPACES, {"metadata": {"name": "$NS-a"}}),
        create("create-dotted", NAMESPACES, {"metadata": {"name": "a.b"}}),
        get("get", f"{NAMESPACES}/$NS-a"),
        create("content", f"{NAMESPACES}/$NS-a/configmaps", config("held", finalizers=["example.com/a"])),
        _delete("wrong-uid", f"{NAMESPACES}/$NS-a", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        _delete("dry", f"{NAMESPACES}/$NS-a?dryRun=All"),
        _delete("delete", f"{NAMESPACES}/$NS-a"),
        create("too-late", f"{NAMESPACES}/$NS-a/configmaps", config("b")),
        Request("marked", "DELETE", f"{NAMESPACES}/$NS-a/configmaps/held", None),
        _patch("release", f"{NAMESPACES}/$NS-a/configmaps/held", {"metadata": {"finalizers": None}}),
        get("gone", f"{NAMESPACES}/$NS-a", until=404),
        _delete("collection", NAMESPACES),
        _patch("status", f"{NAMESPACES}/$NS/status", {"metadata": {"labels": {"a": "b"}}}),
        create("foreground", NAMESPACES, {"metadata": {"name": "$NS-b"}}),
        _delete("foreground-delete", f"{NAMESPACES}/$NS-b?propagationPolicy=Foreground"),
        get("foreground-gone", f"{NAMESPACES}/$NS-b", until=404),
    ],
)

_OWNERS = Scenario(
    "owners",
    [
        *(
            request
            for policy in ("Foreground", "Orphan")
            for request in (
                create(f"owner-{policy.lower()}", CONFIG, config(f"owner-{policy.lower()}")),
                create(
                    f"dependent-{policy.lower()}",
                    CONFIG,
                    config(
                        f"dependent-{policy.lower()}",
                        ownerReferences=_owned(f"owner-{policy.lower()}", "ConfigMap", f"owner-{policy.lower()}"),
                    ),
                ),
                _delete(f"delete-{policy.lower()}", f"{CONFIG}/owner-{policy.lower()}?propagationPolicy={policy}"),
                get(f"gone-{policy.lower()}", f"{CONFIG}/owner-{policy.lower()}", until=404),
                get(f"left-{policy.lower()}", f"{CONFIG}/dependent-{policy.lower()}"),
            )
        ),
        create("owner-waits", CONFIG, config("waits")),
        create(
            "pod",
            PODS,
            pod("a", nodeName="node-a", metadata={"ownerReferences": _owned("owner-waits", "ConfigMap", "waits")}),
        ),
        _delete("delete-waits", f"{CONFIG}/waits", {"propagationPolicy": "Foreground"}),
        get("still-there", f"{CONFIG}/waits"),
        _delete("pod-delete", f"{PODS}/a?gracePeriodSeconds=0"),
        get("gone-waits", f"{CONFIG}/waits", until=404),
        create("one", CONFIG, config("one")),
        create("two", CONFIG, config("two")),
        create(
            "dependent-of-two",
            CONFIG,
            config("of-two", ownerReferences=[*_owned("one", "ConfigMap", "one"), *_owned("two", "ConfigMap", "two")]),
        ),
        _delete("delete-one", f"{CONFIG}/one?propagationPolicy=Foreground"),
        get("gone-one", f"{CONFIG}/one", until=404),
        get("kept-by-two", f"{CONFIG}/of-two"),
        _delete("delete-two", f"{CONFIG}/two"),
        get("gone-dependent-of-two", f"{CONFIG}/of-two", until=404),
        create("background", CONFIG, config("background")),
        create(
            "dependent-background",
            CONFIG,
            config("of-background", ownerReferences=_owned("background", "ConfigMap", "background")),
        ),
        _delete("delete-background", f"{CONFIG}/background?propagationPolicy=Background"),
        get("gone-background", f"{CONFIG}/background", until=404),
        get("gone-dependent-background", f"{CONFIG}/of-background", until=404),
    ],
)

_SUBRESOURCES = Scenario(
    "subresources",
    [
        create("pod", PODS, pod("a")),
        create("node", NODES, {"metadata": {"name": "$NS-n"}, "spec": {"taints": [_NOT_READY]}}),
        create("bind", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "$NS-n"}}),
        create(
            "bind-again", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "$NS-n"}}
        ),
        create(
            "bind-missing",
            f"{PODS}/x/binding",
            {"metadata": {"name": "x"}, "target": {"kind": "Node", "name": "$NS-n"}},
        ),
        create("bind-nothing", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {}}),
        get("bound", f"{PODS}/a"),
        get("get-ephemeral", f"{PODS}/a/ephemeralcontainers"),
        _patch(
            "ephemeral",
            f"{PODS}/a/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [{"name": "debug", "image": "tool"}]}},
            STRATEGIC,
        ),
        _patch(
            "ephemeral-change",
            f"{PODS}/a/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [{"name": "debug", "image": "other"}]}},
            STRATEGIC,
        ),
        _patch(
            "ephemeral-main",
            f"{PODS}/a",
            {"spec": {"ephemeralContainers": [{"name": "more", "image": "tool"}]}},
            STRATEGIC,
        ),
        _patch(
            "resize",
            f"{PODS}/a/resize",
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
            STRATEGIC,
        ),
        create(
            "sized",
            PODS,
            pod("b", containers=[{**CONTAINER, "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]),
        ),
        _patch(
            "resize-cpu",
            f"{PODS}/b/resize",
            {
                "spec": {
                    "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}}]
                }
            },
            STRATEGIC,
        ),
        create(
            "evict-dry",
            f"{PODS}/a/eviction?dryRun=All",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}},
        ),
        create(
            "evict",
            f"{PODS}/a/eviction",
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": "a"},
                "deleteOptions": {"gracePeriodSeconds": 5},
            },
        ),
        get("evicted", f"{PODS}/a"),
        create(
            "evict-missing",
            f"{PODS}/x/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}},
        ),
        create(
            "evict-other-name",
            f"{PODS}/b/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}},
        ),
        create(
            "evict-unscheduled",
            f"{PODS}/b/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}},
        ),
        get("evicted-gone", f"{PODS}/b"),
        get("get-binding", f"{PODS}/a/binding"),
        get("get-log", f"{PODS}/x/log"),
        get("pod-status", f"{PODS}/a/status"),
        create("resizable", PODS, pod("r", containers=[{**CONTAINER, "resources": {"requests": {"cpu": "1"}}}])),
        _patch(
            "resize-image",
            f"{PODS}/r/resize",
            {"spec": {"containers": [{"name": "main", "image": "other"}]}},
            STRATEGIC,
        ),
    ],
)

_GATE: Object = {"schedulingGates": [{"name": "example.com/quota"}]}
_BINDINGS = Scenario(
    "bindings",
    [
        create("pod", PODS, pod("a")),
        create(
            "other-uid",
            f"{PODS}/a/binding",
            {"metadata": {"name": "a", "uid": "00000000-0000-0000-0000-000000000000"}, "target": {"name": "none"}},
        ),
        create("other-kind", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Pod", "name": "n"}}),
        create("other-name", f"{PODS}/a/binding", {"metadata": {"name": "b"}, "target": {"name": "none"}}),
        create("dry", f"{PODS}/a/binding?dryRun=All", {"metadata": {"name": "a"}, "target": {"name": "none"}}),
        create(
            "of-namespace",
            "/api/v1/namespaces/$NS/bindings",
            {"metadata": {"name": "a", "annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "none"}},
        ),
        get("bound", f"{PODS}/a"),
        create("again", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "other"}}),
        create("held", PODS, pod("held", metadata={"finalizers": ["example.com/a"]})),
        _delete("delete-held", f"{PODS}/held"),
        create("deleted", f"{PODS}/held/binding", {"metadata": {"name": "held"}, "target": {"name": "none"}}),
        create("gated", PODS, pod("gated", **_GATE)),
        create("bind-gated", f"{PODS}/gated/binding", {"metadata": {"name": "gated"}, "target": {"name": "none"}}),
        _patch("add-gate", f"{PODS}/gated", {"spec": {"schedulingGates": [{"name": "example.com/other"}]}}),
        _patch("remove-gate", f"{PODS}/gated", {"spec": {"schedulingGates": None}}),
        create("bind-free", f"{PODS}/gated/binding", {"metadata": {"name": "gated"}, "target": {"name": "none"}}),
        create("gated-on-a-node", PODS, pod("b", nodeName="none", **_GATE)),
    ],
)

_PAGES = Scenario(
    "pages",
    [
        *(create(f"create-{word}", CONFIG, config(word)) for word in "abcde"),
        get("first", f"{CONFIG}?limit=2"),
        _delete("delete-c", f"{CONFIG}/c"),
        create("create-bb", CONFIG, config("bb")),
        get("second", f"{CONFIG}?limit=2&continue=$continue:first"),
        get("third", f"{CONFIG}?limit=2&continue=$continue:second"),
        get("again", f"{CONFIG}?limit=100&continue=$continue:first"),
        get("now", f"{CONFIG}?limit=500"),
        get("zero", f"{CONFIG}?limit=0"),
        get("exact-old", f"{CONFIG}?resourceVersion=$rv:create-b&resourceVersionMatch=Exact"),
        get("continue-and-rv", f"{CONFIG}?continue=$continue:first&resourceVersion=$rv:create-a"),
        get("continue-and-match", f"{CONFIG}?continue=$continue:first&resourceVersion=1&resourceVersionMatch=Exact"),
        get("get-at-0", f"{CONFIG}/a?resourceVersion=0"),
        get("page-of-a-table", f"{CONFIG}?limit=1", headers=TABLE),
        get("everywhere", "/api/v1/configmaps?fieldSelector=metadata.namespace%3D$NS"),
    ],
)

_WATCHES = Scenario(
    "watches",
    [
        create("a", CONFIG, config("a", labels={"on": "yes"})),
        create("b", CONFIG, config("b")),
        _patch("off", f"{CONFIG}/a", {"metadata": {"labels": {"on": "no"}}}),
        _patch("on", f"{CONFIG}/b", {"metadata": {"labels": {"on": "yes"}}}),
        _patch("change", f"{CONFIG}/b", {"data": {"x": "y"}}),
        _delete("remove", f"{CONFIG}/b"),
        create("c", CONFIG, config("c", labels={"on": "yes"})),
        get("all", f"{CONFIG}?watch=1&timeoutSeconds=1&resourceVersion=$rv:a"),
        get("selected", f"{CONFIG}?watch=1&timeoutSeconds=1&resourceVersion=$rv:a&labelSelector=on%3Dyes"),
        get("named", f"{CONFIG}?watch=1&timeoutSeconds=1&resourceVersion=$rv:a&fieldSelector=metadata.name%3Db"),
        get(
            "everywhere",
            "/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion=$rv:a&labelSelector=on%3Dyes&fieldSelector=metadata.namespace%3D$NS",
        ),
        get("metadata", f"{CONFIG}?watch=1&timeoutSeconds=1&resourceVersion=$rv:a", headers=METADATA),
        get("false", f"{CONFIG}?watch=false"),
        get("match", f"{CONFIG}?watch=1&timeoutSeconds=1&resourceVersion=$rv:a&resourceVersionMatch=NotOlderThan"),
        get("other-match", f"{CONFIG}?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=Exact"),
        get(
            "initial-without-bookmarks",
            f"{CONFIG}?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        ),
        get(
            "no-initial",
            f"{CONFIG}?watch=1&timeoutSeconds=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=$rv:change&allowWatchBookmarks=true",
        ),
        get("wrong-timeout", f"{CONFIG}?watch=1&timeoutSeconds=x"),
        create("pod", PODS, pod("p", nodeName="node-a")),
        _delete("pod-mark", f"{PODS}/p?gracePeriodSeconds=5"),
        _delete("pod-remove", f"{PODS}/p?gracePeriodSeconds=0"),
        get("pods", f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion=$rv:pod"),
    ],
)

_FORMS = Scenario(
    "forms",
    [
        create("config", CONFIG, config("a", {"a": "b"})),
        get("metadata", f"{CONFIG}/a", headers=METADATA),
        get("metadata-list", CONFIG, headers=METADATA_LIST),
        get("metadata-list-first", CONFIG, headers={"Accept": f"{METADATA_LIST['Accept']},application/json"}),
        create("create-metadata", CONFIG, config("b"), headers=METADATA),
        Request("delete-metadata", "DELETE", f"{CONFIG}/b", headers=METADATA),
        get("unknown-form", f"{CONFIG}/a", headers={"Accept": "application/json;as=Other;v=v1;g=meta.k8s.io"}),
        get("any", f"{CONFIG}/a", headers={"Accept": "*/*"}),
        get("no-object", CONFIG, headers={"Accept": ""}),
        get("pretty", f"{CONFIG}/a?pretty=true"),
        get("unknown-parameter", f"{CONFIG}/a?unknown=1"),
        get("root-version", "/api"),
        get("healthz", "/healthz"),
        get("livez", "/livez"),
        get("readyz", "/readyz"),
        get("unknown-group", "/apis/unknown.example.com/v1"),
        get("unknown-kind", "/api/v1/namespaces/$NS/unknowns"),
        get("unknown-path", "/unknown"),
        create(
            "own-access",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            },
        ),
    ],
)

_OWNER: Object = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "1"}
_EXACTLY: Object = {"deviceClassName": "gpu.example.com"}
_RESERVED: list[Object] = [{"resource": "pods", "name": "p", "uid": "1"}]


def _allocation(device: str) -> Object:
    result = {"request": "a", "driver": "gpu.example.com", "pool": "node-a", "device": device}
    return {"devices": {"results": [result]}}


_VALIDATION = Scenario(
    "validation",
    [
        *(
            create(label, CONFIG, config("wrong", ownerReferences=references))
            for label, references in (
                ("owner-without-uid", [{**_OWNER, "uid": ""}]),
                ("owner-without-version", [{**_OWNER, "apiVersion": ""}]),
                ("owner-without-name", [{**_OWNER, "name": ""}]),
                ("owner-is-an-event", [{**_OWNER, "kind": "Event"}]),
                ("two-controllers", [{**_OWNER, "controller": True}, {**_OWNER, "controller": True, "uid": "2"}]),
            )
        ),
        create("unqualified-finalizer", CONFIG, config("wrong", finalizers=["held"])),
        create("both-finalizers", CONFIG, config("wrong", finalizers=["orphan", "foregroundDeletion"])),
        create("config-key", CONFIG, config("wrong", {"a b": "c"})),
        create("config-key-twice", CONFIG, {**config("wrong", {"a": "c"}), "binaryData": {"a": "YQ=="}}),
        create("secret-key", SECRETS, {"metadata": {"name": "wrong"}, "data": {"a b": "YQ=="}}),
        create("frozen", CONFIG, {**config("frozen", {"a": "b"}), "immutable": True}),
        _patch("frozen-data", f"{CONFIG}/frozen", {"data": {"a": "c"}}),
        _patch("frozen-no-more", f"{CONFIG}/frozen", {"immutable": False}),
        _patch("frozen-label", f"{CONFIG}/frozen", {"metadata": {"labels": {"a": "b"}}}),
        create("secret", SECRETS, {"metadata": {"name": "a"}, "data": {"a": "YQ=="}, "immutable": True}),
        _patch("secret-data", f"{SECRETS}/a", {"data": {"a": "Yg=="}}),
        _patch("secret-type", f"{SECRETS}/a", {"type": "example.com/other"}),
        *(
            create(
                label,
                CLAIMS,
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "metadata": {"name": "wrong"},
                    "spec": {"devices": {"requests": requests}},
                },
            )
            for label, requests in (
                ("request-twice", [{"name": "a", "exactly": _EXACTLY}, {"name": "a", "exactly": _EXACTLY}]),
                ("request-without-class", [{"name": "a", "exactly": {}}]),
                ("request-without-source", [{"name": "a"}]),
                ("request-mode", [{"name": "a", "exactly": {**_EXACTLY, "allocationMode": "Some"}}]),
                ("request-count", [{"name": "a", "exactly": {**_EXACTLY, "count": -1}}]),
            )
        ),
        create(
            "claim",
            CLAIMS,
            {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [{"name": "a", "exactly": _EXACTLY}]}}},
        ),
        _patch("reserve-early", f"{CLAIMS}/a/status", {"status": {"reservedFor": _RESERVED}}),
        _patch("allocate", f"{CLAIMS}/a/status", {"status": {"allocation": _allocation("one")}}),
        _patch("reserve", f"{CLAIMS}/a/status", {"status": {"reservedFor": _RESERVED}}),
        _patch("allocate-other", f"{CLAIMS}/a/status", {"status": {"allocation": _allocation("two")}}),
        _patch("deallocate-early", f"{CLAIMS}/a/status", {"status": {"allocation": None}}),
        _patch("release", f"{CLAIMS}/a/status", {"status": None}),
        create("page-a", CONFIG, config("page-a")),
        create("page-b", CONFIG, config("page-b")),
        get("page-at-0", f"{CONFIG}?limit=1&resourceVersion=0"),
        Request("put-at-0", "PUT", f"{CONFIG}/page-a", config("page-a", {"a": "b"}, resourceVersion="0")),
        create(
            "budget-negative",
            "/apis/policy/v1/namespaces/$NS/poddisruptionbudgets",
            {"metadata": {"name": "a"}, "spec": {"minAvailable": -1}},
        ),
    ],
)

_EVENTS_API = Scenario(
    "events-api",
    [
        create(
            "create",
            EVENTS,
            {
                "metadata": {"name": "a"},
                "eventTime": "2026-01-01T00:00:00.000000Z",
                "reason": "Started",
                "action": "Start",
                "type": "Normal",
                "reportingController": "test",
                "reportingInstance": "test-1",
                "regarding": {"kind": "Pod", "namespace": "$NS", "name": "p"},
                "note": "it runs",
            },
        ),
        get("get", f"{EVENTS}/a"),
        get("get-core", "/api/v1/namespaces/$NS/events/a"),
        get("list", f"{EVENTS}?fieldSelector=regarding.name%3Dp"),
        get("list-core", "/api/v1/namespaces/$NS/events?fieldSelector=involvedObject.name%3Dp,reason%3DStarted"),
        get("list-wrong-field", f"{EVENTS}?fieldSelector=involvedObject.name%3Dp"),
        create(
            "other-namespace",
            "/api/v1/namespaces/$NS/events",
            {"metadata": {"name": "b"}, "involvedObject": {"namespace": "other", "name": "p"}},
        ),
        _delete("delete", f"{EVENTS}/a"),
    ],
)


def _pod_with(more: Object, *others: Object) -> Object:
    """A Pod whose container has more fields, and other containers beside it."""
    container = {"name": "c", "image": "x", **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container, *others]},
    }


POD = "/api/v1/namespaces/$NS/pods/p"
_APPLY = Scenario(
    "apply",
    [
        _patch("create", f"{CONFIG}/a?fieldManager=one", config("a", {"a": "1", "b": "1"}), APPLY),
        _patch("again", f"{CONFIG}/a?fieldManager=one", config("a", {"a": "1", "b": "1"}), APPLY),
        _patch("less", f"{CONFIG}/a?fieldManager=one", config("a", {"a": "1"}), APPLY),
        _patch("other", f"{CONFIG}/a?fieldManager=two", config("a", {"c": "1"}), APPLY),
        _patch("same-value", f"{CONFIG}/a?fieldManager=two", config("a", {"a": "1", "c": "1"}), APPLY),
        _patch("conflict", f"{CONFIG}/a?fieldManager=two", config("a", {"a": "2", "c": "1"}), APPLY),
        _patch("force", f"{CONFIG}/a?fieldManager=two&force=true", config("a", {"a": "2", "c": "1"}), APPLY),
        _patch("give-up", f"{CONFIG}/a?fieldManager=two", config("a", {}), APPLY),
        _patch("other-name", f"{CONFIG}/a?fieldManager=one", config("b", {}), APPLY),
        _patch("without-kind", f"{CONFIG}/a?fieldManager=one", {"metadata": {"name": "a"}, "data": {"a": "1"}}, APPLY),
        _patch("managed", f"{CONFIG}/a?fieldManager=one", config("a", {}, managedFields=[{"manager": "x"}]), APPLY),
        _patch("revision", f"{CONFIG}/a?fieldManager=one", config("a", {}, resourceVersion="1"), APPLY),
        _patch(
            "uid-new",
            f"{CONFIG}/n?fieldManager=one",
            config("n", {}, uid="00000000-0000-0000-0000-000000000000"),
            APPLY,
        ),
        _patch(
            "yaml",
            f"{CONFIG}/text?fieldManager=one",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}\ndata: {a: b}\n",
            APPLY,
        ),
        _patch("not-yaml", f"{CONFIG}/text?fieldManager=one", "{", APPLY),
        _patch("unknown-field", f"{CONFIG}/a?fieldManager=one", {**config("a", {}), "color": "red"}, APPLY),
        _patch("unknown-field-in-list", f"{POD}?fieldManager=one", _pod_with({"color": "red"}), APPLY),
        _patch("unknown-field-ignored", f"{POD}?fieldManager=one&fieldValidation=Ignore", _pod_with({"a": "b"}), APPLY),
        _patch("same-keys", f"{POD}?fieldManager=one", _pod_with({}, {"name": "c", "image": "y"}), APPLY),
    ],
)

_WIDGET: Object = {"apiVersion": "$NS.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}}
_SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
_CUSTOM = Scenario(
    "custom",
    [
        create(
            "define",
            CRDS,
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.$NS.example.com"},
                "spec": {
                    "group": "$NS.example.com",
                    "scope": "Namespaced",
                    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": _SCHEMA,
                            "subresources": {"status": {}},
                        }
                    ],
                },
            },
        ),
        get("served", WIDGETS, until=200),
        create("create", WIDGETS, _WIDGET, until=201),
        create("create-again", WIDGETS, _WIDGET),
        get("get", f"{WIDGETS}/a"),
        get("list", WIDGETS),
        Request("replace-without-revision", "PUT", f"{WIDGETS}/a", _WIDGET),
        _patch("merge", f"{WIDGETS}/a", {"spec": {"size": 2}}),
        _patch("json", f"{WIDGETS}/a", [{"op": "add", "path": "/spec/color", "value": "red"}], JSON_PATCH),
        _patch("strategic", f"{WIDGETS}/a", {"spec": {"size": 3}}, STRATEGIC),
        _patch(
            "status",
            f"{WIDGETS}/a/status",
            {"status": {"ready": True}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}},
        ),
        _patch("status-in-main", f"{WIDGETS}/a", {"status": {"ready": False}}),
        _patch("same", f"{WIDGETS}/a", {"spec": {"size": 2}}),
        _patch("label", f"{WIDGETS}/a", {"metadata": {"labels": {"a": "b"}}}),
        _patch("other-version", f"{WIDGETS}/a", {"apiVersion": "$NS.example.com/v2"}),
        create("other-kind", WIDGETS, {**_WIDGET, "kind": "Gadget"}),
        create("without-kind", WIDGETS, {"metadata": {"name": "b"}}),
        get("field", f"{WIDGETS}?fieldSelector=metadata.name%3Da"),
        get("wrong-field", f"{WIDGETS}?fieldSelector=spec.size%3D1"),
        get("table", WIDGETS, headers=TABLE),
        get("watch", f"{WIDGETS}?watch=1&timeoutSeconds=1&resourceVersion=$rv:create"),
        _delete("dry", f"{WIDGETS}/a?dryRun=All"),
        _delete("delete", f"{WIDGETS}/a"),
        create("more", WIDGETS, _WIDGET),
        _delete("collection", WIDGETS),
        _delete("undefine", f"{CRDS}/widgets.$NS.example.com"),
        get("undefined", f"{CRDS}/widgets.$NS.example.com", until=404),
        get("gone", f"{WIDGETS}/a", until=404),
    ],
)

_NODES = Scenario("nodes", [create("create", NODES, {"metadata": {"name": "$NS"}}), _delete("delete", f"{NODES}/$NS")])

SCENARIOS = (
    *(_GRACE, _PATCHES, _UPDATES, _NAMESPACES, _OWNERS, _SUBRESOURCES, _BINDINGS, _PAGES, _WATCHES, _FORMS),
    *(_VALIDATION, _EVENTS_API, _APPLY, _CUSTOM, _NODES, POD_SPECS),
    *(SLICES, BUDGETS, OPTIONS, REVIEWS, SCALES),
)
"""The scenarios besides those of every kind (`kinds.matrix`)."""
