"""Known errors of the engine's CLI: the reason, and what to do. Programs that use the engine add their own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine.processes import clean


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
