"""From a plugin's health stream to what pods show and who is told."""

import asyncio
import logging
from typing import Any

import grpc
import pytest

from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.manager import plugin
from drahealth.manager.gates import Gates
from drahealth.manager.plugin import pick_health_api
from drahealth.manager.profile import KEP, V1_36, V1_37, Profile
from drahealth.proto.events import Prepared, StreamClosed, StreamOpened
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.unit.manager.conftest import MakeNode
from drahealth.suites.unit.manager.rig import DRIVER, Node, lines, registered, settle, until

HEALTHY, UNHEALTHY = Health.HEALTHY, Health.UNHEALTHY
ENDS = [code for code in grpc.StatusCode if code is not grpc.StatusCode.UNIMPLEMENTED]


def says(device: str, health: Health = HEALTHY, message: str = "") -> DeviceHealth:
    return DeviceHealth("node-a", device, health, message)


async def streams(driver: FakeDriver, still_open: int) -> int:
    """How many health streams there ever were, once this many are open: a plugin hears last that one has ended."""
    await until(lambda: driver.health.open == still_open)
    return (await driver.state()).streams_opened


async def watched_pod(node: Node, **options: Any) -> FakeDriver:
    """A driver whose two devices a pod holds and shows healthy."""
    driver = await node.run_driver(**options)
    await node.run_pod("pod", await node.claim("gpus", "gpu-0", "gpu-1"))
    await node.shows("pod", gpu_0="Healthy", gpu_1="Healthy")
    return driver


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
async def test_a_change_shows_and_tells_exactly_the_pods_that_hold_the_device(any_node: Node) -> None:
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
async def test_the_first_report_tells_the_pods_that_are_there(node: Node) -> None:
    driver = await watched_pod(node)
    await driver.end_streams()
    await node.shows("pod", gpu_0="Unknown", gpu_1="Unknown")
    node.notified.clear()
    await node.jump(5)
    await node.shows("pod", gpu_0="Healthy", gpu_1="Healthy")
    assert node.notified == [{"pod"}]


@pytest.mark.counterpart("TestHandleWatchResourcesStream/NoActualStateChange")
async def test_a_report_that_changes_nothing_tells_nobody(any_node: Node) -> None:
    driver = await watched_pod(any_node)
    any_node.notified.clear()
    await driver.report([says("gpu-0"), says("gpu-1")])
    await driver.report([])
    await driver.report([says("gpu-1", UNHEALTHY)])
    await any_node.shows("pod", gpu_0="Healthy", gpu_1="Unhealthy")
    assert any_node.notified == [{"pod"}]


@pytest.mark.counterpart("alpha2/handler-and-updates")
async def test_whoever_unsubscribes_is_told_nothing_more(node: Node) -> None:
    told: list[frozenset[str]] = []
    end = node.manager.subscribe(told.append)
    driver = await watched_pod(node)
    end()
    before = len(told)
    await driver.set_health("gpu-0", UNHEALTHY)
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")
    assert len(told) == before


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


@pytest.mark.counterpart(
    "kep/stream-errors", "alpha2/handle-ends", "TestHandleWatchResourcesStream/StreamError", "TestPlugin_WatchResources"
)
@pytest.mark.parametrize("code", ENDS, ids=lambda code: code.name)
async def test_any_end_of_a_stream_clears_tells_nobody_and_is_followed_by_another_after_5_s(
    node: Node, code: grpc.StatusCode, caplog: pytest.LogCaptureFixture
) -> None:
    driver = await watched_pod(node)
    node.notified.clear()
    await driver.end_streams(code.name)
    await node.shows("pod", gpu_0="Unknown", gpu_1="Unknown")
    why = "ended by the plugin" if code is grpc.StatusCode.OK else f"{code.name}: ended on purpose"
    plugin = f"health stream of plugin {DRIVER} at dra.sock"
    assert (node.notified, lines(caplog, plugin)) == ([], [f"{plugin}: {why}; next attempt in 5 s"])
    await until(lambda: not driver.health.open)
    await node.jump(4.999)
    assert await streams(driver, still_open=0) == 1
    await node.jump(0.001)
    await node.shows("pod", gpu_0="Healthy", gpu_1="Healthy")


