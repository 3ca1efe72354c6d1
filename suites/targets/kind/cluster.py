"""Makes the cluster of a run, with its configuration, or prepares an existing one; and takes it down."""

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import filelock

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.program.usage import command_name
from drahealth.fakes.program.user_files import Document, FileError, Place, documents
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.engine import Engine, find_engine
from drahealth.suites.targets.kind import ownership
from drahealth.suites.targets.kind.node_control import KindNodes
from drahealth.suites.targets.kind.options import KindOptions
from drahealth.suites.targets.kind.ownership import (
    HOST_PATH,
    Claim,
    default_base,
    is_mark,
    mark,
    node_containers,
    records,
    run_id_of,
)
from drahealth.suites.targets.kind.program import Kind, find_kind, node_image, other_release, release_of
from drahealth.suites.targets.pods.deployment import Deployment, deploy, remove
from drahealth.suites.targets.pods.driver_image import ensure_image, has_image
from drahealth.suites.targets.pods.target import PreparedNodes, seconds, tidy
from drahealth.suites.targets.progress import Progress
from drahealth.suites.targets.run_directory import RunDirectory

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


# The description of a cluster that is ready for scenarios, as plain data for the workers of a distributed run.


@dataclass(frozen=True, kw_only=True)
class PreparedCluster(PreparedNodes):
    """A cluster that is ready for scenarios."""

    engine: str
    """The container engine: docker or podman."""
    control_plane: str
    nodes: list[str]
    """The names of all nodes."""


# An existing cluster that a run uses: one run at a time, which first removes what a killed one left.


def hold(cluster: str, engine: str, base: Path) -> filelock.FileLock:
    """Locks the cluster, on that engine (`Engine.identity`), until `release`. Raises HarnessError if it is locked."""
    lock = filelock.FileLock(base / f"{cluster}-{re.sub('[^A-Za-z0-9]', '', engine)}.lock")
    try:
        base.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise HarnessError(
            f"another run uses the cluster {cluster}", "wait for its end, or remove --reuse to make a new cluster"
        ) from None
    except OSError as error:
        raise HarnessError(
            f"cannot lock the cluster {cluster} in {base}: {error}",
            "free some disk space there, or set XDG_STATE_HOME to a writable folder",
        ) from error
    return lock


# Makes the cluster of a run, or prepares an existing one; and takes it down.

_KUBECONFIG = "kubeconfig"
_NO_RUN = "0" * 12


