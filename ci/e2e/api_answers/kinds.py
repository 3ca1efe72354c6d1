"""The scenarios of every kind: each verb with each of its options, in each state of an object."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from api_answers.comparison import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, Request, Scenario

Object = dict[str, Any]

CONTAINER: Object = {"name": "main", "image": "training"}
_DEVICES: Object = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind, the fields of one valid object besides its metadata, and what can be done with it."""

    kind: str
    plural: str
    api_version: str
    fields: Object
    change: Object
    """A merge patch that changes a valid object."""
    namespaced: bool = True
    status: Object | None = None
    """A status to write; None for a kind without the subresource."""
    prefix: str = ""
    """What the name of an object must begin with."""

    @property
    def collection(self) -> str:
        root = "/apis/" if "/" in self.api_version else "/api/"
        return f"{root}{self.api_version}/{'namespaces/$NS/' if self.namespaced else ''}{self.plural}"

    @property
    def slug(self) -> str:
        return self.plural

    def name(self, word: str) -> str:
        return word if self.namespaced else f"$NS-{word}"

    def path(self, word: str) -> str:
        return f"{self.collection}/{self.name(word)}"

    def object(self, word: str, **metadata: Any) -> Object:
        return self.of({"name": self.name(word), "labels": {"in": "$NS"}, **metadata})

    def of(self, metadata: Object) -> Object:
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **self.fields}


SUBJECTS = (
    Subject(
        "Pod",
        "pods",
        "v1",
        {"spec": {"containers": [CONTAINER]}},
        {"spec": {"activeDeadlineSeconds": 600}},
        status={"phase": "Running", "message": "written"},
    ),
    Subject("ConfigMap", "configmaps", "v1", {"data": {"a": "1"}}, {"data": {"b": "2"}}),
    Subject("Secret", "secrets", "v1", {"data": {"a": "YQ=="}}, {"data": {"b": "Yg=="}}),
    Subject("ServiceAccount", "serviceaccounts", "v1", {}, {"automountServiceAccountToken": False}),
    Subject(
        "ResourceClaim",
        "resourceclaims",
        "resource.k8s.io/v1",
        {"spec": {"devices": _DEVICES}},
        {"metadata": {"annotations": {"changed": "yes"}}},
        status={"reservedFor": []},
    ),
    Subject(
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        "resource.k8s.io/v1",
        {"spec": {"spec": {"devices": _DEVICES}}},
        {"metadata": {"annotations": {"changed": "yes"}}},
    ),
    Subject(
        "DeviceClass",
        "deviceclasses",
        "resource.k8s.io/v1",
        {"spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]}},
        {"spec": {"selectors": []}},
        namespaced=False,
    ),
    Subject(
        "ResourceSlice",
        "resourceslices",
        "resource.k8s.io/v1",
        {
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "node-a",
                "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            }
        },
        {"spec": {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}},
        namespaced=False,
    ),
    Subject(
        "Node",
        "nodes",
        "v1",
        {"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}},
        {"spec": {"unschedulable": True}},
        namespaced=False,
        status={"conditions": [{"type": "Ready", "status": "True"}]},
    ),
    Subject(
        "Lease",
        "leases",
        "coordination.k8s.io/v1",
        {"spec": {"holderIdentity": "a"}},
        {"spec": {"holderIdentity": "b"}},
    ),
    Subject(
        "ReplicaSet",
        "replicasets",
        "apps/v1",
        {
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}},
            }
        },
        {"spec": {"minReadySeconds": 5}},
    ),
    Subject(
        "Event",
        "events",
        "v1",
        {
            "involvedObject": {"kind": "Pod", "namespace": "$NS", "name": "train", "uid": "1"},
            "reason": "Started",
            "message": "it runs",
            "type": "Normal",
            "source": {"component": "test"},
        },
        {"count": 2},
    ),
)


