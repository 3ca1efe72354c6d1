"""Checks of a driver with the events of the kubelet side, from a file or in a story."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.manager.profile import KEP
from drahealth.manager.releases import NEWEST
from drahealth.proto.events import (
    DevicesListed,
    GrpcCall,
    ListReceived,
    PluginRegistered,
    Record,
    Registered,
    ReportReceived,
    ReportSent,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.history import Header, HistoryFile
from drahealth.proto.values import DeviceHealth, Health, PluginDevice
from drahealth.suites.judging.histories import as_read, devices_in, one_side, violations
from drahealth.suites.story.node import Node
from drahealth.suites.targets.reference.target import ReferenceTarget
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.suites.histories import DRIVER, history, opened, report, status

API = "v1.DRAResourceHealth"
MINIMAL = Path(__file__).parents[3] / "docs" / "minimal_driver.py"
HOT = DeviceHealth("node-a", "gpu-0", Health.UNHEALTHY, "hot", 7)


def received(*devices: DeviceHealth, driver: str = DRIVER) -> ReportReceived:
    return ReportReceived(driver, "/d.sock", "kubelet#1", 40, devices)


def watched(driver: str = DRIVER, endpoint: str = "/d.sock", stream: str = "kubelet#1") -> StreamOpened:
    return StreamOpened(driver, "", stream, API, endpoint)


# -- one side


def test_kubelet_side_of_a_driver_with_records_of_its_own_is_left_out() -> None:
    both = history(Registered(DRIVER, "", True), opened(), watched(), report(), received(HOT))
    assert [record.what for record in one_side(both)] == [Registered(DRIVER, "", True), opened(), report()]


def test_kubelet_side_of_another_driver_takes_the_place_of_its_records() -> None:
    seen = history(PluginRegistered(DRIVER, "/d.sock", API), watched(), received(HOT))
    assert [record.what for record in as_read(seen, KEP)][1:] == [
        StreamOpened(DRIVER, "/d.sock", "kubelet#1", API, "/d.sock"),
        ReportSent(DRIVER, "/d.sock", "kubelet#1", (HOT,)),
    ]


def test_list_of_a_device_plugin_is_read_as_a_kubelet_does() -> None:
    listed = ListReceived("example.com/gpu", "/p.sock", "kubelet#2", 9, (PluginDevice("0", "odd"),))
    (read,) = as_read(history(listed), KEP)
    assert isinstance(read.what, ReportSent)
    assert [(device.device, device.health) for device in read.what.devices] == [("0", Health.UNHEALTHY)]


def test_devices_are_known_by_id_by_cdi_id_and_by_resource() -> None:
    shared = ["vendor.com/gpu=all"]
    devices = [{"pool_name": "node-a", "device_name": name, "cdi_device_ids": shared} for name in ("gpu-0", "gpu-1")]
    answer = {"claims": {"u": {"devices": devices}}}
    prepared = GrpcCall(DRIVER, "/d.sock", "v1.DRAPlugin/NodePrepareResources", {}, answer, 0.1)
    listed = DevicesListed("example.com/gpu", "", "s", (PluginDevice("0"),))
    gpu = (DRIVER, "node-a", "gpu-0")
    assert devices_in(history(received(HOT), prepared, listed)) == {
        f"{DRIVER}/node-a/gpu-0": (gpu,),
        "vendor.com/gpu=all": (gpu, (DRIVER, "node-a", "gpu-1")),
        "example.com/gpu=0": (("example.com/gpu", "", "0"),),
    }


# -- a file


def file_of(*records: Record) -> HistoryFile:
    return HistoryFile(Header("0.1.0", "kep", "2026-11-22T09:00:00+00:00", 1000.0), list(records))


def test_health_that_was_never_received_is_a_violation() -> None:
    seen = file_of(
        *history(watched(), received(HOT), status(Health.UNHEALTHY, "hot"), status(Health.UNHEALTHY, "cold"))
    )
    assert {name: len(found) for name, found in violations(seen).items() if found} == {"STATUS-07": 1}


def test_two_streams_to_one_endpoint_are_a_violation() -> None:
    closed = StreamClosed(DRIVER, "", "kubelet#1", "ended", "/d.sock", "OK")
    seen = history(watched(), watched(stream="kubelet#2"), 2, closed)
    assert len(violations(file_of(*seen))["STREAM-03"]) == 1


def test_streams_to_two_instances_of_a_driver_are_allowed() -> None:
    seen = history(watched(), watched(endpoint="/e.sock", stream="kubelet#2"), 2, received(HOT))
    assert violations(file_of(*seen))["STREAM-03"] == []


# -- in a story


@pytest.fixture
async def target() -> AsyncIterator[ReferenceTarget]:
    target = ReferenceTarget(NEWEST)
    await target.start()
    yield target
    await target.stop()


async def test_story_contains_reports_of_a_driver_without_its_own_records(target: ReferenceTarget) -> None:
    node = Node(target, "a story", ("STATUS-01",), lambda work: work)
    await node.begin()
    registry, data = str(target.registry_dir), str(target.plugins_dir / "other")
    driver = FakeDriver(DriverOptions(DRIVER, target.node_name, ("gpu-0",), registry, data), target.api)
    await driver.start()
    await until(lambda: any(node.history.of(ReportReceived)))
    await driver.stop()
    await node.finish()
    reports = [r.what for r in node.history.as_read(node.profile) if isinstance(r.what, ReportSent)]
    assert [device.device for device in reports[0].devices] == ["gpu-0"]
    assert not any(node.history.of(StreamOpened))