class ClusterMaker:
    """One cluster of a release, with these feature gates. `failed` returns at the end whether a scenario failed."""

    def __init__(
        self,
        options: KindOptions,
        kubernetes: str,
        gates: Mapping[str, bool],
        progress: Progress,
        failed: Callable[[], bool],
    ) -> None:
        self._options = options
        self._kubernetes = kubernetes
        self._gates = gates
        self._progress = progress
        self._failed = failed
        self._image = ""
        self._is_made = False
        self._ends = AsyncExitStack()

    async def up(self) -> PreparedCluster:
        """The cluster, ready. Raises HarnessError after it has removed everything."""
        try:
            return await self._up()
        except OSError as error:
            await self._ends.aclose()
            raise HarnessError(
                f"cannot write a file of the run: {error}", "free some disk space, or set TMPDIR to another folder"
            ) from error
        except BaseException:
            await self._ends.aclose()
            raise

    async def down(self) -> None:
        """Removes everything but a cluster that is to be kept."""
        await self._ends.aclose()

    async def _up(self) -> PreparedCluster:
        engine = await find_engine()
        kind = await find_kind(engine)
        await ownership.sweep(engine, kind, self._progress)
        name, folder = await (self._reused(kind) if self._options.reuse else self._made(kind))
        nodes = sorted(
            (node for node in await node_containers(engine) if node.cluster == name), key=lambda node: node.name
        )
        planes = [node.name for node in nodes if node.role == "control-plane"]
        if len(planes) != 1:
            raise HarnessError(
                f"the cluster {name} must have one control plane, got {len(planes)}",
                "remove --reuse to make a new cluster",
            )
        client = await KubeClient.from_kubeconfig(folder / _KUBECONFIG)
        self._ends.push_async_callback(client.close)
        try:
            served = str((await client.connection.call("GET", "/version"))["gitVersion"])
            self._check_release(served, node_image(self._kubernetes, self._options.node_image))
            return await self._furnished(kind, client, name, folder, [node.name for node in nodes], planes[0])
        except ApiError as error:
            raise HarnessError(
                f"the API server of the cluster {name} failed: {error}",
                "check that the cluster works, and that its engine is on this machine",
            ) from error

    async def _made(self, kind: Kind) -> tuple[str, Path]:
        """The name of a new cluster, and the folder of its files."""
        o = self._options
        user = _text(o.config) if o.config else None
        where = f"The kind configuration {o.config}"
        name = o.name or (cluster_name(user, where) if user else None) or f"drahealth-{secrets.token_hex(3)}"
        if name in await kind.names():
            raise HarnessError(f"the kind cluster {name} exists", f"choose another --name, or pass --reuse {name}")
        image = node_image(self._kubernetes, o.node_image)
        merge = partial(compose, user, nodes=o.nodes, gates=self._gates, where=where)
        merge(run_id=_NO_RUN)  # a conflict is an error before anything is made
        if found := await release_of(kind.engine, image):
            self._check_release(found, image)
        await self._ensure_image(kind.engine)
        claim = Claim.make(name, kind.engine.identity)
        self._ends.push_async_callback(self._end, kind, claim)
        self._progress(f"Making the cluster {name} from {image}")
        await kind.create(name, image, merge(run_id=claim.run_id), claim.folder / _KUBECONFIG, on_line=self._progress)
        self._is_made = True
        return name, claim.folder

    async def _end(self, kind: Kind, claim: Claim) -> None:
        """Removes our cluster, unless it is to be kept."""
        keep = self._options.keep == "always" or (self._options.keep == "failed" and self._failed())
        if keep and self._is_made:
            claim.keep()
            claim.release()
            self._progress(
                f"Kept the cluster {claim.cluster}: --reuse {claim.cluster} uses it, "
                f"{command_name()} clean --kept removes it"
            )
        else:
            await ownership.remove(claim, kind.engine, kind, self._progress)

    async def _reused(self, kind: Kind) -> tuple[str, Path]:
        """The name of an existing cluster, and the folder of the run's files."""
        name = self._options.reuse or ""
        if name not in (names := await kind.names()):
            found = f"kind has {', '.join(names)}" if names else "kind has none"
            raise HarnessError(f"there is no kind cluster {name}", f"{found}; remove --reuse to make a new one")
        self._ends.callback(hold(name, kind.engine.identity, default_base().parent / "reused").release)
        for node in await node_containers(kind.engine):
            if node.cluster == name and (run_id := run_id_of(node.mounts)) and run_id in {r.run_id for r in records()}:
                self._ends.callback(Claim.attach(run_id).release)  # so no other run removes it
        await self._ensure_image(kind.engine)
        run = RunDirectory.create()
        self._ends.callback(run.remove)
        kubeconfig = run.path / _KUBECONFIG
        kubeconfig.touch(0o600)
        kubeconfig.write_text(await kind.kubeconfig(name))
        return name, run.path

    async def _ensure_image(self, engine: Engine) -> None:
        """Called before the cluster is made, so that a missing image is an early error."""
        named, base = self._options.driver_image, self._options.driver_base
        self._image = await ensure_image(engine, named=named, base=base, progress=self._progress)

    def _check_release(self, served: str, image: str) -> None:
        o = self._options
        if error := other_release(self._kubernetes, served, image, exact=o.exact, reused=o.reuse or ""):
            raise error

    async def _furnished(
        self, kind: Kind, client: KubeClient, name: str, folder: Path, names: list[str], control_plane: str
    ) -> PreparedCluster:
        engine, image = kind.engine, self._image
        if self._options.driver_image or not await has_image(client, names, image):
            await kind.load(image, name, self._progress)
        nodes = KindNodes(engine, control_plane, names, client)
        self._progress(f"Preparing the cluster {name}")
        if self._options.reuse:
            await tidy(client)
            self._ends.push_async_callback(remove, client, self._progress)
            self._ends.push_async_callback(nodes.restore)
            self._ends.callback(self._progress, f"Restoring the cluster {name}")
        await nodes.set_gates(self._gates)
        await nodes.audit_status_writes()
        pods = await deploy(client, Deployment(image), self._progress)
        proxied = await client.connection.call("GET", f"/api/v1/nodes/{control_plane}/proxy/configz")
        return PreparedCluster(
            engine=engine.name,
            folder=str(folder),
            kubeconfig=str(folder / _KUBECONFIG),
            control_plane=control_plane,
            nodes=names,
            pods={node: pod for node, pod in pods.items() if len(names) == 1 or node != control_plane},
            image=image,
            sync_frequency=seconds(proxied["kubeletconfig"]["syncFrequency"]),
        )


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{file} must be UTF-8, got an invalid byte at position {error.start + 1}", "pass a YAML file"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}", "pass a kind configuration") from None