def matrix() -> Iterator[Scenario]:
    """The scenarios of all kinds."""
    for subject in SUBJECTS:
        yield Scenario(f"life-{subject.slug}", list(_life(subject)))
        yield Scenario(f"wrong-{subject.slug}", list(_wrong(subject)))
        yield Scenario(f"delete-{subject.slug}", list(_deletions(subject)))
        yield Scenario(f"dry-{subject.slug}", list(_dry_runs(subject)))
        yield Scenario(f"list-{subject.slug}", list(_lists(subject)))


def _life(subject: Subject) -> Iterator[Request]:
    """An object from its creation to its removal."""
    path = subject.path("a")
    yield Request("create", "POST", subject.collection, subject.object("a"))
    yield Request("create-again", "POST", subject.collection, subject.object("a"))
    yield Request("create-without-type", "POST", subject.collection, subject.object("b"), type="")
    yield Request("generate", "POST", subject.collection, subject.of({"generateName": subject.name("generated-")}))
    yield Request("get", "GET", path)
    yield Request("replace-same", "PUT", path, subject.object("a"))
    yield Request("get-again", "GET", path)
    changed = subject.object("a", resourceVersion="$rv:get-again", annotations={"note": "replaced"})
    yield Request("replace", "PUT", path, changed)
    yield Request("replace-stale", "PUT", path, changed)
    yield Request("replace-without-revision", "PUT", path, subject.object("a", annotations={"note": "again"}))
    yield Request("replace-other-uid", "PUT", path, subject.object("a", uid="00000000-0000-0000-0000-000000000000"))
    yield Request("merge", "PATCH", path, subject.change, MERGE)
    yield Request("merge-again", "PATCH", path, subject.change, MERGE)
    yield Request("merge-stale", "PATCH", path, {"metadata": {"resourceVersion": "1", "labels": {"x": "y"}}}, MERGE)
    yield Request("merge-label", "PATCH", path, {"metadata": {"labels": {"a": "b", "in": None}}}, MERGE)
    yield Request("strategic", "PATCH", path, {"metadata": {"finalizers": ["example.com/a"]}}, STRATEGIC)
    yield Request("strategic-add", "PATCH", path, {"metadata": {"finalizers": ["example.com/b"]}}, STRATEGIC)
    delete_all = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a", "example.com/b"]}}
    yield Request("strategic-remove", "PATCH", path, delete_all, STRATEGIC)
    operations = [
        {"op": "test", "path": "/metadata/name", "value": subject.name("a")},
        {"op": "add", "path": "/metadata/annotations/json", "value": "patched"},
    ]
    yield Request("json-patch", "PATCH", path, operations, JSON_PATCH)
    failing = [{"op": "test", "path": "/metadata/name", "value": "other"}]
    yield Request("json-patch-test-fails", "PATCH", path, failing, JSON_PATCH)
    missing = [{"op": "remove", "path": "/metadata/annotations/missing"}]
    yield Request("json-patch-missing-path", "PATCH", path, missing, JSON_PATCH)
    applied = subject.object("a", annotations={"applied": "one"})
    yield Request("apply", "PATCH", f"{path}?fieldManager=one&force=true", applied, APPLY)
    yield Request("apply-new", "PATCH", f"{subject.path('new')}?fieldManager=one", subject.object("new"), APPLY)
    yield Request("get-status", "GET", f"{path}/status")
    status = {"metadata": {"name": subject.name("a")}, "status": subject.status or {}}
    yield Request("merge-status", "PATCH", f"{path}/status", {"status": subject.status or {}}, MERGE)
    yield Request("replace-status", "PUT", f"{path}/status", {**subject.object("a"), **status})
    yield Request("delete", "DELETE", path)
    yield Request("delete-again", "DELETE", path)
    yield Request("get-deleted", "GET", path)
    yield Request("replace-deleted", "PUT", subject.path("gone"), subject.object("gone"))
    yield Request("merge-deleted", "PATCH", path, subject.change, MERGE)


