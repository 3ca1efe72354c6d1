"""Pytest suites, what they run on, and the `drahealth` command."""

from typing import TYPE_CHECKING

from drahealth.proto.exports import exports

if TYPE_CHECKING:
    from drahealth.proto.version import __version__
    from drahealth.suites.errors import ConfigurationError, HarnessError
    from drahealth.suites.nodes.local_node import LocalNode
    from drahealth.suites.nodes.node import Node
    from drahealth.suites.nodes.pod import Pod
    from drahealth.suites.nodes.reference_kubelet import ReferenceKubelet
    from drahealth.suites.nodes.reference_node import ReferenceNode
    from drahealth.suites.nodes.running_node import RunningNode
    from drahealth.suites.nodes.sync import SyncDriver, SyncNode, SyncPod
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "ConfigurationError",
    "HarnessError",
    "LocalNode",
    "Node",
    "Pod",
    "ReferenceKubelet",
    "ReferenceNode",
    "RunningNode",
    "SyncDriver",
    "SyncNode",
    "SyncPod",
    "__version__",
]
