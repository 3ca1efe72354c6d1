"""Whether a node is Ready, also after its kubelet was restarted.

The Node object of a killed kubelet stays Ready. So after a restart the Lease of the Node must have been renewed since
the start, and so must the heartbeat of its Ready condition. The heartbeat alone has only whole seconds.
"""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from drahealth.suites.targets.kubelet.processes import ApiProbe

_KEEPING_OFF = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class NodeReadiness:
    """The readiness of one node. Call `begin` before each start of its kubelet."""

    def __init__(self, probe: ApiProbe, node_name: str, *, again: bool = False) -> None:
        """With `again` the Node object of an earlier kubelet is there before the first start."""
        self._probe = probe
        self._node_name = node_name
        self._since: float | None = None
        self._been_ready = again

    def begin(self) -> None:
        """Remember the time: a kubelet is about to start."""
        self._since = time.time() if self._been_ready else None

    async def reached(self) -> bool:
        """Whether the node accepts pods, as reported by the kubelet that was started last."""
        node = await self._probe.node(self._node_name)
        lease = None if self._since is None else await self._probe.lease(self._node_name)
        ready = node is not None and takes_pods(node) and speaks_since(node, lease, self._since)
        self._been_ready |= ready
        return ready and await self._probe.has_namespace("default")


def takes_pods(node: Mapping[str, Any]) -> bool:
    """Whether a Node is Ready and has no taint that says otherwise."""
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return _ready_condition(node).get("status") == "True" and not taints.intersection(_KEEPING_OFF)


def speaks_since(node: Mapping[str, Any], lease: Mapping[str, Any] | None, since: float | None) -> bool:
    """Whether the Node's state was reported at or after `since` (Unix seconds); always true for None."""
    if since is None:
        return True
    heartbeat = _ready_condition(node).get("lastHeartbeatTime")
    return heartbeat is not None and renewed_since(lease, since) and _unix(heartbeat) >= int(since)


def renewed_since(lease: Mapping[str, Any] | None, since: float) -> bool:
    """Whether the Lease was renewed at or after `since` (Unix seconds)."""
    renewed = None if lease is None else lease.get("spec", {}).get("renewTime")
    return renewed is not None and _unix(renewed) >= since


def _ready_condition(node: Mapping[str, Any]) -> Mapping[str, Any]:
    conditions = node.get("status", {}).get("conditions", ())
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
