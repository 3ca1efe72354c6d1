"""Pytest suites, what they run on, and the `drahealth` command."""

from typing import TYPE_CHECKING

from drahealth.proto.package import exports

if TYPE_CHECKING:
    from drahealth.proto.version import __version__
    from drahealth.suites.errors import ConfigurationError, HarnessError
    from drahealth.suites.nodes.kubelets import LocalNode, ReferenceKubelet, ReferenceNode
    from drahealth.suites.nodes.node import Node, Pod
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
