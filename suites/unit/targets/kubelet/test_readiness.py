"""When a node counts as ready, before and after a restart of its kubelet."""

from typing import Any

import pytest

from drahealth.suites.targets.node_readiness import speaks_since, takes_pods

STARTED = 1_800_000_000.4  # 2027-01-15T08:00:00.4Z


def node(status: str = "True", heartbeat: str = "2027-01-15T08:00:00Z", taint: str = "") -> dict[str, Any]:
    return {
        "spec": {"taints": [{"key": taint}]} if taint else {},
        "status": {"conditions": [{"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}]},
    }


def lease(renewed: str) -> dict[str, Any]:
    return {"spec": {"renewTime": renewed}}


@pytest.mark.parametrize(
    ("seen", "ready"),
    [
        (node(), True),
        (node(taint="example.com/own"), True),
        (node(status="False"), False),
        (node(taint="node.kubernetes.io/not-ready"), False),
        (node(taint="node.kubernetes.io/unreachable"), False),
        ({"spec": {}, "status": {}}, False),
    ],
)
def test_a_node_accepts_pods_when_it_is_ready_without_taints(seen: dict[str, Any], ready: bool) -> None:
    assert takes_pods(seen) is ready


@pytest.mark.parametrize(
    ("seen", "renewed", "speaks"),
    [
        (node(), lease("2027-01-15T08:00:00.900000Z"), True),
        (node(), lease("2027-01-15T08:00:00.300000Z"), False),
        (node(heartbeat="2027-01-15T07:59:59Z"), lease("2027-01-15T08:00:00.900000Z"), False),
        (node(), {"spec": {}}, False),
        (node(), None, False),
    ],
)
def test_a_restarted_node_needs_a_new_lease_and_heartbeat(
    seen: dict[str, Any], renewed: dict[str, Any] | None, speaks: bool
) -> None:
    assert speaks_since(seen, renewed, STARTED) is speaks


def test_the_first_start_needs_no_new_lease() -> None:
    assert speaks_since(node(), None, None)
