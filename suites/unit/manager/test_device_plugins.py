"""Device plugins and the manager, over real sockets: registration, lists, allocation, restart."""

import asyncio
from typing import Any

import grpc
import pytest

from drahealth.manager.profile import KEP, Gates, Profile
from drahealth.manager.registration import Candidate, Socket
from drahealth.manager.releases import NEWEST, PROFILES
from drahealth.manager.resources import GRACE
from drahealth.proto.events import PluginRegistered, Registered, StreamClosed
from drahealth.proto.services import GET_PREFERRED_ALLOCATION
from drahealth.proto.values import AdmissionError, Amount, Grant, Health, PodClaims
from drahealth.suites.unit.manager.conftest import MakeNode
from drahealth.suites.unit.manager.plugin_rig import (
    RESOURCE,
    OddDevicePlugin,
    call_register,
    entries,
    health,
    listed,
    of,
    plugin_of,
    run_odd,
    run_plugin,
    run_pod,
    serve,
)
from drahealth.suites.unit.manager.rig import Node, until

BOTH_WAYS = pytest.mark.parametrize("registration", ["kubelet.sock", "plugins_registry"])


@BOTH_WAYS
async def test_devices_of_a_registered_plugin_count_as_node_capacity(node: Node, registration: Any) -> None:
    plugin = await run_plugin(node, registration=registration)
    assert node.manager.amounts() == {RESOURCE: Amount(2, 2)}
    assert (await plugin.state()).streams == 1
    assert node.happened(Registered) == [Registered(RESOURCE, "", True)]


@pytest.mark.counterpart("e2e_node/device-plugin-health", "e2e_node/device-plugin-pending-pod")
@BOTH_WAYS
async def test_pods_of_a_device_are_notified_of_its_health(node: Node, registration: Any) -> None:
    plugin = await run_plugin(node, registration=registration)
    await run_pod(node, "pod")
    node.notified.clear()
    await plugin.set_health("gpu-0", "Unhealthy")
    await until(lambda: node.notified)
    assert (entries(node, "pod"), node.notified) == ({RESOURCE: {"gpu-0": "Unhealthy"}}, [{"pod"}])


@pytest.mark.counterpart("devicemanager/TestUpdateAllocatedResourcesStatus")
async def test_each_device_of_a_container_shows_with_its_own_health(node: Node) -> None:
    plugin = await run_plugin(node, devices=("gpu-0", "gpu-1", "gpu-2"))
    await run_pod(node, "pod", count=2)
    for device in ("gpu-1", "gpu-2"):
        await plugin.set_health(device, "Unhealthy")
    await until(lambda: entries(node, "pod") == {RESOURCE: {"gpu-0": "Healthy", "gpu-1": "Unhealthy"}})


@pytest.mark.counterpart("TestFeatureGateResourceHealthStatus")
async def test_after_many_changes_the_latest_is_shown_and_notified(node: Node) -> None:
    plugin = await run_plugin(node)
    await run_pod(node, "pod")
    shown: list[Any] = []
    node.manager.subscribe(lambda _: shown.append(health(node, "pod")))
    for number in range(200):
        await plugin.set_health("gpu-0", "Healthy" if number % 2 else "Unhealthy")
    await plugin.set_health("gpu-0", "Unhealthy")
    await plugin.set_health("gpu-1", "Unhealthy")
    await until(lambda: node.manager.amounts() == {RESOURCE: Amount(2, 0)})
    assert (health(node, "pod"), shown[-1]) == ({"gpu-0": "Unhealthy"}, {"gpu-0": "Unhealthy"})


@BOTH_WAYS
@pytest.mark.parametrize("end", ["stop", "crash"])
async def test_the_devices_of_a_plugin_that_has_gone_show_unknown(node: Node, registration: Any, end: str) -> None:
    plugin = await run_plugin(node, registration=registration)
    await run_pod(node, "pod")
    node.notified.clear()
    await getattr(plugin, end)()
    await until(lambda: node.notified)
    assert (health(node, "pod"), node.manager.amounts()) == ({"gpu-0": "Unknown"}, {RESOURCE: Amount(2, 0)})
    await plugin.start()
    await listed(node, plugin)
    assert health(node, "pod") == {"gpu-0": "Healthy"}


