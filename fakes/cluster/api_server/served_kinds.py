"""The kinds and versions that the API server serves, and the documents about them: groups, kinds and fields.

It stores each object in one version and converts it for clients. In `resource.k8s.io`, v1beta2 has the fields of v1. In
v1beta1 a device has its fields in `basic`, and a request has the fields of `exactly` itself (k8s.io/api,
`resource/v1beta1`). Events of both groups are the same objects. Here are also reviews of the client itself.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import (
    BINDINGS,
    BUDGETS,
    CLAIM_TEMPLATES,
    CLAIMS,
    CRDS,
    DATA_KINDS,
    DEVICE_CLASSES,
    EVENTS,
    EVICTIONS,
    KINDS,
    NAMESPACES,
    OTHER_KINDS,
    PODS,
    SLICES,
    Kind,
    Object,
    is_of_kubernetes,
    plural_of,
)
from drahealth.fakes.cluster.api_server.body_decoding import MESSAGES, fields_of_message, is_map
from drahealth.fakes.cluster.refusals import FieldError
from drahealth.fakes.hints import near
from drahealth.proto.values import KUBERNETES_API

Convert = Callable[[Any], Any]

_BETA_2, _BETA_1 = "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind in one version: as clients name it, as it is stored, and the conversions of an object's fields.

    The types of the fields must be right (`body_decoding`).
    """

    kind: Kind
    stored: Kind
    _to_stored: Convert = lambda obj: obj
    _to_served: Convert = lambda obj: obj

    def store(self, obj: Object) -> Object:
        """An object of a client as it is stored."""
        if self.kind == self.stored:
            return obj
        return {**self._to_stored(obj), "apiVersion": self.stored.api_version}

    def serve(self, obj: Object) -> Object:
        """A stored object as clients of this version read it."""
        if self.kind == self.stored:
            return obj
        return {**self._to_served(obj), "apiVersion": self.kind.api_version}


def _slice_to_stored(obj: Object) -> Object:
    return _with(obj, "spec", lambda spec: _with_each(spec, "devices", _device_to_stored))


def _slice_to_served(obj: Object) -> Object:
    return _with(obj, "spec", lambda spec: _with_each(spec, "devices", _device_to_served))


def _device_to_stored(device: Object) -> Object:
    return {**{key: value for key, value in device.items() if key != "basic"}, **device.get("basic", {})}


def _device_to_served(device: Object) -> Object:
    name = {key: value for key, value in device.items() if key == "name"}
    return {**name, "basic": {key: value for key, value in device.items() if key != "name"}}


def _claim_to_stored(obj: Object) -> Object:
    return _with(obj, "spec", lambda spec: _with_requests(spec, _request_to_stored))


def _claim_to_served(obj: Object) -> Object:
    return _with(obj, "spec", lambda spec: _with_requests(spec, _request_to_served))


def _template_to_stored(obj: Object) -> Object:
    return _with(obj, "spec", _claim_to_stored)


def _template_to_served(obj: Object) -> Object:
    return _with(obj, "spec", _claim_to_served)


def _with_requests(spec: Object, convert: Convert) -> Object:
    return _with(spec, "devices", lambda devices: _with_each(devices, "requests", convert))


def _request_to_stored(request: Object) -> Object:
    outer = {key: value for key, value in request.items() if key in ("name", "firstAvailable")}
    inner = {key: value for key, value in request.items() if key not in outer}
    return {**outer, "exactly": inner} if inner else outer


def _request_to_served(request: Object) -> Object:
    return {**{key: value for key, value in request.items() if key != "exactly"}, **(request.get("exactly") or {})}


