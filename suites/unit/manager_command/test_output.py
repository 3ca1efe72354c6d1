"""The output of events: JSON lines, metrics, the live table."""

import io
import json
import logging
import os
from typing import Any

import pytest
from aiohttp import ClientSession
from rich.console import Console

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.program.log import FORMAT, LogLines
from drahealth.fakes.program.private_files import BearerToken
from drahealth.manager.cache import Reading
from drahealth.manager.dra import Device
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import (
    CheckpointWritten,
    DeviceChanged,
    Event,
    GrpcCall,
    ManagerStarted,
    ManagerStopped,
    ManifestRejected,
    PluginDeregistered,
    PluginRegistered,
    PodsNotified,
    ReportReceived,
    ReportSummary,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.values import DeviceId, Health
from drahealth.suites.manager_command.output import JsonLines, LiveTable, Metrics
from drahealth.suites.manager_command.program import pod_deleted, status_of
from drahealth.suites.unit.manager_command.rig import DRIVER

GPU = DeviceId(DRIVER, "node-a", "gpu-0")
BAD, GOOD = Reading(Health.UNHEALTHY, "xid [79]"), Reading(Health.HEALTHY)
API, WHERE = "v1.DRAResourceHealth", (DRIVER, "/root/dra.sock")
RESOURCE = {"resourceID": str(GPU), "health": "Unhealthy", "message": "xid [79]"}
POD: Object = {
    "metadata": {"namespace": "default", "name": "job", "uid": "u"},
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 0,
                "state": {"running": {}},
                "allocatedResourcesStatus": [{"name": "claim:gpu", "resources": [RESOURCE]}],
            }
        ],
    },
}
STORY: list[Event] = [
    ManagerStarted("/root", "/root/r", "/root/k", "/root/pods", "node-a", "kep", None),
    PluginRegistered(*WHERE, API),
    GrpcCall(*WHERE, "pluginregistration.Registration/GetInfo", {}, {}, 0.001),
    StreamOpened(DRIVER, "", "kubelet#1", API, WHERE[1]),
    ReportReceived(*WHERE, "kubelet#1", 100, ()),
    ReportSummary(DRIVER, 2, 1),
    DeviceChanged(DRIVER, "node-a/gpu-0", "Unhealthy", "xid [79]"),
    PodsNotified(("u",)),
    CheckpointWritten("dra_health_state", 100, 0.001, True),
    CheckpointWritten("dra_manager_state", 100, 0.001, False),
    status_of(POD),
    ManifestRejected("a.yaml", 3, "it is bad"),
    StreamClosed(DRIVER, "", "kubelet#1", "ended by the plugin", WHERE[1], "OK"),
    PluginDeregistered(*WHERE),
    pod_deleted(POD),
    ManagerStopped(),
]


def written(*events: Event) -> list[dict[str, Any]]:
    """The JSON lines of these, without their times."""
    output = io.StringIO()
    lines = JsonLines(output, SystemClock())
    for event in events:
        lines(event)
    lines.close()
    return [{k: v for k, v in json.loads(line).items() if k != "time"} for line in output.getvalue().splitlines()]


def test_json_lines_omit_full_messages_and_successful_checkpoint_writes() -> None:
    assert [line["event"] for line in written(*STORY)] == [
        *("started", "plugin-registered", "stream-opened", "report", "change", "notified", "checkpoint-written"),
        *("status-seen", "manifest-rejected", "stream-closed", "plugin-deregistered", "pod-deleted", "stopped"),
    ]


def test_blocked_output_reader_does_not_block_the_writer() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as output:
        lines = JsonLines(output, SystemClock())
        for _ in range(30_000):
            lines(ManagerStopped())
        os.close(reading)  # and now nobody can
        lines.close()
        output.write("what is left in the buffer goes nowhere")


async def test_metrics_count_events_and_read_the_devices() -> None:
    metrics = Metrics(lambda: [Device(GPU, BAD, 12.0, False), Device(GPU, Reading(Health.UNKNOWN), 40.0, True)])
    for event in STORY[:11]:
        metrics(event)
    server = await metrics.serve(0, BearerToken("secret"))
    headers = {"Authorization": "Bearer secret"}
    async with ClientSession(headers=headers) as session, session.get(server.url) as response:
        lines = dict(line.rsplit(" ", 1) for line in (await response.text()).splitlines() if line[0] != "#")
    await server.stop()
    driver = f'{{driver="{DRIVER}"}}'
    wanted = {
        f"drahealth_plugin_registrations_total{driver}": 1,
        f"drahealth_plugins{driver}": 1,
        f"drahealth_health_streams{driver}": 1,
        f"drahealth_health_reports_total{driver}": 1,
        f"drahealth_device_health_changes_total{driver}": 1,
        "drahealth_notifications_total": 1,
        f'drahealth_devices{{driver="{DRIVER}",health="Unhealthy"}}': 1,
        f"drahealth_devices_stale{driver}": 1,
        f"drahealth_device_oldest_report_age_seconds{driver}": 40,
        'drahealth_checkpoint_write_seconds_count{file="dra_health_state"}': 1,
        'drahealth_checkpoint_bytes{file="dra_health_state"}': 100,
        'drahealth_checkpoint_write_failures_total{file="dra_manager_state"}': 1,
    }
    assert {name: float(lines[name]) for name in wanted} == wanted