@BOTH_WAYS
async def test_the_devices_of_a_gone_plugin_keep_their_health_on_1_37(node_1_37: Node, registration: Any) -> None:
    plugin = await run_plugin(node_1_37, registration=registration)
    await run_pod(node_1_37, "pod")
    await plugin.set_health("gpu-0", "Unhealthy")
    await until(lambda: health(node_1_37, "pod") == {"gpu-0": "Unhealthy"})
    await plugin.stop()
    await until(lambda: node_1_37.manager.amounts()[RESOURCE] == Amount(2, 0))
    assert health(node_1_37, "pod") == {"gpu-0": "Unhealthy"}


@pytest.mark.parametrize(("profile", "reads", "told"), [(KEP, "Unknown", True), (NEWEST, "Healthy", False)])
async def test_removed_device_shows_unknown_in_the_kep_only(
    make_node: MakeNode, profile: Profile, reads: str, told: bool
) -> None:
    node = make_node(profile)
    await node.start()
    plugin = await run_plugin(node)
    await run_pod(node, "pod")
    await plugin.set_health("gpu-0", "Unhealthy")
    await until(lambda: health(node, "pod") == {"gpu-0": "Unhealthy"})
    node.notified.clear()
    await plugin.remove("gpu-0")
    await until(lambda: node.manager.amounts()[RESOURCE] == Amount(1, 1))
    assert (health(node, "pod"), bool(node.notified)) == ({"gpu-0": reads}, told)
    await plugin.restore("gpu-0")
    await until(lambda: health(node, "pod") == {"gpu-0": "Unhealthy"})


async def test_the_capacity_of_a_gone_plugin_goes_after_five_minutes(node: Node) -> None:
    plugin = await run_plugin(node)
    await plugin.stop()
    await until(lambda: node.manager.amounts()[RESOURCE] == Amount(2, 0))
    await node.jump(GRACE + 1)
    assert node.manager.amounts() == {}


async def test_amount_listener_is_called_on_each_change(node: Node) -> None:
    seen: list[Any] = []
    leave = node.manager.subscribe_to_amounts(lambda: seen.append(dict(node.manager.amounts())))
    plugin = await run_plugin(node)
    await plugin.set_health("gpu-1", "Unhealthy")
    await until(lambda: {RESOURCE: Amount(2, 1)} in seen)
    leave()
    assert seen == [{RESOURCE: Amount(2, 2)}, {RESOURCE: Amount(2, 1)}]


async def test_container_gets_only_healthy_and_unallocated_devices(node: Node) -> None:
    plugin = await run_plugin(node, devices=("a", "b", "c"))
    await plugin.set_health("a", "Unhealthy")
    await until(lambda: node.manager.amounts()[RESOURCE] == Amount(3, 2))
    await run_pod(node, "first")
    await run_pod(node, "second")
    assert (health(node, "first"), health(node, "second")) == ({"b": "Healthy"}, {"c": "Healthy"})


async def test_a_pod_that_asks_for_more_than_there_is_is_not_admitted(node: Node) -> None:
    await run_plugin(node)
    await run_pod(node, "first")
    with pytest.raises(AdmissionError, match=f"not enough devices of {RESOURCE}: 2 requested, 1 available"):
        await run_pod(node, "second", count=2)
    assert entries(node, "second") == {}


async def test_a_container_that_is_allocated_again_keeps_what_it_has(node: Node) -> None:
    plugin = await run_plugin(node, cdi_kind="example.com/gpu")
    first = await run_pod(node, "pod")
    again = await run_pod(node, "pod")
    assert first == again == Grant({"DEVICES": "gpu-0"}, cdi_devices=("example.com/gpu=gpu-0",))
    assert (await plugin.state()).allocated == (("gpu-0",),)


