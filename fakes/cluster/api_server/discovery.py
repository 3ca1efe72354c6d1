"""The discovery documents of the API server: its version, groups and kinds. Pure data."""

from drahealth.fakes.cluster.api import KINDS, Kind, Object
from drahealth.fakes.cluster.api_server.strategies import WITH_STATUS

VERSION: Object = {"major": "1", "minor": "37", "gitVersion": "v1.37.0+drahealth", "platform": "in-memory"}

_VERBS = ["create", "delete", "get", "list", "update", "watch"]
_SHORT_NAMES = {"Pod": ["po"], "Node": ["no"], "Namespace": ["ns"]}


def documents() -> dict[str, Object]:
    """The discovery documents by their path."""
    versions = sorted({kind.api_version for kind in KINDS})
    groups = [_group(version) for version in versions if "/" in version]
    return {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": [version for version in versions if "/" not in version]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        **{_path(version): _resources(version) for version in versions},
    }


def _path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _group(api_version: str) -> Object:
    name, _, version = api_version.partition("/")
    entry = {"groupVersion": api_version, "version": version}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def _resources(api_version: str) -> Object:
    kinds = [kind for kind in KINDS if kind.api_version == api_version]
    status = [_resource(kind, f"{kind.plural}/status", ["get", "update"]) for kind in kinds if kind in WITH_STATUS]
    listed = [_resource(kind, kind.plural, _VERBS) for kind in kinds]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": listed + status}


def _resource(kind: Kind, name: str, verbs: list[str]) -> Object:
    resource: Object = {"name": name, "singularName": kind.kind.lower(), "namespaced": kind.namespaced}
    resource |= {"kind": kind.kind, "verbs": verbs}
    if kind.kind in _SHORT_NAMES and "/" not in name:
        resource["shortNames"] = _SHORT_NAMES[kind.kind]
    return resource