_EVENT_FIELDS: Mapping[str, str] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""The fields of an Event of `events.k8s.io` with another name in core/v1."""

_OLD_EVENT_FIELDS = {old: new for new, old in _EVENT_FIELDS.items()}


def _event_to_stored(event: Object) -> Object:
    return {_EVENT_FIELDS.get(key, key): value for key, value in event.items()}


def _event_to_served(event: Object) -> Object:
    return {_OLD_EVENT_FIELDS.get(key, key): value for key, value in event.items()}


def _with(obj: Object, field: str, convert: Convert) -> Object:
    """The object with this field converted, if it has it."""
    return {**obj, field: convert(obj[field])} if obj.get(field) else obj


def _with_each(obj: Object, field: str, convert: Convert) -> Object:
    """The object with each element of this list converted."""
    return _with(obj, field, lambda items: [convert(item) for item in items])


def _in_version(kind: Kind, version: str, store: Convert | None = None, serve: Convert | None = None) -> ServedKind:
    served = replace(kind, api_version=version)
    return ServedKind(served, kind, store, serve) if store and serve else ServedKind(served, kind)


SERVED: tuple[ServedKind, ...] = (
    *(ServedKind(kind, kind) for kind in KINDS),
    *(_in_version(kind, _BETA_2) for kind in (SLICES, CLAIMS, CLAIM_TEMPLATES, DEVICE_CLASSES)),
    _in_version(SLICES, _BETA_1, _slice_to_stored, _slice_to_served),
    _in_version(CLAIMS, _BETA_1, _claim_to_stored, _claim_to_served),
    _in_version(CLAIM_TEMPLATES, _BETA_1, _template_to_stored, _template_to_served),
    _in_version(DEVICE_CLASSES, _BETA_1),
    _in_version(EVENTS, "events.k8s.io/v1", _event_to_stored, _event_to_served),
)
"""All kinds in all versions; the stored version of a kind is the first."""


# The kinds that one API server serves: those of `served_kinds`, and others, whose objects are plain JSON.
#
# Objects of other kinds have no types, defaults or validation, and all versions of a kind have the same fields.


class KindRegistry:
    """The served kinds, each in all of its versions. Budgets, definitions and `DATA_KINDS` are always among them."""

    def __init__(self) -> None:
        self._served = {served.kind: served for served in SERVED}
        self._names: dict[tuple[str, str], Object] = {}
        for kind in (CRDS, BUDGETS, *DATA_KINDS):
            self.add([kind])

    def __iter__(self) -> Iterator[ServedKind]:
        return iter(self._served.values())

    def __getitem__(self, kind: Kind) -> ServedKind:
        return self._served[kind]

    @property
    def namespaced(self) -> list[Kind]:
        """The stored kinds that have a namespace."""
        return [kind for kind in self.stored if kind.namespaced]

    @property
    def stored(self) -> list[Kind]:
        """The kinds in the version in which they are stored."""
        return [served.stored for served in self if served.kind == served.stored]

    def at(self, api_version: str, plural: str) -> Kind | None:
        """The kind at this place of the API; None if it is not served."""
        places = (kind for kind in self._served if (kind.api_version, kind.plural) == (api_version, plural))
        return next(places, None)

    def names_of(self, kind: Kind) -> Object:
        """The names in the definition of a custom resource; empty for other kinds."""
        return self._names.get((kind.api_version.rpartition("/")[0], kind.kind), {})

    def add(self, kinds: Sequence[Kind], names: Object | None = None) -> None:
        """Serves versions of one kind; the first is the stored one. `names` are those of its definition."""
        for kind in kinds:
            if names:
                self._names[kind.api_version.rpartition("/")[0], kind.kind] = names
            self._served.setdefault(kind, ServedKind(kind, kinds[0]))

    def remove(self, kinds: Sequence[Kind]) -> None:
        """Serves these kinds no longer."""
        for kind in kinds:
            self._served.pop(kind, None)

    def kind_of(self, obj: Object) -> Kind:
        """The kind of an object, which is served from now on.

        Kinds of Kubernetes must be known. A kind of another group without a CustomResourceDefinition has its usual
        plural, and is namespaced if the object has a namespace. Raises `ApiError` 404.
        """
        version, name = str(obj.get("apiVersion")), str(obj.get("kind"))
        if found := next((one for one in self._served if (one.api_version, one.kind) == (version, name)), None):
            return found
        known = next((one for one in OTHER_KINDS if (one.api_version, one.kind) == (version, name)), None)
        if known is None and is_of_kubernetes(version):
            raise refusals.unknown_kind(version, name, near(name, kinds_in(version)))
        namespaced = "namespace" in obj.get("metadata", {})
        kind = known or Kind(name, plural_of(name), version, namespaced, has_status="status" in obj)
        if other := next((one.stored for one in self if _same(one.kind, kind)), None):
            kind = replace(other, api_version=version)
        self.add([other or kind, kind])
        return kind


def kinds_in(api_version: str) -> list[str]:
    """The names of Kubernetes' kinds in an apiVersion."""
    served = (one.kind for one in SERVED)
    return sorted({one.kind for one in (*served, *OTHER_KINDS) if one.api_version == api_version})