def _wrong(subject: Subject) -> Iterator[Request]:
    """Requests that are rejected, or answered with a warning."""
    collection, path = subject.collection, subject.path("a")
    yield Request("create", "POST", collection, subject.object("a"))
    yield Request("get-missing", "GET", subject.path("missing"))
    yield Request("delete-missing", "DELETE", subject.path("missing"))
    yield Request("create-not-json", "POST", collection, "{")
    yield Request("create-list", "POST", collection, [])
    yield Request("create-empty", "POST", collection, "")
    yield Request("create-without-name", "POST", collection, subject.of({}))
    yield Request("create-wrong-name", "POST", collection, subject.of({"name": "Not_a_name"}))
    yield Request("create-other-kind", "POST", collection, {**subject.object("b"), "kind": "Other"})
    yield Request("create-other-version", "POST", collection, {**subject.object("b"), "apiVersion": "example.com/v1"})
    yield Request(
        "create-without-kind", "POST", collection, {"metadata": subject.object("k")["metadata"], **subject.fields}
    )
    yield Request("create-with-revision", "POST", collection, subject.object("b", resourceVersion="5"))
    yield Request("create-wrong-label", "POST", collection, subject.object("b", labels={"a": "not a label"}))
    yield Request("create-label-of-wrong-type", "POST", collection, subject.object("b", labels={"a": 1}))
    yield Request("create-wrong-type", "POST", collection, subject.object("b"), "text/plain")
    yield Request("create-unacceptable", "POST", collection, subject.object("b"), headers={"Accept": "text/html"})
    yield Request("create-other-namespace", "POST", collection, subject.object("b", namespace="other"))
    yield Request("create-wrong-dry-run", "POST", f"{collection}?dryRun=Some", subject.object("b"))
    yield Request("create-long-manager", "POST", f"{collection}?fieldManager={'x' * 129}", subject.object("b"))
    unknown = {**subject.object("unknown"), "unknown": 1}
    for level in ("Strict", "Warn", "Ignore", "Other"):
        word = level.lower()
        body = {**subject.object(word), "unknown": 1}
        yield Request(f"create-unknown-{word}", "POST", f"{collection}?fieldValidation={level}", body)
    yield Request("create-unknown", "POST", collection, unknown)
    twice = '{"apiVersion": "%s", "kind": "%s", "metadata": {"name": "x", "name": "%s"}}'
    text = twice % (subject.api_version, subject.kind, subject.name("twice"))
    yield Request("create-field-twice-strict", "POST", f"{collection}?fieldValidation=Strict", text)
    yield Request("replace-other-name", "PUT", path, subject.object("other"))
    yield Request("replace-without-name", "PUT", path, subject.of({"labels": {"in": "$NS"}}))
    yield Request(
        "replace-unknown-strict", "PUT", f"{path}?fieldValidation=Strict", {**subject.object("a"), "unknown": 1}
    )
    yield Request("merge-name", "PATCH", path, {"metadata": {"name": "other"}}, MERGE)
    yield Request("merge-list", "PATCH", path, [], MERGE)
    yield Request("merge-not-json", "PATCH", path, "{", MERGE)
    yield Request("merge-unknown-strict", "PATCH", f"{path}?fieldValidation=Strict", {"unknown": 1}, MERGE)
    yield Request("merge-unknown", "PATCH", path, {"unknown": 1}, MERGE)
    yield Request("patch-wrong-type", "PATCH", path, {}, JSON)
    yield Request("patch-without-type", "PATCH", path, {}, "")
    yield Request("json-patch-object", "PATCH", path, {}, JSON_PATCH)
    yield Request("apply-without-manager", "PATCH", path, subject.object("a"), APPLY)
    yield Request("force-without-apply", "PATCH", f"{path}?force=true", {}, MERGE)
    yield Request("post-to-object", "POST", path, subject.object("a"))
    yield Request("put-to-collection", "PUT", collection, subject.object("a"))
    yield Request("patch-to-collection", "PATCH", collection, {}, MERGE)
    yield Request("get-other-subresource", "GET", f"{path}/other")
    yield Request("get-wrong-accept", "GET", path, headers={"Accept": "text/html"})
    yield Request("options", "OPTIONS", collection)


