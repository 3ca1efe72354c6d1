"""From a plugin's reports to pod statuses and notifications."""

import asyncio
import logging

import pytest

from drahealth.manager.profile import Gates
from drahealth.proto.values import Health
from drahealth.suites.unit.manager.conftest import MakeNode
from drahealth.suites.unit.manager.rig import Node, lines, says, until, watched_pod

HEALTHY, UNHEALTHY = Health.HEALTHY, Health.UNHEALTHY


@pytest.mark.counterpart(
    "kep/manager-messages",
    "kep/manager-affected-pods",
    "kep/manager-notifications",
    "alpha2/handle-messages",
    "alpha2/handle-notifications",
    "alpha2/status-reads-cache",
    "TestHandleWatchResourcesStream/HealthChangeForAllocatedDevice",
    "TestHandleWatchResourcesStream/NonAllocatedDeviceChange",
    "TestHandleWatchResourcesStream/HealthChangeForMultiplePodsWithSharedDevice",
)
async def test_change_is_shown_and_notifies_exactly_the_pods_with_the_device(any_node: Node) -> None:
    driver = await any_node.run_driver(devices=("gpu-0", "gpu-1", "gpu-2"))
    shared = await any_node.claim("shared", "gpu-0")
    await any_node.run_pod("a", shared)
    await any_node.run_pod("b", shared, await any_node.claim("own", "gpu-1"))
    await any_node.shows("b", gpu_0="Healthy", gpu_1="Healthy")
    any_node.notified.clear()
    for device, message in (("gpu-0", "xid 79"), ("gpu-1", "hot"), ("gpu-2", "nobody's")):
        await driver.set_health(device, UNHEALTHY, message)
    await any_node.shows("b", gpu_0="Unhealthy: xid 79", gpu_1="Unhealthy: hot")
    assert any_node.seen("a") == {"gpu-0": "Unhealthy: xid 79"}
    assert any_node.notified == [{"a", "b"}, {"b"}]


@pytest.mark.counterpart("alpha2/handler-and-updates")
async def test_first_report_notifies_existing_pods(node: Node) -> None:
    driver = await watched_pod(node)
    await driver.stream_close()
    await node.shows("pod", gpu_0="Unknown", gpu_1="Unknown")
    node.notified.clear()
    await node.jump(5)
    await node.shows("pod", gpu_0="Healthy", gpu_1="Healthy")
    assert node.notified == [{"pod"}]


@pytest.mark.counterpart("TestHandleWatchResourcesStream/NoActualStateChange")
async def test_report_without_a_change_notifies_no_pod(any_node: Node) -> None:
    driver = await watched_pod(any_node)
    any_node.notified.clear()
    await driver.report([says("gpu-0"), says("gpu-1")])
    await driver.report([])
    await driver.report([says("gpu-1", UNHEALTHY)])
    await any_node.shows("pod", gpu_0="Healthy", gpu_1="Unhealthy")
    assert any_node.notified == [{"pod"}]


@pytest.mark.counterpart("alpha2/handler-and-updates")
async def test_unsubscribed_listener_gets_no_notification(node: Node) -> None:
    told: list[frozenset[str]] = []
    end = node.manager.subscribe(told.append)
    driver = await watched_pod(node)
    end()
    before = len(told)
    await driver.set_health("gpu-0", UNHEALTHY)
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")
    assert len(told) == before


