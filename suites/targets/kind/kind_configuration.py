"""The configuration of a new cluster: that of the user, with ours merged into it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.kind.ownership import HOST_PATH, is_mark, mark
from drahealth.suites.yaml_tree import (
    Malformed,
    documents,
    dump,
    get,
    is_null,
    items,
    line_of,
    mapping,
    pairs,
    put,
    scalar,
    sequence,
    text,
)

# The settings of kubelets and feature gates in the patches of a kind configuration.
#
# There are two kinds of patch: `kubeadmConfigPatches`, texts that are merged into the configuration of kubeadm, and
# `kubeadmConfigPatchesJSON6902`, lists of operations on it. Both apply to all nodes, or to one.

MERGED = "kubeadmConfigPatches"
JSON = "kubeadmConfigPatchesJSON6902"
KUBELET, CLUSTER = "KubeletConfiguration", "ClusterConfiguration"
_FLAG = "feature-gates"
_ON = {"true", "yes", "on", "y"}
_OFF = {"false", "no", "off", "n"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A feature gate in a patch, and its line in the configuration; `on` is None for an invalid value."""

    gate: str
    on: bool | None
    line: int


@dataclass(frozen=True, slots=True)
class Patch:
    """One document of a patch: the kind of object that it changes, and its content; `line` is that of the patch."""

    target: str
    body: Node
    line: int


def patches(of: Node) -> list[Patch]:
    """The patches of a cluster or of a node. Raises Malformed, with the first line, for one that is not YAML."""
    found = [(text(get(part, "kind")), part, patch) for patch in items(get(of, MERGED)) for part in _read(patch)]
    for patch in items(get(of, JSON)):
        found += [(text(get(patch, "kind")), part, patch) for part in _read(get(patch, "patch"))]
    return [Patch(target, body, line_of(patch)) for target, body, patch in found]


def sets(patch: Patch, key: str) -> bool:
    """Whether the patch sets a key at the top of its object."""
    operations = (text(get(operation, "path")) for operation in items(patch.body))
    return any(name == key for name, _ in pairs(patch.body)) or f"/{key}" in operations


def gates(patch: Patch) -> Iterator[Setting]:
    """All feature gates that the patch sets, for any component."""
    for gate, on in _gates(patch.body):
        yield Setting(gate, on, patch.line)


def replaces_flag(patch: Patch) -> bool:
    """Whether the patch replaces all feature gates of the API server, with those that kind sets."""
    if patch.target != CLUSTER:
        return False
    api_server = get(patch.body, "apiServer")
    arguments = get(api_server, "extraArgs") if api_server else None
    named = [name for name, _ in pairs(arguments)] + [text(get(argument, "name")) for argument in items(arguments)]
    paths = [text(get(operation, "path")) for operation in items(patch.body)]
    return _FLAG in named or any("/apiServer/extraArgs" in path for path in paths)


def boolean(node: Node) -> bool | None:
    """A scalar as kind reads it; None if it is not a boolean."""
    value = text(node).lower()
    return True if value in _ON else False if value in _OFF else None


def _read(patch: Node | None) -> list[Node]:
    if patch is None or is_null(patch):
        return []
    try:
        return documents(text(patch))
    except Malformed as error:
        raise Malformed(f"the kubeadm patch is invalid YAML ({error.problem})", line_of(patch)) from None


def _gates(node: Node) -> Iterator[tuple[str, bool | None]]:
    for item in items(node):
        yield from _gates(item)
    name, path = text(get(node, "name")), text(get(node, "path"))
    value = get(node, "value")
    if name == _FLAG or path.endswith(f"/{_FLAG}"):
        yield from _flag(text(value))
    if "/featureGates/" in path and value is not None:
        yield path.rpartition("/")[2], boolean(value)
    if path.endswith("/featureGates"):
        yield from ((gate, boolean(on)) for gate, on in pairs(value))
    for key, below in pairs(node):
        if key == "featureGates":
            yield from ((gate, boolean(on)) for gate, on in pairs(below))
        elif key == _FLAG:
            yield from _flag(text(below))
        else:
            yield from _gates(below)


def _flag(value: str) -> Iterator[tuple[str, bool | None]]:
    for part in filter(None, value.split(",")):
        gate, _, on = part.partition("=")
        yield gate.strip(), {"true": True, "false": False}.get(on.strip().lower())


# The configuration of a new cluster: that of the user, with ours merged into it.
#
# Ours has a mark on every node, a shorter `syncFrequency` of the kubelets, and feature gates. The user's
# `syncFrequency` wins over ours. Another value of a feature gate is an error.

API_VERSION = "kind.x-k8s.io/v1alpha4"
SYNC_FREQUENCY = "3s"
"""The `syncFrequency` of kubelets if the user sets none. The default of Kubernetes is 60 s; 1 s is a high load."""
_WHERE = "The kind configuration"
_SEE = "see https://kind.sigs.k8s.io/docs/user/configuration"
_DEFAULT = f"kind: Cluster\napiVersion: {API_VERSION}\n"
_KUBELET_PATCH = f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: {KUBELET}\nsyncFrequency: {SYNC_FREQUENCY}\n"