async def test_a_request_that_changed_is_refused(node: Node) -> None:
    await run_plugin(node)
    await run_pod(node, "pod")
    with pytest.raises(AdmissionError, match=r"container main holds 1 of example\.com/gpu, not 2"):
        await run_pod(node, "pod", count=2)


async def test_rejected_pod_holds_no_devices(node: Node) -> None:
    await run_plugin(node, devices=("a", "b"))
    with pytest.raises(AdmissionError):
        await node.manager.allocate("pod", {"one": {RESOURCE: 1}, "two": {RESOURCE: 2}})
    await run_pod(node, "other", count=2)
    assert health(node, "other") == {"a": "Healthy", "b": "Healthy"}


async def test_pods_that_are_admitted_side_by_side_never_share_a_device(node: Node) -> None:
    devices = tuple(f"gpu-{number}" for number in range(20))
    await run_plugin(node, devices=devices, preferred=("gpu-7",))
    await asyncio.gather(*(run_pod(node, f"pod-{number}", count=2) for number in range(10)))
    held = [device for number in range(10) for device in health(node, f"pod-{number}")]
    assert sorted(held) == sorted(devices)


async def test_unregistered_resource_is_ignored_in_allocations(node: Node) -> None:
    assert await node.manager.allocate("pod", {"main": {"example.com/dongle": 1}}) == {"main": Grant()}


async def test_preferred_allocation_of_the_plugin_is_used(node: Node) -> None:
    await run_plugin(node, devices=("a", "b", "c"), preferred=("c", "b"))
    await run_pod(node, "pod", count=2)
    assert set(health(node, "pod")) == {"b", "c"}


async def test_preferred_allocation_request_includes_devices_already_held(node: Node) -> None:
    plugin, asked = OddDevicePlugin(of("a", "b", "c", "d")), list[Any]()
    plugin.options.get_preferred_allocation_available = True

    async def prefer(request: Any, context: Any) -> Any:
        asked.extend(request.container_requests)
        return GET_PREFERRED_ALLOCATION.response(container_responses=[{"deviceIDs": ["d"]}])

    plugin.more = {GET_PREFERRED_ALLOCATION: prefer}
    await serve(node, plugin)
    assert await call_register(node) == ""
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(4, 4))
    await node.manager.allocate("pod", {"init": {RESOURCE: 1}, "main": {RESOURCE: 2}}, init={"init"})
    assert [(list(a.must_include_deviceIDs), a.allocation_size) for a in asked] == [([], 1), (["d"], 2)]


async def test_pre_start_container_is_called_for_plugins_with_the_option(node: Node) -> None:
    plugin = await run_plugin(node, pre_start=True)
    await run_pod(node, "pod")
    assert node.manager.wants_pre_start("pod", "main")
    await node.manager.pre_start("pod", "main")
    assert (await plugin.state()).started == (("gpu-0",),)


async def test_pre_start_container_is_not_called_without_the_option(node: Node) -> None:
    plugin = await run_plugin(node)
    await run_pod(node, "pod")
    assert not node.manager.wants_pre_start("pod", "main")
    await node.manager.pre_start("pod", "main")
    assert (await plugin.state()).started == ()


async def test_ended_pod_keeps_its_final_status_after_device_reuse(node: Node) -> None:
    plugin = await run_plugin(node, devices=("a",))
    await run_pod(node, "first")
    await plugin.set_health("a", "Unhealthy")
    await until(lambda: health(node, "first") == {"a": "Unhealthy"})
    await node.manager.unprepare("first")
    await plugin.set_health("a", "Healthy")
    await until(lambda: node.manager.amounts()[RESOURCE] == Amount(1, 1))
    await run_pod(node, "second")
    assert (health(node, "first"), health(node, "second")) == ({"a": "Unhealthy"}, {"a": "Healthy"})
    node.manager.forget("first")
    assert entries(node, "first") == {}


async def test_1_37_ended_pod_shows_devices_until_the_next_allocation(node_1_37: Node) -> None:
    await run_plugin(node_1_37)
    await run_pod(node_1_37, "first")
    await node_1_37.manager.unprepare("first")
    before = health(node_1_37, "first")
    await run_pod(node_1_37, "second")
    assert (before, entries(node_1_37, "first")) == ({"gpu-0": "Healthy"}, {})


