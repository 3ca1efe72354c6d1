"""The container engine, Docker or Podman, by the command line that both share."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine import processes
from drahealth.suites.targets.engine.refusals import explain

PROVIDER = "KIND_EXPERIMENTAL_PROVIDER"
"""The variable with the engine that `kind` uses."""
_DOCKER, _PODMAN = "docker", "podman"
_INSTALL = "install Docker (https://docs.docker.com/engine/install) or Podman (https://podman.io), and start it"
_ABSENT = ("no such image", "no such object", "image not known", "failed to find image", "unable to find")
_ANSWERS_WITHIN = 20.0


class Engine:
    """`name` is docker or podman. `identity` is unique among engines, also remote ones."""

    def __init__(self, name: str, identity: str = "") -> None:
        self.name = name
        self.identity = identity

    @property
    def environment(self) -> dict[str, str]:
        """The variable that makes `kind` use this engine."""
        return {PROVIDER: self.name}

    async def run(
        self,
        *args: str,
        stdin: bytes | None = None,
        limit: float = 60,
        on_line: Callable[[str], None] | None = None,
    ) -> str:
        """The standard output of one command. Raises HarnessError with the most important line if it fails or times
        out.

        `on_line` gets each line of both outputs. While there is none it gets the last one again, with the seconds.
        """
        return self._output(args, await self._finish(args, stdin=stdin, limit=limit, on_line=on_line))

    async def image_id(self, ref: str) -> str | None:
        """The id of an image; None if the engine does not have it."""
        command = ("image", "inspect", "--format", "{{.Id}}", ref)
        done = await self._finish(command)
        if done.code and any(sign in done.stderr.lower() for sign in _ABSENT):
            return None
        return self._output(command, done).strip()

    async def containers(self, label: str) -> list[dict[str, Any]]:
        """The containers with this label, also stopped ones, as `container inspect` prints them."""
        ids = (await self.run("ps", "-a", "-q", "--no-trunc", "--filter", f"label={label}")).split()
        if not ids:
            return []
        command = ("container", "inspect", *ids)
        done = await self._finish(command)
        if done.code and "no such container" not in done.stderr.lower():  # one that was just removed is not an error
            self._output(command, done)
        found: list[dict[str, Any]] = json.loads(done.stdout or "[]")
        return found

    async def data_folder(self) -> str:
        """The folder of images and containers, on the machine of the engine."""
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
                "check that the engine answers and that the machine is not too busy",
            ) from None

    def _output(self, args: Sequence[str], done: processes.Finished) -> str:
        if done.code:
            raise explain(f"run `{self.name} {_short(args)}`", done.stderr or done.stdout)
        return done.stdout


async def find_engine() -> Engine:
    """Docker if it answers, else Podman; the one that KIND_EXPERIMENTAL_PROVIDER names, if it names one.

    Raises HarnessError if there is none, with the error of the first that is installed.
    """
    refusals = []
    for name in _candidates():
        try:
            return await _use(name)
        except HarnessError as error:
            refusals.append(error)
    raise refusals[0] if refusals else HarnessError("found no container engine", _INSTALL)


def _candidates() -> list[str]:
    named = os.environ.get(PROVIDER, "")
    if named in (_DOCKER, _PODMAN):
        if shutil.which(named) is None:
            raise HarnessError(
                f"{PROVIDER} names {named}, which is not on the PATH", f"install it, or unset {PROVIDER}"
            )
        return [named]
    if named in ("nerdctl", "nerdctl.lima", "finch"):
        raise HarnessError(f"{PROVIDER} must be docker or podman, got {named}", f"unset {PROVIDER}")
    return [name for name in (_DOCKER, _PODMAN) if shutil.which(name)]  # kind ignores any other name as well


async def _use(name: str) -> Engine:
    engine = Engine(name)
    if name == _DOCKER and "podman" in (await engine.run("--version", limit=_ANSWERS_WITHIN)).lower():
        return await _use(_PODMAN)  # Podman under the name of Docker; kind treats it as Podman
    await engine.run("ps", "-q", limit=_ANSWERS_WITHIN)
    field = "{{.ID}}" if name == _DOCKER else "{{.Host.Hostname}}:{{.Store.GraphRoot}}"
    with contextlib.suppress(HarnessError):  # an engine that answers may have no id
        engine.identity = f"{name} {(await engine.run('info', '--format', field)).strip()}".strip()
    return engine


def _short(args: Sequence[str]) -> str:
    return " ".join([*args[:3], *(["..."] if len(args) > 3 else [])])
