"""A broken plugin affects only its own devices, causes one log line, and is retried."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.manager import plugin, registration
from drahealth.manager.dra import PrepareError
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import NEWEST
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.unit.manager.conftest import MakeNode
from drahealth.suites.unit.manager.rig import DRIVER, Node, OddPlugin, lines, until

GOOD = "good.example.com"
HEALTH = ("v1.DRAPlugin", "v1.DRAResourceHealth")


async def two_drivers(node: Node) -> FakeDriver:
    """A driver, and another one whose pod shows its device sick."""
    good = await node.run_driver(GOOD)
    await node.run_pod("good", await node.claim("good", "gpu-0", drivers=(GOOD,)))
    await good.set_health("gpu-0", Health.UNHEALTHY, "xid 79")
    await node.shows("good", gpu_0="Unhealthy: xid 79")
    driver = await node.run_driver()
    await node.run_pod("pod", await node.claim("gpus", "gpu-0"))
    await node.shows("pod", gpu_0="Healthy")
    return driver


async def recovers(node: Node, caplog: pytest.LogCaptureFixture, why: str) -> None:
    """It is complained of in one line, no other driver suffers, and after 5 s all is well again."""
    await node.shows("pod", gpu_0="Unknown")
    where = f"health stream of plugin {DRIVER} at dra.sock: "
    (line,) = lines(caplog, "")
    assert line.startswith(where + why)
    assert line.endswith("next attempt in 5 s")
    assert node.seen("good") == {"gpu-0": "Unhealthy: xid 79"}
    await node.jump(5)
    await node.shows("pod", gpu_0="Healthy")


@pytest.mark.counterpart("kep/stream-errors")
@pytest.mark.parametrize(
    "payload",
    [
        "0aff",  # a device that is longer than the message
        "ffffffffffffffffffffff",  # no field
        "0a0a0a030a01ff12030a0161",  # a pool whose name is no UTF-8
        "0b",  # a group that nobody opened a use for
    ],
)
async def test_garbage(node: Node, payload: str, caplog: pytest.LogCaptureFixture) -> None:
    driver = await two_drivers(node)
    await driver.stream_send(payload)
    await recovers(node, caplog, f"{len(payload) // 2} bytes")


async def test_report_over_the_size_limit_ends_and_retries_the_stream(
    make_node: Callable[[Profile], Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node(replace(KEP, largest_report=100_000))
    await node.start()
    driver = await two_drivers(node)
    await driver.report([DeviceHealth("node-a", f"gpu-{number}", Health.HEALTHY, "x" * 1024) for number in range(100)])
    await recovers(node, caplog, "RESOURCE_EXHAUSTED: ")


async def test_empty_message_and_unknown_fields_are_valid_reports(node: Node) -> None:
    driver = await two_drivers(node)
    await driver.stream_send("")
    await driver.stream_send("1a0161")  # an unknown field
    await driver.set_health("gpu-0", Health.UNHEALTHY, "still there")
    await node.shows("pod", gpu_0="Unhealthy: still there")


async def test_too_many_devices_of_a_driver_are_logged_once(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node(replace(NEWEST, devices_per_driver=2))
    await node.start()
    driver = await two_drivers(node)
    for number in range(3):
        message = f"report {number}"
        await driver.report([DeviceHealth("node-a", f"gpu-{n}", Health.HEALTHY, message) for n in range(4)])
        await node.shows("pod", gpu_0=f"Healthy: {message}")
    assert lines(caplog, "") == [f"driver {DRIVER} reports too many devices, ignoring 2"]


async def test_flood_of_reports_does_not_delay_other_plugins(any_node: Node, caplog: pytest.LogCaptureFixture) -> None:
    driver = await two_drivers(any_node)
    every = [DeviceHealth("node-a", f"gpu-{number}", Health.HEALTHY) for number in range(20)]
    for number in range(300):
        await driver.report([replace(device, message=f"report {number}") for device in every])
    good = await any_node.run_driver("quiet.example.com")
    await any_node.run_pod("quiet", await any_node.claim("quiet", "gpu-0", drivers=("quiet.example.com",)))
    await good.set_health("gpu-0", Health.UNHEALTHY)
    await any_node.shows("quiet", gpu_0="Unhealthy")
    await any_node.shows("pod", gpu_0="Healthy: report 299")
    assert lines(caplog, "") == []


@pytest.mark.parametrize(("profile", "times"), [(KEP, 2), (NEWEST, 4)], ids=["kep", "v1.37"])
async def test_duplicate_device_in_a_report_notifies_once_in_kep_only(
    make_node: MakeNode, profile: Profile, times: int
) -> None:
    node = make_node(profile)
    await node.start()
    driver = await two_drivers(node)
    node.notified.clear()
    twice = [DeviceHealth("node-a", "gpu-0", health) for health in (Health.HEALTHY, Health.UNHEALTHY)]
    for _ in range(3):
        await driver.report(twice)
    await driver.report([*twice, DeviceHealth("node-a", "gpu-0", Health.UNKNOWN)])
    await node.shows("pod", gpu_0="Unknown")
    assert node.notified == [{"pod"}] * times


class Cut:
    """A wire to a driver that is cut after so many bytes of the driver's; and whole from then on."""

    def __init__(self, to: Path, after: int) -> None:
        self._to = to
        self._left = after

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_unix_connection(str(self._to))
        limit = self._left
        ways = [
            asyncio.create_task(self._carry(reader, ours, 0)),
            asyncio.create_task(self._carry(theirs, writer, limit)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        self._left = 0
        ours.close()
        writer.close()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int) -> None:
        carried = 0
        while data := await reader.read(4096):
            writer.write(data)
            carried += len(data)
            if 0 < limit <= carried:
                return


async def serve_until_closed(node: Node, serve: Any, path: Path) -> None:
    """Whatever `serve` does with a connection, behind a socket, for as long as the node lives."""
    server = await asyncio.start_unix_server(serve, path)

    async def close() -> None:
        server.close()
        await server.wait_closed()

    node.on_close(close)


async def test_connection_cut_mid_message_shows_unknown_and_is_retried(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    driver = node.driver(registry_dir=str(node.root))
    await driver.start()
    wire = Cut(driver.endpoint, after=20_000)
    endpoint = node.root / "dra.sock"
    await serve_until_closed(node, wire.serve, endpoint)
    await node.serve(OddPlugin(name=DRIVER, endpoint=str(endpoint), supported_versions=HEALTH).methods)
    await until(lambda: driver.health.open)
    await node.run_pod("pod", await node.claim("gpus", "gpu-0"))
    await node.shows("pod", gpu_0="Healthy")
    await driver.report(
        [DeviceHealth("node-a", f"gpu-{number}", Health.UNHEALTHY, "x" * 1024) for number in range(100)]
    )
    await node.shows("pod", gpu_0="Unknown")
    assert [line.split(": ")[:2] for line in lines(caplog, "")] == [
        [f"health stream of plugin {DRIVER} at dra.sock", "UNAVAILABLE"]
    ]
    await node.after_jumps(lambda: driver.health.opened == 2)  # it may not have heard yet that the first has ended
    await node.shows("pod", gpu_0="Healthy")


async def test_plugin_that_never_reads_affects_only_its_own_pods(
    any_node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = any_node.root / "deaf.sock"
    with socket.socket(socket.AF_UNIX) as deaf, monkeypatch.context() as limits:
        limits.setattr(plugin, "CONNECT_LIMIT", 0.2)
        limits.setattr(plugin, "CALL_LIMIT", 0.2)
        deaf.bind(str(endpoint))
        deaf.listen()
        await any_node.run_odd(endpoint=str(endpoint), supported_versions=HEALTH)
        with pytest.raises(PrepareError, match=r"deaf.sock.*DEADLINE_EXCEEDED"):
            await any_node.run_pod("deaf", await any_node.claim("deaf", drivers=("odd.example.com",)))
        limits.undo()  # others may take longer on a busy machine
        await two_drivers(any_node)
        await until(lambda: lines(caplog, "deaf.sock"))
    why = "cannot be reached; next attempt in 5 s"
    assert lines(caplog, "") == [f"health stream of plugin odd.example.com at deaf.sock: {why}"]


async def test_stalled_plugin_affects_only_its_own_pods(
    any_node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled = await any_node.run_odd()
    stalled.pause.clear()
    refused = pytest.raises(PrepareError, match=r"odd-reg.sock.*DEADLINE_EXCEEDED")
    with refused, monkeypatch.context() as limits:
        limits.setattr(plugin, "CALL_LIMIT", 0.2)
        await any_node.run_pod("stalled", await any_node.claim("stalled", drivers=("odd.example.com",)))
    driver = await two_drivers(any_node)
    await driver.stream_silence()
    await any_node.jump(31)
    assert (any_node.seen("pod"), lines(caplog, "")) == ({"gpu-0": "Unknown"}, [])


async def other_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Speaks another protocol."""
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def test_socket_with_another_protocol_is_logged_and_retried(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "DIAL_LIMIT", 1.0)
    await serve_until_closed(node, other_server, node.registry / "web-reg.sock")
    await two_drivers(node)
    await until(lambda: lines(caplog, "web-reg.sock"))
    assert lines(caplog, "") == ["plugin socket web-reg.sock: no answer within 1 s; trying again"]


@pytest.mark.parametrize("method", [GET_INFO, NOTIFY_REGISTRATION], ids=lambda method: method.path.rpartition("/")[2])
async def test_malformed_registration_response_is_logged_and_others_register(
    node: Node, method: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def garbage(request: Any, context: Any) -> bytes:
        return b"\x0a\xff"

    await node.serve({**OddPlugin().methods, method: garbage})
    await until(lambda: lines(caplog, "odd-reg.sock"))
    (line,) = lines(caplog, "")
    assert f" {method.response.__name__};" in line
    await node.run_driver()


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("dra.sock", "endpoint 'dra.sock' must be an absolute path"),
        ("/" + "x" * 107, f"invalid endpoint: the socket path /{'x' * 107}"),
        ("/a\0b", "invalid endpoint: the socket path '/a\\x00b'"),
    ],
    ids=["relative", "too long", "zero byte"],
)
async def test_invalid_endpoint_is_rejected_with_a_reason(node: Node, endpoint: str, reason: str) -> None:
    odd = await node.run_odd(endpoint=endpoint, supported_versions=HEALTH)
    assert [ok for ok, _ in odd.told] == [False]
    assert odd.told[0][1].startswith(reason)


async def test_too_long_registration_socket_path_is_logged_and_retried(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    folder = node.registry / ("x" * 100)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as far, contextlib.chdir(folder):
        far.bind("far-reg.sock")
    await until(lambda: lines(caplog, "far-reg.sock"))
    assert lines(caplog, "")[0].endswith("; trying again")


async def test_unusual_characters_in_paths_are_accepted(node: Node) -> None:
    await node.run_driver(registry_dir=str(node.registry / "100%20?#"), data_dir=str(node.root / "with é\n"))
    await node.run_pod("pod", await node.claim("gpus", "gpu-0"))
    await node.shows("pod", gpu_0="Healthy")


@pytest.mark.counterpart("TestPluginManager")
async def test_odd_sockets_do_not_delay_plugins(node: Node) -> None:
    for number in range(30):
        await node.serve(OddPlugin(type="CSIPlugin").methods, f"odd-{number}-reg.sock")
    await two_drivers(node)
