"""What the engine's CLI and `kind` say when they refuse, as one sentence and what to do about it."""

import re
from dataclasses import dataclass

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine.processes import clean


@dataclass(frozen=True, slots=True)
class Refusal:
    """A known one: what its text looks like, the reason as a clause, and what to do."""

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
        "see the lines that go with this; a node image of another release, settings that it does not know and "
        "a machine with too little memory are the usual causes",
    ),
    _refusal(
        r"node\(s\) already exist for a cluster with the name",
        "there is a cluster of that name",
        "name another one with --name, use it with --reuse, or remove it with `kind delete cluster --name NAME`",
    ),
    _refusal(
        r"unable to decode config|unknown apiversion|could not determine kind|is not a valid cluster name|"
        r"invalid configuration|invalid node",
        "kind does not take its configuration",
        "see https://kind.sigs.k8s.io/docs/user/configuration",
    ),
    _refusal(
        r"permission denied .*(connect|socket)|(connect|dial).*permission denied|"
        r"cannot connect to podman.*permission denied",
        "you may not use the container engine's socket",
        "join its group (`sudo usermod -aG docker $USER`, then log in again), or use rootless Podman",
    ),
    _refusal(
        r"cannot connect to the docker daemon|is the docker daemon running|cannot connect to podman|"
        r"unable to connect to podman|error during connect",
        "the container engine is not running",
        "start it (`sudo systemctl start docker`, Docker Desktop, or `podman machine start`), and see DOCKER_HOST",
    ),
    _refusal(
        r"toomanyrequests|rate limit",
        "the registry lets nobody pull more images for now",
        "log in to it (`docker login`), or pull the image later",
    ),
    _refusal(
        r"failed to pull image|manifest for \S*kindest/node\S* not found",
        "the node image is not here and cannot be pulled",
        "check its name, and whether its registry can be reached; kind publishes images for some patch releases "
        "only: see https://github.com/kubernetes-sigs/kind/releases, and name one with --kubernetes or --image",
    ),
    _refusal(
        r"manifest( for \S+)? (not found|unknown)|repository does not exist|pull access denied|no such image|"
        r"image not known|failed to find image|requested access to the resource is denied|name unknown|"
        r"unable to find image|image: \S+ not present locally|error pulling image|"
        r"unable to copy from source docker://|failed to resolve reference|registry.*network is unreachable|"
        r"get \"?https?://\S+/v2/.*(dial|lookup|timeout|exceeded)|pinging container registry",
        "the image is not here and cannot be pulled",
        "check its name, and whether its registry can be reached; or pull it before",
    ),
    _refusal(
        r"does not look like a node image|no such file or directory.*/kind/version|"
        r"failed to read /kind/version|could not find a (log line|line) that matches|/kind/version: no such file",
        "the node did not come up as one of kind's",
        "name an image made for kind (kindest/node), of a release that this kind knows, and see that `docker run "
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
"""Lines of the output that go with an error."""
_LONGEST = 300
"""Characters of a line that are shown."""


def explain(doing: str, said: str) -> HarnessError:
    """The error for a command that failed: `doing` completes "could not ...", `said` is its standard error.

    The last lines that tell anything go with it as a note.
    """
    lines = [line for line in map(clean, said.splitlines()) if line and not _USELESS.search(line)]
    told = telling_line(lines)
    refusal = next((known for known in KNOWN if known.looks_like.search(said)), None)
    if refusal is None:
        failure = HarnessError(f"Could not {doing}: {told}", "see the message, and whether the engine works without us")
    else:
        failure = HarnessError(f"Could not {doing} because {refusal.because}: {told}", refusal.hint)
    telling = [line for line in lines if _TELLING.search(line)]
    for line in telling[-_NOTED:] if len(telling) > 1 else []:
        failure.add_note(line[:_LONGEST])
    return failure


def telling_line(lines: list[str]) -> str:
    """The line that says most: the last one that looks like an error, else the last, else that there was none."""
    errors = [line for line in lines if _TELLING.search(line)]
    return _PREFIX.sub("", (errors or lines or ["it said nothing"])[-1])[:_LONGEST]
