"""The program's metrics for Prometheus, on the loopback address.

Events are counted as they happen; the health of devices is read at each request.
"""

from collections import Counter as Count
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drahealth.fakes.program.bearer_token import BearerToken
from drahealth.fakes.program.metrics_server import LOOPBACK, MetricsServer
from drahealth.manager.dra import Device
from drahealth.proto.events import (
    CheckpointWritten,
    Event,
    PluginDeregistered,
    PluginRegistered,
    PodsNotified,
    ReportSummary,
    StreamClosed,
    StreamOpened,
)

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
