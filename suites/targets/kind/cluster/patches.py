"""The settings of kubelets and feature gates in the patches of a kind configuration.

There are two kinds of patch: `kubeadmConfigPatches`, texts that are merged into the configuration of kubeadm, and
`kubeadmConfigPatchesJSON6902`, lists of operations on it. Both apply to all nodes, or to one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ruamel.yaml.nodes import Node

from drahealth.suites.yaml_tree import Malformed, documents, get, is_null, items, line_of, pairs, text

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
