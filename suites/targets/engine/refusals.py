"""Known errors of the engine's CLI and of `kind`: the reason, and what to do."""

import re
from dataclasses import dataclass

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine.processes import clean


@dataclass(frozen=True, slots=True)
class Refusal:
    """A known error: a pattern of its text, the reason as a clause, and what to do."""

    looks_like: re.Pattern[str]
    because: str
    hint: str


def _refusal(looks_like: str, because: str, hint: str) -> Refusal:
    return Refusal(re.compile(looks_like, re.IGNORECASE), because, hint)


KNOWN = (
    _refusal(
        r"no space left on device|disk quota exceeded",
        "no disk space is left for the container engine",
        "make room where it keeps its data, for instance with `docker system prune` or `podman system prune`",
    ),
    _refusal(
        r"failed to (init|join) node with kubeadm",
        "kubeadm failed",
        "see the lines below; usual causes: a node image of another release, unknown settings, too little memory",
    ),
    _refusal(
        r"node\(s\) already exist for a cluster with the name",
        "a cluster with that name exists",
        "name another one with --name, use it with --reuse, or remove it with `kind delete cluster --name NAME`",
    ),
    _refusal(
        r"unable to decode config|unknown apiversion|could not determine kind|is not a valid cluster name|"
        r"invalid configuration|invalid node",
        "kind rejects its configuration",
        "see https://kind.sigs.k8s.io/docs/user/configuration",
    ),
    _refusal(
        r"permission denied .*(connect|socket)|(connect|dial).*permission denied|"
        r"cannot connect to podman.*permission denied",
        "you have no permission for the socket of the container engine",
        "join its group (`sudo usermod -aG docker $USER`, then log in again), or use rootless Podman",
    ),
    _refusal(
        r"cannot connect to the docker daemon|is the docker daemon running|cannot connect to podman|"
        r"unable to connect to podman|error during connect",
        "the container engine is not running",
        "start it (`sudo systemctl start docker`, Docker Desktop, or `podman machine start`), and check DOCKER_HOST",
    ),
    _refusal(
        r"toomanyrequests|rate limit",
        "the registry limits pulls for now",
        "log in to it (`docker login`), or pull the image later",
    ),
    _refusal(
        r"failed to pull image|manifest for \S*kindest/node\S* not found",
        "the engine does not have the node image and cannot pull it",
        "check its name and its registry; kind publishes images only for some patch releases: "
        "see https://github.com/kubernetes-sigs/kind/releases, and name one with --kubernetes or --image",
    ),
    _refusal(
        r"manifest( for \S+)? (not found|unknown)|repository does not exist|pull access denied|no such image|"
        r"image not known|failed to find image|requested access to the resource is denied|name unknown|"
        r"unable to find image|image: \S+ not present locally|error pulling image|"
        r"unable to copy from source docker://|failed to resolve reference|registry.*network is unreachable|"
        r"get \"?https?://\S+/v2/.*(dial|lookup|timeout|exceeded)|pinging container registry",
        "the engine does not have the image and cannot pull it",
        "check its name and its registry, or pull it first",
    ),
    _refusal(
        r"does not look like a node image|no such file or directory.*/kind/version|"
        r"failed to read /kind/version|could not find a (log line|line) that matches|/kind/version: no such file",
        "the node did not start as a node of kind",
        "name an image for kind (kindest/node), of a release that this kind supports, and check that `docker run "
        "--privileged` is allowed",
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


def explain(doing: str, output: str) -> HarnessError:
    """The error for a failed command: `doing` completes "could not ...", `said` is its standard error.

    Its notes are the last important lines.
    """
    lines = [line for line in map(clean, output.splitlines()) if line and not _USELESS.search(line)]
    message = telling_line(lines)
    refusal = next((known for known in KNOWN if known.looks_like.search(output)), None)
    if refusal is None:
        failure = HarnessError(f"Could not {doing}: {message}", "see the message, and check that the engine works")
    else:
        failure = HarnessError(f"Could not {doing} because {refusal.because}: {message}", refusal.hint)
    telling = [line for line in lines if _TELLING.search(line)]
    for line in telling[-_NOTED:] if len(telling) > 1 else []:
        failure.add_note(line[:_LONGEST])
    return failure


def telling_line(lines: list[str]) -> str:
    """The most important line: the last one that looks like an error, else the last one."""
    errors = [line for line in lines if _TELLING.search(line)]
    return _PREFIX.sub("", (errors or lines or ["it printed nothing"])[-1])[:_LONGEST]
