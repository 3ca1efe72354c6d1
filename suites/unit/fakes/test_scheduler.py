"""The scheduler at work against the in-memory API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from drahealth.fakes.cluster import scheduler
from drahealth.fakes.cluster.allocation import FINALIZER
from drahealth.fakes.cluster.api import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    EVENTS,
    NODES,
    PODS,
    SLICES,
    ApiError,
    Kind,
    Object,
)
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.scheduler import Scheduler
from drahealth.fakes.kubelet_plugin.slices import Owner, Pool, SliceSync
from drahealth.proto.clock import SystemClock
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.expected_errors import api_error

DRIVER = "gpu.example.com"
GPU_CLASS: Object = {
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}


def claim_spec(count: int = 1, **fields: Any) -> Object:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **fields}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def named(name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def pod(name: str, *resource_claims: Object, **spec: Any) -> Object:
    entries = [{"name": f"c{index}", **entry} for index, entry in enumerate(resource_claims)]
    return named(name, {"containers": [{"name": "main", "image": "training"}], "resourceClaims": entries, **spec})


def uses(claim: str) -> Object:
    return {"resourceClaimName": claim}


FROM_TEMPLATE: Object = {"resourceClaimTemplateName": "template"}


async def settle() -> None:
    """Lets everything that is on its way arrive."""
    for _ in range(30):
        await asyncio.sleep(0)


async def publish(server: ApiServer, driver: str, node: str, pools: dict[str, list[Object]]) -> None:
    """The devices of a driver are there."""
    sync = SliceSync(server, Owner(driver, node), SystemClock())
    sync.publish({name: Pool(devices) for name, devices in pools.items()})
    await sync.in_sync()
    await sync.stop()


def gpus(count: int) -> list[Object]:
    """Devices as drivers publish them."""
    return [{"name": f"gpu-{number}"} for number in range(count)]


class WatchedServer(ApiServer):
    """Counts what is read: the scheduler reads a waiting pod each time it looks at it. May go down at a binding."""

    reads = 0
    goes_down_at_binding = False

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        self.reads += 1
        return await super().get(kind, name, namespace)

    async def bind(self, name: str, namespace: str, node: str) -> None:
        if self.goes_down_at_binding:
            self.down()
        await super().bind(name, namespace, node)


class Cluster:
    """A server with one node of two devices, a scheduler, and what a test asks of them."""

    def __init__(self) -> None:
        self.server = WatchedServer()
        self.scheduler = Scheduler(self.server)

    async def start(self) -> None:
        await self.server.create(NODES, {"metadata": {"name": "node"}})
        await self.server.create(DEVICE_CLASSES, GPU_CLASS)
        await self.server.create(CLAIM_TEMPLATES, named("template", {"spec": claim_spec()}))
        await publish(self.server, DRIVER, "node", {"pool": gpus(2)})
        await self.scheduler.start()

    async def until(self, kind: Kind, name: str, holds: Callable[[Object], Any]) -> Object:
        """The object once something holds of it, within two seconds."""
        async with asyncio.timeout(PATIENCE), aclosing(self.server.watch(kind, "default")) as watch:
            async for event in watch:
                if event.object["metadata"]["name"] == name and event.type != "DELETED" and holds(event.object):
                    return event.object
        raise AssertionError("the watch ended")

    async def bound(self, name: str) -> Object:
        return await self.until(PODS, name, lambda pod: pod["spec"].get("nodeName"))

    async def waits(self, name: str) -> str:
        """Why the pod waits."""
        pod = await self.until(PODS, name, lambda pod: pod["status"].get("conditions"))
        (condition,) = pod["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        )
        return str(condition["message"])

    async def failed(self, name: str) -> list[str]:
        """The messages of the Events of this pod with the reason FailedScheduling."""
        found = [event for event in await self.server.list(EVENTS) if event["involvedObject"]["name"] == name]
        return [event["message"] for event in found if event["reason"] == "FailedScheduling"]

    async def run(self, obj: Object) -> Object:
        await self.server.create(PODS, obj)
        return await self.bound(obj["metadata"]["name"])

    async def end(self, name: str, phase: str = "Succeeded") -> None:
        obj = await self.server.get(PODS, name, "default")
        await self.server.replace_status(PODS, {**obj, "status": {**obj["status"], "phase": phase}})

    async def devices(self, claim: str) -> list[str]:
        status = (await self.server.get(CLAIMS, claim, "default"))["status"]
        return [result["device"] for result in status.get("allocation", {}).get("devices", {}).get("results", ())]

    async def consumers(self, claim: str) -> list[str]:
        status = (await self.server.get(CLAIMS, claim, "default"))["status"]
        return [consumer["name"] for consumer in status.get("reservedFor", ())]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.start()
    yield cluster
    await cluster.scheduler.stop()


async def test_a_pod_without_claims_is_bound(cluster: Cluster) -> None:
    bound = await cluster.run(pod("plain"))
    assert bound["spec"]["nodeName"] == "node"
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]


async def test_a_claim_is_allocated_reserved_and_protected_before_its_pod_is_bound(cluster: Cluster) -> None:
    await cluster.server.create(CLAIMS, named("mine", claim_spec()))
    bound = await cluster.run(pod("train", uses("mine")))
    claim = await cluster.server.get(CLAIMS, "mine", "default")
    field = {"key": "metadata.name", "operator": "In", "values": ["node"]}
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["status"] == {
        "allocation": {
            "devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": "pool", "device": "gpu-0"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "train", "uid": bound["metadata"]["uid"]}],
    }


async def test_claim_is_created_from_a_template_and_named_in_the_pod(cluster: Cluster) -> None:
    bound = await cluster.run(pod("train", FROM_TEMPLATE))
    (claim,) = await cluster.server.list(CLAIMS)
    name, metadata = claim["metadata"]["name"], claim["metadata"]
    assert name.startswith("train-c0-")
    assert len(name) == len("train-c0-xxxxx")
    assert bound["status"]["resourceClaimStatuses"] == [{"name": "c0", "resourceClaimName": name}]
    assert [(o["kind"], o["uid"]) for o in metadata["ownerReferences"]] == [("Pod", bound["metadata"]["uid"])]
    assert claim["spec"] == claim_spec()


@pytest.mark.parametrize("how", ["deleted", "terminal"])
async def test_claim_from_a_template_is_deleted_with_its_pod(cluster: Cluster, how: str) -> None:
    await cluster.run(pod("first", FROM_TEMPLATE, FROM_TEMPLATE))
    await cluster.server.create(PODS, pod("second", FROM_TEMPLATE, FROM_TEMPLATE))
    assert await cluster.waits("second") == "0/1 nodes are available: 1 cannot allocate all claims"
    await (cluster.end("first") if how == "terminal" else cluster.server.delete(PODS, "first", "default", grace=0))
    await cluster.bound("second")
    owners = {claim["metadata"]["ownerReferences"][0]["name"] for claim in await cluster.server.list(CLAIMS)}
    assert owners == {"second"}


async def test_pod_can_use_a_claim_of_another_pod(cluster: Cluster) -> None:
    await cluster.run(pod("first", FROM_TEMPLATE))
    (claim,) = await cluster.server.list(CLAIMS)
    bound = await cluster.run(pod("second", uses(claim["metadata"]["name"])))
    assert await cluster.consumers(claim["metadata"]["name"]) == ["first", "second"]
    assert "resourceClaimStatuses" not in bound["status"]


async def test_pods_share_a_claim_until_the_last_is_over(cluster: Cluster) -> None:
    await cluster.server.create(CLAIMS, named("shared", claim_spec(2)))
    await cluster.run(pod("first", uses("shared")))
    await cluster.run(pod("second", uses("shared"), uses("shared")))
    assert await cluster.consumers("shared") == ["first", "second"]
    await cluster.end("first")
    await cluster.until(CLAIMS, "shared", lambda claim: len(claim["status"]["reservedFor"]) == 1)
    assert await cluster.devices("shared") == ["gpu-0", "gpu-1"]
    await cluster.end("second", "Failed")
    freed = await cluster.until(CLAIMS, "shared", lambda claim: not claim["metadata"].get("finalizers"))
    assert freed["status"] == {}


async def test_claims_of_a_pod_are_allocated_all_or_none(cluster: Cluster) -> None:
    await cluster.server.create(CLAIMS, named("one", claim_spec()))
    await cluster.server.create(CLAIMS, named("two", claim_spec(2)))
    await cluster.server.create(PODS, pod("train", uses("one"), uses("two")))
    await cluster.waits("train")
    assert [await cluster.devices(name) for name in ("one", "two")] == [[], []]
    await publish(cluster.server, DRIVER, "node", {"pool": gpus(3)})
    await cluster.bound("train")
    assert [await cluster.devices(name) for name in ("one", "two")] == [["gpu-0"], ["gpu-1", "gpu-2"]]


async def test_a_tainted_device_is_not_given(cluster: Cluster) -> None:
    (slice_,) = await cluster.server.list(SLICES)
    slice_["spec"]["devices"][0]["taints"] = [{"key": "broken", "effect": "NoExecute"}]
    await cluster.server.replace(SLICES, slice_)
    await cluster.server.create(CLAIMS, named("mine", claim_spec()))
    await cluster.run(pod("train", uses("mine")))
    assert await cluster.devices("mine") == ["gpu-1"]


async def test_admin_access_does_not_block_allocation_to_other_claims(cluster: Cluster) -> None:
    await cluster.server.create(CLAIMS, named("all", claim_spec(2)))
    await cluster.server.create(CLAIMS, named("admin", claim_spec(2, adminAccess=True)))
    await cluster.run(pod("monitor", uses("admin")))
    await cluster.run(pod("train", uses("all")))
    assert await cluster.devices("admin") == await cluster.devices("all") == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (uses("nothing"), "resourceclaim nothing not found"),
        ({"resourceClaimTemplateName": "nothing"}, "resourceclaimtemplate nothing not found"),
        (uses("unknown"), "claim unknown: request gpu: device class tpu does not exist"),
        (
            uses("strange"),
            "claim strange: request gpu: ",
        ),
    ],
)
async def test_pending_pod_reports_its_reason_and_blocks_no_other_pod(
    cluster: Cluster, entry: Object, why: str
) -> None:
    selectors = [{"cel": {"expression": "true"}}]
    await cluster.server.create(CLAIMS, named("unknown", claim_spec(deviceClassName="tpu")))
    await cluster.server.create(CLAIMS, named("strange", claim_spec(selectors=selectors)))
    await cluster.server.create(PODS, pod("train", entry))
    assert (await cluster.waits("train")).startswith(why)
    await cluster.run(pod("other", FROM_TEMPLATE))
    (event,) = await cluster.failed("train")  # written before the other pod was bound
    assert event.startswith(why)


async def test_pending_pod_is_bound_when_devices_appear(cluster: Cluster) -> None:
    await cluster.server.create(PODS, pod("train", uses("late"), nodeSelector={"zone": "a"}))
    assert await cluster.waits("train") == "resourceclaim late not found"
    await cluster.server.create(CLAIMS, named("late", claim_spec()))
    elsewhere = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector"
    await cluster.until(PODS, "train", lambda pod: pod["status"]["conditions"][0]["message"] == elsewhere)
    await cluster.server.create(NODES, {"metadata": {"name": "other", "labels": {"zone": "a"}}})
    await publish(cluster.server, DRIVER, "other", {"other-pool": gpus(1)})
    assert (await cluster.bound("train"))["spec"]["nodeName"] == "other"


async def test_a_pod_follows_the_claim_that_it_shares_to_its_node(cluster: Cluster) -> None:
    await cluster.server.create(NODES, {"metadata": {"name": "zzz"}})
    await publish(cluster.server, DRIVER, "zzz", {"other-pool": gpus(1)})
    await cluster.server.create(CLAIMS, named("shared", claim_spec()))
    await cluster.run(pod("filler", FROM_TEMPLATE, FROM_TEMPLATE))
    first = await cluster.run(pod("first", uses("shared")))
    await cluster.server.delete(PODS, "filler", "default", grace=0)
    second = await cluster.run(pod("second", uses("shared")))
    assert [first["spec"]["nodeName"], second["spec"]["nodeName"]] == ["zzz", "zzz"]


async def test_a_deleted_claim_stays_while_a_pod_uses_it(cluster: Cluster) -> None:
    await cluster.server.create(CLAIMS, named("mine", claim_spec()))
    await cluster.run(pod("train", uses("mine")))
    await cluster.server.delete(CLAIMS, "mine", "default")
    assert await cluster.devices("mine") == ["gpu-0"]
    await cluster.server.create(PODS, pod("late", uses("mine")))
    assert await cluster.waits("late") == "resourceclaim mine is being deleted"
    await cluster.end("train")
    await cluster.until(PODS, "late", lambda pod: "mine not found" in pod["status"]["conditions"][0]["message"])
    with pytest.raises(ApiError):
        await cluster.server.get(CLAIMS, "mine", "default")


async def test_scheduling_continues_after_an_api_server_outage(cluster: Cluster) -> None:
    await cluster.run(pod("before", FROM_TEMPLATE))
    cluster.server.down()
    await settle()
    cluster.server.up()
    await cluster.run(pod("after", FROM_TEMPLATE))
    assert len(await cluster.server.list(CLAIMS)) == 2


async def test_interrupted_writes_are_completed_after_an_outage(cluster: Cluster) -> None:
    cluster.server.goes_down_at_binding = True
    await cluster.server.create(PODS, pod("train", FROM_TEMPLATE))
    await settle()
    with api_error(503, "ServiceUnavailable"):
        await cluster.server.list(PODS)
    cluster.server.goes_down_at_binding = False
    cluster.server.up()
    await cluster.bound("train")


def fail_one_binding(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the API server answer the next binding with an error, after which the scheduler retries at once."""
    monkeypatch.setattr(scheduler, "_RETRY", 0)
    bind, errors = cluster.server.bind, [ApiError(500, "InternalError", "etcdserver: request timed out")]

    async def fail_once(name: str, namespace: str, node: str) -> None:
        if errors:
            raise errors.pop()
        await bind(name, namespace, node)

    monkeypatch.setattr(cluster.server, "bind", fail_once)


