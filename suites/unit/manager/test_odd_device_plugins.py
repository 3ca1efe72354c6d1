"""Arbitrary text and bytes from device plugins: log lines stay intact and other plugins keep working."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.manager.plugin import PluginError
from drahealth.proto.services import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    LIST_AND_WATCH,
    PRE_START_CONTAINER,
    REGISTER,
)
from drahealth.proto.sockets import target
from drahealth.proto.values import AdmissionError, Amount
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.anything import ANYTHING, a_few, is_line, mutated, odd_text
from drahealth.suites.unit.manager.plugin_rig import (
    RESOURCE,
    OddDevicePlugin,
    call_register,
    health,
    of,
    run_odd,
    run_plugin,
    run_pod,
    serve,
)
from drahealth.suites.unit.manager.rig import Node, OddPlugin, lines, until

GOOD = "good.example.com/gpu"


@pytest.fixture(autouse=True)
def nothing_is_logged_but_lines(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level("DEBUG", "drahealth")
    yield
    records = caplog.get_records("call")
    odd = [record.getMessage() for record in records if not is_line(record.getMessage())]
    faults = [record.getMessage() for record in records if record.exc_info or record.name == "asyncio"]
    assert (odd, faults) == ([], [])


@odd_text
@pytest.mark.parametrize(
    ("field", "words"),
    [("version", "v1beta1"), ("endpoint", "kubelet.sock"), ("resource_name", "extended resource")],
)
async def test_invalid_registration_is_rejected_with_a_one_line_reason(
    node: Node, field: str, words: str, odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = await call_register(node, **{field: f"/{odd}"})
    assert (words in told, is_line(told), len(lines(caplog, "rejected"))) == (True, True, 1)


@odd_text
async def test_invalid_plugin_in_the_registration_directory_gets_one_line(node: Node, odd: str) -> None:
    plugin = OddPlugin(type="DevicePlugin", name=odd, supported_versions=["v1beta1"])
    await node.serve(plugin.methods)
    other = OddPlugin(type="DevicePlugin", name=RESOURCE, supported_versions=[odd] * 100)
    await node.serve(other.methods, "other-reg.sock")
    await until(lambda: plugin.told and other.told)
    (refused, why), (other_refused, other_why) = plugin.told[0], other.told[0]
    assert (refused, other_refused, is_line(why), is_line(other_why)) == (False, False, True, True)


@pytest.mark.parametrize("name", ["a\nERROR b.sock", "\x1b[31m.sock", "\u202e.sock"])
async def test_failure_at_any_socket_name_is_logged_in_one_line(
    node: Node, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = OddDevicePlugin(of("a"))
    await serve(node, plugin, name)
    assert await call_register(node, endpoint=name) == ""
    plugin.lists.put_nowait(b"\x0a\xff")
    await until(lambda: lines(caplog, "is unavailable until it registers again"))
    assert len(lines(caplog, "")) == 1


@odd_text
async def test_failed_call_raises_an_error_of_one_line(node: Node, odd: str) -> None:
    odd = odd[:6000]  # what gRPC takes in a status
    plugin = OddDevicePlugin(of("a"))
    plugin.options = GET_OPTIONS.response(pre_start_required=True)
    plugin.more = {PRE_START_CONTAINER: lambda request, context: context.abort(grpc.StatusCode.INTERNAL, odd)}
    await serve(node, plugin)
    assert await call_register(node) == ""
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(1, 1))
    await run_pod(node, "good")
    with pytest.raises(PluginError) as pre_start:
        await node.manager.pre_start("good", "main")
    await forget_pod(node, "good")
    plugin.answer = lambda request, context: context.abort(grpc.StatusCode.INTERNAL, odd)
    with pytest.raises(AdmissionError, match="INTERNAL: ") as allocate:
        await run_pod(node, "pod")
    assert (is_line(str(pre_start.value)), is_line(str(allocate.value))) == (True, True)


@odd_text
async def test_end_of_list_and_watch_is_logged_in_one_line(
    node: Node, odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = await run_odd(node, of("a"))
    plugin.lists.put_nowait(odd[:6000])
    await until(lambda: lines(caplog, "is unavailable until it registers again: ABORTED: "))
    assert len(lines(caplog, "")) == 1


async def forget_pod(node: Node, pod: str) -> None:
    """The pod ended, and is gone."""
    await node.manager.unprepare(pod)
    node.manager.forget(pod)


def answering(answer: Any) -> Callable[[Any, Any], Awaitable[Any]]:
    async def say(request: Any, context: Any) -> Any:
        return answer

    return say


async def why_not(node: Node) -> str:
    """Why a pod is not given a device; empty if it is."""
    try:
        await run_pod(node, "pod")
    except AdmissionError as error:
        return str(error)
    finally:
        await forget_pod(node, "pod")
    return ""


@pytest.fixture
async def good(node: Node) -> FakeDevicePlugin:
    """Another device plugin, with a pod."""
    plugin = await run_plugin(node, GOOD)
    await run_pod(node, "good", resource=GOOD)
    return plugin


async def works(plugin: FakeDevicePlugin, node: Node) -> None:
    """What the plugin lists comes through."""
    await plugin.set_health("gpu-0", "Unhealthy")
    await until(lambda: health(node, "good", GOOD) == {"gpu-0": "Unhealthy"})
    await plugin.set_health("gpu-0", "Healthy")
    await until(lambda: health(node, "good", GOOD) == {"gpu-0": "Healthy"})


DEVICES = st.lists(st.fixed_dictionaries({"ID": ANYTHING, "health": ANYTHING | st.just("Healthy")}), max_size=3)
LISTS = DEVICES.map(lambda devices: bytes(LIST_AND_WATCH.response(devices=devices).SerializeToString()))
FLAGS = st.fixed_dictionaries({}, optional={"pre_start_required": st.booleans()})
OPTIONS = FLAGS.map(lambda flags: bytes(GET_OPTIONS.response(**flags).SerializeToString()))
GRANTS = st.fixed_dictionaries(
    {},
    optional={
        "envs": st.dictionaries(ANYTHING, ANYTHING, max_size=2),
        "mounts": st.lists(st.fixed_dictionaries({"container_path": ANYTHING, "host_path": ANYTHING}), max_size=2),
        "annotations": st.dictionaries(ANYTHING, ANYTHING, max_size=2),
        "cdi_devices": st.lists(st.fixed_dictionaries({"name": ANYTHING}), max_size=2),
    },
)
ANSWERS = st.lists(GRANTS, max_size=2).map(
    lambda grants: bytes(ALLOCATE.response(container_responses=grants).SerializeToString())
)
REQUESTS = st.builds(
    REGISTER.request, version=ANYTHING | st.just("v1beta1"), endpoint=ANYTHING, resource_name=ANYTHING
).map(lambda request: bytes(request.SerializeToString()))


@a_few
@given(payloads=st.lists(mutated(LISTS), min_size=1, max_size=6))
async def test_any_list_bytes_do_not_affect_other_plugins(
    node: Node, good: FakeDevicePlugin, payloads: list[bytes]
) -> None:
    plugin = OddDevicePlugin(*payloads)
    served = await serve(node, plugin)
    assert await call_register(node) == ""
    await works(good, node)
    plugin.lists.put_nowait("fence")
    await until(lambda: not node.manager._device_plugins._resources.newest(RESOURCE))
    await served.stop()


@a_few
@given(options=mutated(OPTIONS), answers=st.lists(mutated(ANSWERS), min_size=1, max_size=6))
async def test_any_options_and_allocate_responses_give_devices_or_an_error(
    node: Node, options: bytes, answers: list[bytes]
) -> None:
    plugin = OddDevicePlugin(of("a"))
    plugin.options = options
    served = await serve(node, plugin)
    told = await call_register(node)
    assert is_line(told)
    if not told:
        await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(1, 1))
        for answer in answers:
            plugin.answer = answering(answer)
            assert is_line(await why_not(node))
    await served.stop()
    await until(lambda: not node.manager._device_plugins._resources.newest(RESOURCE))


WISHES = st.lists(st.lists(ANYTHING | st.sampled_from("abc"), max_size=4), max_size=2).map(
    lambda wishes: bytes(
        GET_PREFERRED_ALLOCATION.response(container_responses=[{"deviceIDs": w} for w in wishes]).SerializeToString()
    )
)


@a_few
@given(payload=mutated(WISHES))
async def test_any_preferred_allocation_gives_listed_devices_or_an_error(node: Node, payload: bytes) -> None:
    plugin = OddDevicePlugin(of("a", "b", "c"))
    plugin.options.get_preferred_allocation_available = True
    plugin.more = {GET_PREFERRED_ALLOCATION: answering(payload)}
    served = await serve(node, plugin)
    assert await call_register(node) == ""
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(3, 3))
    reason = ""
    try:
        await run_pod(node, "pod", count=2)
    except AdmissionError as error:
        reason = str(error)
    held = set(health(node, "pod"))
    assert (is_line(reason), len(held & set("abc"))) == (True, 0 if reason else 2)
    await forget_pod(node, "pod")
    await served.stop()
    await until(lambda: not node.manager._device_plugins._resources.newest(RESOURCE))


@a_few
@given(payload=mutated(REQUESTS))
async def test_any_registration_bytes_get_a_one_line_error(node: Node, good: FakeDevicePlugin, payload: bytes) -> None:
    async with grpc.aio.insecure_channel(target(node.root / "device-plugins" / "kubelet.sock")) as channel:
        register: Any = channel.unary_unary(REGISTER.path)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await register(payload, timeout=PATIENCE)
    code, details = refused.value.code(), refused.value.details() or ""
    assert (code, is_line(details)) == (grpc.StatusCode.INVALID_ARGUMENT, True)
    await works(good, node)
