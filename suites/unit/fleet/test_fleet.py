"""A fleet writes the objects of hollow nodes, and what their Pods show."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from drahealth.fakes.cluster.api import LEASES, NODES, PODS, SLICES, timestamp
from drahealth.fakes.control.commands import Inject, StreamDrop
from drahealth.fakes.control.without_subcommand import SelectDevices
from drahealth.fakes.serve.playing import load_stories
from drahealth.proto.events import ExpectationMet, StepStarted, TimelineEnded, TimelineStarted
from drahealth.suites.fleet.topology import fleet_names
from drahealth.suites.unit.fleet.conftest import options, running_fleet


async def test_nodes_are_ready_with_labels_and_devices_with_attributes(folder: Path) -> None:
    async with running_fleet(folder) as running:
        node, slice_ = await running.api.get(NODES, "fleet-2"), (await running.api.list(SLICES))[2]
        assert [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"] == ["True"]
        assert node["metadata"]["labels"]["fleet.example.com/rack"] == "rack-1"
        assert slice_["spec"]["nodeName"] == "fleet-2"
        assert slice_["spec"]["devices"][0]["attributes"]["rack"] == {"string": "rack-1"}


async def test_pods_with_claims_run_and_show_health(folder: Path) -> None:
    async with running_fleet(folder) as running:
        await running.run_pods(4, devices=2)
        assert await running.health() == {"Healthy": [f"fleet-{node}/gpu-{gpu}" for node in range(4) for gpu in (0, 1)]}


async def test_a_fault_is_in_the_statuses_of_its_devices_alone_until_the_recovery(folder: Path) -> None:
    async with running_fleet(folder) as running:
        await running.run_pods(4, devices=2)
        await running.driver.inject("xid/48", ("fleet-1/gpu-0", "fleet-3/gpu-1"))
        for name in [pod["metadata"]["name"] for pod in await running.api.list(PODS)]:
            pod = await running.api.get(PODS, name, "default")
            if pod["spec"]["nodeName"] in ("fleet-1", "fleet-3"):
                await running.until(name, lambda pod: "Unhealthy" in str(pod["status"]))
        assert (await running.health())["Unhealthy"] == ["fleet-1/gpu-0", "fleet-3/gpu-1"]
        await running.driver.recover("gpu-reset", "fleet-1/gpu-0")
        for pod in await running.api.list(PODS):
            if pod["spec"]["nodeName"] == "fleet-1":
                await running.until(pod["metadata"]["name"], lambda pod: "Unhealthy" not in str(pod["status"]))
        assert (await running.health())["Unhealthy"] == ["fleet-3/gpu-1"]


async def test_a_deleted_pod_is_removed_and_its_devices_are_free(folder: Path) -> None:
    async with running_fleet(folder) as running:
        await running.run_pods(1)
        await running.api.delete(PODS, "job-0", "default")
        async for event in running.api.watch(PODS):
            if event.type == "DELETED":
                break
        assert running.fleet.pods.prepared() == ()


async def test_a_fault_of_a_node_reaches_no_other_node(folder: Path) -> None:
    async with running_fleet(folder, catalogue="nvidia") as running:
        inventory = running.driver._devices.inventory
        assert inventory.reached("fleet-1/gpu-0", "node") == ["fleet-1/gpu-0", "fleet-1/gpu-1"]
        assert inventory.reached("fleet-1/gpu-0", "peers") == ["fleet-1/gpu-0", "fleet-1/gpu-1"]


async def test_a_taint_is_published_on_one_node(folder: Path) -> None:
    async with running_fleet(folder) as running:
        before = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in await running.api.list(SLICES)}
        await running.driver.taint("fleet-0/gpu-1", "example.com/sick")
        after = {one["metadata"]["name"]: one for one in await running.api.list(SLICES)}
        changed = [one for name, one in after.items() if one["metadata"]["resourceVersion"] != before[name]]
        assert [one["spec"]["pool"] for one in changed] == [
            {"name": "fleet-0", "generation": 2, "resourceSliceCount": 1}
        ]


async def test_a_fleet_takes_over_the_objects_of_an_earlier_start(folder: Path) -> None:
    async with running_fleet(folder) as running:
        await running.run_pods(2)
        api = running.api
    async with running_fleet(folder, api) as again:
        assert len(await api.list(NODES)) == 4
        assert len((await again.health())["Healthy"]) == 2
        await again.driver.inject("xid/48", "all")
        await again.until("job-0", lambda pod: "Unhealthy" in str(pod["status"]))


async def test_leases_are_renewed(folder: Path) -> None:
    async with running_fleet(folder) as running:
        async for event in running.api.watch(LEASES):
            if event.object["metadata"]["name"] == "fleet-0":
                break
        assert event.object["spec"]["holderIdentity"] == "fleet-0"
        assert event.object["spec"]["renewTime"] >= timestamp(0)


async def test_a_selection_over_the_control_socket_is_repeatable(folder: Path) -> None:
    async with running_fleet(folder) as running:
        half = SelectDevices(percent=50, seed=7)
        first = await running.driver.do(half)
        assert await running.driver.do(half) == first
        assert len(first) == 4
        assert running.socket.stat().st_mode & 0o777 == 0o600


async def test_a_command_for_streams_is_rejected(folder: Path) -> None:
    async with running_fleet(folder) as running:
        with pytest.raises(ValueError, match="inject"):
            await running.driver.do(StreamDrop())


async def test_metrics_have_faults_by_rack_for_clients_with_the_token(folder: Path) -> None:
    async with running_fleet(folder) as running:
        await running.driver.do(Inject("xid/48", "fleet-3/*"))
        token = (folder / "fleet.metrics-token").read_text().strip()
        async with aiohttp.ClientSession() as session:
            async with session.get(running.fleet.metrics) as refused:
                assert refused.status == 401
            async with session.get(running.fleet.metrics, headers={"Authorization": f"Bearer {token}"}) as answer:
                text = await answer.text()
    faults = 'drahealth_fleet_faults{driver="gpu.example.com",fault="xid/48",rack="rack-1",zone="zone-0"} 2.0'
    assert faults in text.splitlines()


async def test_a_timeline_breaks_drawn_devices_of_the_whole_fleet(folder: Path) -> None:
    path = folder / "some.timeline.yaml"
    path.write_text(
        """format: fault-timeline/v1
name: three devices break
timeline:
  - {inject: xid/48, device: {pick: 3, from: "*/gpu-*"}}
  - {expect: {device: fleet-0/gpu-0, health: Healthy}, within: push}
"""
    )
    found = load_stories(path, [options(4)], (), 2)
    async with running_fleet(folder, stories=found) as running:
        await running.run_pods(8)
        async with asyncio.timeout(10):
            await running.ended.wait()
        broken = {event.device.partition("/")[0] for event in running.events if isinstance(event, StepStarted)}
        assert len(broken) > 1
        kinds = [type(event) for event in running.events if not isinstance(event, StepStarted)]
        assert kinds == [TimelineStarted, ExpectationMet, TimelineEnded]


def test_consecutive_nodes_share_a_rack() -> None:
    assert [node.rack for node in fleet_names(5, 2)] == ["rack-0", "rack-0", "rack-1", "rack-1", "rack-2"]
