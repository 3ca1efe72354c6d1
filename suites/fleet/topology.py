"""The hollow nodes of a fleet: their names, racks and zones, and their Node and Lease objects. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from drahealth.fakes.cluster.api import LEASES, NODES, Object, timestamp

NODES_PER_RACK = 16
"""The default number of nodes in a rack."""
RACKS_PER_ZONE = 8
RACK_LABEL = "fleet.example.com/rack"
"""The label of hollow nodes with their rack. No other node has it."""
ZONE_LABEL = "topology.kubernetes.io/zone"
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
"""The duration of the Lease of a node, as kubelets have it."""
_CAPACITY: Mapping[str, str] = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class HollowNodeName:
    """The name of a hollow node, and where it is."""

    name: str
    rack: str
    zone: str

    @property
    def attributes(self) -> Mapping[str, str]:
        """The attributes of its devices."""
        return {"rack": self.rack, "zone": self.zone}


def fleet_names(nodes: int, per_rack: int = NODES_PER_RACK) -> list[HollowNodeName]:
    """The nodes `fleet-0`, `fleet-1` and so on. Consecutive nodes share a rack, and consecutive racks a zone."""
    racks = (number // per_rack for number in range(nodes))
    return [
        HollowNodeName(f"fleet-{number}", f"rack-{rack}", f"zone-{rack // RACKS_PER_ZONE}")
        for number, rack in enumerate(racks)
    ]


def node_object(node: HollowNodeName, kubernetes: str, wall: float) -> Object:
    """The Node object of a Ready hollow node, with its status, as a kubelet of this release registers it."""
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {
            "name": node.name,
            "labels": {
                "kubernetes.io/hostname": node.name,
                **{f"{prefix}kubernetes.io/os": "linux" for prefix in ("", "beta.")},
                **{f"{prefix}kubernetes.io/arch": "amd64" for prefix in ("", "beta.")},
                ZONE_LABEL: node.zone,
                RACK_LABEL: node.rack,
            },
        },
        "status": node_status(node, kubernetes, wall),
    }


def node_status(node: HollowNodeName, kubernetes: str, wall: float) -> Object:
    """The status of a Ready hollow node."""
    from drahealth.fakes.cluster.runtime import ADDRESS  # slow, and commands need only the constants of this module

    info = {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": f"v{kubernetes}"}
    info |= {"containerRuntimeVersion": "drahealth://fake", "osImage": "hollow node", "kernelVersion": ""}
    info |= {"machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": ""}
    return {
        "capacity": dict(_CAPACITY),
        "allocatable": dict(_CAPACITY),
        "conditions": [
            *(_condition(kind, "False", "KubeletHasNoPressure", wall) for kind in _PRESSURES),
            _condition("Ready", "True", "KubeletReady", wall),
        ],
        "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": node.name}],
        "nodeInfo": info,
    }


def lease_object(node: str, uid: str, wall: float) -> Object:
    """The Lease of a node, renewed now. Kubernetes deletes it with its Node."""
    owner = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": node, "uid": uid}
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": node, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": _micro_time(wall)},
    }


def renewed(lease: Object, wall: float) -> Object:
    """The Lease, renewed now."""
    return {**lease, "spec": {**lease["spec"], "renewTime": _micro_time(wall)}}


def is_without_startup_taint(node: Object) -> bool:
    """Whether the node has no taint of a node that is not Ready, so that Pods can be scheduled on it."""
    taints: Sequence[Mapping[str, Any]] = (node.get("spec") or {}).get("taints") or ()
    return all(taint["key"] != "node.kubernetes.io/not-ready" for taint in taints)


def _condition(kind: str, status: str, reason: str, wall: float) -> Object:
    now = timestamp(wall)
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, "reason": reason, "message": "a hollow node", **times}


def _micro_time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