async def test_a_plugin_that_stays_broken_is_complained_of_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    driver = await watched_pod(node)
    await driver.hush(True)
    for _ in range(3):
        await driver.end_streams("INTERNAL")
        await until(lambda: not driver.health.open)
        await node.after_jumps(lambda: driver.health.open)
    assert len(lines(caplog, "health stream of plugin")) == 1


@pytest.mark.counterpart("kep/stream-unimplemented", "alpha2/stream-unimplemented")
async def test_unimplemented_is_taken_for_an_answer_until_the_plugin_registers_again(
    any_node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "drahealth")
    driver = await any_node.run_driver(served_health_apis=())
    await any_node.run_pod("pod", await any_node.claim("gpu", "gpu-0"))
    await until(lambda: lines(caplog, "is not implemented", 0))
    await any_node.jump(60)
    assert (await streams(driver, still_open=0), any_node.seen("pod")) == (1, {"gpu-0": "Unknown"})
    await driver.stop()
    await driver.start()
    await until(lambda: driver.health.opened == 2)
    assert lines(caplog, "health stream") == []


@pytest.mark.counterpart("kep/stream-start", "alpha2/stream-start")
@pytest.mark.parametrize(
    ("advertised", "called"),
    [
        (("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth", "v1alpha1.NodeHealth"), "v1.DRAResourceHealth"),
        (("v1alpha1.NodeHealth", "v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth"), "v1.DRAResourceHealth"),
        (("v1alpha1.NodeHealth", "v1alpha1.DRAResourceHealth"), "v1alpha1.DRAResourceHealth"),
        (("v1alpha1.NodeHealth", "v9.Health"), "v1alpha1.NodeHealth/WatchResources"),
    ],
)
async def test_the_health_api_that_the_kep_wants_most_is_called(
    node: Node, advertised: tuple[str, ...], called: str
) -> None:
    await watched_pod(node, health_apis=advertised)
    assert [event.flavour for event in node.happened(StreamOpened)] == [called]


@pytest.mark.counterpart(
    "TestPlugin_WatchResources_V1Alpha1",
    "e2e_node/v1alpha1-only",
    "e2e_node/v1-only",
    "e2e/health-changes-both",
    "e2e/health-changes-v1alpha1",
    "e2e/health-changes-v1",
)
@pytest.mark.parametrize(
    ("apis", "called"),
    [
        (("v1.DRAResourceHealth",), "v1.DRAResourceHealth"),
        (("v1alpha1.DRAResourceHealth",), "v1alpha1.DRAResourceHealth"),
        (("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"), "v1.DRAResourceHealth"),
    ],
)
async def test_a_plugin_with_either_version_shows_its_changes_and_is_called_by_one_alone(
    any_node: Node, apis: tuple[str, ...], called: str
) -> None:
    driver = await watched_pod(any_node, health_apis=apis)
    for health in (UNHEALTHY, HEALTHY):
        await driver.set_health("gpu-0", health)
        await any_node.shows("pod", gpu_0=health, gpu_1="Healthy")
    await driver.end_streams()
    await any_node.after_jumps(lambda: driver.health.opened == 2)
    assert [event.flavour for event in any_node.happened(StreamOpened)] == [called, called]


@pytest.mark.counterpart("TestPickHealthService")
@pytest.mark.parametrize(
    ("advertised", "picked"),
    [
        ((), None),
        (("v1.DRAPlugin",), None),
        (("v1.DRAPlugin", "v1alpha1.DRAResourceHealth"), "v1alpha1.DRAResourceHealth"),
        (("v1.DRAPlugin", "v1.DRAResourceHealth"), "v1.DRAResourceHealth"),
        (("v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth"), "v1.DRAResourceHealth"),
        (("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"), "v1.DRAResourceHealth"),
        (("v2.DRAResourceHealth", "DRAResourceHealth", "v1.drahealth"), None),
    ],
)
@pytest.mark.parametrize("profile", [KEP, V1_37], ids=lambda profile: profile.name)
def test_of_the_health_apis_that_are_advertised_v1_is_picked(
    profile: Profile, advertised: tuple[str, ...], picked: str | None
) -> None:
    assert [flavour.name for flavour in pick_health_api(advertised, profile)] == ([picked] if picked else [])