def _same(one: Kind, other: Kind) -> bool:
    """Whether these are versions of one kind."""
    groups = {kind.api_version.rpartition("/")[0] for kind in (one, other)}
    return len(groups) == 1 and one.kind == other.kind


# Reviews: a client asks who it is, and what it or another user can do. Every user can do everything. Pure.
#
# Source: k8s.io/api, `authentication/v1` and `authorization/v1`.

_AUTHORIZATION = "authorization.k8s.io/v1"
_ALL = ["*"]
_USER: Object = {"username": "drahealth", "groups": ["system:masters", "system:authenticated"]}
_RULES: Object = {
    "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
    "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
    "incomplete": False,
}

_STATUS: Mapping[Kind, Object] = {
    Kind("SelfSubjectReview", "selfsubjectreviews", "authentication.k8s.io/v1", False): {"userInfo": _USER},
    Kind("SelfSubjectAccessReview", "selfsubjectaccessreviews", _AUTHORIZATION, False): {"allowed": True},
    Kind("SubjectAccessReview", "subjectaccessreviews", _AUTHORIZATION, False): {"allowed": True},
    Kind("LocalSubjectAccessReview", "localsubjectaccessreviews", _AUTHORIZATION, True): {"allowed": True},
    Kind("SelfSubjectRulesReview", "selfsubjectrulesreviews", _AUTHORIZATION, False): _RULES,
}

REVIEWS: tuple[Kind, ...] = tuple(_STATUS)
"""The kinds of reviews. They are created and answered, but not stored."""


def review_errors(kind: Kind, review: Object) -> Iterator[FieldError]:
    """The errors in a review of access; none for other reviews."""
    if not kind.kind.endswith("AccessReview"):
        return
    spec, one_of = review.get("spec") or {}, "exactly one of nonResourceAttributes or resourceAttributes"
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        shown = path and {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
        yield refusals.invalid_value("spec", shown, f"{one_of} must be specified")
    if not kind.kind.startswith("Self") and not spec.get("user") and not spec.get("groups"):
        yield refusals.invalid_value("spec.user", "", "at least one of user or group must be specified")
    if kind.namespaced and resource is not None:
        namespace = resource.get("namespace") or ""
        if namespace != review["metadata"].get("namespace", ""):
            yield refusals.invalid_value(
                "spec.resourceAttributes.namespace", namespace, "must match metadata.namespace"
            )


def reviewed(kind: Kind, review: Object, time: str) -> dict[str, Any]:
    """The review with its status; `time` as RFC 3339."""
    metadata = review.get("metadata") or {}
    if kind.kind == "SelfSubjectReview":
        metadata = {**metadata, "creationTimestamp": time}
    spec = {"spec": review["spec"]} if "spec" in review else {}
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata, **spec, "status": _STATUS[kind]}


# The OpenAPI documents of the API server: the kinds with their fields, without descriptions. Pure data.
#
# kubectl needs the schemas for `kubectl explain`. For strict validation of fields, it looks for the query parameter
# `fieldValidation` in the PATCH operation of a kind (k8s.io/cli-runtime, `pkg/resource/query_param_verifier_v3.go`).
# The fields come from the messages of the kinds. Other kinds have schemas without fields.

