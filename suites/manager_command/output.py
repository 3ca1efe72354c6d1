"""What `drahealth manager` writes: JSON lines, a history, a live table, metrics, and files with Pod statuses."""

import asyncio
import io
import logging
from collections import Counter as Count
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from ruamel.yaml import YAML

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.program.json_lines import LineWriter
from drahealth.fakes.program.live_frame import empty_table, on_terminal, plain
from drahealth.fakes.program.metrics_server import LOOPBACK, MetricsServer
from drahealth.fakes.program.private_files import BearerToken, replace_file
from drahealth.manager.dra import Device
from drahealth.manager.profile import Profile
from drahealth.proto.clock import Clock
from drahealth.proto.events import (
    IN_FULL,
    IN_SHORT,
    CheckpointWritten,
    Event,
    ManagerStarted,
    Observe,
    PluginDeregistered,
    PluginRegistered,
    PodDeleted,
    PodsNotified,
    Record,
    ReportSummary,
    StatusSeen,
    StreamClosed,
    StreamOpened,
    to_json,
)
from drahealth.proto.history import Header, HistoryWriter
from drahealth.proto.values import Health
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.manager_command.manifests import STATUS_SUFFIX
from drahealth.suites.output_paths import check_output_file

log = logging.getLogger(__name__)

# Prints events as JSON Lines: one event of docs/reference/events.md on each line, starting with its `time` (RFC 3339).


def is_shown(event: Event) -> bool:
    """Whether the event is printed: not full wire messages, and checkpoints only if their write failed."""
    return not isinstance(event, IN_FULL) and not (isinstance(event, CheckpointWritten) and event.ok)


class JsonLines:
    """The observer that writes them to `output`, until `close`."""

    def __init__(self, output: TextIO, clock: Clock) -> None:
        self._writer = LineWriter(output, clock)

    def __call__(self, event: Event, /) -> None:
        if is_shown(event):
            self._writer.write(to_json(event))

    def close(self) -> None:
        """Returns when all lines are written, or the reader has stopped."""
        self._writer.close()


# Passes the events of the program to all its observers.


class Observers:
    """An observer that passes each event to all added observers."""

    def __init__(self) -> None:
        self._all: list[Observe] = []

    def add(self, observe: Observe) -> None:
        """Adds an observer."""
        self._all.append(observe)

    def __call__(self, event: Event, /) -> None:
        for observe in self._all:
            observe(event)


# Writes the events of the manager to a history file.


def check_history_file(path: Path) -> None:
    """Raises ConfigurationError for a file that exists or cannot be written."""
    if path.exists():
        raise ConfigurationError(f"--history {path} already exists", "pass another file, or remove this file")
    check_output_file(str(path))


@contextmanager
def history_file(path: Path | None, profile: Profile, clock: Clock, observers: Observers) -> Iterator[None]:
    """While it is entered, events go to the file; nothing without a file. Raises HarnessError.

    Reports are written in full, so their short forms are left out.
    """
    if path is None:
        yield
        return
    try:
        writer = HistoryWriter(path, Header.make(profile.name, clock))
    except OSError as error:
        raise HarnessError(f"--history {path} cannot be written: {error.strerror}") from error

    def record(event: Event) -> None:
        if not isinstance(event, IN_SHORT):
            writer.add(Record(clock.now(), event))

    observers.add(record)
    try:
        yield
    finally:
        writer.close()


# The live table: plugins with their streams, devices with their health, pods with their statuses.
#
# Problems come first. Log lines scroll above the table. Foreign text is made safe for a terminal.

_STYLE = {Health.HEALTHY: "green", Health.UNHEALTHY: "bold red", Health.UNKNOWN: "yellow"}
_URGENCY = [Health.UNHEALTHY, Health.UNKNOWN, Health.HEALTHY]


@dataclass(slots=True)
class _Plugin:
    health_api: str | None
    is_open: bool = False
    why: str = ""
    reports: int = 0


