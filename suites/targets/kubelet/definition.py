"""The kubelet target, as the registry lists it."""

from collections.abc import Iterator

from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.option import CONTROL_PLANE, DRIVER, FIXED, HEALTH_API, KUBELET, KUBERNETES, START, Values
from drahealth.suites.targets.progress import Progress
from drahealth.suites.targets.registry import Check, Configuration, TargetDefinition


def _configure(values: Values) -> Configuration:
    from drahealth.suites.targets.kubelet.target import KubeletConfiguration

    return KubeletConfiguration.of(values)


def _examine(values: Values, progress: Progress) -> Iterator[Check]:
    from drahealth.manager.releases import DEFAULT_VERSION
    from drahealth.suites.targets.kubelet.doctor import examine

    version = values.get(KUBERNETES) or DEFAULT_VERSION
    return examine(version, kubelet=values.get(KUBELET), start=bool(values.get(START)), progress=progress)


DEFINITION = TargetDefinition(
    name="kubelet",
    title="a real kubelet",
    summary=(
        "A real kubelet and control plane on this machine, with a fake container runtime. "
        "This target needs user namespaces or root."
    ),
    options=(KUBERNETES, CONTROL_PLANE, KUBELET, FIXED, DRIVER, HEALTH_API, START),
    missing={
        Capability.ADVANCE_TIME: "a real kubelet reads the clock of the machine",
        Capability.GRANT_RESIZE: "the kubelet runs without cgroups for Pods, and panics when it grants a resize (N-10)",
    },
    configure=_configure,
    node_memory=700,
    overlaps=True,
    examine=_examine,
)
