"""Claims of pods: prepare, sharing, and unprepare by their drivers."""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from drahealth.fakes.cluster.api import CLAIMS
from drahealth.fakes.control.fake_options import Returned
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.manager.dra import PrepareError
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import NEWEST
from drahealth.proto.events import Prepared, Unprepared
from drahealth.proto.services import PREPARE
from drahealth.proto.values import AllocatedClaim, DeviceId, Health, PreparedDevice
from drahealth.suites.unit.manager.rig import DRIVER, Node, until

OTHER = "nic.example.com"


async def prepared(*drivers: FakeDriver) -> list[int]:
    """How many claims each driver holds prepared."""
    return [len((await driver.state()).prepared) for driver in drivers]


async def test_prepare_returns_devices_in_the_order_of_the_driver(node: Node) -> None:
    await node.run_driver()
    claim = await node.claim("gpus", "gpu-1", "gpu-0")
    assert await node.manager.prepare("pod", [claim]) == {
        claim.ref.uid: tuple(
            PreparedDevice(DeviceId(DRIVER, "node-a", name), ("gpu",), (f"{DRIVER}/gpu={name}",))
            for name in ("gpu-1", "gpu-0")
        )
    }


@pytest.mark.parametrize(("profile", "requests"), [(KEP, ("gpu",)), (NEWEST, ("gpu/large", "gpu/small"))])
async def test_subrequest_in_a_prepare_response_maps_to_its_request(
    node: Node, profile: Profile, requests: tuple[str, ...]
) -> None:
    named = Returned("node-a", "gpu-0", requests=("gpu/large", "gpu/small"))
    node.profile = profile
    await node.restart()
    await node.run_driver(returns={"gpu-0": (named,)})
    claim = await node.claim("gpus", "gpu-0")
    [device] = (await node.manager.prepare("pod", [claim]))[claim.ref.uid]
    assert device.requests == requests


@pytest.mark.counterpart("TestRegistrationHandler")
@pytest.mark.parametrize("version", ["v1.DRAPlugin", "v1beta1.DRAPlugin"])
async def test_each_version_of_the_node_service_is_supported(node: Node, version: str) -> None:
    driver = await node.run_driver(dra_versions=(version,))
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await node.manager.unprepare("pod")
    assert [event.devices for event in node.happened(Prepared)] == [("gpu-0",)]
    assert await prepared(driver) == [0]


@pytest.mark.parametrize(("version", "share"), [("v1.DRAPlugin", "half"), ("v1beta1.DRAPlugin", None)])
async def test_share_id_is_returned_by_v1_and_not_by_v1beta1(node: Node, version: str, share: str | None) -> None:
    await node.run_driver(dra_versions=(version,))
    claim = await node.claim("gpu", "gpu-0", share="half")
    (device,) = (await node.manager.prepare("pod", [claim]))[claim.ref.uid]
    assert device.share_id == share


async def test_a_claim_of_two_drivers_is_prepared_by_both(node: Node) -> None:
    drivers = [await node.run_driver(name) for name in (DRIVER, OTHER)]
    await node.run_pod("pod", await node.claim("both", "gpu-0", drivers=(DRIVER, OTHER)))
    assert await prepared(*drivers) == [1, 1]
    await node.manager.unprepare("pod")
    assert await prepared(*drivers) == [0, 0]


async def test_prepared_claim_is_not_prepared_again(node: Node) -> None:
    await node.run_driver()
    claim = await node.claim("gpu", "gpu-0")
    first, second = [await node.manager.prepare("pod", [claim]) for _ in range(2)]
    assert first == second
    assert len(node.happened(Prepared)) == 1


async def test_shared_claim_is_prepared_once_and_unprepared_once(node: Node) -> None:
    await node.run_driver()
    claim = await node.claim("gpu", "gpu-0")
    await asyncio.gather(*(node.run_pod(pod, claim) for pod in ("a", "b", "c")))
    await asyncio.gather(node.manager.unprepare("a"), node.manager.unprepare("b"))
    assert (len(node.happened(Prepared)), len(node.happened(Unprepared))) == (1, 0)
    await node.manager.unprepare("c")
    assert len(node.happened(Unprepared)) == 1


async def test_repeated_unprepare_or_unknown_pod_calls_no_driver(node: Node) -> None:
    await node.run_driver()
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await asyncio.gather(*(node.manager.unprepare(pod) for pod in ("pod", "pod", "stranger")))
    assert len(node.happened(Unprepared)) == 1


async def test_prepare_error_names_the_driver_without_a_plugin(node: Node) -> None:
    with pytest.raises(PrepareError, match=f"^no plugin is registered for driver {DRIVER}$"):
        await node.run_pod("pod", await node.claim("gpu", "gpu-0"))


async def test_prepare_error_of_the_driver_names_the_claim(node: Node) -> None:
    await node.run_driver()
    claim = await node.claim("gpu", "gpu-0")
    await node.api.delete(CLAIMS, "gpu", "default")
    with pytest.raises(PrepareError, match=f"^{DRIVER} at dra.sock: prepare of claim default/gpu: .*cannot be read"):
        await node.run_pod("pod", claim)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (PREPARE["v1.DRAPlugin"].response(), "prepare returned no result for claim default/gpu"),
        (PREPARE["v1.DRAPlugin"].response(claims={"other": {}}), "prepare returned no result for claim default/gpu"),
        (b"\x0a\xff", "prepare failed: 2 bytes"),
    ],
)
async def test_prepare_response_without_the_claim_is_an_error(node: Node, answer: Any, reason: str) -> None:
    plugin = await node.run_odd(name=DRIVER)
    plugin.answer = answer
    with pytest.raises(PrepareError, match=f"^{DRIVER} at odd-reg.sock: {reason}"):
        await node.run_pod("pod", await node.claim("gpu", "gpu-0"))


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNIMPLEMENTED]
)
async def test_a_call_that_fails_is_an_error(node: Node, code: grpc.StatusCode) -> None:
    plugin = await node.run_odd(name=DRIVER)
    plugin.code = code
    with pytest.raises(PrepareError, match=f"prepare failed: {code.name}: on purpose"):
        await node.run_pod("pod", await node.claim("gpu", "gpu-0"))


