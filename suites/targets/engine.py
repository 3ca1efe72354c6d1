"""The container engine, Docker or Podman, by the command line that both share."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drahealth.suites.errors import HarnessError
from drahealth.suites.processes.child import Finished, clean, run

# Known errors of the engine's CLI: the reason, and what to do. Programs that use the engine add their own.


@dataclass(frozen=True, slots=True)
class Refusal:
    """A known error: a pattern of its text, the reason as a clause, and what to do."""

    looks_like: re.Pattern[str]
    because: str
    hint: str


def refusal(looks_like: str, because: str, hint: str) -> Refusal:
    """A known error; `looks_like` is a regular expression, for any case."""
    return Refusal(re.compile(looks_like, re.IGNORECASE), because, hint)


NO_SPACE = refusal(
    r"no space left on device|disk quota exceeded",
    "no disk space is left for the container engine",
    "free some disk space where the engine keeps its data, for instance with `docker system prune` or `podman system "
    "prune`",
)
KNOWN = (
    NO_SPACE,
    refusal(
        r"permission denied .*(connect|socket)|(connect|dial).*permission denied|"
        r"cannot connect to podman.*permission denied",
        "you have no permission for the socket of the container engine",
        "join its group (`sudo usermod -aG docker $USER`, then log in again), or use rootless Podman",
    ),
    refusal(
        r"cannot connect to the docker daemon|is the docker daemon running|cannot connect to podman|"
        r"unable to connect to podman|error during connect",
        "the container engine is not running",
        "start it (`sudo systemctl start docker`, Docker Desktop, or `podman machine start`), and check DOCKER_HOST",
    ),
    refusal(
        r"toomanyrequests|rate limit",
        "the registry limits pulls for now",
        "log in to it (`docker login`), or pull the image later",
    ),
    refusal(
        r"manifest( for \S+)? (not found|unknown)|repository does not exist|pull access denied|no such image|"
        r"image not known|failed to find image|requested access to the resource is denied|name unknown|"
        r"unable to find image|image: \S+ not present locally|error pulling image|"
        r"unable to copy from source docker://|failed to resolve reference|registry.*network is unreachable|"
        r"get \"?https?://\S+/v2/.*(dial|lookup|timeout|exceeded)|pinging container registry",
        "the engine does not have the image and cannot pull it",
        "check its name and its registry, or pull it first",
    ),
)
_TELLING = re.compile(
    r"^(ERROR|Error|error)\b|\[ERROR |^\s*\[?fatal|Error response|unknown field|unrecognized|not (permitted|allowed)|"
    r"^line \d+: |timed out|connection refused|no space left|cannot |failed",
    re.IGNORECASE,
)
_USELESS = re.compile(r"^(stack trace|usage:|see '.+ --help'|run '.+ --help'|command output:?$)", re.IGNORECASE)
_PREFIX = re.compile(r"^((ERROR|error|Error|Command Output|failed to create cluster|docker|podman): ?)+")
_NOTED = 12
"""Lines of output that are added to an error."""
_LONGEST = 300
"""Characters of a line that are shown."""


def explain(doing: str, output: str, known: Sequence[Refusal] = KNOWN) -> HarnessError:
    """The error for a failed command: `doing` completes "could not ...", `output` is its standard error.

    The first of the `known` errors that matches gives the reason.

    Its notes are the last important lines.
    """
    lines = [line for line in map(clean, output.splitlines()) if line and not _USELESS.search(line)]
    message = telling_line(lines)
    found = next((refusal for refusal in known if refusal.looks_like.search(output)), None)
    if found is None:
        failure = HarnessError(f"Could not {doing}: {message}", "see the message, and check that the engine works")
    else:
        failure = HarnessError(f"Could not {doing} because {found.because}: {message}", found.hint)
    telling = [line for line in lines if _TELLING.search(line)]
    for line in telling[-_NOTED:] if len(telling) > 1 else []:
        failure.add_note(line[:_LONGEST])
    return failure


def telling_line(lines: list[str]) -> str:
    """The most important line: the last one that looks like an error, else the last one."""
    errors = [line for line in lines if _TELLING.search(line)]
    return _PREFIX.sub("", (errors or lines or ["it printed nothing"])[-1])[:_LONGEST]


# The container engine, Docker or Podman, by the command line that both share.

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
    ) -> Finished:
        try:
            return await run([self.name, *args], stdin=stdin, limit=limit, on_line=on_line)
        except TimeoutError:
            raise HarnessError(
                f"`{self.name} {_short(args)}` did not end within {limit:g} s",
                "check that the engine answers and that the machine is not too busy",
            ) from None

    def _output(self, args: Sequence[str], done: Finished) -> str:
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
