"""Arbitrary names and texts from plugins: pods show them unchanged and log lines stay intact."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from drahealth.fakes.control.fake_options import Returned
from drahealth.manager.dra import PrepareError
from drahealth.manager.registration import find_sockets
from drahealth.proto.events import Registered
from drahealth.proto.services import PREPARE
from drahealth.proto.values import DeviceHealth, Health, ResourceHealth
from drahealth.suites.unit.manager.anything import odd_text
from drahealth.suites.unit.manager.rig import DRIVER, Node, OddPlugin, lines, until

HEALTH = ["v1.DRAPlugin", "v1.DRAResourceHealth"]


@pytest.fixture(autouse=True)
def every_line_is_a_line(caplog: pytest.LogCaptureFixture) -> Any:
    """Whatever was logged in the test is one printable line of a length that can be read."""
    caplog.set_level("DEBUG", "drahealth")
    yield
    said = [record.getMessage() for record in caplog.get_records("call") if record.name.startswith("drahealth")]
    assert [line for line in said if not line.isprintable() or len(line) > 1000] == []


@odd_text
async def test_device_with_any_name_shows_before_and_after_a_restart(any_node: Node, odd: str) -> None:
    driver = await any_node.run_driver(cdi_ids=False, returns={"gpu-0": (Returned(odd, odd),)})
    await any_node.run_pod("pod", await any_node.claim("gpu", "gpu-0"))
    await until(lambda: driver.health.open)
    await driver.report([DeviceHealth(odd, odd, Health.UNHEALTHY, odd)])
    message = odd[:1021] + "..." if len(odd) > 1024 else odd
    shown = (ResourceHealth(f"{DRIVER}/{odd}/{odd}", Health.UNHEALTHY, message),)
    await until(lambda: any_node.entries("pod")[0].resources == shown)
    await any_node.manager.stop()
    await driver.stop()
    await any_node.restart()
    assert any_node.entries("pod")[0].resources == shown


@odd_text
async def test_driver_with_any_name_prepares_claims(any_node: Node, odd: str) -> None:
    plugin = await any_node.run_odd(name=odd, supported_versions=HEALTH)
    claim = await any_node.claim("gpu", drivers=(odd,))
    assert (plugin.told, await any_node.manager.prepare("pod", [claim])) == ([(True, "")], {claim.ref.uid: ()})
    plugin.code = grpc.StatusCode.INTERNAL
    with pytest.raises(PrepareError) as error:
        await any_node.manager.unprepare("pod")
    assert (str(error.value).isprintable(), len(str(error.value)) < 1000) == (True, True)


@odd_text
@pytest.mark.parametrize("field", ["type", "endpoint", "supported_versions"])
async def test_plugin_with_invalid_info_is_rejected_in_one_line(
    node: Node, field: str, odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = OddPlugin(**{field: [odd] * 100 if field == "supported_versions" else f"x{odd}"})
    await node.serve(plugin.methods)
    await until(lambda: lines(caplog, "odd-reg.sock"))
    ((ok, reason),) = plugin.told
    assert (ok, reason.isprintable(), len(reason) < 1000) == (False, True, True)


@odd_text
async def test_driver_error_raises_a_one_line_prepare_error(node: Node, odd: str) -> None:
    plugin = await node.run_odd(name=DRIVER)
    claim = await node.claim("gpu", "gpu-0")
    plugin.answer = PREPARE["v1.DRAPlugin"].response(claims={claim.ref.uid: {"error": odd}})
    with pytest.raises(PrepareError, match=f"^{DRIVER} at odd-reg.sock: prepare of claim default/gpu: ") as error:
        await node.run_pod("pod", claim)
    assert (str(error.value).isprintable(), len(str(error.value)) < 1200) == (True, True)


@odd_text
async def test_unregistered_driver_of_any_name_gives_a_one_line_error(node: Node, odd: str) -> None:
    with pytest.raises(PrepareError) as error:
        await node.run_pod("pod", await node.claim("gpu", "gpu-0", drivers=(odd,)))
    assert (str(error.value).isprintable(), len(str(error.value)) < 1000) == (True, True)


@pytest.mark.parametrize("name", [b"a\nERROR b.sock", b"\x1b[31m.sock", b"\xff\xfe.sock"])
async def test_rejection_at_any_socket_name_is_logged_in_one_line(
    node: Node, name: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await node.serve(OddPlugin(type="CSIPlugin").methods, os.fsdecode(name))
    await node.after_jumps(lambda: lines(caplog, "CSIPlugin"))
    assert len(lines(caplog, "plugin socket")) == 1


async def test_file_with_a_non_utf8_name_does_not_delay_plugins(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    (node.registry / os.fsdecode(b"\xff")).touch()
    await until(lambda: lines(caplog, "cannot be watched"))
    driver = node.driver()
    await driver.start()
    await node.after_jumps(lambda: node.happened(Registered))
    (node.registry / f"{DRIVER}-reg.sock").unlink()
    await node.after_jumps(lambda: "deregistered" in caplog.text)
    assert len(lines(caplog, "")) == 1


@pytest.fixture
def deep_folder(tmp_path: Path) -> Iterator[Path]:
    """One folder in the other, 1500 times."""
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=folder)
        folder, above = os.open("a", os.O_RDONLY, dir_fd=folder), folder
        os.close(above)
    os.close(folder)
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path / "a"], check=True)  # shutil.rmtree does not come so deep


def test_socket_search_handles_1500_nested_directories(deep_folder: Path) -> None:
    assert list(find_sockets(deep_folder)) == []
