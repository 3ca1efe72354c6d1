"""A broken device plugin affects only its own devices and causes one log line or one error."""

import asyncio
from typing import Any

import grpc
import pytest

from drahealth.manager import device_plugins
from drahealth.manager.allocations import ALLOCATIONS_FILE
from drahealth.manager.plugin import PluginError
from drahealth.proto.services import ALLOCATE, GET_OPTIONS
from drahealth.proto.values import AdmissionError, Amount
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.conftest import MakeNode
from drahealth.suites.unit.manager.plugin_rig import (
    RESOURCE,
    OddDevicePlugin,
    call_register,
    entries,
    health,
    of,
    plugin_of,
    run_odd,
    run_plugin,
    run_pod,
    serve,
)
from drahealth.suites.unit.manager.rig import Node, lines, until

GOOD = "good.example.com/gpu"


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"endpoint": "../plugins/odd.sock"}, "endpoint must be the name of a socket beside kubelet.sock"),
        ({"endpoint": "/tmp/odd.sock"}, "endpoint must be the name of a socket beside kubelet.sock"),
        ({"endpoint": ""}, "endpoint must be the name of a socket beside kubelet.sock"),
        ({"endpoint": ".."}, "endpoint must be the name of a socket beside kubelet.sock"),
        ({"endpoint": "kubelet.sock"}, "endpoint must be the name of a socket beside kubelet.sock"),
        ({"endpoint": "o" * 200}, "invalid endpoint: the socket path "),
        ({"resource_name": ""}, "'' is not the name of an extended resource, such as example.com/gpu"),
        ({"resource_name": "cpu"}, "'cpu' is not the name of an extended resource"),
        ({"resource_name": "x.kubernetes.io/gpu"}, "'x.kubernetes.io/gpu' is not the name"),
        ({"resource_name": "example.com/" + "g" * 64}, "is not the name of an extended resource"),
        ({"version": "v1alpha"}, "version must be v1beta1, got 'v1alpha'"),
        ({"version": ""}, "version must be v1beta1, got ''"),
    ],
    ids=range(12),
)
async def test_invalid_registration_is_rejected_with_a_reason(
    node: Node, request_: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert told in await call_register(node, **request_)
    (line,) = lines(caplog, "rejected")
    assert (told in line, node.manager.amounts()) == (True, {})


async def test_plugin_with_an_unreachable_endpoint_is_rejected(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_plugins, "DIAL_LIMIT", 0.2)
    assert await call_register(node) == f"device plugin {RESOURCE} at odd.sock: no answer within 0.2 s"


async def test_plugin_without_get_options_is_rejected(node: Node) -> None:
    plugin = OddDevicePlugin()
    methods = plugin.methods
    methods.pop(GET_OPTIONS)
    plugin.__class__ = type("Without", (OddDevicePlugin,), {"methods": methods})
    await serve(node, plugin)
    told = await call_register(node)
    assert told.startswith(f"device plugin {RESOURCE} at odd.sock: its options failed: UNIMPLEMENTED")


async def test_hanging_plugin_does_not_delay_other_plugins(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_plugins, "DIAL_LIMIT", 60.0)
    hanging = asyncio.create_task(call_register(node))
    await run_plugin(node, GOOD)
    assert node.manager.amounts() == {GOOD: Amount(2, 2)}
    hanging.cancel()
    await asyncio.wait([hanging])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"\x0a\xff", "2 bytes"),
        (b"\x0a\x04\x0a\x02\xff\xff", "6 bytes"),
        (of(*(f"{number:060}" for number in range(60_000))), "RESOURCE_EXHAUSTED"),
    ],
    ids=["bytes", "no UTF-8", "over 4 MiB"],
)
async def test_unreadable_list_ends_the_plugin_until_it_registers_again(
    node: Node, said: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    await run_plugin(node, GOOD)
    plugin = await run_odd(node, of("a"))
    await until(lambda: RESOURCE in node.manager.amounts() and node.manager.amounts()[RESOURCE].allocatable)
    await run_pod(node, "pod")
    plugin.lists.put_nowait(said)
    await until(lambda: health(node, "pod") == {"a": "Unknown"})
    (line,) = lines(caplog, "")
    assert line.startswith(f"device plugin {RESOURCE} at odd.sock is unavailable until it registers again: {why}")
    assert node.manager.amounts() == {GOOD: Amount(2, 2), RESOURCE: Amount(1, 0)}


async def test_duplicate_device_ids_are_logged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    await run_odd(node, of("a", "a", "b"))
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(2, 2))
    assert lines(caplog, "") == [f"device plugin {RESOURCE} at odd.sock lists 1 ids twice; the later of two counts"]


async def test_unusual_device_ids_are_accepted(node: Node) -> None:
    names = ("", "a/b\nc", "x" * 10_000, "健康")
    await run_odd(node, of(*names))
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(4, 4))
    await run_pod(node, "pod", count=4)
    assert set(health(node, "pod")) == set(names)


