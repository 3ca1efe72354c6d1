"""State that a manager restores from its files after a restart."""

import json
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.cluster.api import CLAIMS
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import NEWEST, PROFILES
from drahealth.proto.events import Prepared, Registered, Unprepared
from drahealth.proto.values import AllocatedClaim, ClaimRef, Health
from drahealth.suites.unit.manager.conftest import MakeNode
from drahealth.suites.unit.manager.rig import DRIVER, Node, lines, settle, until

SICK = {"gpu-0": "Unhealthy: xid 79", "gpu-1": "Healthy"}


async def sick_pod(node: Node) -> FakeDriver:
    """A driver with a device that a pod shows sick."""
    driver = await node.run_driver()
    await node.run_pod("pod", await node.claim("gpus", "gpu-0", "gpu-1"))
    await driver.set_health("gpu-0", Health.UNHEALTHY, "xid 79")
    await node.shows("pod", gpu_0="Unhealthy: xid 79", gpu_1="Healthy")
    return driver


async def come_back_alone(node: Node, driver: FakeDriver, after: float = 0.0) -> None:
    """The manager restarts while its plugin is stopped."""
    await node.manager.stop()
    await driver.stop()
    await node.restart(after)


@pytest.mark.counterpart("kep/cache-initialization", "alpha2/cache-initialization", "TestNewHealthInfoCache")
async def test_pods_show_known_health_before_any_plugin_registers_again(any_node: Node) -> None:
    driver = await sick_pod(any_node)
    await come_back_alone(any_node, driver)
    assert any_node.seen("pod") == SICK


async def test_health_expires_while_the_manager_is_stopped(any_node: Node) -> None:
    driver = await sick_pod(any_node)
    await come_back_alone(any_node, driver, after=31)
    assert any_node.seen("pod") == {"gpu-0": "Unknown", "gpu-1": "Unknown"}


async def test_the_plugins_first_report_after_a_restart_shows(any_node: Node) -> None:
    driver = await sick_pod(any_node)
    await come_back_alone(any_node, driver, after=31)
    await driver.start()
    await any_node.shows("pod", gpu_0="Unhealthy: xid 79", gpu_1="Healthy")


async def told_after(node: Node, seconds: float) -> list[set[str]]:
    """The pods that are notified of the first report after a restart, which repeats the known health."""
    driver = await sick_pod(node)
    await come_back_alone(node, driver, after=seconds)
    node.notified.clear()
    await driver.start()
    await node.shows("pod", gpu_0="Unhealthy: xid 79", gpu_1="Healthy")
    await settle()
    return node.notified


async def test_unchanged_health_after_a_short_restart_notifies_no_pod(any_node: Node) -> None:
    assert await told_after(any_node, 10) == []


async def test_kep_notifies_pods_of_recovery_after_a_long_restart(node: Node) -> None:
    assert await told_after(node, 31) == [{"pod"}]


async def test_1_37_notifies_no_pod_after_a_long_restart(node_1_37: Node) -> None:
    assert await told_after(node_1_37, 31) == []


async def beating_for_40_s(node: Node) -> dict[str, str]:
    """What a pod shows after 40 s of heartbeats and a restart."""
    driver = await sick_pod(node)
    await until(lambda: "xid 79" in str(node.health_on_file()))
    for _ in range(2):
        await node.jump(20)
        jumped = node.clock.now()
        driver.health.report_all()
        await until(lambda: all(entry.updated == jumped for _, entry in node.manager._dra._cache.entries()))  # noqa: B023
    assert node.seen("pod") == SICK
    await come_back_alone(node, driver)
    return node.seen("pod")


async def test_heartbeats_persist_across_a_restart_in_the_kep_only(node: Node, node_1_37: Node) -> None:
    assert await beating_for_40_s(node) == SICK
    assert await beating_for_40_s(node_1_37) == {"gpu-0": "Unknown", "gpu-1": "Unknown"}


async def test_claims_prepared_before_a_restart_are_unprepared_by_their_driver(any_node: Node) -> None:
    driver = await sick_pod(any_node)
    await come_back_alone(any_node, driver)
    await any_node.start_driver(driver)
    await any_node.manager.unprepare("pod")
    assert len(any_node.happened(Unprepared)) == 1
    assert json.loads((any_node.root / "dra_manager_state").read_text()) == {"claims": []}