def _deletions(subject: Subject) -> Iterator[Request]:
    """Deletions with each option, of objects with and without finalizers."""
    options: list[tuple[str, str, Any]] = [
        ("default", "", None),
        ("grace-0", "?gracePeriodSeconds=0", None),
        ("grace-body", "", {"gracePeriodSeconds": 5}),
        ("grace-negative", "", {"gracePeriodSeconds": -1}),
        ("query-and-body", "?gracePeriodSeconds=x", {"kind": "DeleteOptions", "apiVersion": "v1"}),
        ("background", "?propagationPolicy=Background", None),
        ("orphan-false", "", {"orphanDependents": False}),
        ("wrong-grace", "?gracePeriodSeconds=x", None),
        ("wrong-grace-body", "", {"gracePeriodSeconds": "x"}),
        ("wrong-policy", "?propagationPolicy=Soon", None),
        ("both-policies", "", {"orphanDependents": True, "propagationPolicy": "Orphan"}),
        ("wrong-dry-run", "?dryRun=Some", None),
        ("wrong-uid", "", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        ("wrong-revision", "", {"preconditions": {"resourceVersion": "1"}}),
        ("wrong-kind", "", {"kind": "Other", "apiVersion": "v1"}),
        ("not-json", "", "{"),
    ]
    for word, query, body in options:
        yield Request(f"create-{word}", "POST", subject.collection, subject.object(word))
        yield Request(f"delete-{word}", "DELETE", f"{subject.path(word)}{query}", body)
    for word in ("uid", "rv"):
        yield Request(f"create-{word}", "POST", subject.collection, subject.object(word))
        key = "uid" if word == "uid" else "resourceVersion"
        body = {"preconditions": {key: f"${word}:create-{word}"}}
        yield Request(f"delete-{word}", "DELETE", subject.path(word), body)
    for policy in ("", "Background"):
        word = f"held{policy.lower()}"
        held = subject.object(word, finalizers=["example.com/held"])
        query = f"?propagationPolicy={policy}" if policy else ""
        yield Request(f"create-{word}", "POST", subject.collection, held)
        yield Request(f"delete-{word}", "DELETE", f"{subject.path(word)}{query}")
        yield Request(f"delete-{word}-again", "DELETE", f"{subject.path(word)}{query}")
        yield Request(f"get-{word}", "GET", subject.path(word))
        yield Request(
            f"add-finalizer-{word}",
            "PATCH",
            subject.path(word),
            {"metadata": {"finalizers": ["example.com/held", "example.com/b"]}},
            MERGE,
        )
        yield Request(f"release-{word}", "PATCH", subject.path(word), {"metadata": {"finalizers": None}}, MERGE)
        yield Request(f"get-{word}-released", "GET", subject.path(word))


def _dry_runs(subject: Subject) -> Iterator[Request]:
    """Every write as a dry run, and what is stored after it."""
    collection, path = subject.collection, subject.path("a")
    yield Request("create-dry", "POST", f"{collection}?dryRun=All", subject.object("a"))
    yield Request("get-missing", "GET", path)
    yield Request("create", "POST", collection, subject.object("a"))
    yield Request("create-dry-again", "POST", f"{collection}?dryRun=All", subject.object("a"))
    yield Request("replace-dry", "PUT", f"{path}?dryRun=All", subject.object("a", annotations={"dry": "yes"}))
    yield Request("merge-dry", "PATCH", f"{path}?dryRun=All", subject.change, MERGE)
    applied = subject.object("a", annotations={"applied": "one"})
    yield Request("apply-dry", "PATCH", f"{path}?dryRun=All&fieldManager=one", applied, APPLY)
    yield Request("delete-dry", "DELETE", f"{path}?dryRun=All")
    yield Request("delete-dry-body", "DELETE", path, {"dryRun": ["All"], "gracePeriodSeconds": 0})
    yield Request("get", "GET", path)


def _lists(subject: Subject) -> Iterator[Request]:
    """Lists with selectors, pages and revisions; watches that end by themselves."""
    collection = subject.collection
    mine = f"{collection}?labelSelector=in%3D$NS"
    for word in ("a", "b", "c"):
        yield Request(f"create-{word}", "POST", collection, subject.object(word, labels={"in": "$NS", "word": word}))
    yield Request("list", "GET", mine)
    for name, query in (
        ("in", "word in (a,b)"),
        ("notin", "word notin (a)"),
        ("exists", "word"),
        ("absent", "!word"),
        ("unequal", "word!=a"),
        ("none", "word=x"),
        ("wrong", "word=(("),
        ("wrong-key", "-word=a"),
        ("wrong-value", "word=a b"),
    ):
        joined = query if name.startswith("wrong") else f"in=$NS,{query}"
        yield Request(f"label-{name}", "GET", f"{collection}?labelSelector={joined}")
    name = subject.name("b")
    for word, field in (
        ("name", f"metadata.name={name}"),
        ("not-name", f"metadata.name!={name}"),
        ("unknown", "spec.unknown=a"),
        ("wrong", "metadata.name"),
        ("namespace", "metadata.namespace=$NS"),
    ):
        yield Request(f"field-{word}", "GET", f"{mine}&fieldSelector={field}")
    yield Request("page-1", "GET", f"{mine}&limit=2")
    yield Request("page-2", "GET", f"{mine}&limit=2&continue=$continue:page-1")
    yield Request("page-wrong", "GET", f"{mine}&limit=2&continue=wrong")
    yield Request("page-negative", "GET", f"{mine}&limit=-1")
    yield Request("page-not-a-number", "GET", f"{mine}&limit=x")
    for word, query in (
        ("rv-0", "resourceVersion=0"),
        ("rv-exact-without", "resourceVersionMatch=Exact"),
        ("rv-exact-0", "resourceVersion=0&resourceVersionMatch=Exact"),
        ("rv-exact", "resourceVersion=$rv:create-c&resourceVersionMatch=Exact"),
        ("rv-not-older", "resourceVersion=$rv:create-c&resourceVersionMatch=NotOlderThan"),
        ("rv-wrong-match", "resourceVersion=$rv:create-c&resourceVersionMatch=Other"),
        ("rv-wrong", "resourceVersion=x"),
        ("rv-future", "resourceVersion=99999999999&timeoutSeconds=1"),
    ):
        yield Request(f"list-{word}", "GET", f"{mine}&{query}")
    watch = f"{mine}&watch=true&timeoutSeconds=1"
    yield Request("watch", "GET", watch)
    yield Request("watch-rv", "GET", f"{watch}&resourceVersion=$rv:create-a")
    yield Request("watch-0", "GET", f"{watch}&resourceVersion=0")
    yield Request("watch-name", "GET", f"{watch}&fieldSelector=metadata.name={name}")
    yield Request("watch-wrong-rv", "GET", f"{watch}&resourceVersion=x")
    yield Request(
        "watch-initial",
        "GET",
        f"{watch}&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
    )
    yield Request("watch-initial-without-match", "GET", f"{watch}&sendInitialEvents=true&allowWatchBookmarks=true")
    yield Request("list-initial", "GET", f"{mine}&sendInitialEvents=true")
    yield Request("delete-collection-dry", "DELETE", f"{mine}&dryRun=All")
    yield Request("delete-collection-one", "DELETE", f"{mine},word=a")
    yield Request("delete-collection", "DELETE", mine, {"gracePeriodSeconds": 0})
    yield Request("list-empty", "GET", mine)
