"""A node for other people's tests, on the reference."""

import asyncio
from pathlib import Path

import pytest

from drahealth.fakes import PODS, SLICES, FakeDevicePlugin, FakeDriver, KubeClient
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.manager.releases import PROFILES
from drahealth.proto import Health, ResourceHealth
from drahealth.suites import ConfigurationError, Node, ReferenceNode
from drahealth.suites.nodes.node import until_enough
from drahealth.suites.unit.expected_errors import api_error
from drahealth.suites.unit.nodes.leftovers import leftovers

DRIVER = "gpu.example.com"
GPU = "gpu.example.com/node-a/gpu-0"
POD = {"metadata": {"name": "demo"}, "spec": {"containers": [{"name": "main", "image": "example.com/image:1"}]}}


async def test_pod_shows_the_fault_of_its_device() -> None:
    async with ReferenceNode() as node, FakeDriver.for_node(node, ["gpu-0"]) as driver:
        pod = await node.run_pod_with_device(driver)
        await pod.wait_for_health("gpu-0", "Healthy")
        await driver.inject("xid/79", "gpu-0")
        await pod.wait_for_health("gpu-0", "Unhealthy", message="XID 79*")
        assert pod.devices() == [ResourceHealth(GPU, Health.UNHEALTHY, "XID 79: gpu-0 has fallen off the bus")]


async def test_all_statuses_of_a_pod_are_kept() -> None:
    async with ReferenceNode() as node, FakeDriver.for_node(node) as driver:
        pod = await node.run_pod_with_device(driver)
        for health in (Health.HEALTHY, Health.UNHEALTHY, Health.HEALTHY):
            await driver.set_health("gpu-0", health)
            await pod.wait_for_health(GPU, health)
        shown = [status.containers[0].resources for status in pod.statuses if status.containers]
        assert [str(entries[0].resources[0].health) for entries in shown if entries][-3:] == [
            "Healthy",
            "Unhealthy",
            "Healthy",
        ]


@pytest.mark.parametrize("profile", PROFILES)
async def test_every_profile_shows_the_devices_of_its_pods(profile: str) -> None:
    async with ReferenceNode(profile) as node, FakeDriver.for_node(node, ["gpu-0", "gpu-1"]) as driver:
        pod = await node.run_pod_with_device(driver, 2)
        await driver.set_health("gpu-1", Health.UNHEALTHY)
        await pod.wait_for_health("gpu-1", Health.UNHEALTHY)
        await pod.wait_for_health("gpu-0", Health.HEALTHY)


async def test_pod_has_a_device_of_a_device_plugin() -> None:
    async with ReferenceNode() as node, FakeDevicePlugin.for_node(node, ["a"]) as plugin:
        pod = await node.run_pod_with_device(plugin)
        await plugin.set_health("a", "Unhealthy")
        await pod.wait_for_health("a", "Unhealthy")


async def test_pod_runs_from_a_manifest_until_it_is_deleted() -> None:
    async with ReferenceNode() as node:
        pod = await node.run_pod({**POD, "metadata": {"name": "demo", "namespace": "mine"}})
        assert ((await pod.object())["status"]["phase"], pod.namespace) == ("Running", "mine")
        await pod.exit(1)
        await pod.wait_until(lambda status: status.containers[0].restarts == 1, "has restarted once")
        await pod.delete()
        with api_error(404, "NotFound"):
            await pod.object()


async def test_timeout_error_names_the_expected_and_the_last_health() -> None:
    async with ReferenceNode() as node, FakeDriver.for_node(node) as driver:
        pod = await node.run_pod_with_device(driver)
        await pod.wait_for_health("gpu-0", "Healthy")
        with pytest.raises(TimeoutError) as raised:
            await pod.wait_for_health("gpu-0", "Unhealthy", timeout=0.1)
        assert f"pod {pod.name} shows gpu-0 Unhealthy" in str(raised.value)
        assert f"{GPU}=Healthy" in str(raised.value)


async def test_pod_that_cannot_be_scheduled_is_a_timeout() -> None:
    async with ReferenceNode() as node:
        with pytest.raises(TimeoutError, match="is running"):
            await node.run_pod_with_device("absent.example.com", timeout=0.1)


