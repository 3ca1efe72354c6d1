"""The `kind` program: makes and deletes clusters and loads images, and what `drahealth doctor` checks for it.

It never changes a kubeconfig.
"""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

from drahealth.manager.releases import MINORS, RELEASES, patch_level
from drahealth.suites.errors import HarnessError
from drahealth.suites.processes.child import run
from drahealth.suites.targets import engine
from drahealth.suites.targets.engine import Engine, find_engine, refusal
from drahealth.suites.targets.registry import Check
from drahealth.suites.targets.versions import parse_version

# Known errors of `kind`: the reason, and what to do.

_OF_KIND = (
    refusal(
        r"failed to (init|join) node with kubeadm",
        "kubeadm failed",
        "see the lines below; usual causes: a node image of another release, unknown settings, too little memory",
    ),
    refusal(
        r"node\(s\) already exist for a cluster with the name",
        "a cluster with that name exists",
        "pass another --name, use the cluster with --reuse, or delete it with `kind delete cluster --name NAME`",
    ),
    refusal(
        r"unable to decode config|unknown apiversion|could not determine kind|is not a valid cluster name|"
        r"invalid configuration|invalid node",
        "kind rejects its configuration",
        "see https://kind.sigs.k8s.io/docs/user/configuration",
    ),
    refusal(
        r"failed to pull image|manifest for \S*kindest/node\S* not found",
        "the engine does not have the node image and cannot pull it",
        "check its name and its registry; kind publishes images only for some patch releases: "
        "see https://github.com/kubernetes-sigs/kind/releases, and select one with --kubernetes or --image",
    ),
    refusal(
        r"does not look like a node image|no such file or directory.*/kind/version|"
        r"failed to read /kind/version|could not find a (log line|line) that matches|/kind/version: no such file",
        "the node did not start as a node of kind",
        "pass an image for kind (kindest/node), of a release that this kind supports, and check that `docker run "
        "--privileged` is allowed",
    ),
)


def explain(doing: str, output: str) -> HarnessError:
    """The error for a failed command of `kind`, as `refusals.explain`; `kind` also passes on errors of the engine."""
    return engine.explain(doing, output, (engine.NO_SPACE, *_OF_KIND, *engine.KNOWN))


# The Kubernetes release of a cluster and of a node image.

NEWEST: Mapping[str, str] = {release.minor: release.node_image for release in RELEASES}
"""The newest known patch release of each minor release for which kind has published a node image."""
DEFAULT = RELEASES[-1].node_image


def with_image(version: str) -> str:
    """The release of a node image, as `parse_version`: not all patch releases have an image."""
    return parse_version(version, NEWEST)


def plain(version: str) -> str:
    """A version without `v` and build metadata: `v1.37.2+x` is 1.37.2."""
    return version.removeprefix("v").partition("+")[0]


def differs(wanted: str, found: str, *, exact: bool) -> bool:
    """Whether these are different releases; unless `exact`, patch versions are ignored."""
    ours, theirs = plain(wanted), plain(found)
    return ours != theirs if exact else ours.split(".")[:2] != theirs.split(".")[:2]


async def release_of(engine: Engine, image: str) -> str | None:
    """The release that a node image names; None if the engine does not have the image, or it names none."""
    if await engine.image_id(image) is None:
        return None
    try:
        output = await engine.run("run", "--rm", "--network=none", "--entrypoint=cat", image, "/kind/version")
    except HarnessError:
        return None
    return output.strip() or None


# The `kind` program: makes and deletes clusters and loads images. It never changes the kubeconfig of the user.

OLDEST = patch_level(RELEASES[0].kind)[:2]
"""The kind that published the node image of the oldest supported release."""
NODE_IMAGE = "DRAHEALTH_NODE_IMAGE"
"""The variable with the node image, if no option names one."""
CREATE_LIMIT = 900.0
"""Seconds to make a cluster, with the pull of a 1 GB image on a slow line."""
_DELETE_LIMIT = 120.0
_LOAD_LIMIT = 300.0
_ANSWERS_WITHIN = 20.0
_INSTALL = f"install kind v{OLDEST[0]}.{OLDEST[1]} or newer: https://kind.sigs.k8s.io/docs/user/quick-start"
_VERSION = re.compile(r"\bv(\d+)\.(\d+)\.(\d+)\S*")
_BEAT = re.compile(r" \(\d+ s\)$")
_STAGE = re.compile(r"[•✓] (?P<what>.*?[\w)])[^\w)]*")


