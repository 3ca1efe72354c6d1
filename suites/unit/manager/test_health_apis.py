"""The health APIs: choice of the method, and the health that pods show with each."""

import asyncio
from typing import Any

import pytest

from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.proto.events import ReportSent, StreamClosed
from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH, NODE_HEALTH_DRAFT, V1, V1ALPHA1, HealthApi
from drahealth.proto.values import Health
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import Node, settle, until

DRAWN: dict[str, Any] = {"health_apis": (NODE_HEALTH.advertised,)}
DRAFT: dict[str, Any] = {**DRAWN, "served_health_apis": (NODE_HEALTH_DRAFT.name,)}
NEWER, FIRST = NODE_HEALTH.name, NODE_HEALTH_DRAFT.name
every_health_api = pytest.mark.parametrize("health_api", HEALTH_APIS.values(), ids=HEALTH_APIS)


async def pod_on(node: Node, **options: Any) -> FakeDriver:
    """A driver of one device, which a pod holds and shows sick."""
    driver = await node.run_driver(devices=("gpu-0",), **options)
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await driver.set_health("gpu-0", Health.UNHEALTHY)
    await node.shows("pod", gpu_0="Unhealthy")
    return driver


async def asked(driver: FakeDriver) -> dict[str, int]:
    return dict((await driver.state()).stream_requests)


@every_health_api
async def test_health_change_shows_the_fields_of_each_health_api(node: Node, health_api: HealthApi) -> None:
    driver = await pod_on(node, health_apis=(health_api.advertised,), served_health_apis=(health_api.name,))
    await driver.set_health("gpu-0", Health.HEALTHY, "well again", timeout=7)
    await node.shows("pod", gpu_0="Healthy: well again" if "message" in health_api.carries else "Healthy")
    await node.jump(8)
    assert node.seen("pod") == {"gpu-0": "Unknown" if "timeout" in health_api.carries else "Healthy"}
    await node.jump(23)
    assert node.seen("pod") == {"gpu-0": "Unknown"}


async def test_first_draft_method_is_called_after_the_newer_returns_unimplemented(node: Node) -> None:
    driver = await pod_on(node, **DRAFT)
    assert await asked(driver) == {NEWER: 1, FIRST: 1}


async def test_first_draft_stream_is_reopened_with_the_same_method(node: Node) -> None:
    driver = await pod_on(node, **DRAFT)
    await driver.stream_close("INTERNAL")
    await node.shows("pod", gpu_0="Unknown")
    await until(lambda: not driver.health.open)
    await node.jump(5)
    await node.shows("pod", gpu_0="Unhealthy")
    assert await asked(driver) == {NEWER: 1, FIRST: 2}


async def test_newest_method_is_called_first_after_a_reregistration(node: Node) -> None:
    driver = await pod_on(node, **DRAFT)
    await driver.stop()
    await node.shows("pod", gpu_0="Unknown")
    await driver.start()
    await node.shows("pod", gpu_0="Unhealthy")
    assert await asked(driver) == {NEWER: 2, FIRST: 2}


async def test_newest_method_is_called_first_for_a_rewatched_instance(node: Node) -> None:
    older = await pod_on(node, instance="old", **DRAFT)
    newer = node.driver(devices=("gpu-0",), instance="new", **DRAFT)
    await node.start_driver(newer)
    await node.shows("pod", gpu_0="Healthy")
    await newer.stop()
    await node.shows("pod", gpu_0="Unhealthy")
    assert await asked(older) == {NEWER: 2, FIRST: 2}


async def test_plugin_that_implements_neither_method_shows_unknown_without_retry(node: Node) -> None:
    driver = await node.run_driver(**DRAWN, served_health_apis=())
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await until(lambda: driver.health.opened == 2)
    await node.jump(60)
    assert (await asked(driver), node.seen("pod")) == ({NEWER: 1, FIRST: 1}, {"gpu-0": "Unknown"})


async def test_method_lookup_after_a_restart_keeps_known_health(node: Node) -> None:
    driver = await pod_on(node, **DRAFT)
    await driver.stream_silence()
    await node.manager.stop()
    await until(lambda: not driver.health.open)
    await node.restart()
    await until(lambda: driver.health.open)
    await settle()
    assert node.seen("pod") == {"gpu-0": "Unhealthy"}


async def test_unimplemented_after_a_report_causes_no_fallback_and_no_retry(node: Node) -> None:
    driver = await pod_on(node, **DRAWN)
    await driver.stream_close("UNIMPLEMENTED")
    await node.shows("pod", gpu_0="Unknown")
    await node.jump(60)
    assert await asked(driver) == {NEWER: 1}


@pytest.mark.parametrize("served", [V1ALPHA1, NODE_HEALTH], ids=lambda health_api: health_api.name)
async def test_no_other_health_api_is_called_after_unimplemented(node: Node, served: HealthApi) -> None:
    driver = await node.run_driver(
        health_apis=(V1.advertised, V1ALPHA1.advertised, NODE_HEALTH.advertised), served_health_apis=(served.name,)
    )
    await until(lambda: driver.health.opened)
    await node.jump(60)
    assert await asked(driver) == {V1.name: 1}


async def test_a_device_of_the_middle_revision_has_its_health_and_the_default_timeout(node: Node) -> None:
    """That revision had a string `resource_name` where the newest one has the timeout."""
    driver = await node.run_driver(**DRAWN)
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await node.shows("pod", gpu_0="Healthy")
    name = b"gpu.example.com/node-a/gpu-0"
    device = b"\x0a\x06node-a\x12\x05gpu-0\x1a\x09Unhealthy\x20\x07" + bytes([0x2A, len(name)]) + name
    await driver.stream_send((bytes([0x0A, len(device)]) + device).hex())
    await node.shows("pod", gpu_0="Unhealthy")
    await node.jump(29.9)
    assert (node.seen("pod"), node.happened(StreamClosed)) == ({"gpu-0": "Unhealthy"}, [])
    await node.jump(0.2)
    assert node.seen("pod") == {"gpu-0": "Unknown"}


async def test_first_draft_plugin_reports_only_prepared_devices(node: Node) -> None:
    driver = await node.run_driver(**DRAFT)
    async with asyncio.timeout(PATIENCE):
        await until(lambda: driver.health.open)
    await driver.set_health("gpu-1", Health.UNHEALTHY)
    await node.run_pod("pod", await node.claim("gpu", "gpu-1"))
    await node.shows("pod", gpu_1="Unhealthy")
    said = [[(device.device, device.health) for device in event.devices] for event in node.happened(ReportSent)]
    assert said == [[], [], [("gpu-1", "Unhealthy")]]
