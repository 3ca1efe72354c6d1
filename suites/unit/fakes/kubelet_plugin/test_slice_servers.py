"""Publishing to API servers that are unavailable, reject or change slices, or have other writers."""

import asyncio
import logging
from copy import deepcopy

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.kubelet_plugin import Pool, PublishState
from drahealth.fakes.kubelet_plugin.slices import Owner, SliceSync
from drahealth.suites.unit.fakes.kubelet_plugin.plugin_rig import (
    DRIVER,
    MAIN,
    PluginRig,
    devices,
    foreign,
    pool,
    slices,
)

# -- away, or refusing


async def test_unavailable_server_is_retried_every_second(rig: PluginRig) -> None:
    rig.api.down()
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(1)})
        error = await helper.publish_attempted()
        assert (isinstance(error, ApiError), helper.publish_state.in_sync) == (True, False)
        assert helper.publish_state.error.startswith("ServiceUnavailable")
        rig.api.up()
        rig.clock.jump(1)
        await helper.published()
    assert helper.publish_state.error == ""


class Refusing(ApiServer):
    """Refuses slices with a device of this name, and tells of each time."""

    def __init__(self, clock: JumpClock) -> None:
        super().__init__(clock=clock)
        self.refused: asyncio.Queue[None] = asyncio.Queue()

    async def create(self, kind: Kind, obj: Object) -> Object:
        if kind == SLICES and any(device["name"] == "bad" for device in obj["spec"]["devices"]):
            self.refused.put_nowait(None)
            raise ApiError(422, "Invalid", "spec.devices[0].name is bad")
        return await super().create(kind, obj)


async def test_rejected_slice_is_reported_and_retried_with_growing_delays(
    rig: PluginRig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    api = Refusing(rig.clock)
    async with rig.running(api=api, node_uid="abc") as helper:
        helper.publish_resources({"node-a": Pool([{"name": "bad"}])})
        assert str(await helper.publish_attempted()) == "Invalid: spec.devices[0].name is bad"
        assert helper.publish_state == PublishState(False, "Invalid: spec.devices[0].name is bad", {})
        await api.refused.get()
        rig.clock.jump(1)
        await api.refused.get()
        helper.publish_resources({"node-a": pool(1)})
        await helper.published()
    assert rig.errors == ["Invalid: spec.devices[0].name is bad"] * 2
    assert [record.getMessage() for record in caplog.records] == [
        f"driver {DRIVER} failed to publish ResourceSlices: Invalid: spec.devices[0].name is bad"
    ]


class Recorded(JumpClock):
    """Tells of each pause."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: asyncio.Queue[float] = asyncio.Queue()

    async def sleep(self, seconds: float) -> None:
        self.pauses.put_nowait(seconds)
        await super().sleep(seconds)


async def test_pauses_grow_to_half_a_minute(rig: PluginRig) -> None:
    clock = Recorded()
    sync = SliceSync(Refusing(clock), Owner(DRIVER, "node-a"), clock)
    sync.publish({"node-a": Pool([{"name": "bad"}])})
    pauses = []
    for _ in range(8):
        pauses.append(await clock.pauses.get())
        clock.jump(pauses[-1])
    await sync.stop()
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


# -- storing something else


class Forgetful(ApiServer):
    """Drops the taints of devices, as a server does whose feature gate is off, and writes quantities its own way."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        obj = deepcopy(obj)
        for device in obj.get("spec", {}).get("devices", []):
            device.pop("taints", None)
            device["capacity"] = {"memory": {"value": "1Gi"}}
        return await super().create(kind, obj)


async def test_dropped_field_is_reported_and_not_written_again(rig: PluginRig) -> None:
    api = Forgetful(clock=rig.clock)
    async with rig.running(api=api) as helper:
        tainted = pool(1, taints=[{"key": "a", "effect": "NoSchedule"}], capacity={"memory": {"value": "1024Mi"}})
        helper.publish_resources({"node-a": tainted})
        await helper.published()
        (before,) = await api.list(SLICES)
        await api.create(SLICES, foreign("intruder", DRIVER, "node-a"))
        await slices(api, {f"{MAIN}-0": ("node-a", 1, devices(1))})
        assert await api.list(SLICES) == [before]
    assert rig.errors == [f"the API server dropped taints of the devices in ResourceSlice {MAIN}-0"]


class Dating(ApiServer):
    """Writes down when a taint came, as the real one does: by the version that had it first."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        return await super().create(kind, self._dated(obj))

    async def replace(self, kind: Kind, obj: Object) -> Object:
        return await super().replace(kind, self._dated(obj))

    def _dated(self, obj: Object) -> Object:
        obj = deepcopy(obj)
        number = obj["spec"]["pool"]["generation"]
        for taint in (taint for device in obj["spec"]["devices"] for taint in device.get("taints", [])):
            taint.setdefault("timeAdded", f"2026-01-0{number}T00:00:00Z")
        return obj


async def test_unchanged_taint_keeps_its_time_added(rig: PluginRig) -> None:
    api = Dating(clock=rig.clock)
    first, second = {"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoSchedule"}
    async with rig.running(api=api) as helper:
        for taints in ([], [first], [first, second]):
            helper.publish_resources({"node-a": pool(1, taints=taints)})
            await helper.published()
    (slice_,) = await api.list(SLICES)
    (device,) = slice_["spec"]["devices"]
    assert device["taints"] == [
        {**first, "timeAdded": "2026-01-02T00:00:00Z"},
        {**second, "timeAdded": "2026-01-03T00:00:00Z"},
    ]


class Racing(ApiServer):
    """Somebody else is always a little faster, so many times."""

    races = 3

    async def replace(self, kind: Kind, obj: Object) -> Object:
        if kind == SLICES and self.races:
            self.races -= 1
            stored = await self.get(SLICES, obj["metadata"]["name"])
            stored["metadata"]["labels"] = {"race": str(self.races)}
            await super().replace(SLICES, stored)
        return await super().replace(kind, obj)


async def test_concurrent_changes_of_a_slice_are_not_overwritten(rig: PluginRig) -> None:
    api = Racing(clock=rig.clock)
    async with rig.running(api=api) as helper:
        for count in (1, 2):
            helper.publish_resources({"node-a": pool(count)})
            await helper.published()
    (slice_,) = await api.list(SLICES)
    assert (slice_["metadata"]["labels"], len(slice_["spec"]["devices"]), rig.errors) == ({"race": "0"}, 2, [])
