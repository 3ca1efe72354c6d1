"""Plugins are found by their sockets, registered, and deregistered."""

import asyncio
import contextlib
import os
import shutil
import socket
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from drahealth.manager import registration
from drahealth.manager.dra import PrepareError
from drahealth.manager.registration import find_sockets
from drahealth.proto.events import Registered
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import DRIVER, Node, OddPlugin, lines, registered, settle, until


async def gone(node: Node, driver: str = DRIVER) -> None:
    """Returns once no plugin is registered for the driver."""
    claim = await node.claim(f"try-{driver}", drivers=(driver,))
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await node.manager.prepare("try", [claim])
                await node.manager.unprepare("try")
            except PrepareError as error:
                if "is registered" in str(error) and driver in str(error):
                    return
            await asyncio.sleep(0.01)


@pytest.mark.counterpart("TestPluginRegistrationAtKubeletStart")
async def test_plugin_started_before_the_manager_is_registered(node: Node) -> None:
    await node.manager.stop()
    driver = node.driver()
    await driver.start()
    await node.restart()
    await registered(driver)
    assert node.happened(Registered) == [Registered(DRIVER, "", ok=True)]


@pytest.mark.counterpart("TestPluginRegistration", "Test_Run_Positive_Register")
async def test_plugin_started_later_is_registered(node: Node) -> None:
    await settle()
    await node.run_driver()
    assert node.happened(Registered) == [Registered(DRIVER, "", ok=True)]


@pytest.mark.counterpart("TestPluginRegistration")
async def test_sockets_in_folders_are_found_and_dot_files_are_ignored(node: Node) -> None:
    await node.run_driver("a.example.com", registry_dir=str(node.registry / "vendor"))
    await node.driver("b.example.com", registry_dir=str(node.registry / ".vendor")).start()
    await node.serve(OddPlugin(name="c.example.com").methods, ".hidden-reg.sock")
    await node.run_driver("d.example.com")
    assert [event.driver for event in node.happened(Registered)] == ["a.example.com", "d.example.com"]


async def test_only_sockets_are_found(node: Node) -> None:
    odd = await node.serve(OddPlugin(name="odd").methods)
    (node.registry / "file").write_text("")
    (node.registry / "link").symlink_to(odd.path)
    os.mkfifo(node.registry / "pipe")
    assert [found.path for found in find_sockets(node.registry)] == [odd.path]


def test_a_folder_that_is_not_there_has_no_sockets(tmp_path: Path) -> None:
    assert list(find_sockets(tmp_path / "nowhere")) == []


@pytest.mark.counterpart(
    "kep/cache-cleanup",
    "kep/stream-cancellation",
    "alpha2/stream-cancellation",
    "TestDelete",
    "TestPluginRegistration",
    "Test_Run_Positive_RegisterThenUnregister",
)
async def test_plugin_is_deregistered_when_its_socket_is_removed(node: Node) -> None:
    driver = await node.run_driver()
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await node.shows("pod", gpu_0="Healthy")
    (node.registry / f"{DRIVER}-reg.sock").unlink()
    await gone(node)
    await until(lambda: driver.health.open == 0)  # a plugin hears last that its stream has ended
    assert node.seen("pod") == {"gpu-0": "Unknown"}


async def test_a_plugin_that_only_loses_its_endpoint_stays_registered(node: Node) -> None:
    driver = await node.run_driver()
    await until(lambda: driver.health.open)
    driver.endpoint.unlink()
    await node.run_driver("later.example.com")
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    assert len(node.happened(Registered)) == 2


async def test_a_plugin_that_crashes_stays_registered(node: Node) -> None:
    driver = await node.run_driver()
    await driver.crash()
    await node.run_driver("later.example.com")
    with pytest.raises(PrepareError, match=f"{DRIVER} at dra.sock: .*UNAVAILABLE"):
        await node.run_pod("pod", await node.claim("gpu", "gpu-0"))


@pytest.mark.counterpart("TestPluginReRegistration", "Test_Run_Positive_ReRegister")
async def test_recreated_socket_registers_another_plugin(node: Node) -> None:
    driver = await node.run_driver()
    await driver.crash()
    await node.start_driver(driver)
    assert node.happened(Registered) == [Registered(DRIVER, "", ok=True)] * 2
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))


async def test_socket_that_is_removed_and_restored_at_once_is_registered_again(node: Node) -> None:
    await node.run_driver()
    served = node.registry / f"{DRIVER}-reg.sock"
    hidden = served.with_name(".hidden")
    hidden.hardlink_to(served)
    served.unlink()
    served.hardlink_to(hidden)
    await until(lambda: len(node.happened(Registered)) == 2)


async def test_hard_link_or_mode_change_keeps_the_socket_identity(node: Node) -> None:
    odd = await node.serve(OddPlugin(name="odd").methods)
    (before,) = find_sockets(node.registry)
    (node.root / "another").hardlink_to(odd.path)
    odd.path.chmod(0o600)
    assert list(find_sockets(node.registry)) == [before]