async def test_deregistration_during_prepare_is_an_error(node: Node) -> None:
    plugin = await node.run_odd(name=DRIVER)
    plugin.pause.clear()
    preparing = asyncio.create_task(node.run_pod("pod", await node.claim("gpu", "gpu-0")))
    await until(lambda: plugin.asked)
    (node.registry / "odd-reg.sock").unlink()
    with pytest.raises(PrepareError, match="CANCELLED: the connection was closed"):
        await preparing


async def fail_second(node: Node) -> tuple[FakeDriver, Sequence[AllocatedClaim]]:
    """A pod of two claims whose second has no plugin."""
    driver = await node.run_driver()
    claims = [await node.claim("gpu", "gpu-0"), await node.claim("nic", "nic-0", drivers=(OTHER,))]
    with pytest.raises(PrepareError, match=OTHER):
        await node.run_pod("pod", *claims)
    return driver, claims


async def test_only_the_failed_claim_is_prepared_again(node: Node) -> None:
    _, claims = await fail_second(node)
    await node.run_driver(OTHER, devices=("nic-0",))
    await node.run_pod("pod", *claims)
    assert [event.driver for event in node.happened(Prepared)] == [DRIVER, OTHER]


async def test_claims_prepared_before_a_failure_are_unprepared_after_a_restart(node: Node) -> None:
    driver, _ = await fail_second(node)
    await node.restart()
    await driver.stop()
    await node.start_driver(driver)
    await node.manager.unprepare("pod")
    assert len(node.happened(Unprepared)) == 1


async def test_partly_prepared_claim_is_unprepared_by_its_preparing_driver(node: Node) -> None:
    driver = await node.run_driver()
    with pytest.raises(PrepareError, match=OTHER):
        await node.run_pod("pod", await node.claim("both", "gpu-0", drivers=(DRIVER, OTHER)))
    assert await prepared(driver) == [1]
    assert node.seen("pod") == {}
    await node.manager.unprepare("pod")
    assert await prepared(driver) == [0]


async def test_failed_retry_still_unprepares_drivers_called_earlier(node: Node) -> None:
    first, second = await node.run_odd(name=DRIVER), await node.run_driver(OTHER)
    claim = await node.claim("three", "gpu-0", drivers=(DRIVER, OTHER, "third.example.com"))
    for code, reason in ((grpc.StatusCode.OK, "third.example.com"), (grpc.StatusCode.INTERNAL, "on purpose")):
        first.code = code
        with pytest.raises(PrepareError, match=reason):
            await node.run_pod("pod", claim)
    first.code = grpc.StatusCode.OK
    await node.manager.unprepare("pod")
    assert await prepared(second) == [0]


async def test_an_unprepare_that_fails_leaves_the_claim_with_its_pod(node: Node) -> None:
    driver = await node.run_driver()
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await driver.stop()
    with pytest.raises(PrepareError, match=DRIVER):
        await node.manager.unprepare("pod")
    await node.start_driver(driver)
    await node.shows("pod", gpu_0="Healthy")
    await node.manager.unprepare("pod")
    assert await prepared(driver) == [0]


async def test_finished_pod_keeps_its_last_health(node: Node) -> None:
    driver = await node.run_driver()
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await driver.set_health("gpu-0", Health.UNHEALTHY, "xid 79")
    await node.shows("pod", gpu_0="Unhealthy: xid 79")
    await node.manager.unprepare("pod")
    await driver.set_health("gpu-0", Health.HEALTHY)
    await node.jump(1000)
    assert node.seen("pod") == {"gpu-0": "Unhealthy: xid 79"}
    node.manager.forget("pod")
    assert node.seen("pod") == {}


async def test_1_37_finished_pod_shows_no_devices(node_1_37: Node) -> None:
    await node_1_37.run_driver()
    await node_1_37.run_pod("pod", await node_1_37.claim("gpu", "gpu-0"))
    await node_1_37.shows("pod", gpu_0="Healthy")
    await node_1_37.manager.unprepare("pod")
    assert node_1_37.seen("pod") == {}


async def test_health_is_still_followed_while_an_unprepare_fails(node: Node) -> None:
    driver = await node.run_driver()
    claims = [await node.claim("gpu", "gpu-0"), await node.claim("nic", "nic-0", drivers=(OTHER,))]
    other = await node.run_driver(OTHER, devices=("nic-0",))
    await node.run_pod("pod", claims[1], claims[0])
    await node.shows("pod", gpu_0="Healthy", nic_0="Healthy")
    await other.stop()
    with pytest.raises(PrepareError, match=OTHER):
        await node.manager.unprepare("pod")
    await driver.set_health("gpu-0", Health.UNHEALTHY)
    await node.shows("pod", gpu_0="Unhealthy", nic_0="Unknown")
