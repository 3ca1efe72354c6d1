"""The discovery documents of the API server: its version, groups and kinds. Pure data."""

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server.kind_registry import KindRegistry

VERSION: Object = {"major": "1", "minor": "37", "gitVersion": "v1.37.0+drahealth", "platform": "in-memory"}

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]
_SHORT_NAMES = {"Pod": ["po"], "Node": ["no"], "Namespace": ["ns"]}


def documents(kinds: KindRegistry) -> dict[str, Object]:
    """The discovery documents by their path."""
    versions = list(dict.fromkeys(served.kind.api_version for served in kinds))
    names = sorted({version.partition("/")[0] for version in versions if "/" in version})
    groups = [_group(name, [version for version in versions if version.startswith(f"{name}/")]) for name in names]
    return {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": [version for version in versions if "/" not in version]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        **{_path(version): _resources(version, kinds) for version in versions},
    }


def _path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _group(name: str, versions: list[str]) -> Object:
    """The entry of a group; the first version is the preferred one."""
    entries = [{"groupVersion": version, "version": version.partition("/")[2]} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resources(api_version: str, kinds: KindRegistry) -> Object:
    found = [served.kind for served in kinds if served.kind.api_version == api_version]
    status = [_status(kind) for kind in found if kind.has_status]
    listed = [_resource(kind, kind.plural, _VERBS) for kind in found]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": listed + status}


def _status(kind: Kind) -> Object:
    return _resource(kind, f"{kind.plural}/status", _STATUS_VERBS)


def _resource(kind: Kind, name: str, verbs: list[str]) -> Object:
    resource: Object = {"name": name, "singularName": kind.kind.lower(), "namespaced": kind.namespaced}
    resource |= {"kind": kind.kind, "verbs": verbs}
    if kind.kind in _SHORT_NAMES and "/" not in name:
        resource["shortNames"] = _SHORT_NAMES[kind.kind]
    return resource