def compose(
    user: str | None,
    *,
    nodes: int | None = None,
    run_id: str,
    gates: Mapping[str, bool] | None = None,
    where: str = _WHERE,
) -> str:
    """The text for `kind create cluster --config`.

    `user` is the configuration of the user, and `where` its name in errors. `nodes` includes the control plane.
        Raises ConfigurationError with the line if the two conflict, or if the text is not a kind configuration.
    """
    path = mark(run_id)
    try:
        cluster = _cluster(_DEFAULT if user is None else user)
        _set_nodes(cluster, nodes, where)
        _check_roles(cluster)
        for node in items(get(cluster, "nodes")):
            _append(node, "extraMounts", _mount(path))
        _set_gates(cluster, gates or {})
        if not any(patch.target == KUBELET and sets(patch, "syncFrequency") for patch in patches(cluster)):
            _prepend(cluster, MERGED, scalar(_KUBELET_PATCH, style="|"))
        return dump(cluster)
    except Malformed as error:
        raise error.as_configuration_error(where, _SEE) from None


def cluster_name(user: str, where: str = _WHERE) -> str | None:
    """The name of the cluster in the configuration of the user; `--name` of kind overrides it."""
    try:
        return text(get(_cluster(user), "name")) or None
    except Malformed as error:
        raise error.as_configuration_error(where, _SEE) from None


def _cluster(given: str) -> MappingNode:
    found = documents(given)
    if not found:
        raise Malformed("it is empty", 1)
    if len(found) > 1:
        raise Malformed("a second document begins; kind reads only one", line_of(found[1]))
    cluster = found[0]
    if not isinstance(cluster, MappingNode):
        raise Malformed("it is not a mapping", line_of(cluster))
    for key, wanted in (("kind", "Cluster"), ("apiVersion", API_VERSION)):
        value = get(cluster, key)
        if value is None:
            raise Malformed(f"it has no `{key}: {wanted}`", line_of(cluster))
        if text(value) != wanted:
            raise Malformed(f"its {key} is {_shown(value)}, not {wanted}", line_of(value))
    _check(cluster)
    return cluster


def _check(cluster: MappingNode) -> None:
    """The parts that are merged must have the right types."""
    _expect(cluster, "nodes", SequenceNode, "a list")
    _expect(cluster, "featureGates", MappingNode, "a mapping")
    for node in items(get(cluster, "nodes")):
        if not isinstance(node, MappingNode):
            raise Malformed("a node is not a mapping", line_of(node))
        _expect(node, "extraMounts", SequenceNode, "a list")
        for mount in items(get(node, "extraMounts")):
            if (path := get(mount, "containerPath")) is not None and is_mark(text(path)):
                raise Malformed(f"{text(path)} is reserved for the clusters of drahealth; remove it", line_of(path))
    for of in (cluster, *items(get(cluster, "nodes"))):
        _expect(of, MERGED, SequenceNode, "a list")
        for patch in items(get(of, MERGED)):
            if not isinstance(patch, ScalarNode):
                raise Malformed(f"an item of {MERGED} is not a string (begin the item with `- |`)", line_of(patch))


def _expect(of: Node, key: str, kind: type[Node], what: str) -> None:
    value = get(of, key)
    if value is not None and not isinstance(value, kind):
        raise Malformed(f"{key} is not {what}", line_of(value))


def _set_nodes(cluster: MappingNode, wanted: int | None, where: str) -> None:
    if wanted is not None and wanted < 1:
        raise ConfigurationError(f"--nodes must be 1 or more, got {wanted}")
    there = items(get(cluster, "nodes"))
    if not there:
        roles = ["control-plane"] + ["worker"] * ((wanted or 1) - 1)
        put(cluster, "nodes", sequence(*(mapping(role=scalar(role)) for role in roles)))
    elif wanted not in (None, len(there)):
        raise ConfigurationError(
            f"{where}, line {line_of(there[0])}: it has {len(there)} nodes, but --nodes is {wanted}",
            "remove --nodes, or the nodes",
        )


def _set_gates(cluster: MappingNode, wanted: Mapping[str, bool]) -> None:
    if not wanted:
        return
    table = get(cluster, "featureGates") or mapping()
    assert isinstance(table, MappingNode)
    given = [Setting(gate, boolean(on), line_of(on)) for gate, on in pairs(table) if not is_null(on)]
    for of in (cluster, *items(get(cluster, "nodes"))):
        for patch in patches(of):
            found = list(gates(patch))
            given += found
            lost = sorted(set(wanted) - {setting.gate for setting in found}) if replaces_flag(patch) else []
            if lost:
                raise Malformed(
                    f"its feature gates for the API server replace {', '.join(lost)}, which drahealth sets", patch.line
                )
    for setting in given:
        if wanted.get(setting.gate, setting.on) != setting.on:
            value = str(wanted[setting.gate]).lower()
            raise Malformed(f"the feature gate {setting.gate} must be {value}", setting.line)
    for gate, on in wanted.items():
        put(table, gate, scalar(str(on).lower(), "bool"))
    put(cluster, "featureGates", table)


def _check_roles(cluster: MappingNode) -> None:
    """Gates are set on one API server, so there must be one control plane."""
    roles = [role for node in items(get(cluster, "nodes")) if (role := get(node, "role")) is not None]
    planes = [role for role in roles if text(role) == "control-plane"]
    if len(planes) > 1:
        raise Malformed("it has a second control plane; drahealth supports one", line_of(planes[1]))


def _mount(path: str) -> MappingNode:
    return mapping(hostPath=scalar(HOST_PATH), containerPath=scalar(path), readOnly=scalar("true", "bool"))


def _append(of: Node, key: str, item: Node) -> None:
    assert isinstance(of, MappingNode)
    put(of, key, sequence(*items(get(of, key)), item))


def _prepend(of: MappingNode, key: str, item: Node) -> None:
    put(of, key, sequence(item, *items(get(of, key))))


def _shown(value: Node) -> str:
    return repr(text(value)) if isinstance(value, ScalarNode) else "no text"
