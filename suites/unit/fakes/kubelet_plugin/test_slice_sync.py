"""Published ResourceSlices are restored after changes by other clients."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import SLICES, ApiError
from drahealth.fakes.cluster.api_server.http import HttpApi
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.kubelet_plugin.slices import Owner, SliceSync
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.kubelet_plugin.plugin_rig import (
    DRIVER,
    MAIN,
    PluginRig,
    devices,
    foreign,
    pool,
    slices,
)

# -- what others do


async def test_deleted_slice_is_restored_with_its_generation(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(200)})
        await helper.published()
        await rig.api.delete(SLICES, f"{MAIN}-1")
        await slices(
            rig.api, {f"{MAIN}-0": ("node-a", 1, devices(200)[:128]), f"{MAIN}-1": ("node-a", 1, devices(200)[128:])}
        )


@pytest.fixture
async def client(rig: PluginRig) -> AsyncIterator[KubeClient]:
    """A client of the same server, over HTTP."""
    http = HttpApi(rig.api)
    await http.start()
    http.write_kubeconfig(rig.root / "kubeconfig")
    client = await KubeClient.from_kubeconfig(rig.root / "kubeconfig")
    yield client
    await client.close()
    await http.stop()


async def test_deleted_slice_is_restored_over_http(rig: PluginRig, client: KubeClient) -> None:
    async with rig.running(api=client) as helper:
        helper.publish_resources({"node-a": pool(200)})
        await helper.published()
        await rig.api.delete(SLICES, f"{MAIN}-1")
        await slices(
            rig.api, {f"{MAIN}-0": ("node-a", 1, devices(200)[:128]), f"{MAIN}-1": ("node-a", 1, devices(200)[128:])}
        )


async def test_changed_slice_is_restored_with_a_new_generation(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(2)})
        await helper.published()
        (slice_,) = await rig.api.list(SLICES)
        slice_["spec"]["devices"] = []
        await rig.api.replace(SLICES, slice_)
        await slices(rig.api, {f"{MAIN}-0": ("node-a", 2, devices(2))})


async def test_foreign_slice_in_a_pool_is_deleted(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(1)})
        await helper.published()
        await rig.api.create(SLICES, foreign("intruder", DRIVER, "node-a"))
        await slices(rig.api, {f"{MAIN}-0": ("node-a", 1, devices(1))})
        rig.clock.jump(1)
        await rig.api.create(SLICES, foreign("higher", DRIVER, "node-a", generation=7))
        await slices(rig.api, {f"{MAIN}-0": ("node-a", 8, devices(1))})


async def test_slices_of_other_drivers_and_nodes_are_left_alone(rig: PluginRig) -> None:
    await rig.api.create(SLICES, foreign("a", "other.example.com", "node-a"))
    await rig.api.create(SLICES, foreign("b", DRIVER, "node-b"))
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(1)})
        await helper.published()
        await helper.withdraw_resources()
    assert list(await rig.slices()) == ["a", "b"]


@pytest.mark.parametrize(("first", "second"), [("old", "new"), ("", "new"), ("old", "")])
async def test_of_two_instances_the_one_that_published_last_is_left_alone(
    rig: PluginRig, first: str, second: str
) -> None:
    async with rig.running(rolling_update=first) as old, rig.running(rolling_update=second) as new:
        old.publish_resources({"node-a": pool(1)})
        await old.published()
        new.publish_resources({"node-a": pool(2)})
        await new.published()
        await settled(rig.clock)
        assert await rig.slices() == {f"{MAIN}-0": ("node-a", 2, devices(2))}
        await new.withdraw_resources()
        rig.clock.jump(1)
        await slices(rig.api, {f"{MAIN}-0": ("node-a", 3, devices(1))})


# -- whatever happens


NAMES = [f"{MAIN}-0", f"{MAIN}-1", f"{MAIN}-rack-0", "intruder"]
PUBLISHED = st.dictionaries(st.sampled_from(["node-a", "rack"]), st.sampled_from([0, 1, 2, 129]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), PUBLISHED),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(st.just("empty"), st.sampled_from(NAMES)),
        st.tuples(st.just("raise"), st.sampled_from(NAMES)),
        st.tuples(st.just("create"), st.sampled_from([*NAMES, f"{MAIN}-rack-1"])),
        st.tuples(st.just("away"), st.booleans()),
        st.tuples(st.just("rest"), st.integers(0, 3)),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(STEPS)
@example([("publish", {"node-a": 256}), ("rest", 3), ("publish", {"node-a": 128})])
@example([("create", f"{MAIN}-rack-0"), ("publish", {"rack": 1})])
@example([("publish", {"node-a": 129}), ("rest", 3), ("delete", f"{MAIN}-1"), ("raise", f"{MAIN}-0"), ("rest", 3)])
async def test_slices_converge_to_the_last_published_pools(steps: list[tuple[str, Any]]) -> None:
    clock = JumpClock()
    api = ApiServer(clock=clock)
    sync = SliceSync(api, Owner(DRIVER, "node-a"), clock)
    last: dict[str, int] = {}
    async with asyncio.timeout(PATIENCE):
        sync.publish({})
        for what, of in steps:
            last = of if what == "publish" else last
            await happen(api, sync, what, of)
        api.up()
        await settled(clock, sync.in_sync)
        await sync.stop()
    found = [slice_["spec"] for slice_ in await api.list(SLICES)]
    by_pool = {name: [spec for spec in found if spec["pool"]["name"] == name] for name in last}
    assert len(found) == sum(map(len, by_pool.values()))
    for name, specs in by_pool.items():
        assert [device["name"] for spec in specs for device in spec["devices"]] == devices(last[name])
        assert {(s["pool"]["generation"], s["pool"]["resourceSliceCount"]) for s in specs} == {
            (specs[0]["pool"]["generation"], len(specs))
        }


async def happen(api: ApiServer, sync: SliceSync, what: str, of: Any) -> None:
    try:
        match what:
            case "publish":
                sync.publish({name: pool(count) for name, count in of.items()})
            case "delete":
                await api.delete(SLICES, of)
            case "create":
                await api.create(SLICES, foreign(of, DRIVER, "node-a"))
            case "away":
                api.down() if of else api.up()
            case "rest":
                for _ in range(of * 10):
                    await asyncio.sleep(0)
            case _:
                found = await api.get(SLICES, of)
                if what == "empty":
                    found["spec"]["devices"] = []
                else:
                    found["spec"]["pool"]["generation"] += 3
                await api.replace(SLICES, found)
    except ApiError:
        pass  # it was not there


async def settled(clock: JumpClock, *in_sync: Callable[[], Awaitable[None]]) -> None:
    """Nothing is left to do, however long one waits."""
    for _ in range(3):
        clock.jump(31)
        for _ in range(30):
            await asyncio.sleep(0)
        for wait in in_sync:
            await wait()
