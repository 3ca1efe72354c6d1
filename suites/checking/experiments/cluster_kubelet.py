"""The node of a driver in a Pod of a cluster, as the node of Pods with claims for the driver."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from drahealth.fakes.cluster.api import NODES, ApiError, Object
from drahealth.fakes.cluster.api_server.gates import MESSAGE_GATE, STATUS_GATE
from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.manager.profile import for_release
from drahealth.suites.checking.experiments.checkpoint_node import CLAIMS_FILE, CheckpointNode
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.outcomes import Incomplete, NotApplicable
from drahealth.suites.targets.kind.cluster.node_files import enabled

MINOR = "1.37"
"""The release of the requirements."""
_PAUSE = "/pause"


@dataclass(frozen=True, slots=True)
class ClusterKubelet(CheckpointNode):
    """The kubelet of the driver's node."""

    image: str
    """An image that is on the node, whose program waits."""


async def cluster_kubelet(lab: Lab) -> ClusterKubelet:
    """The kubelet of the node. Raises NotApplicable for another release, or without the feature gates.

    Raises Incomplete if the gates or its checkpoint cannot be read, and if there is no image for a Pod.
    """
    api, name, root = lab.subject.api, lab.subject.places.node_name, lab.subject.places.kubelet_dir
    assert isinstance(api, KubeClient), "the driver has no cluster"
    node = await api.get(NODES, name)
    version = kubelet_version(node)
    profile = for_release(version)
    if profile is None or profile.release != MINOR:
        raise NotApplicable(f"the kubelet of node {name} has version {version}, not {MINOR}")
    for component, path in (("kubelet", f"/api/v1/nodes/{name}/proxy/metrics"), ("API server", "/metrics")):
        try:
            gates = enabled(await api.connection.text(path))
        except ApiError as error:
            raise Incomplete(f"cannot read the feature gates of the {component}: {error}") from None
        if off := [gate for gate in (STATUS_GATE, MESSAGE_GATE) if not gates.get(gate, True)]:
            raise NotApplicable(f"feature gate {off[0]} of the {component} is off")
    if not os.access(root / CLAIMS_FILE, os.R_OK):
        raise Incomplete(f"cannot read {root / CLAIMS_FILE}, the checkpoint of the kubelet")
    image = next(pause_images(node), "")
    if not image:
        raise Incomplete(f"node {name} has no image of the program pause, which the Pod runs")
    return ClusterKubelet(lab, api, name, profile, root, image)


def kubelet_version(node: Object) -> str:
    """The version of the kubelet of a Node; empty without one."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("kubeletVersion", ""))


def pause_images(node: Object) -> Iterator[str]:
    """The names with a tag of the images of the program pause that a Node lists."""
    for one in (node.get("status") or {}).get("images") or ():
        for name in one.get("names") or ():
            if "@" not in name and _PAUSE in name.rpartition(":")[0]:
                yield name
