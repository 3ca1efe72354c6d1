"""The kind target, as the registry lists it."""

from collections.abc import Iterator

from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.kind.options import IMAGE, OPTIONS
from drahealth.suites.targets.option import FIXED, HEALTH_API, KUBERNETES, Values
from drahealth.suites.targets.progress import Progress
from drahealth.suites.targets.registry import Check, Configuration, TargetDefinition


def _configure(values: Values) -> Configuration:
    from drahealth.suites.targets.kind.target import KindConfiguration

    return KindConfiguration.of(values)


def _examine(values: Values, progress: Progress) -> Iterator[Check]:
    from drahealth.suites.targets.kind.program import examine

    return examine(values.text_of(KUBERNETES), values.get(IMAGE))


def _clean(kept: bool, progress: Progress) -> tuple[list[str], list[str]]:
    import asyncio

    from drahealth.suites.targets.kind.ownership import clean

    return asyncio.run(clean(kept, progress))


DEFINITION = TargetDefinition(
    name="kind",
    title="a kind cluster",
    summary="A kind cluster with a real container runtime. The fake driver runs in a Pod on each node.",
    options=(KUBERNETES, FIXED, HEALTH_API, *OPTIONS),
    missing={
        Capability.CONTROL_WITHOUT_API_SERVER: "commands to the fake drivers go through the API server",
        Capability.CONTROL_WITHOUT_KUBELET: "commands to the fake drivers go through the kubelet",
        Capability.ADVANCE_TIME: "a real kubelet reads the clock of the machine",
        Capability.SET_RESYNC: "the configuration of the cluster sets the time between two resyncs",
        Capability.LOCAL_DRIVERS: "the kubelets of kind run in containers",
        Capability.STATIC_PODS: "drahealth writes no manifests of static Pods to the nodes of kind",
        Capability.USER_NAMESPACES: "on some machines the nodes of kind do not support user namespaces",
        Capability.SEE_CDI_DEVICES: "drahealth can read CDI devices only from the fake container runtime",
    },
    configure=_configure,
    examine=_examine,
    clean=_clean,
)