class Kind:
    """The program with one engine; `version` is that of kind, such as v0.33.0."""

    def __init__(self, engine: Engine, version: str = "") -> None:
        self.engine = engine
        self.version = version

    async def create(
        self, name: str, image: str, config: str, kubeconfig: Path, on_line: Callable[[str], None] = lambda _: None
    ) -> None:
        """Makes a cluster from the text of a configuration. Writes its credentials only to the file `kubeconfig`.

        `on_line` gets each stage when it begins, and then with its seconds. Raises HarnessError if kind fails; kind has
        then removed its containers. Cancellation may leave containers.
        """
        command = ("create", "cluster", "--name", name, "--image", image, "--config", "-")
        doing = f"make the cluster {name} with {image}"
        await self._run(
            *(*command, "--kubeconfig", str(kubeconfig)),
            doing=doing,
            stdin=config.encode(),
            limit=CREATE_LIMIT,
            on_line=Stages("Making the cluster", on_line),
        )

    async def delete(self, name: str, on_line: Callable[[str], None] = lambda _: None) -> None:
        """Deletes all nodes of the cluster; harmless if it does not exist. Raises HarnessError.

        `on_line` gets a line with the seconds while it runs.
        """
        with _scratch() as scratch:
            await self._run(
                *("delete", "cluster", "--name", name, "--kubeconfig", str(Path(scratch, "kubeconfig"))),
                doing=f"delete the cluster {name}",
                limit=_DELETE_LIMIT,
                on_line=Stages(f"Removing the cluster {name}", on_line),
            )

    async def load(self, image: str, name: str, on_line: Callable[[str], None] = lambda _: None) -> None:
        """Loads an image of the engine into all nodes of the cluster; `on_line` as in `create`."""
        doing, to = f"load the image {image} into the cluster {name}", ("--name", name)
        stages = Stages(f"Loading {image} into the cluster {name}", on_line)
        if self.engine.name == "docker":
            await self._run("load", "docker-image", image, *to, doing=doing, limit=_LOAD_LIMIT, on_line=stages)
            return
        with _scratch() as scratch:  # kind can only read images from Docker
            archive = str(Path(scratch) / "image.tar")
            save = ("save", "--format", "docker-archive", "-o", archive, image)
            await self.engine.run(*save, limit=_LOAD_LIMIT, on_line=stages)
            await self._run("load", "image-archive", archive, *to, doing=doing, limit=_LOAD_LIMIT, on_line=stages)

    async def names(self) -> list[str]:
        """All clusters of this engine, also those of others."""
        return (await self._run("get", "clusters", doing="list the clusters")).split()

    async def kubeconfig(self, name: str) -> str:
        """The text of a kubeconfig for an existing cluster."""
        return await self._run("get", "kubeconfig", "--name", name, doing=f"get the kubeconfig of the cluster {name}")

    async def _run(
        self,
        *args: str,
        doing: str,
        stdin: bytes | None = None,
        limit: float = 60,
        on_line: Callable[[str], None] | None = None,
    ) -> str:
        try:
            done = await run(
                ["kind", *args], stdin=stdin, limit=limit, on_line=on_line, environment=self.engine.environment
            )
        except TimeoutError:
            raise HarnessError(
                f"Could not {doing} within {limit:g} s", "check that the engine answers and is not too busy"
            ) from None
        if done.code:
            raise explain(doing, done.stderr or done.stdout)
        return done.stdout


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A temporary folder. Raises HarnessError if it cannot be made; a failed removal is ignored."""
    try:
        return tempfile.TemporaryDirectory(prefix="drahealth-", ignore_cleanup_errors=True)
    except OSError as error:
        raise HarnessError(
            f"cannot make a temporary folder: {error}", "free some disk space, or set TMPDIR to a writable folder"
        ) from error


class Stages:
    """Passes on the stages among the lines of kind, without symbols."""

    def __init__(self, stage: str, on_line: Callable[[str], None]) -> None:
        self._stage = stage
        self._on_line = on_line

    def __call__(self, line: str) -> None:
        beat = _BEAT.search(line)
        begun = _STAGE.fullmatch(line.removesuffix(beat[0]) if beat else line)
        if begun and not beat and begun["what"] != self._stage:
            self._stage = begun["what"]
            self._on_line(self._stage)
        elif beat:
            self._on_line(self._stage + beat[0])


async def find_kind(engine: Engine) -> Kind:
    """The `kind` on the PATH, with this engine. Raises HarnessError if there is none or it is too old."""
    if shutil.which("kind") is None:
        raise HarnessError("The program kind was not found on the PATH", _INSTALL)
    try:
        done = await run(["kind", "version"], limit=_ANSWERS_WITHIN)
    except TimeoutError:
        raise HarnessError(f"`kind version` did not answer within {_ANSWERS_WITHIN:g} s", _INSTALL) from None
    found = _VERSION.search(done.stdout)
    if done.code or found is None:
        raise HarnessError(f"`kind version` shows no version: {(done.stdout + done.stderr).strip()[:200]!r}", _INSTALL)
    if tuple(map(int, found.groups()[:2])) < OLDEST:
        raise HarnessError(
            f"kind {found[0]} is too old for the node images of Kubernetes {MINORS[0]} to {MINORS[-1]}", _INSTALL
        )
    return Kind(engine, found[0])


def node_image(kubernetes: str, named: str | None = None) -> str:
    """The node image: `named`, or that of DRAHEALTH_NODE_IMAGE, or that of kind for the release."""
    return named or os.environ.get(NODE_IMAGE) or f"kindest/node:v{kubernetes.removeprefix('v')}"


def other_release(wanted: str, served: str, image: str, *, exact: bool = True, reused: str = "") -> HarnessError | None:
    """The error if the version of the API server (`gitVersion`) is not the wanted release; else None.

    Unless `exact`, any patch version of the minor will do. `reused` is the name of an existing cluster; without it, the
    cluster was made from the node image.
    """
    if not differs(wanted, served, exact=exact):
        return None
    what = f"cluster {reused}" if reused else f"node image {image}"
    otherwise = "leave --reuse out to make a cluster" if reused else "an --image"
    return HarnessError(
        f"the {what} has Kubernetes {plain(served)}, but {plain(wanted)} is wanted",
        f"pass --kubernetes {plain(served)}, or {otherwise} of the wanted release",
    )


DISK_NEEDED = 4_000_000_000
"""Bytes for a node image, a node, and the image of the fake driver in the engine and on the node."""
_GIGABYTE = 1_000_000_000


def examine(kubernetes: str | None = None, image: str | None = None) -> Iterator[Check]:
    """All checks for a cluster of this Kubernetes release; `image` replaces the node image of kind."""
    kubernetes = kubernetes or DEFAULT
    with asyncio.Runner() as runner:
        checks = _examine(kubernetes, image)
        while (check := runner.run(_next(checks))) is not None:
            yield check


async def _examine(kubernetes: str, image: str | None) -> AsyncIterator[Check]:
    try:
        engine = await find_engine()
    except HarnessError as error:
        yield Check("container engine", False, error.message, error.hint)
        yield await _kind(Engine("docker"))
        return
    yield await _engine(engine)
    yield await _kind(engine)
    yield await node_image_there(engine, kubernetes, image)
    yield await disk(engine)


async def _next(checks: AsyncIterator[Check]) -> Check | None:
    return await anext(checks, None)


async def node_image_there(engine: Engine, kubernetes: str, image: str | None = None) -> Check:
    """Whether the engine has the node image. A pull is not tried: the engine may have mirrors."""
    try:
        wanted = node_image(with_image(kubernetes), image)
        there = await engine.image_id(wanted)
    except HarnessError as error:
        return Check("node image", False, error.message, error.hint)
    if there:
        return Check("node image", True, f"{wanted} is in the engine")
    hint = (
        "kind publishes images of some patch releases: see its release notes, and name one by --kubernetes or --image"
    )
    return Check("node image", False, f"{wanted} is not in the engine; kind will try to pull it", hint, needed=False)


async def disk(engine: Engine) -> Check:
    """The free disk space of the engine, if its data is on this machine."""
    name = "disk of the engine"
    try:
        folder = await engine.data_folder()
    except HarnessError as error:
        return Check(name, False, error.message, error.hint, needed=False)
    if not _is_local(folder):
        return Check(name, True, f"{folder or 'its data'} is not on this machine", needed=False)
    free = shutil.disk_usage(folder).free
    ok = free >= DISK_NEEDED
    hint = f"{_size(DISK_NEEDED)} are needed: free some disk space, for instance with `{engine.name} system prune`"
    return Check(name, ok, f"{_size(free)} free at {folder}", "" if ok else hint)


async def _engine(engine: Engine) -> Check:
    side = "Server" if engine.name == "docker" else "Client"
    try:
        version = (await engine.run("version", "--format", f"{{{{.{side}.Version}}}}")).strip()
    except HarnessError as error:
        return Check("container engine", False, error.message, error.hint)
    return Check("container engine", True, f"{engine.name} {version}")


async def _kind(engine: Engine) -> Check:
    try:
        return Check("kind", True, (await find_kind(engine)).version)
    except HarnessError as error:
        return Check("kind", False, error.message, error.hint)


def _is_local(folder: str) -> bool:
    remote = os.environ.get("DOCKER_HOST", "").startswith(("tcp:", "ssh:", "http:", "https:"))
    return bool(folder) and not remote and Path(folder).is_dir()


def _size(number: int) -> str:
    return f"{number / _GIGABYTE:.1f} GB"