ROOT = "/openapi/v3"

_SCHEMAS = "#/components/schemas/"
_STRING: Object = {"type": "string"}
_SPECIAL: Mapping[str, Object] = MappingProxyType(
    {
        "ExtraValue": {"type": "array", "items": _STRING},
        "FieldsV1": {"type": "object"},
        "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, _STRING]},
        "MicroTime": {**_STRING, "format": "date-time"},
        "Quantity": {"oneOf": [_STRING, {"type": "number"}]},
        "RawExtension": {"type": "object"},
        "Time": {**_STRING, "format": "date-time"},
    }
)
"""The schemas of messages with a JSON form of their own."""

_SCALARS: Mapping[int, Object] = MappingProxyType(
    {
        FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
        FieldDescriptor.TYPE_BYTES: {**_STRING, "format": "byte"},
        FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
        FieldDescriptor.TYPE_INT64: {"type": "integer", "format": "int64"},
        FieldDescriptor.TYPE_STRING: _STRING,
    }
)


def openapi_documents(kinds: KindRegistry) -> dict[str, Object]:
    """The OpenAPI documents by their path."""
    found: dict[str, list[Kind]] = {}
    for served in kinds:
        found.setdefault(_group_path(served.kind.api_version), []).append(served.kind)
    listed = {path: {"serverRelativeURL": f"{ROOT}/{path}"} for path in found}
    return {ROOT: {"paths": listed}, **{f"{ROOT}/{path}": _document(inside) for path, inside in found.items()}}


def _group_path(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def _document(kinds: Sequence[Kind]) -> Object:
    paths = {kind.path("{namespace}", "{name}"): {"patch": _patch(kind)} for kind in kinds}
    schemas: Object = {}
    for kind in kinds:
        schemas |= _schemas_of(kind)
    head = {"openapi": "3.0.0", "info": {"title": "drahealth", "version": f"v{KUBERNETES_API}.0"}}
    return {**head, "paths": paths, "components": {"schemas": schemas}}


def _schemas_of(kind: Kind) -> Object:
    """The schema of a kind and those that it refers to, by name."""
    message = MESSAGES.get((kind.api_version, kind.kind))
    group, _, version = kind.api_version.rpartition("/")
    own: Object = {"type": "object", "x-kubernetes-group-version-kind": [_group_version_kind(kind)]}
    name = f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{kind.kind}"
    if message is None:
        return {name: {**own, "x-kubernetes-preserve-unknown-fields": True}}
    properties = {"apiVersion": _STRING, "kind": _STRING, **_schema(message)["properties"]}
    below = {_name(inner): _schema(inner) for inner in _reached(message)}
    return {**below, name: {**own, "properties": properties}}


@cache
def _reached(message: Descriptor) -> tuple[Descriptor, ...]:
    """All messages that the fields of a message reach."""
    found: dict[str, Descriptor] = {}
    waiting = [message]
    while waiting:
        for inner in _referred(waiting.pop()):
            if inner.full_name not in found:
                found[inner.full_name] = inner
                waiting.append(inner)
    return tuple(found.values())


def _referred(message: Descriptor) -> Iterator[Descriptor]:
    for field in fields_of_message(message).values():
        inner = field.message_type
        if inner is not None and is_map(field):
            inner = inner.fields_by_name["value"].message_type
        if inner is not None and inner.name not in _SPECIAL:
            yield inner


@cache
def _schema(message: Descriptor) -> Object:
    properties = {name: _field(field) for name, field in sorted(fields_of_message(message).items())}
    return {"type": "object", "properties": properties}


def _field(field: FieldDescriptor) -> Object:
    if field.message_type is not None and is_map(field):
        return {"type": "object", "additionalProperties": _value(field.message_type.fields_by_name["value"])}
    return {"type": "array", "items": _value(field)} if field.default_value == [] else _value(field)


def _value(field: FieldDescriptor) -> Object:
    message = field.message_type
    if message is None:
        return _SCALARS[field.type]
    return _SPECIAL.get(message.name) or {"$ref": _SCHEMAS + _name(message)}


def _name(message: Descriptor) -> str:
    """The name of a message's schema, such as `io.k8s.api.core.v1.Container`."""
    group, _, version = message.file.package.rpartition(".")[2].partition("_")
    place = "apimachinery.pkg.apis.meta" if group == "meta" else f"api.{group}"
    return f"io.k8s.{place}.{version}.{message.name}"


def _group_version_kind(kind: Kind) -> Object:
    group, _, version = kind.api_version.rpartition("/")
    return {"group": group, "version": version, "kind": kind.kind}


def _patch(kind: Kind) -> Object:
    parameter = {"name": "fieldValidation", "in": "query", "schema": _STRING}
    return {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _group_version_kind(kind),
        "parameters": [parameter],
        "responses": {"200": {"description": "OK"}},
    }


# The discovery documents of the API server: its version, groups and kinds. Pure data.
#
# Source: k8s.io/apimachinery, `pkg/apis/meta/v1`, APIResourceList; k8s.io/api, `apidiscovery/v2`. Short names and
# categories are those of the release `KUBERNETES_API`.

VERSION: Object = {
    "major": KUBERNETES_API.partition(".")[0],
    "minor": KUBERNETES_API.partition(".")[2],
    "gitVersion": f"v{KUBERNETES_API}.0+drahealth",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "python",
    "platform": "in-memory",
}

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]

