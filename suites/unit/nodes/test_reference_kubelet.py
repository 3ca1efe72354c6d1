"""A reference kubelet for drivers under test."""

import asyncio

import pytest

from drahealth.fakes import CLAIMS, SLICES, FakeDevicePlugin, FakeDriver, Inventory, KubeClient
from drahealth.proto import Health
from drahealth.suites import ReferenceKubelet

DRIVER = "gpu.example.com"


async def test_driver_is_registered_inside_and_leaves_nothing_behind() -> None:
    async with ReferenceKubelet() as kubelet:
        async with FakeDriver.for_node(kubelet) as driver:
            await kubelet.wait_registered(DRIVER)
            assert (kubelet.drivers, len(await kubelet.api.list(SLICES))) == ([DRIVER], 1)
        assert await kubelet.api.list(SLICES) == []
        assert not any(path.exists() for path in (*driver.sockets, kubelet.plugins_dir / DRIVER))


async def test_reported_health_is_waited_for() -> None:
    async with ReferenceKubelet() as kubelet, FakeDriver.for_node(kubelet, ["gpu-0", "gpu-1"]) as driver:
        await kubelet.wait_for_health("gpu-1", "Healthy")
        await driver.inject("xid/79", "gpu-1")
        await kubelet.wait_for_health("gpu-1", "Unhealthy", message="XID 79*")
        assert {device.id.device: device.reading.health for device in kubelet.devices()} == {
            "gpu-0": Health.HEALTHY,
            "gpu-1": Health.UNHEALTHY,
        }


async def test_silent_device_shows_unknown_once_its_timeout_has_passed() -> None:
    async with ReferenceKubelet() as kubelet, FakeDriver.for_node(kubelet, heartbeat=0.0) as driver:
        await kubelet.wait_for_health("gpu-0", Health.HEALTHY)
        await driver.stream_silence()
        await kubelet.advance_time(31)
        await kubelet.wait_for_health("gpu-0", Health.UNKNOWN)


async def test_timeout_error_names_the_last_device_health() -> None:
    async with ReferenceKubelet() as kubelet, FakeDriver.for_node(kubelet):
        await kubelet.wait_for_health("gpu-0", "Healthy")
        with pytest.raises(TimeoutError, match=r"gpu-0 is Unhealthy.*last seen: gpu.example.com/node-a/gpu-0 Healthy"):
            await kubelet.wait_for_health("gpu-0", "Unhealthy", timeout=0.1)
        with pytest.raises(TimeoutError, match=r"last seen: gpu\.example\.com"):
            await kubelet.wait_registered("another.example.com", timeout=0.1)


async def test_driver_and_device_plugin_have_the_devices_of_an_inventory() -> None:
    gpus = Inventory.of(2)
    async with ReferenceKubelet() as kubelet:
        driver, plugin = FakeDriver.for_node(kubelet, gpus), FakeDevicePlugin.for_node(kubelet, gpus)
    assert (driver.options.devices, driver.options.inventory) == (("gpu-0", "gpu-1"), gpus.devices)
    assert (plugin.options.devices, plugin.options.inventory) == (("gpu-0", "gpu-1"), gpus.devices)


async def test_device_plugin_is_registered() -> None:
    async with ReferenceKubelet() as kubelet, FakeDevicePlugin.for_node(kubelet, ["a", "b"]) as plugin:
        await kubelet.wait_registered(plugin.options.resource)


async def test_kubeconfig_reaches_its_api_server() -> None:
    async with ReferenceKubelet() as kubelet:
        client = await KubeClient.from_kubeconfig(await kubelet.kubeconfig())
        try:
            assert await client.list(CLAIMS) == []
        finally:
            await client.close()


async def test_driver_that_no_kubelet_registers_is_an_error_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("drahealth.fakes.hardware.registered.REGISTRATION_TIMEOUT", 0.1)
    async with ReferenceKubelet() as kubelet:
        await kubelet.manager.stop()
        driver = FakeDriver.for_node(kubelet)
        with pytest.raises(TimeoutError, match=f"driver {DRIVER} was not registered within"):
            async with driver:
                pass
        assert not any(path.exists() for path in driver.sockets)


async def test_devices_must_be_a_list() -> None:
    async with ReferenceKubelet() as kubelet:
        with pytest.raises(ValueError, match="devices must be a list of names"):
            FakeDriver.for_node(kubelet, "gpu-0")


async def test_using_a_kubelet_before_entering_it_raises_an_error() -> None:
    with pytest.raises(RuntimeError):
        ReferenceKubelet().devices()


async def test_cancellation_inside_leaves_nothing_behind() -> None:
    kubelet = ReferenceKubelet()

    async def use() -> None:
        async with kubelet, FakeDriver.for_node(kubelet):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(use(), 1.0)
    assert not kubelet.registry_dir.parent.exists()