async def test_failing_listener_does_not_affect_other_listeners(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    def fail(pods: frozenset[str]) -> None:
        raise RuntimeError("on purpose")

    node.manager.subscribe(fail)
    driver = await watched_pod(node)
    told: list[frozenset[str]] = []
    node.manager.subscribe(told.append)
    await driver.set_health("gpu-0", UNHEALTHY, "after the fault")
    await node.shows("pod", gpu_0="Unhealthy: after the fault", gpu_1="Healthy")
    assert told == [{"pod"}]
    assert set(lines(caplog, " failed", logging.ERROR)) != set()


async def test_a_heartbeat_keeps_a_device_from_going_stale(any_node: Node) -> None:
    driver = await watched_pod(any_node)
    await any_node.jump(25)
    await driver.report([says("gpu-0")])
    await driver.report([says("gpu-1", UNHEALTHY)])
    await any_node.shows("pod", gpu_0="Healthy", gpu_1="Unhealthy")
    await any_node.jump(25)
    assert any_node.seen("pod") == {"gpu-0": "Healthy", "gpu-1": "Unhealthy"}
    await any_node.jump(10)
    assert any_node.seen("pod") == {"gpu-0": "Unknown", "gpu-1": "Unknown"}


async def test_a_device_with_a_timeout_of_its_own_is_unknown_after_that(any_node: Node) -> None:
    driver = await watched_pod(any_node, timeout=100)
    await driver.set_health("gpu-1", HEALTHY, "watched closely", timeout=5)
    await any_node.shows("pod", gpu_0="Healthy", gpu_1="Healthy: watched closely")
    await any_node.jump(6)
    assert any_node.seen("pod") == {"gpu-0": "Healthy", "gpu-1": "Unknown"}
    await any_node.jump(95)
    assert any_node.seen("pod") == {"gpu-0": "Unknown", "gpu-1": "Unknown"}


async def test_with_the_message_gate_off_health_shows_without_messages(make_node: MakeNode) -> None:
    node = make_node(gates=Gates(resource_health_status_message=False))
    await node.start()
    driver = await watched_pod(node)
    await driver.set_health("gpu-0", UNHEALTHY, "xid 79")
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")


@pytest.mark.counterpart(
    "TestHandleWatchResourcesStream/HealthChangeForDeviceWithShareID", "TestUpdateAllocatedResourcesStatus"
)
@pytest.mark.counterpart("e2e_node/share-id")
async def test_a_device_with_a_share_id_shows_its_changes(any_node: Node) -> None:
    driver = await any_node.run_driver()
    for pod in ("a", "b"):
        await any_node.run_pod(pod, await any_node.claim(pod, "gpu-0", share=f"share-of-{pod}"))
    any_node.notified.clear()
    await driver.set_health("gpu-0", UNHEALTHY, "xid 79")
    for pod in ("a", "b"):
        await any_node.shows(pod, gpu_0="Unhealthy: xid 79")
    assert any_node.notified[-1] == {"a", "b"}


# -- many at once


@pytest.mark.counterpart("TestWithLock")
async def test_concurrent_reports_of_many_drivers_are_not_lost(any_node: Node) -> None:
    names = [f"{number}.example.com" for number in range(5)]
    drivers = [await any_node.run_driver(name) for name in names]
    for name in names:
        await any_node.run_pod(name, await any_node.claim(name, "gpu-0", drivers=(name,)))
    await until(lambda: all(driver.health.open for driver in drivers))
    changes = [says("gpu-0", (UNHEALTHY, HEALTHY)[number % 2], f"change {number}") for number in range(101)]
    await asyncio.gather(*(driver.play(changes) for driver in drivers))
    for name in names:
        await any_node.shows(name, gpu_0="Unhealthy: change 100")


@pytest.mark.counterpart("TestWithRLock")
async def test_status_shows_all_of_a_report_or_nothing(any_node: Node) -> None:
    driver = await watched_pod(any_node)
    seen: list[dict[str, str]] = []
    any_node.manager.subscribe(lambda _: seen.append(any_node.seen("pod")))
    for number in range(100):
        await driver.report([says(name, UNHEALTHY, f"report {number}") for name in ("gpu-0", "gpu-1")])
    await any_node.shows("pod", gpu_0="Unhealthy: report 99", gpu_1="Unhealthy: report 99")
    assert len(seen) == 100
    assert all(status["gpu-0"] == status["gpu-1"] for status in seen)
