"""A real kubelet as a node."""

from drahealth.suites.nodes.node import Node
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION
from drahealth.suites.targets.kubelet.configuration import KubeletConfiguration
from drahealth.suites.targets.versions import parse_version, profile_of


class LocalNode(Node):
    """A real kubelet and control plane on this machine, with a fake container runtime; no root, no container engine.

    It starts in about three seconds. Entering it downloads or builds the binaries of the release the first time, which
    takes minutes; `drahealth binaries ensure` does this beforehand, and `drahealth doctor` examines the machine.
    """

    def __init__(self, kubernetes: str = DEFAULT_VERSION) -> None:
        """`kubernetes` is a release from 1.34 to 1.37, such as 1.37.1. Raises ConfigurationError for others."""
        version = parse_version(kubernetes)
        super().__init__(KubeletConfiguration(profile_of(version), version))