_SHORT_NAMES: Mapping[str, str] = {
    "ConfigMap": "cm",
    "CronJob": "cj",
    "CustomResourceDefinition": "crd crds",
    "DaemonSet": "ds",
    "Deployment": "deploy",
    "Endpoints": "ep",
    "Event": "ev",
    "HorizontalPodAutoscaler": "hpa",
    "Ingress": "ing",
    "LimitRange": "limits",
    "Namespace": "ns",
    "NetworkPolicy": "netpol",
    "Node": "no",
    "PersistentVolume": "pv",
    "PersistentVolumeClaim": "pvc",
    "Pod": "po",
    "PodDisruptionBudget": "pdb",
    "PriorityClass": "pc",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
    "ResourceQuota": "quota",
    "Service": "svc",
    "ServiceAccount": "sa",
    "StatefulSet": "sts",
    "StorageClass": "sc",
    "VolumeAttributesClass": "vac",
}

_CATEGORIES: Mapping[str, str] = {
    "all": "CronJob DaemonSet Deployment HorizontalPodAutoscaler Job Pod ReplicaSet ReplicationController Service "
    "StatefulSet",
    "api-extensions": "APIService CustomResourceDefinition MutatingWebhookConfiguration ValidatingAdmissionPolicy "
    "ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
}

_EVICTION = replace(EVICTIONS, plural="pods/eviction")
_BINDING = replace(BINDINGS, plural="pods/binding")

_AGGREGATED = re.compile(
    r"application/json;(?=[^,]*g=apidiscovery\.k8s\.io)(?=[^,]*as=APIGroupDiscoveryList)[^,]*v=(v2|v2beta1)(?![^,;])"
)


def documents(kinds: KindRegistry, host: str) -> dict[str, Object]:
    """The discovery documents by their path; `host` is the address of the server as the client knows it."""
    versions = _versions(kinds)
    names = sorted({version.partition("/")[0] for version in versions if "/" in version})
    groups = {name: _group(name, [one for one in versions if one.startswith(f"{name}/")]) for name in names}
    address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
    core = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": address}
    return {
        "/version": VERSION,
        "/api": core,
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [*groups.values()]},
        **{f"/apis/{name}": {"kind": "APIGroup", "apiVersion": "v1", **group} for name, group in groups.items()},
        **{_path(version): _resources(version, kinds) for version in versions},
    }


def aggregated_version(accept: str) -> str:
    """The version of `apidiscovery.k8s.io` that a header Accept asks for; "" for separate documents."""
    found = _AGGREGATED.search(accept.replace(" ", ""))
    return found[1] if found else ""


