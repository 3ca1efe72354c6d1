"""Prepare calls of a kubelet: the claims that a driver receives, and the answers to the kubelet."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import pytest
from filelock import FileLock

from drahealth.fakes.cluster.api import ApiError, Object
from drahealth.fakes.kubelet_plugin import Device, NamespacedObject, PrepareResult
from drahealth.suites.unit.fakes.kubelet_plugin.plugin_rig import DRIVER, Plugin, PluginRig

CDI = f"{DRIVER}/gpu=gpu-0"


@pytest.mark.parametrize("version", ["v1.DRAPlugin", "v1beta1.DRAPlugin"])
async def test_prepared_devices_reach_the_kubelet_without_subrequests(rig: PluginRig, version: str) -> None:
    claim = await rig.claim()
    async with rig.running():
        answers = await rig.prepare(claim, version=version)
    (device,) = answers[claim["uid"]].devices
    assert (device.pool_name, device.device_name, [*device.request_names], [*device.cdi_device_ids]) == (
        "node-a",
        "gpu-0",
        ["gpu"],
        [CDI],
    )


async def test_missing_and_unallocated_claims_fail_before_the_driver_receives_them(rig: PluginRig) -> None:
    good, other = await rig.claim("good"), await rig.claim("other", allocated=False)
    gone, changed = {**good, "name": "gone", "uid": "a"}, {**good, "uid": "b"}
    plugin = Plugin()
    async with rig.running(plugin):
        answers = await rig.prepare(good, other, gone, changed)
    assert (plugin.prepared, answers[good["uid"]].error) == ([["good"]], "")
    assert answers[other["uid"]].error == "claim default/other is not allocated"
    assert answers["a"].error.startswith("claim default/gone cannot be read: NotFound: ")
    assert answers["b"].error == f"claim default/good cannot be read: NotFound: its uid is {good['uid']}, not b"


async def test_without_an_api_server_no_claim_can_be_prepared(rig: PluginRig) -> None:
    claim = await rig.claim()
    async with rig.running(api=None):
        answers = await rig.prepare(claim)
    assert answers[claim["uid"]].error == "claim default/gpus cannot be read: the driver has no API server"


async def test_claims_fail_while_the_api_server_is_unavailable_and_the_next_call_prepares(rig: PluginRig) -> None:
    claim = await rig.claim()
    async with rig.running():
        rig.api.down()
        away = (await rig.prepare(claim))[claim["uid"]]
        rig.api.up()
        back = (await rig.prepare(claim))[claim["uid"]]
    assert (away.error.partition(": ")[0], len(back.devices)) == ("claim default/gpus cannot be read", 1)


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (PrepareResult(error=RuntimeError("device is busy")), "device is busy"),
        (PrepareResult((Device("", "gpu-0"),)), "a prepared device has no pool"),
        (PrepareResult((Device("node-a", ""),)), "a prepared device has no name"),
        (
            PrepareResult((Device("node-a", "gpu-0", cdi_ids=("gpu-0",)),)),
            "CDI id of device gpu-0 must be like vendor.example.com/gpu=0, got 'gpu-0'",
        ),
    ],
)
async def test_a_claim_that_fails_leaves_the_others_alone(rig: PluginRig, result: PrepareResult, error: str) -> None:
    bad, good = await rig.claim("bad"), await rig.claim("good")
    async with rig.running(Plugin(results={"bad": result})):
        answers = await rig.prepare(bad, good)
    assert (answers[bad["uid"]].error, len(answers[bad["uid"]].devices)) == (error, 0)
    assert (answers[good["uid"]].error, len(answers[good["uid"]].devices)) == ("", 1)


async def test_claim_without_a_result_of_the_driver_fails(rig: PluginRig) -> None:
    class Forgetful(Plugin):
        async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
            return {}

        async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
            return {}

    claim = await rig.claim()
    async with rig.running(Forgetful()):
        answers = await rig.prepare(claim), await rig.unprepare(claim)
    assert {answer[claim["uid"]].error for answer in answers} == {"the driver returned no result for this claim"}


async def test_exception_of_the_driver_fails_all_claims(rig: PluginRig) -> None:
    class Broken(Plugin):
        async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
            raise OSError("the disk is full")

    async with rig.running(Broken()):
        with pytest.raises(grpc.aio.AioRpcError, match="the disk is full"):
            await rig.prepare(await rig.claim())


async def test_unpreparing_needs_no_claim_object(rig: PluginRig) -> None:
    plugin = Plugin()
    async with rig.running(plugin, api=None):
        answers = await rig.unprepare({"namespace": "default", "name": "gone", "uid": "abc"})
    assert (plugin.unprepared, answers["abc"].error) == ([NamespacedObject("default", "gone", "abc")], "")
    assert str(plugin.unprepared[0]) == "default/gone:abc"


async def test_unprepare_error_fails_only_its_claim(rig: PluginRig) -> None:
    class Stuck(Plugin):
        async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
            return {claim.uid: ApiError(500, "Stuck", claim.name) if claim.name == "a" else None for claim in claims}

    claims = [{"namespace": "default", "name": name, "uid": name} for name in "ab"]
    async with rig.running(Stuck()):
        answers = await rig.unprepare(*claims)
    assert {uid: answer.error for uid, answer in answers.items()} == {"a": "Stuck: a", "b": ""}


# -- one at a time


class Counting(Plugin):
    """Counts how many calls are under way at once, each until the next ones have had their chance."""

    under_way = most = 0

    def __init__(self, together: int) -> None:
        super().__init__()
        self._together = asyncio.Event()
        self._wanted = together

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        Counting.under_way += 1
        Counting.most = max(Counting.most, Counting.under_way)
        if Counting.under_way >= self._wanted:
            self._together.set()
        if self._wanted > 1:
            await self._together.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        Counting.under_way -= 1
        return await super().prepare_resource_claims(claims)


async def most_at_once(*calls: Any) -> int:
    Counting.under_way = Counting.most = 0
    await asyncio.gather(*calls)
    return Counting.most


async def test_calls_are_serialized(rig: PluginRig) -> None:
    claim = await rig.claim()
    async with rig.running(Counting(1)):
        assert await most_at_once(*(rig.prepare(claim) for _ in range(5))) == 1


async def test_calls_are_concurrent_without_serialize(rig: PluginRig) -> None:
    claim = await rig.claim()
    async with rig.running(Counting(3), serialize=False):
        assert await most_at_once(*(rig.prepare(claim) for _ in range(3))) == 3


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_instances_of_a_rolling_update_take_turns_too(rig: PluginRig, elsewhere: bool) -> None:
    claim = await rig.claim()
    folder = rig.root / ("locks" if elsewhere else "data")
    folder.mkdir()
    options = {"flock_dir": folder} if elsewhere else {}

    async with (
        rig.running(Counting(1), rolling_update="a", **options),
        rig.running(Counting(1), rolling_update="b", **options),
    ):
        assert await most_at_once(*(rig.prepare(claim, instance=instance) for instance in "abab")) == 1
    assert [path.name for path in folder.iterdir() if path.suffix == ".lock"] == ["serialize.lock"]


async def test_waiting_for_the_lock_does_not_block_the_event_loop(rig: PluginRig) -> None:
    claim = await rig.claim()
    async with rig.running(rolling_update="a"):
        with FileLock(rig.root / "data/serialize.lock"):
            calling = asyncio.create_task(rig.prepare(claim, instance="a"))
            assert (await rig.ask(f"registry/{DRIVER}-a-reg.sock")).name == DRIVER
            assert not calling.done()
        assert len((await calling)[claim["uid"]].devices) == 1