@pytest.mark.parametrize(("profile", "reads"), [(KEP, "Unknown"), (NEWEST, "Healthy"), (PROFILES["v1.36"], "Healthy")])
async def test_containers_keep_their_allocations_after_a_restart(
    make_node: MakeNode, profile: Profile, reads: str
) -> None:
    node = make_node(profile)
    await node.start()
    plugin = await run_plugin(node, cdi_kind="example.com/gpu")
    grant = await run_pod(node, "pod")
    await plugin.set_health("gpu-0", "Unhealthy")
    await until(lambda: health(node, "pod") == {"gpu-0": "Unhealthy"})
    await plugin.stop()
    await node.restart()
    assert (health(node, "pod"), node.manager.amounts()) == ({"gpu-0": reads}, {RESOURCE: Amount(0, 0)})
    assert await run_pod(node, "pod") == grant
    await plugin.start()
    await until(lambda: health(node, "pod") == {"gpu-0": "Unhealthy"})


@BOTH_WAYS
async def test_plugin_registers_again_after_a_kubelet_restart(node: Node, registration: Any) -> None:
    plugin = await run_plugin(node, registration=registration)
    await run_pod(node, "pod")
    await node.restart()
    await until(lambda: health(node, "pod") == {"gpu-0": "Healthy"})
    assert len(node.happened(StreamClosed)) == 1
    assert (await plugin.state()).streams == 1


async def test_reregistration_with_the_same_list_notifies_no_listener(node: Node) -> None:
    plugin = await run_odd(node, of("a"))
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(1, 1))
    await run_pod(node, "pod")
    seen: list[Any] = []
    node.manager.subscribe(lambda _: seen.append(health(node, "pod")))
    node.manager.subscribe_to_amounts(lambda: seen.append(node.manager.amounts()))
    assert await call_register(node) == ""
    await until(lambda: (plugin.opened, plugin.open) == (2, 1))
    for devices in (of("a"), of("a", "fence")):
        plugin.lists.put_nowait(devices)
    await until(lambda: {RESOURCE: Amount(2, 2)} in seen)
    assert [found for found in seen if found not in ({RESOURCE: Amount(1, 1)}, {RESOURCE: Amount(2, 2)})] == []


async def test_cancelled_reregistration_completes_and_closes_the_earlier_plugin(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = await run_odd(node, of("a"))
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(1, 1))
    half, socket = node.manager._device_plugins, Socket(node.registry / "odd-reg.sock", 1, 1)
    (earlier,) = half._plugins.values()
    candidate = Candidate(socket, "DevicePlugin", RESOURCE, earlier.endpoint, ("v1beta1",))
    again = asyncio.create_task(half.register(candidate))
    monkeypatch.setattr(half, "_observe", lambda event: isinstance(event, PluginRegistered) and again.cancel())
    await asyncio.wait([again])
    await until(lambda: (plugin.opened, plugin.open) == (2, 1))
    plugin.lists.put_nowait(of("a", "b"))
    await until(lambda: node.manager.amounts() == {RESOURCE: Amount(2, 2)})
    await half.deregister(socket)
    assert (again.cancelled(), half._plugins) == (True, {})
    assert earlier._channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN


async def test_removal_of_an_older_registration_keeps_the_newer_one(node: Node) -> None:
    plugin = await run_odd(node, of("a"))
    half, older = node.manager._device_plugins, Socket(node.registry / "odd-reg.sock", 1, 1)
    (first,) = half._plugins.values()
    await half.register(Candidate(older, "DevicePlugin", RESOURCE, first.endpoint, ("v1beta1",)))
    assert await call_register(node) == ""
    await half.deregister(older)
    await until(lambda: (plugin.opened, plugin.open) == (3, 1))
    plugin.lists.put_nowait(of("a", "fence"))
    await until(lambda: node.manager.amounts() == {RESOURCE: Amount(2, 2)})


