"""What the manager reports of the wire: calls, streams, reports and lists as they were received."""

from typing import TypeVar

import grpc
import pytest

from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.manager.dra import PrepareError
from drahealth.manager.manager import DeviceManager
from drahealth.proto.events import (
    Event,
    GrpcCall,
    ListReceived,
    MalformedReceived,
    RegistrationFailed,
    ReportReceived,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.health_apis import V1
from drahealth.proto.services import GET_OPTIONS, GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER
from drahealth.proto.values import Amount, DeviceHealth, Health, PluginDevice
from drahealth.suites.unit.manager.plugin_rig import RESOURCE, OddDevicePlugin, call_register, of, run_pod, serve
from drahealth.suites.unit.manager.rig import DRIVER, Node, until

E = TypeVar("E", bound=Event)


def seen(node: Node, kind: type[E]) -> list[E]:
    return [event for event in node.observed if isinstance(event, kind)]


def calls(node: Node) -> list[tuple[str, str, str]]:
    """Caller, method and code of each call."""
    return [(call.caller, call.method.rpartition("/")[2], call.code) for call in seen(node, GrpcCall)]


# -- registration


async def test_handshake_is_reported_call_by_call(node: Node) -> None:
    plugin = await node.run_odd()
    await until(lambda: len(calls(node)) == 2)
    info, status = seen(node, GrpcCall)
    assert (info.request, info.response, info.code) == ({}, plugin.info, "OK")
    assert (status.request, status.response, status.code) == ({"plugin_registered": True}, {}, "OK")
    assert {call.driver for call in (info, status)} == {"odd.example.com"}
    assert {call.endpoint for call in (info, status)} == {str(node.registry / "odd-reg.sock")}


async def test_refused_registration_is_reported_with_the_reason(node: Node) -> None:
    await node.run_odd(supported_versions=["v9"])
    await until(lambda: seen(node, RegistrationFailed))
    status = seen(node, GrpcCall)[1]
    assert "plugin_registered" not in status.request
    assert "v9" in status.request["error"]
    assert "v9" in seen(node, RegistrationFailed)[0].problem


# -- prepare


async def test_failed_prepare_is_reported_with_code_and_details(node: Node) -> None:
    plugin = await node.run_odd()
    plugin.code = grpc.StatusCode.RESOURCE_EXHAUSTED
    claim = await node.claim("gpus", "gpu-0", drivers=("odd.example.com",))
    with pytest.raises(PrepareError):
        await node.run_pod("pod", claim)
    call = seen(node, GrpcCall)[-1]
    assert (call.response, call.code, call.details) == (None, "RESOURCE_EXHAUSTED", "on purpose")
    assert call.request == {"claims": [{"namespace": "default", "uid": claim.ref.uid, "name": "gpus"}]}


# -- health


async def watched(node: Node) -> FakeDriver:
    """A driver with one device, that has been reported."""
    driver = await node.run_driver(devices=("gpu-0",))
    await until(lambda: seen(node, ReportReceived))
    return driver


async def test_odd_report_is_reported_as_it_was_received(node: Node) -> None:
    driver = await watched(node)
    message = V1.encode([DeviceHealth("node-a", "gpu-0", Health.HEALTHY, "fine", 3, 4)])
    message.devices[0].health = 7
    payload = message.SerializeToString()
    await driver.stream_send(payload.hex())
    await until(lambda: len(seen(node, ReportReceived)) == 2)
    report, stream = seen(node, ReportReceived)[-1], seen(node, StreamOpened)[0]
    assert report.size == len(payload)
    assert report.devices == (DeviceHealth("node-a", "gpu-0", Health.UNKNOWN, "fine", 3, 4),)
    assert [(more.device, more.fields["health"]) for more in report.undecoded] == [(0, 7)]
    assert (report.driver, report.endpoint, report.stream) == (DRIVER, stream.endpoint, stream.stream)


async def test_malformed_report_is_reported_and_ends_the_stream(node: Node) -> None:
    driver = await watched(node)
    await driver.stream_send("0aff")
    await until(lambda: seen(node, StreamClosed))
    (malformed,), (closed,) = seen(node, MalformedReceived), seen(node, StreamClosed)
    assert (malformed.size, malformed.start, malformed.stream) == (2, "0aff", closed.stream)
    assert closed.code == "CANCELLED"


# -- device plugins


async def test_all_calls_and_lists_of_a_device_plugin_are_reported(node: Node) -> None:
    plugin = OddDevicePlugin(of("a", "b", "c"))
    plugin.options = GET_OPTIONS.response(pre_start_required=True, get_preferred_allocation_available=True)

    async def answer(method: type, request: object, context: object) -> object:
        return method()

    for method in (GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER):
        plugin.more[method] = lambda request, context, method=method: answer(method.response, request, context)
    await serve(node, plugin)
    await call_register(node)
    await until(lambda: node.manager.amounts() == {RESOURCE: Amount(3, 3)})
    await run_pod(node, "pod", 1)
    await node.manager.pre_start("pod", "main")
    assert calls(node) == [
        ("kubelet", "GetDevicePluginOptions", "OK"),
        ("plugin", "Register", "OK"),
        ("kubelet", "GetPreferredAllocation", "OK"),
        ("kubelet", "Allocate", "OK"),
        ("kubelet", "PreStartContainer", "OK"),
    ]
    (listed,) = seen(node, ListReceived)
    assert listed.devices == tuple(PluginDevice(name) for name in "abc")
    assert {call.driver for call in seen(node, GrpcCall)} == {RESOURCE}


async def test_refused_register_is_reported_with_its_code(node: Node) -> None:
    await call_register(node, version="v9")
    (call,) = seen(node, GrpcCall)
    assert (call.caller, call.code, call.response) == ("plugin", "INVALID_ARGUMENT", None)
    assert (call.request["version"], "v9" in call.details) == ("v9", True)


# -- nobody observes


async def test_no_message_is_decoded_for_events_without_an_observer(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.manager.stop()

    def turned(*_: object) -> None:
        raise AssertionError("a message was turned into plain data for nobody")

    for name in ("plugin.undecoded", "calls.plain", "device_plugins.undecoded_list", "registration.plain"):
        monkeypatch.setattr(f"drahealth.manager.{name}", turned)
    node.manager = DeviceManager(node.root, clock=node.clock)
    await node.manager.start()
    await node.run_driver(devices=("gpu-0",))
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await node.shows("pod", gpu_0="Healthy")