async def test_pod_that_needs_more_devices_than_the_driver_has_is_an_error_with_a_hint() -> None:
    async with ReferenceNode() as node:
        driver = await node.add_driver(["gpu-0"])
        with pytest.raises(
            TimeoutError, match=r"has 1 device on.* needs 3.*add_driver\(\['gpu-0', 'gpu-1', 'gpu-2'\]\)"
        ):
            await asyncio.wait_for(node.run_pod_with_device(driver, 3), 10)
        assert await node.api.list(PODS) == []
        await node.run_pod_with_device(driver)
        with pytest.raises(TimeoutError, match=r"Pending \([^)]*\); driver .* other claims have 1"):
            await node.run_pod_with_device(driver, timeout=0.1)


async def test_pod_waits_for_devices_that_the_driver_publishes() -> None:
    async with ReferenceNode() as node:
        spec = {
            "driver": DRIVER,
            "nodeName": node.name,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        }
        made = await node.create({"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec})
        made["spec"]["devices"] = [{"name": "gpu-0"}]
        made = await node.api.replace(SLICES, made)
        waiting = asyncio.create_task(until_enough(node.api, DRIVER, node.name, 2, None))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        made["spec"]["devices"].append({"name": "gpu-1"})
        await node.api.replace(SLICES, made)
        await waiting


async def test_device_of_a_silent_driver_is_unknown_after_its_timeout() -> None:
    async with ReferenceNode() as node, FakeDriver.for_node(node, heartbeat=0.0) as driver:
        pod = await node.run_pod_with_device(driver)
        await pod.wait_for_health("gpu-0", "Healthy")
        await driver.stream_silence()
        await node.advance_time(40)
        await pod.wait_for_health("gpu-0", "Unknown")


async def test_driver_in_another_process_reaches_the_api_server() -> None:
    async with ReferenceNode() as node:
        client = await KubeClient.from_kubeconfig(await node.kubeconfig())
        assert await client.list(SLICES) == []
        await client.close()


async def test_restarted_kubelet_registers_the_driver_again() -> None:
    async with ReferenceNode() as node, FakeDriver.for_node(node) as driver:
        pod = await node.run_pod_with_device(driver)
        await node.restart_kubelet()
        await driver.set_health("gpu-0", Health.UNHEALTHY)
        await pod.wait_for_health("gpu-0", "Unhealthy")


@pytest.mark.parametrize("kind", ["Secret", None])
async def test_unsupported_kind_is_rejected(kind: str | None) -> None:
    async with ReferenceNode() as node:
        with pytest.raises(ValueError, match="kind must be one of"):
            await node.create({"kind": kind, "metadata": {"name": "x"}})


async def test_patch_level_has_the_profile_of_its_kubelet() -> None:
    async with ReferenceNode("v1.36.5") as node:
        assert node.profile.name == "v1.36.4"


def test_unknown_profile_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"profile must be one of kep, .*got 'v1\.2'"):
        ReferenceNode("v1.2")


def test_using_a_node_before_entering_it_raises_an_error() -> None:
    with pytest.raises(RuntimeError, match="enter it first"):
        _ = ReferenceNode().name


async def test_running_node_cannot_be_entered_again() -> None:
    async with ReferenceNode() as node:
        with pytest.raises(RuntimeError, match="already running"):
            await node.__aenter__()


async def use(node: Node, running: asyncio.Event, error: BaseException | None = None) -> None:
    async with node, FakeDriver.for_node(node) as driver, FakeDevicePlugin.for_node(node):
        await node.run_pod_with_device(driver)
        await node.kubeconfig()
        running.set()
        if error:
            raise error
        await asyncio.Event().wait()


async def test_exception_inside_leaves_nothing_behind(base: Path) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(ZeroDivisionError):
        await use(ReferenceNode(), asyncio.Event(), ZeroDivisionError())
    assert (asyncio.all_tasks() - before, leftovers(base)) == (set(), [])


async def test_cancellation_inside_leaves_nothing_behind(base: Path) -> None:
    before, running = asyncio.all_tasks(), asyncio.Event()
    task = asyncio.create_task(use(ReferenceNode(), running))
    await running.wait()
    await cancel_and_wait(task)
    assert (asyncio.all_tasks() - before, leftovers(base)) == (set(), [])


@pytest.mark.parametrize("steps", range(0, 60, 7))
async def test_cancellation_during_the_start_leaves_nothing_behind(base: Path, steps: int) -> None:
    before = asyncio.all_tasks()
    task = asyncio.create_task(use(ReferenceNode(), asyncio.Event()))
    for _ in range(steps):
        await asyncio.sleep(0)
    await cancel_and_wait(task)
    assert (asyncio.all_tasks() - before, leftovers(base)) == (set(), [])