@pytest.mark.counterpart("TestStartWithoutHealth")
async def test_a_plugin_without_a_health_api_of_the_profile_is_not_watched(node_1_37: Node) -> None:
    for name, apis in (("a.example.com", ()), ("b.example.com", ("v1alpha1.NodeHealth",))):
        driver = await node_1_37.run_driver(name, health_apis=apis)
        await node_1_37.run_pod(name, await node_1_37.claim(name[0], "gpu-0", drivers=(name,)))
        assert (node_1_37.seen(name), await streams(driver, still_open=0)) == ({"gpu-0": "Unknown"}, 0)


async def test_before_1_37_every_plugin_is_asked_again_and_again(make_node: MakeNode) -> None:
    node = make_node(V1_36)
    await node.start()
    driver = await node.run_driver(health_apis=())
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await node.after_jumps(lambda: driver.health.opened == 3)
    assert (await streams(driver, still_open=0), node.seen("pod")) == (3, {"gpu-0": "Unknown"})


async def test_with_the_gate_off_there_is_no_stream_and_nothing_shows(make_node: MakeNode) -> None:
    node = make_node(gates=Gates(resource_health_status=False))
    await node.start()
    driver = await node.run_driver()
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await settle()
    assert (node.seen("pod"), await streams(driver, still_open=0)) == ({}, 0)
    assert not (node.root / "dra_health_state").exists()


async def test_with_the_message_gate_off_health_shows_without_messages(make_node: MakeNode) -> None:
    node = make_node(gates=Gates(resource_health_status_message=False))
    await node.start()
    driver = await watched_pod(node)
    await driver.set_health("gpu-0", UNHEALTHY, "xid 79")
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")


@pytest.mark.counterpart("TestConnectionHandling")
async def test_a_crash_clears_and_the_plugin_that_comes_back_is_watched_again(node: Node) -> None:
    driver = await watched_pod(node)
    await driver.set_health("gpu-0", UNHEALTHY)
    await driver.crash()
    await node.shows("pod", gpu_0="Unknown", gpu_1="Unknown")
    await driver.start()
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")


@pytest.mark.counterpart("kep/stream-errors", "alpha2/stream-initiation-errors", "TestConnectionHandling")
async def test_an_endpoint_that_cannot_be_reached_is_tried_again_and_nothing_forgotten_for_it(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "CONNECT_LIMIT", 0.1)
    driver = await watched_pod(node)
    await node.manager.stop()
    driver.endpoint.unlink()
    await node.restart()
    await until(lambda: lines(caplog, "health stream of plugin"))
    assert lines(caplog, "health stream of plugin")[0].endswith("at dra.sock: cannot be reached; next attempt in 5 s")
    assert node.seen("pod") == {"gpu-0": "Healthy", "gpu-1": "Healthy"}
    driver.endpoint.hardlink_to(driver.endpoint.parent / ".dra")
    await node.after_jumps(lambda: driver.health.open)


# -- many at once


@pytest.mark.counterpart("TestWithLock")
async def test_of_the_reports_of_many_drivers_at_once_none_is_lost(any_node: Node) -> None:
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
async def test_a_status_shows_a_report_whole_or_not_at_all(any_node: Node) -> None:
    driver = await watched_pod(any_node)
    seen: list[dict[str, str]] = []
    any_node.manager.subscribe(lambda _: seen.append(any_node.seen("pod")))
    for number in range(100):
        await driver.report([says(name, UNHEALTHY, f"report {number}") for name in ("gpu-0", "gpu-1")])
    await any_node.shows("pod", gpu_0="Unhealthy: report 99", gpu_1="Unhealthy: report 99")
    assert len(seen) == 100
    assert all(status["gpu-0"] == status["gpu-1"] for status in seen)


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


# -- rolling updates


async def roll(node: Node, **options: Any) -> tuple[FakeDriver, FakeDriver]:
    """A driver's old instance with a pod that shows its devices healthy, and a new one that finds gpu-0 sick."""
    old = await watched_pod(node, instance="old")
    new = node.driver(instance="new", **options)
    await new.set_health("gpu-0", UNHEALTHY)
    await new.start()
    await registered(new)
    return old, new


@pytest.mark.counterpart("kep/stream-cancellation", "alpha2/stream-cancellation", "TestRegistrationHandler")
async def test_the_kep_watches_the_newest_instance_alone(node: Node) -> None:
    old, new = await roll(node)
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")
    assert (await streams(old, still_open=0), await streams(new, still_open=1)) == (1, 1)
    await node.jump(20)
    assert (await streams(old, still_open=0), node.seen("pod")) == (1, {"gpu-0": "Unhealthy", "gpu-1": "Healthy"})