async def test_a_rejected_binding_is_repeated(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_one_binding(cluster, monkeypatch)
    await cluster.run(pod("train", FROM_TEMPLATE))


async def test_another_scheduler_takes_up_where_the_first_stopped(cluster: Cluster) -> None:
    await cluster.run(pod("before", FROM_TEMPLATE))
    await cluster.scheduler.stop()
    await cluster.server.create(PODS, pod("meanwhile", FROM_TEMPLATE))
    cluster.scheduler = Scheduler(cluster.server)
    await cluster.scheduler.start()
    await cluster.bound("meanwhile")
    held = [await cluster.devices(claim["metadata"]["name"]) for claim in await cluster.server.list(CLAIMS)]
    assert sorted(held) == [["gpu-0"], ["gpu-1"]]


async def test_parameters_of_class_and_claim_reach_the_allocation(cluster: Cluster) -> None:
    of_class, of_claim = ({"opaque": {"driver": DRIVER, "parameters": {"from": where}}} for where in "ab")
    device_class = await cluster.server.get(DEVICE_CLASSES, "gpu")
    device_class["spec"]["config"] = [of_class]
    await cluster.server.replace(DEVICE_CLASSES, device_class)
    spec = claim_spec()
    spec["devices"]["config"] = [{"requests": ["gpu"], **of_claim}, {"requests": ["other"], **of_claim}]
    await cluster.server.create(CLAIMS, named("mine", spec))
    await cluster.run(pod("train", uses("mine")))
    claim = await cluster.server.get(CLAIMS, "mine", "default")
    assert claim["status"]["allocation"]["devices"]["config"] == [
        {"source": "FromClass", "requests": ["gpu"], **of_class},
        {"source": "FromClaim", "requests": ["gpu"], **of_claim},
    ]


async def test_health_reports_do_not_wake_it(cluster: Cluster) -> None:
    bound = await cluster.run(pod("train"))
    await cluster.server.create(PODS, pod("waiting", uses("nothing")))
    await cluster.waits("waiting")
    await settle()
    reads = cluster.server.reads
    for number in range(50):
        await cluster.server.replace_status(PODS, {**named("train", {}), "status": {**bound["status"], "n": number}})
        await asyncio.sleep(0)
    await settle()
    assert cluster.server.reads == reads


async def test_a_pod_of_another_scheduler_is_left_alone(cluster: Cluster) -> None:
    await cluster.server.create(PODS, pod("other", schedulerName="mine"))
    await cluster.run(pod("ours", schedulerName="default-scheduler"))
    found = await cluster.server.get(PODS, "other", "default")
    assert (found["spec"].get("nodeName"), found["status"].get("conditions")) == (None, None)