async def test_a_plugin_waits_for_a_kubelet(make_node: MakeNode) -> None:
    node = make_node()
    plugin = plugin_of(node)
    await plugin.start()
    await node.start()
    await listed(node, plugin)
    assert node.manager.amounts() == {RESOURCE: Amount(2, 2)}


async def test_two_plugin_instances_count_once_and_newest_list_applies(node: Node) -> None:
    older = await run_plugin(node)
    newer = plugin_of(node, instance="b")
    await newer.start()
    await listed(node, newer)
    await run_pod(node, "pod")
    await until(lambda: (newer.streams, older.streams) == (1, 1))
    await newer.set_health("gpu-0", "Unhealthy")
    await until(lambda: health(node, "pod") == {"gpu-0": "Unhealthy"})
    await older.stop()
    await newer.set_health("gpu-1", "Unhealthy")
    await until(lambda: node.manager.amounts() == {RESOURCE: Amount(2, 0)})
    assert health(node, "pod") == {"gpu-0": "Unhealthy"}


async def test_a_container_with_a_claim_and_a_plugins_device_shows_both(node: Node) -> None:
    await run_plugin(node)
    await node.run_driver()
    await node.run_pod("pod", await node.claim("gpus", "gpu-1"))
    await run_pod(node, "pod")
    await node.shows("pod", gpu_0="Healthy", gpu_1="Healthy")
    shown = node.manager.allocated_resources_status("pod", PodClaims({"main": node.uses["pod"]})).containers
    assert [entry.name for entry in shown["main"]] == [RESOURCE, "claim:gpus/gpu"]


async def test_disabled_gate_hides_health_and_still_allocates_devices(make_node: MakeNode) -> None:
    node = make_node(gates=Gates(False, False))
    await node.start()
    plugin = await run_plugin(node)
    await run_pod(node, "pod")
    await plugin.set_health("gpu-0", str(Health.UNHEALTHY))
    await until(lambda: node.manager.amounts()[RESOURCE] == Amount(2, 1))
    assert (entries(node, "pod"), node.notified) == ({}, [])


async def test_disabled_dra_gate_shows_only_device_plugin_devices(make_node: MakeNode) -> None:
    node = make_node(gates=Gates(dynamic_resource_allocation=False))
    await node.start()
    await run_plugin(node)
    await node.run_pod("pod", await node.claim("gpus", "gpu-1"))
    await run_pod(node, "pod")
    await node.shows("pod", gpu_0="Healthy")
    shown = node.manager.allocated_resources_status("pod", PodClaims({"main": node.uses["pod"]})).containers
    assert [entry.name for entry in shown["main"]] == [RESOURCE]


async def test_before_1_37_the_end_of_an_older_plugin_disconnects_the_newest_one(make_node: MakeNode) -> None:
    node = make_node(PROFILES["v1.36"])
    await node.start()
    older = await run_plugin(node)
    newer = plugin_of(node, instance="b")
    await newer.start()
    await until(lambda: (newer.streams, older.streams) == (1, 1))
    await older.stop()
    await until(lambda: newer.streams == 0)
    assert node.manager.amounts()[RESOURCE].allocatable == 0


@pytest.mark.counterpart("TestDeviceHealthUpdateWithDuplicateDeviceIDs")
@pytest.mark.parametrize(("profile", "told"), [(KEP, {"gpus"}), (NEWEST, {"gpus"}), (PROFILES["v1.36"], {"nics"})])
async def test_pod_to_notify_if_two_resources_have_the_same_device_id(
    make_node: MakeNode, profile: Profile, told: set[str]
) -> None:
    node = make_node(profile)
    await node.start()
    await run_plugin(node, "example.com/nic", devices=("0",))
    gpus = await run_plugin(node, devices=("0",))
    await run_pod(node, "nics", resource="example.com/nic")
    await run_pod(node, "gpus")
    await gpus.set_health("0", "Unhealthy")
    await until(lambda: node.notified)
    assert node.notified == [told]