def entry(device: str, health: str, message: str) -> list[Object]:
    """An `allocatedResourcesStatus` with this one device."""
    return [{"name": "claim:gpu", "resources": [{"resourceID": device, "health": health, "message": message}]}]


def elsewhere(message: str = "") -> Object:
    """A pod that shows devices at an init container and as its own alone."""
    init = {"name": "setup", "state": {"terminated": {}}, "allocatedResourcesStatus": entry("i", "Unknown", message)}
    own = entry("o", "Unhealthy", message)
    return {**POD, "status": {"phase": "Running", "initContainerStatuses": [init], "allocatedResourcesStatus": own}}


def test_status_line_has_init_containers_and_unused_devices() -> None:
    (line,) = written(status_of(elsewhere()))
    shown = {"resource_id": "i", "health": "Unknown", "message": ""}
    setup = {"name": "setup", "state": "terminated", "restarts": 0}
    assert line["init_containers"] == [{**setup, "resources": [{"name": "claim:gpu", "resources": [shown]}]}]
    own = {"resource_id": "o", "health": "Unhealthy", "message": ""}
    assert line["resources"] == [{"name": "claim:gpu", "resources": [own]}]


def table(*events: Event, devices: int = 1) -> str:
    """What the live table shows after these."""
    healthy = [Device(DeviceId(DRIVER, "node-a", f"gpu-{n}"), GOOD, 3.0, False) for n in range(1, devices)]
    console = Console(width=120, height=30, file=io.StringIO(), record=True)
    shown = LiveTable(lambda: [*healthy, Device(GPU, BAD, 3.0, False)], console)
    for event in events:
        shown(event)
    console.print(shown.table())
    return console.export_text()


def test_the_table_shows_streams_devices_and_pods() -> None:
    shown = table(*STORY[:11])
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert f"{DRIVER} /root/dra.sock open, {API} 1" in rows
    assert f"{GPU} Unhealthy xid [79] 3 s ago" in rows
    assert f"default/job Running main running {GPU} Unhealthy xid [79]" in rows


NO_NODE: Object = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes"}
WAITING: Object = {"name": "main", "state": {"waiting": {"reason": "FailedPrepare", "message": "no such device"}}}


@pytest.mark.parametrize(
    ("status", "spec", "pending"),
    [
        ({"phase": "Pending", "conditions": [NO_NODE]}, {}, "no nodes"),
        ({"phase": "Pending", "conditions": [NO_NODE]}, {"nodeName": "a"}, ""),
        ({"phase": "Pending", "containerStatuses": [WAITING]}, {"nodeName": "a"}, "no such device"),
        ({"phase": "Pending"}, {"nodeName": "a"}, ""),
        ({"phase": "Running", "containerStatuses": [WAITING]}, {"nodeName": "a"}, ""),
    ],
)
def test_lines_and_table_show_the_reason_of_a_pending_pod(status: Object, spec: Object, pending: str) -> None:
    event = status_of({**POD, "spec": spec, "status": status})
    (line,) = written(event)
    assert (line["pending"], bool(pending) and pending in table(event)) == (pending, bool(pending))


def test_table_shows_unhealthy_devices_first() -> None:
    rows = table(*STORY[:11], devices=10_000).splitlines()
    devices = [row for row in rows if row.startswith(f"{DRIVER}/")]
    assert (devices[0].split()[1], len(rows) < 30) == ("Unhealthy", True)
    assert any(row.startswith("... and 9991 more") for row in rows)


def test_table_omits_deregistered_plugins_and_deleted_pods() -> None:
    assert not {DRIVER, "default/job"} & set(table(*STORY).replace("/root/dra", " ").split())


def test_table_shows_init_containers_and_unused_devices() -> None:
    rows = [" ".join(line.split()) for line in table(status_of(elsewhere("hot"))).splitlines()]
    assert rows[-2:] == [
        "default/job Running setup terminated i Unknown hot",
        "o Unhealthy hot, used by no container",
    ]


@pytest.mark.parametrize("order", ["\x1b[2J", "\x1b]0;mine\x07", "\x9b2J", "\r", "\u202e"], ids=ascii)
def test_table_escapes_terminal_sequences_in_foreign_text(order: str) -> None:
    bad, where = Device(DeviceId(order, order, order), Reading(Health.UNHEALTHY, order), 1.0, False), (order, order)
    name = {"namespace": order, "name": order, "uid": "u"}
    output = io.StringIO()
    console = Console(width=200, height=60, file=output, force_terminal=True, color_system=None)
    shown = LiveTable(lambda: [bad], console)
    status = {**elsewhere(order)["status"], "phase": order}
    status["containerStatuses"] = [{"name": order, "state": {"waiting": {"reason": order}}}]
    begun = ManagerStarted(order, order, order, order, order, order, order)
    for event in (begun, PluginRegistered(*where, API), StreamClosed(order, "", order, order, order)):
        shown(event)
    shown(status_of({"metadata": name, "status": status}))
    console.print(shown.table())
    assert [line for line in output.getvalue().split("\n") if not line.isprintable()] == []


def test_log_lines_escape_terminal_sequences() -> None:
    record = logging.LogRecord("any", logging.ERROR, "", 0, "a\x1b[2J\nb", (), None)
    assert LogLines(FORMAT).format(record) == "ERROR a\\x1b[2J\nb"
