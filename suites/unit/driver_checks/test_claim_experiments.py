"""The experiments of claims and ResourceSlices on a running fake driver, and their records."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import grpc
import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import CLAIMS, DEVICE_CLASSES, NAMESPACES, NODES, PODS, SLICES, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.proto.events import (
    CdiSpecsRead,
    ClaimAllocated,
    GrpcCall,
    ReportReceived,
    SliceChanged,
    SlicesListed,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.services import PREPARE
from drahealth.proto.values import DeviceId
from drahealth.suites.driver_checks.claims_experiments import (
    UNPUBLISHED,
    Published,
    allocator,
    chosen,
    published_devices,
    shapes_of,
)
from drahealth.suites.driver_checks.experiments import Incomplete
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.run_experiments import RUNS
from drahealth.suites.driver_checks.scripted_kubelet import Plugin
from drahealth.suites.driver_checks.subject.gateway import create_objects
from drahealth.suites.driver_checks.subject.places import Places
from drahealth.suites.driver_checks.subject.subject import Subject
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.unit.driver_checks.lab_rig import DRIVER, NODE, LabRig
from drahealth.suites.unit.driver_checks.runs import run_with

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "mine", "labels": {"app": "demo"}},
    "spec": {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu", "count": 2}}]}},
}
CLASS = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}


async def run(rig: LabRig, name: str, claim: tuple[dict[str, Any], ...] = ()) -> None:
    async with rig.time_flies():
        await RUNS[name](rig.lab(run_with(claim=claim)))


async def published(rig: LabRig, **options: Any) -> FakeDriver:
    """A driver with a fact about its plugin."""
    driver = await rig.driver(**options)
    endpoint, registration = driver.sockets
    rig.facts.plugin.set_result(Plugin(DRIVER, registration, endpoint, ("v1.DRAPlugin",)))
    return driver


def devices(claim: ClaimAllocated) -> list[str]:
    return [result["device"] for result in claim.results]


def story(rig: LabRig) -> list[str]:
    """The calls, with the devices of their claims."""
    names = {claim.claim_uid: "+".join(devices(claim)) for claim in rig.happened(ClaimAllocated)}
    told = []
    for call in rig.happened(GrpcCall):
        asked = [names.get(one["uid"], "unknown") for one in call.request["claims"]]
        told.append(" ".join((call.method.rpartition("/Node")[2].removesuffix("Resources"), *asked)))
    return told


async def test_claims_are_prepared_and_unprepared_in_every_way(rig: LabRig) -> None:
    await published(rig)
    await run(rig, "claims")
    assert story(rig) == [
        "Prepare gpu-1",
        "Prepare gpu-1",
        "Unprepare gpu-1",
        "Unprepare gpu-1",
        "Unprepare unknown",
        f"Prepare gpu-1 {UNPUBLISHED}",
        f"Unprepare {UNPUBLISHED}",
        "Prepare gpu-1",
        "Prepare gpu-1",
        "Unprepare gpu-1",
        "Unprepare gpu-1",
        "Prepare gpu-1 gpu-2",
        "Unprepare gpu-1 gpu-2",
        "Prepare gpu-0",
        "Unprepare gpu-0",
        "Unprepare gpu-0",
    ]
    assert await rig.api.list(CLAIMS) == []


async def test_cdi_specs_of_prepared_claims_are_read(rig: LabRig) -> None:
    await published(rig, devices=("gpu-0", "gpu-1"))
    await run(rig, "claims")
    defined = ("gpu.example.com/gpu=gpu-0", "gpu.example.com/gpu=gpu-1")
    reads = rig.happened(CdiSpecsRead)
    assert {tuple((spec.problem, spec.devices) for spec in read.specs) for read in reads} == {(("", defined),)}


async def test_claim_stays_prepared_while_reports_list_only_prepared_devices(rig: LabRig) -> None:
    await published(rig)
    rig.facts.health_apis.set_result(("v1alpha1.NodeHealth/WatchDevicesStatus",))
    began = rig.clock.now()
    await run(rig, "claims")
    assert rig.clock.now() - began >= 12


async def test_only_device_is_prepared_without_a_second_claim(rig: LabRig) -> None:
    await published(rig, devices=("gpu-0",))
    await run(rig, "claims")
    assert {tuple(devices(claim)) for claim in rig.happened(ClaimAllocated)} == {("gpu-0",), (UNPUBLISHED,)}


async def test_claim_of_the_user_is_allocated_from_published_devices(rig: LabRig) -> None:
    await published(rig, devices=("gpu-0", "gpu-1", "gpu-2", "gpu-3"))
    await run(rig, "claims", claim=(CLASS, CLAIM, CLAIM))
    assert story(rig)[0] == "Prepare gpu-0+gpu-1"
    assert story(rig)[-1] == "Unprepare gpu-0+gpu-1 gpu-2+gpu-3"


TEAM = {"kind": "Namespace", "metadata": {"name": "team", "resourceVersion": "1"}}
CLAIM_OF_TEAM = {**CLAIM, "metadata": {"name": "mine", "namespace": "team"}}


@pytest.mark.parametrize("exists", [True, False])
async def test_objects_of_the_claim_file_exist_while_the_driver_is_called(rig: LabRig, exists: bool) -> None:
    await published(rig)
    if exists:
        await rig.api.create(NAMESPACES, {"metadata": {"name": "team"}})
        await rig.api.create(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
    await run(rig, "claims", claim=(CLAIM_OF_TEAM, TEAM, CLASS))
    assert {claim.namespace for claim in rig.happened(ClaimAllocated)} == {"team"}
    assert [one["metadata"]["name"] for one in await rig.api.list(DEVICE_CLASSES)] == exists * ["gpu"]


async def test_claim_that_the_api_server_rejects_is_incomplete(rig: LabRig) -> None:
    await published(rig)
    with pytest.raises(Incomplete, match='namespaces "team" not found'):
        await run(rig, "claims", claim=(CLAIM_OF_TEAM, CLASS))


async def test_allocation_in_the_claim_file_is_used(rig: LabRig) -> None:
    await published(rig)
    result = {"request": "gpus", "driver": DRIVER, "pool": NODE, "device": "gpu-2"}
    await run(rig, "claims", claim=({**CLAIM, "status": {"allocation": {"devices": {"results": [result]}}}},))
    assert story(rig)[0] == "Prepare gpu-2"


async def test_claim_that_cannot_be_allocated_is_incomplete(rig: LabRig) -> None:
    await published(rig, devices=("gpu-0",))
    with pytest.raises(Incomplete, match="claim mine"):
        await run(rig, "claims", claim=(CLASS, CLAIM))


async def test_driver_without_devices_is_incomplete(rig: LabRig) -> None:
    rig.facts.plugin.set_result(rig.plugin(await rig.serve({})))
    with pytest.raises(Incomplete, match="--claim"):
        await run(rig, "claims")


async def serve_prepare(rig: LabRig, prepare: Any) -> None:
    """A driver that publishes two devices, and prepares claims by hand."""
    await rig.driver()
    endpoint = await rig.serve({PREPARE["v1.DRAPlugin"]: prepare})
    rig.facts.plugin.set_result(Plugin(DRIVER, endpoint, endpoint, ("v1.DRAPlugin",)))


async def test_claim_that_is_not_prepared_ends_the_experiment(rig: LabRig) -> None:
    async def refuse(request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.INTERNAL, "no")

    await serve_prepare(rig, refuse)
    await run(rig, "claims")
    assert [call.code for call in rig.happened(GrpcCall)] == ["INTERNAL"]


async def test_hanging_prepare_ends_the_experiment(rig: LabRig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(request: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr("drahealth.suites.driver_checks.claims_experiments.CALL_LIMIT", 0.1)
    await serve_prepare(rig, hang)
    await run(rig, "claims")
    assert [call.code for call in rig.happened(GrpcCall)] == ["DEADLINE_EXCEEDED"]


@pytest.mark.parametrize(("command", "reserved"), [((), 0), (("driver",), 1)])
async def test_claim_is_reserved_for_a_pod_only_without_controllers(
    rig: LabRig, command: tuple[str, ...], reserved: int
) -> None:
    driver = await published(rig)
    subject = Subject("main", rig.places, rig.clock, rig.events.append, command=command, api=rig.api)
    lab = Lab(subject, rig.events.append, rig.facts, run_with())
    async with allocator(lab, rig.plugin(driver.endpoint)) as made:
        await made.claim(made.shapes[0], "a")
        (claim,) = await rig.api.list(CLAIMS)
    assert len(claim["status"].get("reservedFor", ())) == reserved


async def test_device_that_is_not_the_first_is_chosen(rig: LabRig) -> None:
    tainted = {"name": "gpu-1", "taints": [{"key": "broken", "effect": "NoSchedule"}]}
    names = [{"name": "gpu-0"}, tainted, {"name": "gpu-2"}, {"name": "gpu-3"}]
    pool = {"name": "pool", "generation": 2, "resourceSliceCount": 1}
    old = {"spec": {"driver": DRIVER, "pool": {**pool, "generation": 1}, "devices": [{"name": "gone"}]}}
    new = {"spec": {"driver": DRIVER, "pool": pool, "nodeName": NODE, "devices": names}}
    found = chosen(published_devices([old, new]))
    assert [device.id for device in found] == [DeviceId(DRIVER, "pool", name) for name in ("gpu-2", "gpu-3")]


# -- ResourceSlices


def names(found: SlicesListed) -> list[str]:
    return [device["name"] for one in found.slices for device in one["spec"]["devices"]]


async def test_slices_are_listed_and_changes_recorded(rig: LabRig) -> None:
    driver = await published(rig)
    watch = {"watch": asyncio.Event()}
    async with rig.time_flies():
        work = asyncio.create_task(RUNS["slices"](rig.lab(ended=watch)))
        (found,) = await asyncio.shield(rig.facts.slices)
        await driver.taint("gpu-0", "broken")
        watch["watch"].set()
        await work
    first, *_, last = rig.happened(SlicesListed)
    assert (names(first), found["spec"]["devices"]) == (["gpu-0", "gpu-1", "gpu-2"], first.slices[0]["spec"]["devices"])
    assert {(event.change, event.by) for event in rig.happened(SliceChanged)} == {("MODIFIED", "driver")}
    assert "taints" in last.slices[0]["spec"]["devices"][0]


def slice_of(name: str, driver: str = DRIVER, node: str = NODE) -> dict[str, Any]:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-9"}]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_slices_of_other_drivers_and_nodes_are_ignored(rig: LabRig) -> None:
    await published(rig)
    await rig.api.create(SLICES, slice_of("a", "other.example.com"))
    await rig.api.create(SLICES, slice_of("b", node="node-b"))
    await run(rig, "slices")
    assert names(rig.happened(SlicesListed)[0]) == ["gpu-0", "gpu-1", "gpu-2"]


async def test_driver_on_several_nodes_needs_a_node_name(rig: LabRig) -> None:
    rig.places = replace(rig.places, node_name="")
    await published(rig)
    await rig.api.create(SLICES, slice_of("b", node="node-b"))
    with pytest.raises(Incomplete, match="--node-name"):
        await run(rig, "claims")


async def test_driver_without_slices_has_none(rig: LabRig) -> None:
    rig.facts.plugin.set_result(rig.plugin(await rig.serve({})))
    await run(rig, "slices")
    assert rig.happened(SlicesListed) == [SlicesListed(()), SlicesListed(())]


async def test_deleted_slice_returns(rig: LabRig) -> None:
    await published(rig)
    await run(rig, "slice-deletion")
    before, after = rig.happened(SlicesListed)
    assert [(event.change, event.by) for event in rig.happened(SliceChanged)] == [
        ("DELETED", "check"),
        ("ADDED", "driver"),
    ]
    assert names(before) == names(after)


async def test_stream_after_a_second_registration_is_followed_while_the_slice_is_deleted(rig: LabRig) -> None:
    await published(rig)
    await run(rig, "slice-deletion")
    kinds = (GrpcCall, StreamOpened, ReportReceived, SliceChanged, StreamClosed)
    found = [name for name, _ in groupby(event.event for event in rig.events if isinstance(event, kinds))]
    assert found[:2] == ["grpc-call", "stream-opened"]
    assert found[-5:] == ["report-received", "slice-changed", "report-received", "stream-closed", "grpc-call"]


async def test_wait_for_a_deleted_slice_ends_without_its_return(rig: LabRig) -> None:
    await published(rig)
    (found,) = await until_published(rig)
    driver = found["spec"]["driver"]
    await rig.close_drivers()
    rig.facts.plugin = asyncio.get_running_loop().create_future()
    rig.facts.plugin.set_result(Plugin(driver, rig.places.registry_dir, rig.places.registry_dir, ()))
    await run(rig, "slice-deletion")
    assert [names(listed) for listed in rig.happened(SlicesListed)] == [["gpu-0", "gpu-1", "gpu-2"], []]


async def until_published(rig: LabRig) -> list[Any]:
    async for event in rig.api.watch(SLICES):
        return [event.object]
    return []


# Claims of several devices, and objects in the API server before the driver starts.

DEVICES = [Published(DeviceId("gpu.example.com", "pool", f"gpu-{number}"), "node-a", {}) for number in range(4)]
PLACES = Places(Path("/k"), Path("/k/r"), Path("/k/p"), Path("/c"), None, "node-a")
NAMESPACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}


@pytest.mark.parametrize(
    ("published", "count", "expected"),
    [
        (4, 1, [{"gpu-1"}, {"gpu-2"}]),
        (4, 2, [{"gpu-0", "gpu-1"}, {"gpu-2", "gpu-3"}]),
        (4, 3, [{"gpu-0", "gpu-1", "gpu-2"}]),
        (3, "all", [{"gpu-0", "gpu-1", "gpu-2"}]),
        (0, "all", []),
        (0, 2, []),
    ],
)
def test_claims_have_the_devices_that_the_profile_asks_for(
    published: int, count: int | Literal["all"], expected: list[set[str]]
) -> None:
    shapes = shapes_of(DEVICES[:published], count)
    assert [{device.device for device in shape.devices} for shape in shapes] == expected


def test_claim_requests_as_many_devices_as_it_is_allocated() -> None:
    (shape,) = shapes_of(DEVICES[:2], "all")
    assert shape.claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2


def test_driver_with_too_few_devices_is_incomplete() -> None:
    with pytest.raises(Incomplete):
        shapes_of(DEVICES, 5)


async def created(*objects: Mapping[str, Any]) -> ApiServer:
    api = ApiServer(clock=JumpClock())
    await create_objects(api, objects, PLACES)
    return api


async def test_objects_exist_with_their_placeholders_replaced() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "driver-on-{node_name}", "namespace": "system"},
        "spec": {"nodeName": "{node_name}", "containers": [{"name": "c", "image": "i"}]},
    }
    api = await created(pod, NAMESPACE)
    (found,) = await api.list(PODS)
    assert (found["metadata"]["name"], found["spec"]["nodeName"]) == ("driver-on-node-a", "node-a")
    assert [one["metadata"]["name"] for one in await api.list(NODES)] == ["node-a"]
    assert "system" in [one["metadata"]["name"] for one in await api.list(NAMESPACES)]


async def test_node_of_the_user_replaces_the_one_of_drahealth() -> None:
    api = await created(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{node_name}", "labels": {"gpu": "yes"}}}
    )
    assert [one["metadata"]["labels"]["gpu"] for one in await api.list(NODES)] == ["yes"]


async def test_rejected_object_is_an_error_of_the_profile() -> None:
    with pytest.raises(ConfigurationError, match="Pod p"):
        await created({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}})