def aggregated(kinds: KindRegistry, path: str, version: str) -> Object:
    """All groups below the path, `/api` or `/apis`, with their kinds, in a version of `apidiscovery.k8s.io`."""
    served = [one for one in _versions(kinds) if ("/" in one) is (path == "/apis")]
    names = sorted({one.rpartition("/")[0] for one in served})
    items = [_discovered(name, [one for one in served if one.rpartition("/")[0] == name], kinds) for name in names]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _versions(kinds: KindRegistry) -> list[str]:
    return list(dict.fromkeys([*(served.kind.api_version for served in kinds), *(one.api_version for one in REVIEWS)]))


def _path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _group(name: str, versions: list[str]) -> Object:
    """The entry of a group; the first version is the preferred one."""
    entries = [{"groupVersion": version, "version": version.partition("/")[2]} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resources(api_version: str, kinds: KindRegistry) -> Object:
    resources = []
    for kind in _kinds(api_version, kinds):
        resources.append({"name": kind.plural, **_entry(kind, kinds), **_verbs(kind)})
        for of, verbs in _subresources(kind):
            group, _, version = of.api_version.rpartition("/")
            other = {"group": group, "version": version} if of.api_version != api_version else {}
            entry = {"name": of.plural, "singularName": "", "namespaced": kind.namespaced, **other, "kind": of.kind}
            resources.append({**entry, "verbs": verbs})
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}


def _discovered(name: str, versions: list[str], kinds: KindRegistry) -> Object:
    found = [
        {
            "version": version.rpartition("/")[2],
            "resources": [_discovered_kind(kind, kinds) for kind in _kinds(version, kinds)],
            "freshness": "Current",
        }
        for version in versions
    ]
    return {"metadata": {"name": name} if name else {}, "versions": found}


def _discovered_kind(kind: Kind, kinds: KindRegistry) -> Object:
    entry = _entry(kind, kinds)
    resource: Object = {
        "resource": kind.plural,
        "responseKind": _group_version_kind(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": entry["singularName"],
        **{key: entry[key] for key in ("shortNames", "categories") if key in entry},
        **_verbs(kind),
    }
    below = [
        {"subresource": of.plural.partition("/")[2], "responseKind": _group_version_kind(of), "verbs": verbs}
        for of, verbs in _subresources(kind)
    ]
    return {**resource, "subresources": below} if below else resource


def _kinds(api_version: str, kinds: KindRegistry) -> list[Kind]:
    found = [*(served.kind for served in kinds), BINDINGS, *REVIEWS]
    return sorted((one for one in found if one.api_version == api_version), key=lambda kind: kind.plural)


def _subresources(kind: Kind) -> Iterator[tuple[Kind, Sequence[str]]]:
    """The subresources of a kind, each with its verbs."""
    if kind == PODS:
        yield from ((_BINDING, ["create"]), (_EVICTION, ["create"]))
    if kind.has_status:
        yield Kind(kind.kind, f"{kind.plural}/status", kind.api_version, kind.namespaced), _STATUS_VERBS


def _verbs(kind: Kind) -> Object:
    if kind in (*REVIEWS, BINDINGS):
        return {"verbs": ["create"]}
    return {"verbs": [verb for verb in _VERBS if kind != NAMESPACES or verb != "deletecollection"]}


def _entry(kind: Kind, kinds: KindRegistry) -> Object:
    """The names of a kind; those of a custom resource are in its definition."""
    names = kinds.names_of(kind)
    short = names.get("shortNames") or _SHORT_NAMES.get(kind.kind, "").split()
    listed = [category for category, inside in _CATEGORIES.items() if kind.kind in inside.split()]
    categories = names.get("categories") or listed
    entry: Object = {"singularName": names.get("singular") or kind.kind.lower(), "namespaced": kind.namespaced}
    entry["kind"] = kind.kind
    if short and kind not in REVIEWS:
        entry["shortNames"] = short
    return {**entry, "categories": categories} if categories else entry