@pytest.mark.parametrize(
    ("profile", "asked", "listed"),
    [(KEP, 1, 1), (NEWEST, 2, 1), (PROFILES["v1.36"], 2, 1), (PROFILES["v1.34"], 2, 2)],
    ids=lambda value: getattr(value, "name", value),
)
async def test_claim_from_before_restart_is_prepared_again_except_in_kep(
    make_node: MakeNode, profile: Profile, asked: int, listed: int
) -> None:
    node = make_node(profile)
    await node.start()
    await node.run_driver()
    claim = await node.claim("gpu", "gpu-0")
    await node.run_pod("before", claim)
    await node.restart()
    await until(lambda: len(node.happened(Registered)) == 2)
    await node.run_pod("after", claim)
    (entry,) = node.entries("after")
    assert (len(node.happened(Prepared)), len(entry.resources)) == (asked, listed)


async def test_a_cleared_driver_is_cleared_in_the_file_too(any_node: Node) -> None:
    driver = await sick_pod(any_node)
    await driver.stop()
    await any_node.shows("pod", gpu_0="Unknown", gpu_1="Unknown")
    await until(lambda: any_node.health_on_file() == {})


async def test_temporary_files_of_killed_writers_are_removed_at_start(make_node: MakeNode) -> None:
    node = make_node()
    for name in ("dra_health_state.tmpa1b2", "dra_manager_state.tmp3", "device_plugin_allocations.tmpx"):
        (node.root / name).write_text('{"half')
    (node.root / "dra_other.tmp4").touch()
    await node.start()
    assert {path.name for path in node.root.iterdir()} == {"plugins_registry", "device-plugins", "dra_other.tmp4"}


def break_file(path: Path, content: Any) -> None:
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)


@pytest.mark.parametrize("content", [b"", b"null", b'{"gpu.example.com":{"Dev', b"\x00\xff", None], ids=repr)
async def test_broken_health_file_loses_only_the_known_health(
    node: Node, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    driver = await sick_pod(node)
    await node.manager.stop()
    break_file(node.root / "dra_health_state", content)
    await driver.stop()
    await node.restart()
    assert node.seen("pod") == {"gpu-0": "Unknown", "gpu-1": "Unknown"}
    assert [line[:27] for line in lines(caplog, "checkpoint")] == ["checkpoint dra_health_state"]
    await driver.start()
    await node.shows("pod", gpu_0="Unhealthy: xid 79", gpu_1="Healthy")


async def test_broken_driver_in_the_health_file_affects_no_other_driver(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    driver = await sick_pod(node)
    await node.manager.stop()
    path = node.root / "dra_health_state"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "broken.example.com": {}, "odd.example.com": {"Devices": {"a": 7}}})
    )
    await come_back_alone(node, driver)
    assert node.seen("pod") == SICK
    assert len(lines(caplog, "checkpoint")) == 2


@pytest.mark.parametrize("content", [b"", b"[]", b'{"claims": 7}', None], ids=repr)
async def test_broken_claims_file_loses_only_the_claims(
    node: Node, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    driver = await sick_pod(node)
    (found,) = await node.api.list(CLAIMS)
    claim = AllocatedClaim(ClaimRef("default", "gpus", found["metadata"]["uid"]), (DRIVER,))
    await node.manager.stop()
    break_file(node.root / "dra_manager_state", content)
    await node.restart()
    assert (node.seen("pod"), len(lines(caplog, "checkpoint"))) == ({}, 1)
    await until(lambda: driver.health.opened == 2)
    await node.run_pod("pod", claim)
    await node.shows("pod", gpu_0="Unhealthy: xid 79", gpu_1="Healthy")


async def test_unwritable_checkpoint_files_are_logged_once_each(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("dra_health_state", "dra_manager_state"):
        (node.root / name).mkdir()
    driver = await sick_pod(node)
    await driver.set_health("gpu-0", Health.HEALTHY)
    await node.shows("pod", gpu_0="Healthy", gpu_1="Healthy")
    await node.manager.unprepare("pod")
    assert sorted(line.partition(",")[0] for line in lines(caplog, "checkpoint")) == [
        "checkpoint dra_health_state cannot be written",
        "checkpoint dra_manager_state cannot be written",
    ]
    assert [path.name for path in node.root.glob("*.tmp*")] == []
