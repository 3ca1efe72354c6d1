"""Known errors of `kind`: the reason, and what to do."""

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine import refusals
from drahealth.suites.targets.engine.refusals import refusal

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
    return refusals.explain(doing, output, (refusals.NO_SPACE, *_OF_KIND, *refusals.KNOWN))