@pytest.mark.counterpart("TestRegistrationHandler", "TestPluginManager")
@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ({"type": "CSIPlugin"}, "no handler for plugins of type 'CSIPlugin'"),
        ({"type": ""}, "no handler for plugins of type ''"),
        ({"supported_versions": []}, "versions must include one of ['v1.DRAPlugin', 'v1beta1.DRAPlugin'], got []"),
        (
            {"supported_versions": ["v9.DRAPlugin"]},
            "versions must include one of ['v1.DRAPlugin', 'v1beta1.DRAPlugin'], got ['v9.DRAPlugin']",
        ),
        ({"name": ""}, "GetInfo must return a name"),
    ],
)
async def test_rejected_plugin_receives_the_reason(
    node: Node, info: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = OddPlugin(**info)
    await node.serve(plugin.methods)
    await until(lambda: lines(caplog, "odd-reg.sock"))
    assert plugin.told == [(False, reason)]
    assert lines(caplog, "odd-reg.sock") == [f"plugin socket odd-reg.sock: rejected: {reason}; trying again"]


@pytest.mark.counterpart("TestStartWithoutDRAAPI")
async def test_driver_with_only_a_health_api_is_rejected(node: Node) -> None:
    driver = node.driver(dra_versions=())
    await driver.start()
    await until(lambda: node.happened(Registered))
    reason = "versions must include one of"
    state = await driver.state()
    assert (state.registered, state.registration_error.startswith(reason)) == (False, True)


@pytest.mark.counterpart("TestPluginRegistrationSameName", "TestAddSameName")
async def test_registered_endpoint_is_rejected_until_the_first_plugin_deregisters(node: Node) -> None:
    first, second = (OddPlugin(endpoint=str(node.root / "dra.sock")) for _ in range(2))
    socket = await node.serve(first.methods, "first-reg.sock")
    await until(lambda: first.told)
    await node.serve(second.methods, "second-reg.sock")
    await until(lambda: second.told)
    endpoint = f"driver odd.example.com is already registered with endpoint {node.root / 'dra.sock'}"
    assert (first.told, second.told) == ([(True, "")], [(False, endpoint)])
    socket.remove()
    await node.after_jumps(lambda: second.told[-1] == (True, ""))


async def test_a_plugin_without_an_endpoint_is_called_at_its_registration_socket(node: Node) -> None:
    await node.run_odd(name=DRIVER)
    claim = await node.claim("gpu", "gpu-0")
    assert await node.manager.prepare("pod", [claim]) == {claim.ref.uid: ()}


def complained(caplog: pytest.LogCaptureFixture, times: int) -> bool:
    return len(lines(caplog, "odd-reg.sock", 0)) == times


async def test_rejected_plugin_is_retried_with_growing_backoff(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "drahealth")
    plugin = OddPlugin(type="CSIPlugin")
    await node.serve(plugin.methods)
    for round_, pause in enumerate((0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122), start=1):
        await until(partial(complained, caplog, round_))
        await node.jump(pause - 0.001)
        assert len(plugin.told) == round_
        await node.jump(0.001)
    assert len(lines(caplog, "odd-reg.sock")) == 1


async def test_rejected_plugin_registers_after_it_corrects_its_info(node: Node) -> None:
    plugin = await node.run_odd(type="CSIPlugin")
    plugin.info["type"] = "DRAPlugin"
    await node.after_jumps(lambda: plugin.told[-1] == (True, ""))


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
async def test_failed_registration_notification_deregisters_and_retries_the_plugin(
    node: Node, code: grpc.StatusCode, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = OddPlugin()
    plugin.code = code
    await node.serve(plugin.methods)
    await until(lambda: lines(caplog, "odd-reg.sock"))
    await gone(node, "odd.example.com")
    why = f"NotifyRegistrationStatus failed: {code.name}: on purpose"
    assert lines(caplog, "odd-reg.sock") == [f"plugin socket odd-reg.sock: {why}; trying again"]
    plugin.code = grpc.StatusCode.OK
    await node.after_jumps(lambda: len(plugin.told) == 2)


async def test_socket_without_a_server_is_logged_and_delays_no_plugin(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "DIAL_LIMIT", 1.0)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(node.registry / "dead-reg.sock"))
    await node.run_driver()
    await until(lambda: lines(caplog, "dead-reg.sock"))
    assert lines(caplog, "dead-reg.sock") == ["plugin socket dead-reg.sock: no answer within 1 s; trying again"]


async def test_unresponsive_socket_is_logged_and_delays_no_plugin(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "DIAL_LIMIT", 1.0)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(node.registry / "mute-reg.sock"))
        mute.listen()
        await node.run_driver()
        await until(lambda: lines(caplog, "mute-reg.sock"))
    assert lines(caplog, "mute-reg.sock") == ["plugin socket mute-reg.sock: no answer within 1 s; trying again"]


async def test_hanging_get_info_is_logged_and_delays_no_plugin(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "INFO_LIMIT", 0.2)
    plugin = OddPlugin()

    async def hang(request: Any, context: Any) -> None:
        await asyncio.Event().wait()

    await node.serve(dict.fromkeys(plugin.methods, hang))
    await node.run_driver()
    await until(lambda: lines(caplog, "odd-reg.sock"))
    assert "GetInfo failed, is it a plugin? DEADLINE_EXCEEDED" in lines(caplog, "odd-reg.sock")[0]


async def test_recreated_registration_directory_is_watched_again(node: Node) -> None:
    await node.run_driver("first.example.com")
    shutil.rmtree(node.registry)
    await gone(node, "first.example.com")
    await node.run_driver("second.example.com")
    assert [event.driver for event in node.happened(Registered)] == ["first.example.com", "second.example.com"]


async def test_manager_stops_promptly_during_registration_handshakes(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "DIAL_LIMIT", 3600.0)
    with contextlib.ExitStack() as sockets:
        for number in range(3):
            mute = sockets.enter_context(socket.socket(socket.AF_UNIX))
            mute.bind(str(node.registry / f"mute-{number}-reg.sock"))
            mute.listen()
        await settle()
        await asyncio.wait_for(node.manager.stop(), PATIENCE)
