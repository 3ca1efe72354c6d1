"""Health streams of plugins: open, choice of the API, end, and retry."""

import asyncio
import logging
import math

import grpc
import pytest

from drahealth.manager import plugin
from drahealth.manager.profile import KEP, Gates, Profile
from drahealth.manager.releases import NEWEST, NEXT, PROFILES
from drahealth.manager.stream import advertised_health_api
from drahealth.proto.events import StreamOpened
from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.values import Health
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.conftest import MakeNode
from drahealth.suites.unit.manager.rig import DRIVER, Node, lines, settle, streams, until, watched_pod

HEALTHY, UNHEALTHY = Health.HEALTHY, Health.UNHEALTHY
ENDS = [code for code in grpc.StatusCode if code is not grpc.StatusCode.UNIMPLEMENTED]


# -- which API, if any


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
async def test_health_api_that_the_kep_prefers_is_called(node: Node, advertised: tuple[str, ...], called: str) -> None:
    await watched_pod(node, health_apis=advertised)
    assert [event.health_api for event in node.happened(StreamOpened)] == [called]


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
async def test_plugin_with_either_version_shows_changes_and_gets_one_stream(
    any_node: Node, apis: tuple[str, ...], called: str
) -> None:
    driver = await watched_pod(any_node, health_apis=apis)
    for health in (UNHEALTHY, HEALTHY):
        await driver.set_health("gpu-0", health)
        await any_node.shows("pod", gpu_0=health, gpu_1="Healthy")
    await driver.stream_close()
    await any_node.after_jumps(lambda: driver.health.opened == 2)
    assert [event.health_api for event in any_node.happened(StreamOpened)] == [called, called]


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
@pytest.mark.parametrize("profile", [KEP, NEWEST], ids=lambda profile: profile.name)
def test_v1_is_preferred_among_the_advertised_health_apis(
    profile: Profile, advertised: tuple[str, ...], picked: str | None
) -> None:
    called = [health_api.name for health_api in advertised_health_api(advertised, profile)]
    assert called == ([picked] if picked else [])


@pytest.mark.counterpart("TestStartWithoutHealth")
async def test_a_plugin_without_a_health_api_of_the_profile_is_not_watched(node_1_37: Node) -> None:
    for name, apis in (("a.example.com", ()), ("b.example.com", ("v1alpha1.NodeHealth",))):
        driver = await node_1_37.run_driver(name, health_apis=apis)
        await node_1_37.run_pod(name, await node_1_37.claim(name[0], "gpu-0", drivers=(name,)))
        assert (node_1_37.seen(name), await streams(driver, still_open=0)) == ({"gpu-0": "Unknown"}, 0)


@pytest.mark.counterpart("kep/stream-start", "kep/stream-unimplemented")
async def test_the_kep_calls_every_health_api_once_if_a_plugin_advertises_none(node: Node) -> None:
    driver = await node.run_driver(health_apis=())
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await until(lambda: driver.health.opened == len(HEALTH_APIS))
    await node.jump(60)
    assert (await driver.state()).stream_requests == dict.fromkeys(HEALTH_APIS, 1)
    assert (await streams(driver, still_open=0), node.seen("pod")) == (len(HEALTH_APIS), {"gpu-0": "Unknown"})


@pytest.mark.parametrize("served", HEALTH_APIS)
async def test_the_kep_watches_a_health_api_that_is_not_advertised(node: Node, served: str) -> None:
    driver = await watched_pod(node, health_apis=(), served_health_apis=(served,))
    await driver.set_health("gpu-0", UNHEALTHY)
    await node.shows("pod", gpu_0=UNHEALTHY, gpu_1="Healthy")
    await driver.stream_close()
    await node.after_jumps(lambda: len(node.happened(StreamOpened)) == 2)
    earlier = list(HEALTH_APIS)[: list(HEALTH_APIS).index(served)]
    assert (await driver.state()).stream_requests == dict.fromkeys(earlier, 1) | {served: 2}


async def test_1_36_retries_the_stream_after_unimplemented(make_node: MakeNode) -> None:
    node = make_node(PROFILES["v1.36"])
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


# -- how it ends


