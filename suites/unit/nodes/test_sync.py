"""Nodes, Pods and drivers without asyncio: they have what the asynchronous ones have, and leave nothing behind."""

from pathlib import Path

import pytest

from drahealth.fakes import DriverControl
from drahealth.suites import Node, Pod, ReferenceNode, SyncDriver, SyncNode, SyncPod
from drahealth.suites.unit.nodes.leftovers import leftovers

ASYNCHRONOUS = {"api", "clock"}
"""Members of a node for code in its event loop."""


@pytest.mark.parametrize(("sync", "of"), [(SyncNode, Node), (SyncPod, Pod), (SyncDriver, DriverControl)])
def test_a_sync_object_has_the_members_of_the_asynchronous_one(sync: type, of: type) -> None:
    wanted = {name for name in dir(of) if not name.startswith("_")} - ASYNCHRONOUS
    assert wanted - set(dir(sync)) == set()


def test_a_pod_without_asyncio_shows_the_fault_of_its_device_and_nothing_stays(base: Path) -> None:
    with SyncNode(ReferenceNode()) as node:
        pod = node.run_pod_with_device()
        node.driver.inject("xid/48", pod.device)
        pod.wait_for_health("gpu-0", "Unhealthy", message="XID 48*")
        assert node.driver.state().faults == {"gpu-0": ("xid/48",)}
    assert leftovers(base) == []


def test_an_error_of_a_sync_method_is_that_of_the_asynchronous_one(base: Path) -> None:
    with SyncNode(ReferenceNode()) as node:
        pod = node.run_pod_with_device()
        with pytest.raises(TimeoutError, match="gpu-7 Healthy"):
            pod.wait_for_health("gpu-7", "Healthy", timeout=0.1)
        with pytest.raises(ValueError, match="well"):
            pod.wait_for_health("gpu-0", "well")


def test_a_sync_node_that_is_not_entered_raises_an_error() -> None:
    with pytest.raises(RuntimeError, match="enter it"):
        SyncNode(ReferenceNode()).run_pod_with_device()
