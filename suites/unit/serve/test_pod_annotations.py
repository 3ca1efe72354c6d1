"""Pod annotations set the health of devices."""

import asyncio
from typing import Any

import grpc.aio
import pytest

from drahealth.fakes.cluster.api import CLAIMS, PODS, Object
from drahealth.fakes.cluster.pods import claim_names
from drahealth.fakes.kubelet_plugin.health_table import HealthOverride
from drahealth.fakes.serve.pods import Annotation, annotations_of, worst_overrides
from drahealth.proto.health_apis import V1
from drahealth.proto.services import PREPARE, UNPREPARE, Unary
from drahealth.proto.sockets import target
from drahealth.proto.values import DeviceId, Health
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.serve.rig import DRIVER, Rig

KEY = "health.example.com/gpu-0"
GPU = DeviceId(DRIVER, "node-a", "gpu-0")
REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
WELL = ("Healthy", "")


def pod(name: str = "job", claim: str = "gpu", node: str = "node-a", **annotations: str) -> Object:
    """A pod with a claim. An annotation's name is that of its device."""
    said = {f"health.example.com/{device.replace('_', '-')}": value for device, value in annotations.items()}
    uses: Object = {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}
    containers = [{"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}]
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": said},
        "spec": {**uses, "nodeName": node, "containers": containers},
    }


class World:
    """A driver that follows pods, and a kubelet that has it prepare claims."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    async def call(self, method: Unary[Any, Any], claim: Object) -> None:
        metadata = claim["metadata"]
        named = {"namespace": "default", "name": metadata["name"], "uid": metadata["uid"]}
        path = self.rig.root / "plugins" / DRIVER / "dra.sock"
        async with grpc.aio.insecure_channel(target(path)) as channel:
            await method.stub(channel)(method.request(claims=[named]), timeout=PATIENCE)

    async def claim(self, *devices: str, name: str = "gpu") -> Object:
        """A claim with these devices that is prepared."""
        claim = await self.rig.api.create(CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": REQUEST})
        results = [{"request": "gpu", "driver": DRIVER, "pool": "node-a", "device": device} for device in devices]
        claim["status"] = {"allocation": {"devices": {"results": results}}}
        claim = await self.rig.api.replace_status(CLAIMS, claim)
        await self.call(PREPARE["v1.DRAPlugin"], claim)
        return claim

    async def says(self, name: str = "job", **annotations: str) -> None:
        """The pod's annotations are these from now on."""
        found = await self.rig.api.get(PODS, name, "default")
        found["metadata"]["annotations"] = pod(**annotations)["metadata"]["annotations"]
        await self.rig.api.replace(PODS, found)

    async def shows(self, health: str, message: str = "", device: str = "gpu-0") -> None:
        """Waits until the driver says so of the device."""
        async with asyncio.timeout(PATIENCE):
            while (found := await self.said(device)) != (health, message):
                assert found
                await asyncio.sleep(0.005)

    async def said(self, device: str = "gpu-0") -> tuple[str, str]:
        """What it says of a device."""
        devices = {found["device"]: found for found in await self.rig.told("devices")}
        return devices[device]["health"], devices[device]["message"]


@pytest.fixture
async def world(rig: Rig) -> World:
    await rig.serve(pod_annotations=True)
    return World(rig)


async def test_annotation_of_the_holding_pod_sets_health_until_its_removal(world: World) -> None:
    await world.claim("gpu-0")
    await world.rig.api.create(PODS, pod(gpu_0="unhealthy"))
    await world.shows("Unhealthy", f"set Unhealthy by annotation {KEY} of pod default/job")
    await world.says(gpu_0="Unknown")
    await world.shows("Unknown", f"set Unknown by annotation {KEY} of pod default/job")
    await world.says()
    await world.shows(*WELL)


@pytest.mark.parametrize("partial", [False, True])
async def test_annotation_change_is_reported_to_the_kubelet_at_once(world: World, partial: bool) -> None:
    await world.rig.told("set_heartbeat", seconds=0)
    if partial:
        await world.rig.told("stream_partial")
    claim = await world.claim("gpu-0")
    async with grpc.aio.insecure_channel(target(world.rig.root / "plugins" / DRIVER / "dra.sock")) as channel:
        reports = V1.method.stub(channel)(V1.method.request()).__aiter__()

        async def heard() -> dict[str, int]:
            report = await asyncio.wait_for(anext(reports), PATIENCE)
            return {device.device.device_name: device.health for device in report.devices}

        assert len(await heard()) == 4
        await world.rig.api.create(PODS, pod(gpu_0="unhealthy"))
        told = await heard()
        await world.call(UNPREPARE["v1.DRAPlugin"], claim)
        again = await heard()
    assert (told["gpu-0"], again["gpu-0"], len(told)) == (2, 1, 1 if partial else 4)


async def test_annotation_health_ends_when_the_pod_is_deleted(world: World) -> None:
    await world.claim("gpu-0")
    await world.rig.api.create(PODS, pod(gpu_0="unhealthy"))
    await world.shows("Unhealthy", f"set Unhealthy by annotation {KEY} of pod default/job")
    await world.rig.api.delete(PODS, "job", "default", grace=0)
    await world.shows(*WELL)


async def test_allocated_device_of_an_old_pool_is_ignored(world: World) -> None:
    claim = await world.claim("gpu-0")
    gone = {"request": "gpu", "driver": DRIVER, "pool": "older", "device": "gpu-0"}
    results = [*claim["status"]["allocation"]["devices"]["results"], gone]
    claim = await world.rig.api.replace_status(CLAIMS, {**claim, "status": {}})  # an allocation cannot change in place
    await world.rig.api.replace_status(CLAIMS, {**claim, "status": {"allocation": {"devices": {"results": results}}}})
    await world.rig.api.create(PODS, pod(gpu_0="unhealthy"))
    await world.shows("Unhealthy", f"set Unhealthy by annotation {KEY} of pod default/job")


async def test_annotation_applies_only_while_the_claim_is_prepared(world: World) -> None:
    await world.rig.api.create(PODS, pod(gpu_0="unhealthy"))
    claim = await world.claim("gpu-0")
    await world.shows("Unhealthy", f"set Unhealthy by annotation {KEY} of pod default/job")
    await world.call(UNPREPARE["v1.DRAPlugin"], claim)
    await world.shows(*WELL)


async def test_annotation_for_a_device_of_no_claim_is_ignored(world: World) -> None:
    await world.claim("gpu-0")
    await world.rig.api.create(PODS, pod(gpu_0="unknown", gpu_1="unhealthy"))
    await world.shows("Unknown", f"set Unknown by annotation {KEY} of pod default/job")
    assert await world.said("gpu-1") == WELL


async def test_worst_annotation_of_several_pods_applies(world: World) -> None:
    await world.claim("gpu-0")
    for name, health in (("a", "healthy"), ("b", "unhealthy"), ("c", "unknown")):
        await world.rig.api.create(PODS, pod(name, gpu_0=health))
    await world.shows("Unhealthy", f"set Unhealthy by annotation {KEY} of pod default/b")
    await world.says("b", gpu_0="healthy")
    await world.shows("Unknown", f"set Unknown by annotation {KEY} of pod default/c")


async def test_fault_overrides_the_annotation_and_recovery_keeps_the_annotation(world: World) -> None:
    await world.claim("gpu-0")
    await world.rig.api.create(PODS, pod(gpu_0="unknown"))
    await world.shows("Unknown", f"set Unknown by annotation {KEY} of pod default/job")
    await world.rig.told("inject", fault="xid/48", device="gpu-0")
    assert (await world.said())[1].startswith("XID 48")
    await world.rig.told("recover", action="reboot")
    assert await world.said() == ("Unknown", f"set Unknown by annotation {KEY} of pod default/job")


async def test_annotation_of_the_drivers_own_pod_applies_to_any_device(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAME", "driver-x")
    monkeypatch.setenv("POD_NAMESPACE", "default")
    await rig.serve(pod_annotations=True)
    await rig.api.create(PODS, pod("driver-x", "none", gpu_1="unhealthy"))
    message = "set Unhealthy by annotation health.example.com/gpu-1 of pod default/driver-x"
    await World(rig).shows("Unhealthy", message, device="gpu-1")


async def test_invalid_annotations_are_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.claim("gpu-0")
    await world.rig.api.create(PODS, pod(gpu_0="sick", gpu_9="unhealthy"))
    await until(lambda: len(caplog.records) == 2, PATIENCE)
    await world.rig.api.create(PODS, pod("other", gpu_0="unknown"))
    await world.shows("Unknown", f"set Unknown by annotation {KEY} of pod default/other")
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"pod default/job, {KEY}: unknown health 'sick'; use healthy, unhealthy or unknown; ignoring it",
        "pod default/job, health.example.com/gpu-9: unknown device 'gpu-9'; ignoring it",
    ]


async def test_annotation_health_is_kept_during_an_api_server_outage(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.claim("gpu-0")
    await world.rig.api.create(PODS, pod(gpu_0="unhealthy"))
    await world.shows("Unhealthy", f"set Unhealthy by annotation {KEY} of pod default/job")
    world.rig.api.down()
    await until(lambda: of_pods(caplog), PATIENCE)
    assert await world.said() == ("Unhealthy", f"set Unhealthy by annotation {KEY} of pod default/job")
    world.rig.api.up()
    await world.says()
    await world.shows(*WELL)
    assert of_pods(caplog) == ["pods cannot be watched", "pods are watched again"]


def of_pods(caplog: pytest.LogCaptureFixture) -> list[str]:
    """How each line begins that is about following pods."""
    mine = (record for record in caplog.records if record.name.endswith("serve.pods"))
    return [record.getMessage().partition(",")[0] for record in mine]


async def test_annotations_are_ignored_without_the_pod_annotations_option(rig: Rig) -> None:
    await rig.serve()
    world = World(rig)
    await world.claim("gpu-0")
    await rig.api.create(PODS, pod(gpu_0="unhealthy"))
    await rig.told("inject", fault="xid/79", device="gpu-1")
    assert await world.said() == WELL


# -- pure


def test_claims_of_a_pod_include_named_and_generated_claims() -> None:
    claims = [{"name": "a", "resourceClaimName": "mine"}, {"name": "b"}, {"name": "c"}]
    status = {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}, {"name": "c"}]}
    assert [*claim_names({"spec": {"resourceClaims": claims}, "status": status}).values()] == ["mine", "made"]


def test_annotations_with_other_prefixes_are_ignored() -> None:
    metadata = {"namespace": "n", "name": "p", "annotations": {"sick.example.com/gpu-0": "unhealthy", "gpu-0": "sick"}}
    assert list(annotations_of({"metadata": metadata}, "health.example.com")) == []


def test_first_of_two_equally_bad_annotations_applies() -> None:
    first, second = HealthOverride(Health.UNKNOWN, "first"), HealthOverride(Health.UNKNOWN, "second")
    annotations = [(Annotation("pod n/p, key", "gpu-0", one), {GPU}) for one in (first, second)]
    assert worst_overrides(annotations) == {GPU: first}
