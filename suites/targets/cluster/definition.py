"""The cluster target, as the registry lists it."""

from collections.abc import Iterator

from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.cluster.options import OPTIONS
from drahealth.suites.targets.option import FIXED, HEALTH_API, Values
from drahealth.suites.targets.progress import Progress
from drahealth.suites.targets.registry import Check, Configuration, TargetDefinition

_OTHERS = "drahealth does not change a cluster of others"


def _configure(values: Values) -> Configuration:
    from drahealth.suites.targets.cluster.target import ClusterConfiguration

    return ClusterConfiguration.of(values)


def _examine(values: Values, progress: Progress) -> Iterator[Check]:
    from drahealth.suites.targets.cluster.target import examine

    return examine(values, progress)


DEFINITION = TargetDefinition(
    name="cluster",
    title="a cluster of yours",
    summary="Any cluster that a kubeconfig reaches. The fake driver runs in a Pod on each node, until the end of the "
    "run.",
    options=(FIXED, HEALTH_API, *OPTIONS),
    missing={
        Capability.STOP_API_SERVER: _OTHERS,
        Capability.STOP_KUBELET: _OTHERS,
        Capability.SWITCH_GATES: _OTHERS,
        Capability.SWITCH_DRA: _OTHERS,
        Capability.SWITCH_MESSAGES: _OTHERS,
        Capability.CONTROL_WITHOUT_API_SERVER: "commands to the fake drivers go through the API server",
        Capability.CONTROL_WITHOUT_KUBELET: "commands to the fake drivers go through the kubelet",
        Capability.ADVANCE_TIME: "a real kubelet reads the clock of its machine",
        Capability.SET_RESYNC: "the configuration of the kubelets sets the time between two resyncs",
        Capability.LOCAL_DRIVERS: "the kubelets of a cluster run on other machines",
        Capability.STATIC_PODS: "drahealth writes no manifests of static Pods to the nodes of others",
        Capability.USER_NAMESPACES: "some nodes do not support user namespaces",
        Capability.SEE_CDI_DEVICES: "drahealth can read CDI devices only from the fake container runtime",
    },
    configure=_configure,
    examine=_examine,
)
