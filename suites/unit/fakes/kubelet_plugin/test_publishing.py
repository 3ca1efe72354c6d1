"""Pools that a driver publishes become ResourceSlices, and the node owns these slices."""

import asyncio
from typing import Any

import pytest

from drahealth.fakes.cluster.api import NODES, SLICES, Object
from drahealth.fakes.kubelet_plugin import Pool, PublishState
from drahealth.suites.unit.fakes.kubelet_plugin.plugin_rig import DRIVER, MAIN, PluginRig, devices, foreign, pool

# -- publishing


async def test_pools_become_slices_of_the_node(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(2), "rack": pool(1, name="nic")})
        await helper.published()
        assert await rig.slices() == {
            f"{MAIN}-0": ("node-a", 1, devices(2)),
            f"{MAIN}-rack-0": ("rack", 1, devices(1, "nic")),
        }
        assert helper.publish_state == PublishState(True, "", {"node-a": 1, "rack": 1})


async def test_existing_slices_are_kept_before_the_first_publish(rig: PluginRig) -> None:
    await rig.api.create(SLICES, foreign("stale", DRIVER, "node-a"))
    async with rig.running() as helper:
        await rig.ask()
        assert helper.publish_state == PublishState()
    assert list(await rig.slices()) == ["stale"]


@pytest.mark.parametrize(("taints", "sizes"), [([], [128, 72]), ([{"key": "a", "effect": "None"}], [64, 64, 64, 8])])
async def test_slices_keep_the_device_limit_of_the_api(rig: PluginRig, taints: list[Object], sizes: list[int]) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(200, taints=taints)})
        await helper.published()
    found = await rig.api.list(SLICES)
    assert [len(slice_["spec"]["devices"]) for slice_ in found] == sizes
    assert {slice_["spec"]["pool"]["resourceSliceCount"] for slice_ in found} == {len(sizes)}


async def test_only_changed_pools_get_a_new_generation(rig: PluginRig) -> None:
    async with rig.running() as helper:
        for count in (300, 300, 2):
            helper.publish_resources({"node-a": pool(count), "rack": pool(1)})
            await helper.published()
    assert await rig.slices() == {f"{MAIN}-0": ("node-a", 2, devices(2)), f"{MAIN}-rack-0": ("rack", 1, devices(1))}


async def test_removed_pool_is_deleted(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(1), "rack": pool(1)})
        await helper.published()
        helper.publish_resources({"rack": pool(1)})
        await helper.published()
    assert list(await rig.slices()) == [f"{MAIN}-rack-0"]


async def test_a_pool_without_devices_is_published_as_empty(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": Pool()})
        await helper.published()
    assert await rig.slices() == {f"{MAIN}-0": ("node-a", 1, [])}


async def test_after_a_restart_the_same_pools_are_left_as_they_are(rig: PluginRig) -> None:
    versions = []
    for _ in range(2):
        async with rig.running() as helper:
            helper.publish_resources({"node-a": pool(200)})
            await helper.published()
        versions.append([slice_["metadata"]["resourceVersion"] for slice_ in await rig.api.list(SLICES)])
    assert versions[0] == versions[1]


async def test_caller_can_modify_published_devices(rig: PluginRig) -> None:
    mine = pool(1)
    async with rig.running() as helper:
        helper.publish_resources({"node-a": mine})
        mine.devices[0]["name"] = "another"
        await helper.published()
    assert await rig.slices() == {f"{MAIN}-0": ("node-a", 1, devices(1))}


async def test_resources_can_be_withdrawn(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(200)})
        await helper.published()
        await helper.withdraw_resources()
        assert await rig.slices() == {}


async def test_waiting_for_a_driver_that_stops_raises(rig: PluginRig) -> None:
    rig.api.down()
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(1)})
        waiting = asyncio.create_task(helper.published())
        await helper.publish_attempted()
    with pytest.raises(ValueError, match="driver has stopped"):
        await waiting


@pytest.mark.parametrize("options", [{"api": None}, {"node_name": ""}])
async def test_publishing_needs_an_api_server_and_a_node(rig: PluginRig, options: dict[str, Any]) -> None:
    async with rig.running(**options) as helper:
        with pytest.raises(ValueError, match="set node_name and api"):
            helper.publish_resources({})


async def test_device_that_is_not_plain_data_is_rejected_at_once(rig: PluginRig) -> None:
    async with rig.running() as helper:
        with pytest.raises(ValueError, match="plain JSON data"):
            helper.publish_resources({"node-a": Pool([{"name": object()}])})


# -- whose they are


@pytest.mark.parametrize("known", ["by uid", "by object", "looked up"])
async def test_slices_belong_to_their_node(rig: PluginRig, known: str) -> None:
    node = await rig.api.create(NODES, {"metadata": {"name": "node-a"}})
    uid = node["metadata"]["uid"]
    options: dict[str, Any] = {"by uid": {"node_uid": uid}, "by object": {"node": node, "node_name": ""}}.get(known, {})
    async with rig.running(**options) as helper:
        helper.publish_resources({"node-a": pool(1)})
        await helper.published()
    (slice_,) = await rig.api.list(SLICES)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": uid, "controller": True}
    assert slice_["metadata"]["ownerReferences"] == [owner]


@pytest.mark.parametrize("options", [{}, {"node_uid": "abc", "owned_by_node": False}])
async def test_without_a_known_node_slices_have_no_owner(rig: PluginRig, options: dict[str, Any]) -> None:
    async with rig.running(**options) as helper:
        helper.publish_resources({"node-a": pool(1)})
        await helper.published()
    (slice_,) = await rig.api.list(SLICES)
    assert "ownerReferences" not in slice_["metadata"]
