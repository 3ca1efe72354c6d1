"""The configuration of a new cluster: that of the user, with ours merged into it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.program.user_files import Document, FileError, Place, documents
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.kind.ownership import HOST_PATH, is_mark, mark

# Ours has a mark on every node, a shorter `syncFrequency` of the kubelets, and feature gates. kind applies patches in
# their order, and ours is the first, so the user's `syncFrequency` wins. Another value of a feature gate is an error.
# If a patch replaces our gates, the cluster gets them when it runs. The result is JSON, which kind reads as
# YAML, so that no text is read as a number or boolean.

MERGED = "kubeadmConfigPatches"
API_VERSION = "kind.x-k8s.io/v1alpha4"
SYNC_FREQUENCY = "3s"
"""The `syncFrequency` of kubelets if the user sets none. The default of Kubernetes is 60 s; 1 s is a high load."""
_WHERE = "The kind configuration"
_SEE = "see https://kind.sigs.k8s.io/docs/user/configuration"
_DEFAULT = f"kind: Cluster\napiVersion: {API_VERSION}\n"
_KUBELET_PATCH = (
    f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nsyncFrequency: {SYNC_FREQUENCY}\n"
)
_BOOLEANS = {**dict.fromkeys(("true", "yes", "on", "y"), True), **dict.fromkeys(("false", "no", "off", "n"), False)}
"""Booleans as kind reads them."""


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
    given = _Given.read(_DEFAULT if user is None else user, where)
    given.check()
    cluster = dict(given.cluster)
    mount = {"hostPath": HOST_PATH, "containerPath": mark(run_id), "readOnly": True}
    cluster["nodes"] = [
        {**node, "extraMounts": [*_items(node.get("extraMounts")), mount]} for node in given.nodes(nodes)
    ]
    if gates:
        cluster["featureGates"] = given.feature_gates(gates)
    cluster[MERGED] = [_KUBELET_PATCH, *_items(cluster.get(MERGED))]
    return json.dumps(cluster, ensure_ascii=False, indent=1)


def cluster_name(user: str, where: str = _WHERE) -> str | None:
    """The name of the cluster in the configuration of the user; `--name` of kind overrides it."""
    name = _Given.read(user, where).cluster.get("name")
    return name if name and isinstance(name, str) else None


@dataclass(frozen=True, slots=True)
class _Given:
    """The configuration of the user."""

    document: Document
    cluster: dict[str, Any]

    @classmethod
    def read(cls, text: str, where: str) -> "_Given":
        try:
            found = list(documents(text, where))
        except FileError as error:
            raise _wrong(where, error.problems[0].line, error.problems[0].what) from None
        if not found:
            raise _wrong(where, 1, "it is empty")
        given = cls(found[0], _table(found[0].data))
        if len(found) > 1:
            raise _wrong(where, found[1].line(()), "a second document begins; kind reads only one")
        if not isinstance(found[0].data, dict):
            raise given.wrong((), "it is not a mapping")
        for key, wanted in (("kind", "Cluster"), ("apiVersion", API_VERSION)):
            value = given.cluster.get(key)
            if value is None:
                raise given.wrong((), f"it has no `{key}: {wanted}`")
            if value != wanted:
                raise given.wrong((key,), f"its {key} is {value!r}, not {wanted}")
        return given

    def wrong(self, place: Place, problem: str) -> ConfigurationError:
        return _wrong(self.document.source, self.document.line(place), problem)

    def check(self) -> None:
        """The parts that are merged must have the right types."""
        self._expect(("nodes",), list, "a list")
        self._expect(("featureGates",), dict, "a mapping")
        for place in self._node_places():
            if not isinstance(self._at(place), dict):
                raise self.wrong(place, "a node is not a mapping")
            self._expect((*place, "extraMounts"), list, "a list")
            for number, mount in enumerate(_items(self._at((*place, "extraMounts")))):
                if is_mark(path := str(_table(mount).get("containerPath"))):
                    problem = f"{path} is reserved for the clusters of drahealth; remove it"
                    raise self.wrong((*place, "extraMounts", number, "containerPath"), problem)
        for place in ((), *self._node_places()):
            self._expect((*place, MERGED), list, "a list")
            for number, patch in enumerate(_items(self._at((*place, MERGED)))):
                if not isinstance(patch, str):
                    problem = f"an item of {MERGED} is not a string (begin the item with `- |`)"
                    raise self.wrong((*place, MERGED, number), problem)
                try:
                    list(documents(patch, self.document.source))
                except FileError as error:
                    problem = f"the kubeadm patch is invalid YAML ({error.problems[0].what})"
                    raise self.wrong((*place, MERGED, number), problem) from None

    def nodes(self, wanted: int | None) -> list[dict[str, Any]]:
        """The nodes, of which `wanted` is the number."""
        if wanted is not None and wanted < 1:
            raise ConfigurationError(f"--nodes must be 1 or more, got {wanted}")
        there = _items(self.cluster.get("nodes"))
        planes = [number for number, node in enumerate(there) if node.get("role") == "control-plane"]
        if len(planes) > 1:  # gates are set on one API server
            raise self.wrong(("nodes", planes[1]), "it has a second control plane; drahealth supports one")
        if there and wanted not in (None, len(there)):
            line = self.document.line(("nodes", 0))
            raise ConfigurationError(
                f"{self.document.source}, line {line}: it has {len(there)} nodes, but --nodes is {wanted}",
                "remove --nodes, or the nodes",
            )
        return there or [{"role": "control-plane"}, *({"role": "worker"} for _ in range((wanted or 1) - 1))]

    def feature_gates(self, wanted: Mapping[str, bool]) -> dict[str, Any]:
        """The feature gates of the user with these, which must not conflict."""
        given = {gate: on for gate, on in _table(self.cluster.get("featureGates")).items() if on is not None}
        read = {gate: _BOOLEANS.get(str(on).lower(), on) for gate, on in given.items()}
        set_: list[tuple[Place, str, Any]] = [(("featureGates", gate), gate, on) for gate, on in read.items()]
        for place, text in self._patches():
            named = re.findall(rf"\b({'|'.join(wanted)})\b\W+(?:value\W+)?(\w+)", text)
            set_ += [(place, gate, _BOOLEANS[on.lower()]) for gate, on in named if on.lower() in _BOOLEANS]
        for place, gate, on in set_:
            if wanted.get(gate, on) is not on:
                raise self.wrong(place, f"the feature gate {gate} must be {str(wanted[gate]).lower()}")
        return {**read, **wanted}

    def _patches(self) -> Iterator[tuple[Place, str]]:
        """The texts of all kubeadm patches, with their places."""
        for place in ((), *self._node_places()):
            for key in (MERGED, "kubeadmConfigPatchesJSON6902"):
                for number, patch in enumerate(_items(self._at((*place, key)))):
                    yield (*place, key, number), str(patch if key == MERGED else _table(patch).get("patch"))

    def _node_places(self) -> list[Place]:
        return [("nodes", number) for number in range(len(_items(self.cluster.get("nodes"))))]

    def _at(self, place: Place) -> Any:
        value: Any = self.cluster
        for part in place:
            value = value[part] if isinstance(part, int) else _table(value).get(part)
        return value

    def _expect(self, place: Place, kind: type, what: str) -> None:
        if not isinstance(self._at(place), kind | None):
            raise self.wrong(place, f"{place[-1]} is not {what}")


def _wrong(where: str, line: int, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{where}, line {line}: {problem}", _SEE)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
