"""The live view of a driver's ResourceSlices, with events that come late and a driver that is quick."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from drahealth.fakes.cluster.api import SLICES, Kind, Object, WatchEvent
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.proto.events import SlicesListed
from drahealth.suites.driver_checks.slice_watch import watched_slices
from drahealth.suites.unit.driver_checks.lab_rig import DRIVER, NODE, LabRig

Matches = Callable[[Object], bool]


class LateServer(ApiServer):
    """Its watches send deletions only after `release`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.release = asyncio.Event()

    async def watch(
        self, kind: Kind, namespace: str | None = None, since: str | None = None, matches: Matches = lambda _: True
    ) -> AsyncGenerator[WatchEvent, None]:
        async for event in super().watch(kind, namespace, since, matches):
            if event.type == "DELETED":
                await self.release.wait()
            yield event


class LateRig(LabRig):
    """A lab with this server."""

    def __init__(self) -> None:
        super().__init__()
        self.api = self.server = LateServer(clock=self.clock)


@pytest.fixture
async def rig() -> AsyncGenerator[LateRig]:
    rig = LateRig()
    yield rig
    await rig.close()


def slice_of(name: str, device: str = "gpu-0") -> Object:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": [{"name": device}]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_slice_whose_deletion_is_shown_late_is_not_listed(rig: LateRig) -> None:
    made = await rig.api.create(SLICES, slice_of("a"))
    async with watched_slices(rig.lab(), DRIVER) as watched:
        await watched.complete(DRIVER)
        await rig.api.delete(SLICES, "a")
        waiting = asyncio.create_task(watched.returned(made, 0))
        await asyncio.wait([waiting], timeout=0.1)
        rig.server.release.set()
        assert not await waiting
        watched.list()
    assert rig.happened(SlicesListed) == [SlicesListed(())]


async def test_slice_that_the_driver_has_replaced_meanwhile_counts_as_deleted(rig: LateRig) -> None:
    rig.server.release.set()
    slices = [await rig.api.create(SLICES, slice_of(name)) for name in ("a", "b")]
    async with watched_slices(rig.lab(), DRIVER) as watched:
        await watched.complete(DRIVER)
        await rig.api.delete(SLICES, "b")
        for one in slices:
            await watched.delete(one)
        assert watched.of_driver(DRIVER) == ()


async def test_complete_waits_for_the_required_devices(rig: LateRig) -> None:
    made = [await rig.api.create(SLICES, slice_of("a"))]
    async with watched_slices(rig.lab(), DRIVER) as watched:
        waiting = asyncio.create_task(watched.complete(DRIVER, devices=["gpu-9"]))
        await watched.complete(DRIVER)
        made.append(await rig.api.create(SLICES, slice_of("b", "gpu-9")))
        assert await waiting == tuple(made)