class LiveTable:
    """The observer that shows the table; `devices` gives all devices with their current health."""

    def __init__(self, devices: Callable[[], Iterable[Device]], console: Console | None = None) -> None:
        self._devices = devices
        self._console = console or Console()
        self._started: ManagerStarted | None = None
        self._plugins: dict[tuple[str, str], _Plugin] = {}
        self._pods: dict[str, StatusSeen] = {}

    def __call__(self, event: Event, /) -> None:
        match event:
            case ManagerStarted():
                self._started = event
            case PluginRegistered(driver, endpoint, health_api):
                self._plugins[driver, endpoint] = _Plugin(health_api)
            case PluginDeregistered(driver, endpoint):
                self._plugins.pop((driver, endpoint), None)
            case StreamOpened() if plugin := self._plugins.get((event.driver, event.endpoint)):
                plugin.health_api, plugin.is_open = event.health_api, True
            case StreamClosed() if plugin := self._plugins.get((event.driver, event.endpoint)):
                plugin.is_open, plugin.why = False, event.why
            case ReportSummary(driver):
                for (name, _), plugin in self._plugins.items():
                    plugin.reports += name == driver and plugin.is_open
            case StatusSeen():
                self._pods[event.uid] = event
            case PodDeleted():
                self._pods.pop(event.uid, None)

    def shown(self) -> AbstractContextManager[None]:
        """Shows the table on the terminal, with log lines above it."""
        return on_terminal(self._console, self.table)

    def table(self) -> RenderableType:
        """The current table."""
        room = max((self._console.height - 12) // 2, 3)
        return Group(self._head(), self._plugin_table(), self._device_table(room), self._pod_table(room))

    def _head(self) -> Text:
        if self._started is None:
            return Text("drahealth manager is starting")
        started = self._started
        head = plain(f"node {started.node}, profile {started.profile}, root directory {started.root_dir}", "bold")
        head.append("\n").append(plain(f"manifests {started.pods}   kubeconfig {started.kubeconfig}", "dim"))
        if started.metrics:
            head.append(plain(f"   metrics {started.metrics}", "dim"))
        return head

    def _plugin_table(self) -> Table:
        table = empty_table("plugin", "endpoint", "health stream", "reports")
        for (driver, endpoint), plugin in self._plugins.items():
            if plugin.health_api is None:
                stream = Text("none: it reports no health", style="yellow")
            elif plugin.is_open:
                stream = plain(f"open, {plugin.health_api}", "green")
            else:
                stream = plain(f"not open {plugin.why}".strip(), "red")
            table.add_row(plain(driver), plain(endpoint), stream, str(plugin.reports))
        return table

    def _device_table(self, room: int) -> Table:
        table = empty_table("device", "health", "message", "reported")
        devices = sorted(self._devices(), key=lambda device: _URGENCY.index(device.reading.health))
        for device in devices[:room]:
            health, age = device.reading.health, f"{device.age:.0f} s ago" + (", stale" if device.stale else "")
            table.add_row(plain(str(device.id)), plain(health, _STYLE[health]), plain(device.reading.message), age)
        if len(devices) > room:
            table.add_row(f"... and {len(devices) - room} more", "", "", "")
        return table

    def _pod_table(self, room: int) -> Table:
        table = empty_table("pod", "phase", "containers", "devices")
        rows = sorted((_pod_row(pod) for pod in self._pods.values()), key=lambda row: row[0])
        for _, *cells in rows[:room]:
            table.add_row(*cells)
        if len(rows) > room:
            table.add_row(f"... and {len(rows) - room} more", "", "", "")
        return table


def _pod_row(seen: StatusSeen) -> tuple[tuple[int, str], Text, Text, Text, Text]:
    """The priority of the row, and its cells."""
    name = f"{seen.namespace}/{seen.pod}"
    devices, worst = Text(), len(_URGENCY)
    for container, entries in seen.entries():
        for shown in (shown for entry in entries for shown in entry.resources):
            worst = min(worst, _URGENCY.index(shown.health))
            devices.append("\n" if devices else "").append(plain(f"{shown.resource_id} "))
            devices.append(plain(shown.health, _STYLE[shown.health]))
            devices.append(plain(f" {shown.message}" if shown.message else ""))
            devices.append("" if container else ", used by no container")
    containers = plain(", ".join(f"{c.name} {c.state}" for c in (*seen.init_containers, *seen.containers)))
    if seen.pending:
        containers.append("\n" if containers else "").append(plain(seen.pending, "yellow"))
    return (worst, name), plain(name), plain(seen.phase), containers, devices


# The program's metrics for Prometheus, on the loopback address.
#
# Events are counted as they happen; the health of devices is read at each request.

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
"""Seconds of a checkpoint's write."""


class Metrics:
    """The observer that counts events; `devices` gives all devices with their current health."""

    def __init__(self, devices: Callable[[], Iterable[Device]]) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"drahealth_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"drahealth_{name}", text, labels, registry=registry)

        self._registrations = counter("plugin_registrations", "Plugin instances that were registered.", "driver")
        self._deregistrations = counter("plugin_deregistrations", "Plugin instances that were deregistered.", "driver")
        self._plugins = gauge("plugins", "Plugin instances that are registered now.", "driver")
        self._streams = gauge("health_streams", "Health streams that are open now.", "driver")
        self._opened = counter("health_streams_opened", "Health streams that were opened.", "driver")
        self._reports = counter("health_reports", "Reports that were processed.", "driver")
        self._changes = counter("device_health_changes", "Devices that a report has changed.", "driver")
        self._notifications = counter("notifications", "Changes with a notification of pods.")
        self._notified = counter("notified_pods", "Notifications of pods about a change.")
        self._bytes = gauge("checkpoint_bytes", "Size of a checkpoint.", "file")
        self._failures = counter("checkpoint_write_failures", "Checkpoints that could not be written.", "file")
        self._seconds = Histogram(
            "drahealth_checkpoint_write_seconds",
            "Time of a checkpoint's write.",
            ("file",),
            buckets=BUCKETS,
            registry=registry,
        )
        registry.register(_Devices(devices))

    def __call__(self, event: Event, /) -> None:
        match event:
            case PluginRegistered(driver):
                self._registrations.labels(driver).inc()
                self._plugins.labels(driver).inc()
            case PluginDeregistered(driver):
                self._deregistrations.labels(driver).inc()
                self._plugins.labels(driver).dec()
            case StreamOpened(driver):
                self._opened.labels(driver).inc()
                self._streams.labels(driver).inc()
            case StreamClosed(driver):
                self._streams.labels(driver).dec()
            case ReportSummary(driver, _, changed):
                self._reports.labels(driver).inc()
                self._changes.labels(driver).inc(changed)
            case PodsNotified(pods):
                self._notifications.inc()
                self._notified.inc(len(pods))
            case CheckpointWritten(file, size, seconds, ok):
                self._seconds.labels(file).observe(seconds)
                if ok:
                    self._bytes.labels(file).set(size)
                else:
                    self._failures.labels(file).inc()

    async def serve(self, port: int, token: BearerToken) -> "MetricsServer":
        """Serves the metrics at `/metrics` to clients with the token; port 0 selects a free port.

        Raises OSError if the port is in use.
        """

        async def text() -> bytes:
            return generate_latest(self.registry)

        server = MetricsServer(text, token)
        await server.start(LOOPBACK, port)
        return server


class _Devices(Collector):
    """The health of the devices at the time of the request."""

    def __init__(self, devices: Callable[[], Iterable[Device]]) -> None:
        self._devices = devices

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that the registration reads no values."""
        return ()

    def collect(self) -> Iterator[Metric]:
        health: Count[tuple[str, str]] = Count()
        stale: Count[str] = Count()
        oldest: dict[str, float] = {}
        for device in self._devices():
            driver = device.id.driver
            health[driver, str(device.reading.health)] += 1
            stale[driver] += device.stale
            oldest[driver] = max(oldest.get(driver, 0.0), device.age)
        devices = GaugeMetricFamily(
            "drahealth_devices", "Devices by their current health.", labels=["driver", "health"]
        )
        for labels, count in health.items():
            devices.add_metric(labels, count)
        yield devices
        yield _by_driver("drahealth_devices_stale", "Devices not reported within their timeout.", stale)
        yield _by_driver(
            "drahealth_device_oldest_report_age_seconds",
            "Time since the last report of the device with the oldest report.",
            oldest,
        )


def _by_driver(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["driver"])
    for driver, value in values.items():
        family.add_metric([driver], value)
    return family


# The statuses of the pods, in files beside their manifests: `NAMESPACE.POD.status.yaml`, each replaced as a whole.
#
# A namespace has no dot in its name, so file names are unique. Files with another first line are not touched. A
# failed write or removal is retried until it works or the pod has a newer status.

HEADER = "# Status of a pod. drahealth manager writes this file after each change, and never reads it.\n"
GATHERING = 0.05
"""Seconds in which the changes of a pod become one."""
AGAIN = 1.0
"""Seconds from a failure to the next attempt."""


def file_name(pod: Object) -> str:
    """The name of the pod's file."""
    return f"{pod['metadata']['namespace']}.{pod['metadata']['name']}{STATUS_SUFFIX}"


def text_of(pod: Object) -> str:
    """The content of the pod's file."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    shown = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": pod.get("status", {})}
    yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 1 << 20
    yaml.dump(shown, stream)
    return HEADER + stream.getvalue()


class StatusFiles:
    """Keeps the files in `folder` current while `run` runs."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._due: dict[str, Object | None] = {}
        self._failed: dict[str, Object | None] = {}
        self._woken = asyncio.Event()
        self._failing = asyncio.Event()
        self._told: set[str | None] = set()

    def change(self, pod: Object) -> None:
        """Sets the pod's status."""
        self._due[file_name(pod)] = pod
        self._woken.set()

    def delete(self, pod: Object) -> None:
        """Removes the pod's file."""
        self._due[file_name(pod)] = None
        self._woken.set()

    async def run(self) -> None:
        """Writes pending files until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_due(), name="status files")
            group.create_task(self._try_again(), name="status files, again")

    async def _write_due(self) -> None:
        while True:
            await self._woken.wait()
            await asyncio.sleep(GATHERING)
            self._woken.clear()
            for name in list(self._due):
                self._write(name, self._due.pop(name))
                await asyncio.sleep(0)

    async def _try_again(self) -> None:
        while True:
            await self._failing.wait()
            await self._clock.sleep(AGAIN)
            self._failing.clear()
            self._make_due()
            self._woken.set()

    def _make_due(self) -> None:
        """Schedules failed writes again, unless there is a newer status."""
        self._due = self._failed | self._due
        self._failed = {}

    def flush(self) -> None:
        """Writes all pending and failed files now."""
        self._make_due()
        while self._due:
            self._write(*self._due.popitem())

    def sweep(self) -> None:
        """Removes files of deleted pods that an earlier program left; writes those of existing pods again."""
        for path in self._ours():
            self._write(path.name, None)

    def _ours(self) -> Iterator[Path]:
        for path in self._folder.glob(f"*{STATUS_SUFFIX}"):
            with suppress(OSError):  # who cannot read it does not know whose it is
                if path.is_file() and _begins_as_ours(path):
                    yield path

    def _write(self, name: str, pod: Object | None) -> None:
        path = self._folder / name
        self._failed.pop(name, None)
        try:
            if pod is None:
                path.unlink(missing_ok=True)
            else:
                replace_file(path, text_of(pod).encode())
        except OSError as error:
            self._failed[name] = pod
            self._failing.set()
            if error.strerror not in self._told:
                log.error("%s cannot be written: %s; retrying each second", path, error.strerror)
            self._told.add(error.strerror)
        else:
            if not self._failed:
                self._told.clear()


def _begins_as_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER.encode()
