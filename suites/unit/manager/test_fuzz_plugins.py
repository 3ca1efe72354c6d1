"""Arbitrary bytes from a plugin, through real sockets and decoders, affect only its own devices and one log line."""

import json
import re
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.manager.cache import HealthCache
from drahealth.manager.checkpoint import health_text, load_health
from drahealth.manager.dra import PrepareError
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import NEWEST
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.services import GET_INFO, PREPARE
from drahealth.proto.values import AllocatedClaim, ClaimRef, DeviceHealth, DeviceId, Health
from drahealth.suites.unit.manager.anything import ANYTHING, a_few, is_line, mutated
from drahealth.suites.unit.manager.rig import DRIVER, Node, OddPlugin, until

GOOD = "good.example.com"
NUMBERS = st.integers(-(2**63), 2**63 - 1)
DEVICES = st.builds(DeviceHealth, ANYTHING, ANYTHING, st.sampled_from(Health), ANYTHING, NUMBERS, NUMBERS)


def reports(health_api: HealthApi) -> st.SearchStrategy[bytes]:
    devices = DEVICES | DEVICES.map(lambda d: DeviceHealth("node-a", "gpu-0", d.health, d.message, d.timeout))
    return mutated(st.lists(devices, max_size=3).map(lambda found: bytes(health_api.encode(found).SerializeToString())))


@pytest.mark.parametrize("profile", [KEP, NEWEST], ids=lambda profile: profile.name)
@pytest.mark.parametrize("health_api", HEALTH_APIS.values(), ids=HEALTH_APIS)
@given(data=st.data(), now=st.integers(0, 10**9))
def test_any_report_bytes_are_cached_and_restored_or_rejected(
    profile: Profile, health_api: HealthApi, data: st.DataObject, now: int
) -> None:
    cache = HealthCache(profile)
    for payload in data.draw(st.lists(reports(health_api), max_size=4)):
        try:
            report = health_api.decode(health_api.method.response.FromString(payload))
        except DecodeError:  # of which `services` makes MalformedMessage
            continue
        cache.update("d", report, now)
        for device in report:
            cache.read(DeviceId("d", device.pool, device.device), now)
    known = dict(cache.entries())
    file = b"{" + (health_text("d", cache.devices()["d"], now, 1.75e9) if known else b"") + b"}"
    assert dict(load_health(json.loads(file), now, 1.75e9)).keys() == known.keys()


@pytest.fixture
async def good(node: Node) -> FakeDriver:
    """Another driver, with a pod."""
    driver = await node.run_driver(GOOD)
    await node.run_pod("good", await node.claim("good", "gpu-0", drivers=(GOOD,)))
    await until(lambda: driver.health.open)
    return driver


async def works(driver: FakeDriver, node: Node) -> None:
    """What the driver says comes through."""
    message = f"fence {len(node.events)}"
    await driver.set_health("gpu-0", Health.UNHEALTHY, message)
    await node.shows("good", gpu_0=f"Unhealthy: {message}")


@pytest.fixture(autouse=True)
def nothing_is_logged_but_lines(caplog: pytest.LogCaptureFixture) -> object:
    yield
    records = caplog.get_records("call")
    odd = [record.getMessage() for record in records if not is_line(record.getMessage())]
    faults = [record.getMessage() for record in records if record.exc_info or record.name == "asyncio"]
    assert ([line for line in odd if not re.match("Using selector", line)], faults) == ([], [])


@a_few
@given(payloads=st.lists(reports(HEALTH_APIS["v1.DRAResourceHealth"]), min_size=1, max_size=6))
async def test_driver_is_still_watched_after_any_report_bytes(
    node: Node, good: FakeDriver, payloads: list[bytes]
) -> None:
    name = f"d{len(node.events)}.example.com"
    driver = await node.run_driver(name)
    await node.run_pod(name, await node.claim(name, "gpu-0", drivers=(name,)))
    for payload in payloads:
        await node.after_jumps(lambda: driver.health.open)
        await driver.stream_send(payload.hex())
    await works(good, node)
    await node.after_jumps(lambda: driver.health.open)
    await driver.set_health("gpu-0", Health.UNHEALTHY, "at last")
    await node.after_jumps(lambda: node.seen(name) == {"gpu-0": "Unhealthy: at last"})
    await driver.stop()


INFO = st.builds(
    GET_INFO.response,
    type=st.just("DRAPlugin") | ANYTHING,
    name=ANYTHING,
    endpoint=ANYTHING | st.just("/"),
    supported_versions=st.lists(st.sampled_from(["v1.DRAPlugin", "v1.DRAResourceHealth"]) | ANYTHING, max_size=3),
).map(lambda info: bytes(info.SerializeToString()))


@a_few
@given(payloads=st.lists(mutated(INFO), min_size=1, max_size=6))
async def test_any_get_info_response_does_not_delay_other_plugins(
    node: Node, good: FakeDriver, payloads: list[bytes]
) -> None:
    asked: set[int] = set()

    def answering(number: int) -> Any:
        async def get_info(request: Any, context: Any) -> bytes:
            asked.add(number)
            return payloads[number]

        return get_info

    methods = [{**OddPlugin().methods, GET_INFO: answering(number)} for number in range(len(payloads))]
    served = [await node.serve(functions, f"odd-{number}-reg.sock") for number, functions in enumerate(methods)]
    await until(lambda: len(asked) == len(payloads))
    await works(good, node)
    for socket in served:
        socket.remove()
        await socket.stop()


CLAIM_UID = "uid"
ANSWERS = st.builds(
    lambda error, devices: PREPARE["v1.DRAPlugin"].response(claims={CLAIM_UID: {"error": error, "devices": devices}}),
    st.just("") | ANYTHING,
    st.lists(
        st.fixed_dictionaries(
            {"pool_name": ANYTHING, "device_name": ANYTHING, "request_names": st.lists(ANYTHING, max_size=2)},
            optional={"cdi_device_ids": st.lists(ANYTHING, max_size=2), "share_id": ANYTHING},
        ),
        max_size=3,
    ),
).map(lambda answer: bytes(answer.SerializeToString()))


@a_few
@given(payloads=st.lists(mutated(ANSWERS), min_size=1, max_size=6))
async def test_any_prepare_response_gives_devices_or_a_one_line_error(node: Node, payloads: list[bytes]) -> None:
    plugin = OddPlugin(name=DRIVER)
    served = await node.serve(plugin.methods)
    await until(lambda: plugin.told)
    claim = AllocatedClaim(ClaimRef("default", "gpu", CLAIM_UID), (DRIVER,))
    for plugin.answer in payloads:
        try:
            await node.run_pod("pod", claim)
            reason = ""
        except PrepareError as error:
            reason = str(error)
        assert (reason.isprintable(), len(reason) < 1000) == (True, True)
        assert len(node.entries("pod")) <= 3
    plugin.answer = None
    await node.manager.unprepare("pod")
    served.remove()
    await served.stop()
    await node.after_jumps(lambda: not node.manager._directory._tasks)
