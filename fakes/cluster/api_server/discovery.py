"""The discovery documents of the API server: its version, groups and kinds. Pure data.

Source: k8s.io/apimachinery, `pkg/apis/meta/v1`, APIResourceList; k8s.io/api, `apidiscovery/v2`. Short names and
categories are those of Kubernetes 1.37.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from drahealth.fakes.cluster.api import NAMESPACES, PODS, Kind, Object
from drahealth.fakes.cluster.api_server.kind_registry import KindRegistry
from drahealth.fakes.cluster.api_server.self_reviews import REVIEWS
from drahealth.fakes.cluster.other_kinds import BINDINGS, EVICTIONS

VERSION: Object = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+drahealth",
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
        "responseKind": _response(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": entry["singularName"],
        **{key: entry[key] for key in ("shortNames", "categories") if key in entry},
        **_verbs(kind),
    }
    below = [
        {"subresource": of.plural.partition("/")[2], "responseKind": _response(of), "verbs": verbs}
        for of, verbs in _subresources(kind)
    ]
    return {**resource, "subresources": below} if below else resource


def _response(kind: Kind) -> Object:
    group, _, version = kind.api_version.rpartition("/")
    return {"group": group, "version": version, "kind": kind.kind}


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