async def test_last_list_of_a_flood_applies(node: Node) -> None:
    plugin = await run_odd(node, of("a"))
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(1, 1))
    await run_pod(node, "pod")
    for number in range(3000):
        plugin.lists.put_nowait(of("a", health=f"odd {number}" if number % 2 else "Healthy"))
    plugin.lists.put_nowait(of("a", "fence"))
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(2, 2), within=30)
    assert health(node, "pod") == {"a": "Healthy"}
    assert len(node.notified) >= 3000


async def not_admitted(node: Node) -> str:
    with pytest.raises(AdmissionError) as refused:
        await asyncio.wait_for(run_pod(node, "pod"), PATIENCE)
    assert entries(node, "pod") == {}
    return str(refused.value)


async def test_plugin_crash_during_allocate_rejects_the_pod(node: Node) -> None:
    plugin = OddDevicePlugin(of("a"))
    served = await serve(node, plugin)
    assert await call_register(node) == ""
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(1, 1))
    plugin.answer = lambda request, context: asyncio.Event().wait()
    dying = asyncio.create_task(not_admitted(node))
    await plugin.allocating.wait()
    await served.stop()
    assert (await dying).startswith(f"device plugin {RESOURCE} at odd.sock: Allocate failed: ")


async def test_allocate_without_an_answer_times_out(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_plugins, "CALL_LIMIT", 0.3)
    plugin = await run_odd(node, of("a"))
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(1, 1))
    plugin.answer = lambda request, context: asyncio.Event().wait()
    assert "DEADLINE_EXCEEDED" in await not_admitted(node)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ALLOCATE.response(), "Allocate returned no response for the container"),
        (b"\x0a\xff", "Allocate failed: "),
    ],
)
async def test_empty_or_malformed_allocate_response_rejects_the_pod(node: Node, answer: Any, why: str) -> None:
    plugin = await run_odd(node, of("a"))
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(1, 1))

    async def say(request: Any, context: Any) -> Any:
        return answer

    plugin.answer = say
    assert (await not_admitted(node)).startswith(f"device plugin {RESOURCE} at odd.sock: {why}")


async def test_allocate_error_is_reported_as_the_pods_reason(node: Node) -> None:
    plugin = await run_odd(node, of("a"))
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(1, 1))
    plugin.answer = lambda request, context: context.abort(grpc.StatusCode.INTERNAL, "the bus is on fire")
    assert (await not_admitted(node)).endswith("INTERNAL: the bus is on fire")


async def test_failed_pre_start_raises_an_error_with_the_reason(node: Node) -> None:
    plugin = OddDevicePlugin(of("a"))
    plugin.options = GET_OPTIONS.response(pre_start_required=True)
    await serve(node, plugin)
    assert await call_register(node) == ""
    await until(lambda: node.manager.amounts().get(RESOURCE) == Amount(1, 1))
    await run_pod(node, "pod")
    with pytest.raises(PluginError, match=r"PreStartContainer .*UNIMPLEMENTED"):
        await node.manager.pre_start("pod", "main")


async def test_discovered_plugin_with_invalid_version_or_name_is_rejected(node: Node) -> None:
    odd = await node.run_odd(type="DevicePlugin", name=RESOURCE, supported_versions=["v1"])
    assert odd.told[0] == (False, "version must be v1beta1, got ['v1']")
    other = await make_second(node, name="cpu")
    assert (other.told[0][0], "'cpu'" in other.told[0][1]) == (False, True)


async def make_second(node: Node, name: str) -> Any:
    from drahealth.suites.unit.manager.rig import OddPlugin

    plugin = OddPlugin(type="DevicePlugin", name=name, supported_versions=["v1beta1"])
    await node.serve(plugin.methods, "second-reg.sock")
    await until(lambda: plugin.told)
    return plugin


async def test_start_removes_old_sockets_and_keeps_files(make_node: MakeNode) -> None:
    node = make_node()
    plugin = plugin_of(node)
    folder = node.root / "device-plugins"
    await plugin._plugin.start()
    (folder / "a-file").touch()
    await node.start()
    assert {path.name for path in folder.iterdir()} == {"a-file", "kubelet.sock"}


@pytest.mark.parametrize("content", ["", "null", "[]", "{", '{"allocations": 1, "resources": [1]}', "\xff"])
async def test_node_starts_with_any_checkpoint_content(make_node: MakeNode, content: str) -> None:
    node = make_node()
    (node.root / ALLOCATIONS_FILE).write_text(content, encoding="latin-1")
    await node.start()
    await run_plugin(node)
    await run_pod(node, "pod")
    assert health(node, "pod") == {"gpu-0": "Healthy"}


async def test_unusable_device_plugin_directory_disables_only_kubelet_sock(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node()
    node.root.joinpath("device-plugins").touch()
    await node.start()
    await run_plugin(node, registration="plugins_registry")
    complaints = lines(caplog, "kubelet.sock cannot be served")
    assert (len(complaints), node.manager.amounts()) == (1, {RESOURCE: Amount(2, 2)})