async def test_a_replaced_instance_leaves_what_is_known_until_the_newer_reports(node: Node) -> None:
    await watched_pod(node, instance="old")
    new = node.driver(instance="new")
    await new.hush(True)
    await new.start()
    await until(lambda: node.happened(StreamClosed) and new.health.open)
    assert node.seen("pod") == {"gpu-0": "Healthy", "gpu-1": "Healthy"}


async def test_the_end_of_the_old_instance_harms_nothing_in_the_kep(node: Node) -> None:
    old, new = await roll(node)
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")
    await old.stop()
    await node.run_driver("later.example.com")
    assert (node.seen("pod"), await streams(new, still_open=1)) == ({"gpu-0": "Unhealthy", "gpu-1": "Healthy"}, 1)


@pytest.mark.counterpart("TestAddSameName", "TestDelete")
async def test_the_old_instance_is_watched_again_when_the_new_one_goes(node: Node) -> None:
    old, new = await roll(node)
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")
    await new.stop()
    await node.shows("pod", gpu_0="Healthy", gpu_1="Healthy")
    assert await streams(old, still_open=1) == 2


async def test_a_newest_instance_without_health_makes_its_devices_unknown_in_the_kep(node: Node) -> None:
    old, _ = await roll(node, health_apis=())
    await node.shows("pod", gpu_0="Unknown", gpu_1="Unknown")
    assert await streams(old, still_open=0) == 1


async def test_1_37_watches_every_instance_and_forgets_what_all_said_when_one_ends(node_1_37: Node) -> None:
    old, new = await roll(node_1_37)
    await node_1_37.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")
    assert (await streams(old, still_open=1), await streams(new, still_open=1)) == (1, 1)
    await old.set_health("gpu-1", UNHEALTHY, "says the old one")
    await node_1_37.shows("pod", gpu_0="Healthy", gpu_1="Unhealthy: says the old one")
    await old.stop()
    await node_1_37.shows("pod", gpu_0="Unknown", gpu_1="Unknown")


@pytest.mark.counterpart("TestAddSameName")
async def test_the_newest_instance_prepares(any_node: Node) -> None:
    await roll(any_node)
    await any_node.run_pod("later", await any_node.claim("gpu", "gpu-0"))
    assert [event.instance for event in any_node.happened(Prepared)] == ["old", "new"]


@pytest.mark.counterpart("TestHandleWatchResourcesStream/ContextCanceled")
async def test_stopping_ends_the_streams_and_leaves_the_files(any_node: Node) -> None:
    driver = await watched_pod(any_node)
    await until(any_node.health_on_file)
    before = {path.name: path.read_text() for path in any_node.root.glob("dra_*_state")}
    await any_node.manager.stop()
    async with asyncio.timeout(5):
        await until(lambda: not driver.health.open)
    assert {path.name: path.read_text() for path in any_node.root.glob("dra_*_state")} == before
    assert before.keys() == {"dra_health_state", "dra_manager_state"}


async def test_whoever_fails_when_told_harms_nobody_else(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    def fail(pods: frozenset[str]) -> None:
        raise RuntimeError("on purpose")

    node.manager.subscribe(fail)
    driver = await watched_pod(node)
    told: list[frozenset[str]] = []
    node.manager.subscribe(told.append)
    await driver.set_health("gpu-0", UNHEALTHY, "after the fault")
    await node.shows("pod", gpu_0="Unhealthy: after the fault", gpu_1="Healthy")
    assert told == [{"pod"}]
    assert set(lines(caplog, "was told something and failed", logging.ERROR)) != set()


async def test_a_report_that_we_cannot_take_is_not_the_last_one(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await watched_pod(node)
    with monkeypatch.context() as broken:
        broken.setattr("drahealth.manager.cache.HealthCache.update", lambda *_: 1 / 0)
        await driver.set_health("gpu-0", UNHEALTHY, "hot")
        await until(lambda: lines(caplog, "a report could not be taken", logging.ERROR))
    await node.after_jumps(lambda: node.seen("pod")["gpu-0"] == "Unhealthy: hot")
    assert await streams(driver, still_open=1) == 2
