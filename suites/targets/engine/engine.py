"""The container engine, Docker or Podman, by its command line, which both speak alike."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine import processes
from drahealth.suites.targets.engine.refusals import explain

CLUSTER_LABEL = "io.x-k8s.kind.cluster"
"""The label that `kind` gives to every node's container; its value is the cluster's name."""
ROLE_LABEL = "io.x-k8s.kind.role"
PROVIDER = "KIND_EXPERIMENTAL_PROVIDER"
"""The variable that tells `kind` which engine to use."""
_DOCKER, _PODMAN = "docker", "podman"
_INSTALL = "install Docker (https://docs.docker.com/engine/install) or Podman (https://podman.io), and start it"
_ABSENT = ("no such image", "no such object", "image not known", "failed to find image", "unable to find")
_ANSWERS_WITHIN = 20.0


@dataclass(frozen=True, slots=True)
class Container:
    """A node of some kind cluster; `id` is the full one."""

    id: str
    name: str
    cluster: str
    role: str
    mounts: tuple[str, ...]


class Engine:
    """`name` is docker or podman. `identity` tells this engine from all others, remote ones included."""

    def __init__(self, name: str, identity: str = "") -> None:
        self.name = name
        self.identity = identity

    @property
    def environment(self) -> dict[str, str]:
        """What makes `kind` use this engine and no other."""
        return {PROVIDER: self.name}

    async def run(
        self,
        *args: str,
        stdin: bytes | None = None,
        limit: float = 60,
        on_line: Callable[[str], None] | None = None,
    ) -> str:
        """The standard output of one command. HarnessError with the telling line if it fails or takes too long.

        `on_line` gets each line of both outputs, and the last one again with the seconds while there is none.
        """
        return self._output(args, await self._finish(args, stdin=stdin, limit=limit, on_line=on_line))

    async def image_id(self, ref: str) -> str | None:
        """The id of an image that the engine has, None if it has not got it."""
        command = ("image", "inspect", "--format", "{{.Id}}", ref)
        done = await self._finish(command)
        if done.code and any(sign in done.stderr.lower() for sign in _ABSENT):
            return None
        return self._output(command, done).strip()

    async def nodes(self) -> list[Container]:
        """The nodes of all kind clusters, stopped ones too, whoever made them."""
        ids = (await self.run("ps", "-a", "-q", "--no-trunc", "--filter", f"label={CLUSTER_LABEL}")).split()
        if not ids:
            return []
        command = ("container", "inspect", *ids)
        done = await self._finish(command)
        if done.code and "no such container" not in done.stderr.lower():  # one that went just now is no error
            self._output(command, done)
        return [container(found) for found in json.loads(done.stdout or "[]")]

    async def data_folder(self) -> str:
        """Where the engine keeps images and containers, on the machine it runs on."""
        field = "{{.DockerRootDir}}" if self.name == _DOCKER else "{{.Store.GraphRoot}}"
        return (await self.run("info", "--format", field)).strip()

    async def _finish(
        self,
        args: Sequence[str],
        *,
        stdin: bytes | None = None,
        limit: float = 60,
        on_line: Callable[[str], None] | None = None,
    ) -> processes.Finished:
        try:
            return await processes.run([self.name, *args], stdin=stdin, limit=limit, on_line=on_line)
        except TimeoutError:
            raise HarnessError(
                f"`{self.name} {_short(args)}` did not end within {limit:g} s",
                "see whether the engine still answers and whether the machine is busy",
            ) from None

    def _output(self, args: Sequence[str], done: processes.Finished) -> str:
        if done.code:
            raise explain(f"run `{self.name} {_short(args)}`", done.stderr or done.stdout)
        return done.stdout


async def find_engine() -> Engine:
    """Docker if it answers, else Podman; the one that KIND_EXPERIMENTAL_PROVIDER names if it names one.

    HarnessError if there is none, with the reason of the first that is installed.
    """
    refusals = []
    for name in _candidates():
        try:
            return await _use(name)
        except HarnessError as error:
            refusals.append(error)
    raise refusals[0] if refusals else HarnessError("No container engine was found", _INSTALL)


def container(found: dict[str, Any]) -> Container:
    """From one element of what `container inspect` prints."""
    labels = found["Config"]["Labels"] or {}
    return Container(
        id=found["Id"],
        name=found["Name"].removeprefix("/"),
        cluster=labels.get(CLUSTER_LABEL, ""),
        role=labels.get(ROLE_LABEL, ""),
        mounts=tuple(sorted(mount["Destination"] for mount in found.get("Mounts") or [])),
    )


def _candidates() -> list[str]:
    named = os.environ.get(PROVIDER, "")
    if named in (_DOCKER, _PODMAN):
        if shutil.which(named) is None:
            raise HarnessError(
                f"{PROVIDER} names {named}, which is not on the PATH", f"install it, or unset {PROVIDER}"
            )
        return [named]
    if named in ("nerdctl", "nerdctl.lima", "finch"):
        raise HarnessError(f"{PROVIDER} names {named}, and only Docker and Podman work here", f"unset {PROVIDER}")
    return [name for name in (_DOCKER, _PODMAN) if shutil.which(name)]  # kind ignores any other name as well


async def _use(name: str) -> Engine:
    engine = Engine(name)
    if name == _DOCKER and "podman" in (await engine.run("--version", limit=_ANSWERS_WITHIN)).lower():
        return await _use(_PODMAN)  # Podman under Docker's name, which kind does not take for Docker
    await engine.run("ps", "-q", limit=_ANSWERS_WITHIN)
    field = "{{.ID}}" if name == _DOCKER else "{{.Host.Hostname}}:{{.Store.GraphRoot}}"
    with contextlib.suppress(HarnessError):  # what answers may still not know who it is
        engine.identity = f"{name} {(await engine.run('info', '--format', field)).strip()}".strip()
    return engine


def _short(args: Sequence[str]) -> str:
    return " ".join([*args[:3], *(["..."] if len(args) > 3 else [])])