@pytest.mark.counterpart(
    "kep/stream-errors", "alpha2/handle-ends", "TestHandleWatchResourcesStream/StreamError", "TestPlugin_WatchResources"
)
@pytest.mark.parametrize("code", ENDS, ids=lambda code: code.name)
async def test_end_of_a_stream_clears_health_notifies_no_pod_and_is_retried_after_5_s(
    node: Node, code: grpc.StatusCode, caplog: pytest.LogCaptureFixture
) -> None:
    driver = await watched_pod(node)
    node.notified.clear()
    await driver.stream_close(code.name)
    await node.shows("pod", gpu_0="Unknown", gpu_1="Unknown")
    why = "ended by the plugin" if code is grpc.StatusCode.OK else f"{code.name}: "
    plugin = f"health stream of plugin {DRIVER} at dra.sock"
    (line,) = lines(caplog, plugin)
    assert (node.notified, line.startswith(f"{plugin}: {why}"), line.endswith("next attempt in 5 s")) == (
        [],
        True,
        True,
    )
    await until(lambda: not driver.health.open)
    await node.jump(4.999)
    assert await streams(driver, still_open=0) == 1
    await node.jump(0.001)
    await node.shows("pod", gpu_0="Healthy", gpu_1="Healthy")


@pytest.mark.parametrize("end", ["stream", "crash", "stop"])
async def test_kubelet_with_the_open_fix_notifies_the_pods_of_a_driver_whose_stream_ends(
    make_node: MakeNode, end: str
) -> None:
    node = make_node(NEXT)
    await node.start()
    driver = await watched_pod(node)
    await node.run_driver("other.example.com", pool="node-b")
    await node.run_pod("other", await node.claim("other", "gpu-0", drivers=("other.example.com",), pool="node-b"))
    await node.shows("other", gpu_0="Healthy")
    node.notified.clear()
    await {"stream": driver.stream_close, "crash": driver.crash, "stop": driver.stop}[end]()
    await until(lambda: node.notified)
    assert (node.notified, node.seen("pod")) == ([{"pod"}], {"gpu-0": "Unknown", "gpu-1": "Unknown"})


async def test_repeated_stream_errors_of_a_plugin_are_logged_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    driver = await watched_pod(node)
    await driver.stream_silence()
    for _ in range(3):
        await driver.stream_close("INTERNAL")
        await until(lambda: not driver.health.open)
        await node.after_jumps(lambda: driver.health.open)
    assert len(lines(caplog, "health stream of plugin")) == 1


@pytest.mark.counterpart("kep/stream-unimplemented", "alpha2/stream-unimplemented")
async def test_unimplemented_is_not_retried_until_the_plugin_registers_again(
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


@pytest.mark.counterpart("TestConnectionHandling")
async def test_crash_clears_health_and_the_restarted_plugin_is_watched(node: Node) -> None:
    driver = await watched_pod(node)
    await driver.set_health("gpu-0", UNHEALTHY)
    await driver.crash()
    await node.shows("pod", gpu_0="Unknown", gpu_1="Unknown")
    await driver.start()
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")


@pytest.mark.counterpart("kep/stream-errors", "alpha2/stream-initiation-errors", "TestConnectionHandling")
async def test_unreachable_endpoint_is_retried_and_health_is_kept(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "CONNECT_LIMIT", math.inf)  # refused connections end the attempt
    driver = await watched_pod(node)
    await node.manager.stop()
    driver.endpoint.unlink()
    await node.restart()
    await until(lambda: lines(caplog, "health stream of plugin"))
    assert lines(caplog, "health stream of plugin")[0].endswith("at dra.sock: cannot be reached; next attempt in 5 s")
    assert node.seen("pod") == {"gpu-0": "Healthy", "gpu-1": "Healthy"}
    driver.endpoint.hardlink_to(driver.endpoint.parent / ".dra")
    await node.after_jumps(lambda: driver.health.open)


@pytest.mark.counterpart("TestHandleWatchResourcesStream/ContextCanceled")
async def test_stopping_ends_the_streams_and_leaves_the_files(any_node: Node) -> None:
    driver = await watched_pod(any_node)
    await until(any_node.health_on_file)
    before = {path.name: path.read_text() for path in any_node.root.glob("dra_*_state")}
    await any_node.manager.stop()
    async with asyncio.timeout(PATIENCE):
        await until(lambda: not driver.health.open)
    assert {path.name: path.read_text() for path in any_node.root.glob("dra_*_state")} == before
    assert before.keys() == {"dra_health_state", "dra_manager_state"}


async def test_stream_reopens_after_an_error_in_report_processing(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await watched_pod(node)
    with monkeypatch.context() as broken:
        broken.setattr("drahealth.manager.cache.HealthCache.update", lambda *_: 1 / 0)
        await driver.set_health("gpu-0", UNHEALTHY, "hot")
        await until(lambda: lines(caplog, "a report could not be processed", logging.ERROR))
    await node.after_jumps(lambda: node.seen("pod")["gpu-0"] == "Unhealthy: hot")
    assert await streams(driver, still_open=1) == 2
