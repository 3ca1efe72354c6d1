"""The metrics of the process for Prometheus.

Events are counted as they happen; the state of the drivers is read at each request.
"""

from collections import Counter as Count
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drahealth.fakes.control.replies import DriverState, PluginState
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.program.metrics_server import MetricsServer
from drahealth.fakes.program.private_files import BearerToken
from drahealth.proto.events import (
    CommandDone,
    DeviceChanged,
    DriverEvent,
    ExpectationFailed,
    ExpectationMet,
    ReportSummary,
    StreamOpened,
)
from drahealth.proto.health_apis import HEALTH_APIS

Labels = tuple[str, ...]
State = TypeVar("State")


class Metrics:
    """Counts events. A device plugin has its resource as the label `driver`."""

    def __init__(self, drivers: Sequence[FakeDriver], plugins: Sequence[FakeDevicePlugin] = ()) -> None:
        self._registry = registry = CollectorRegistry()
        self._drivers = drivers
        self._plugins = plugins
        self._now = _Now(drivers, plugins)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"drahealth_fake_{name}", text, ("driver", *labels), registry=registry)

        self._reports = counter("reports_sent", "Reports written to health streams.")
        self._changes = counter("device_changes", "Changes of devices that were reported.")
        self._opened = counter("streams_opened", "Health streams that were opened.")
        self._commands = counter("commands", "Commands of the control socket, by name.", "command")
        self._expected = counter("expectations", "Expectations of a timeline, by outcome.", "outcome")
        registry.register(self._now)

    def __call__(self, event: DriverEvent, /) -> None:
        match event:
            case ReportSummary(driver):
                self._reports.labels(driver).inc()
            case DeviceChanged(driver):
                self._changes.labels(driver).inc()
            case StreamOpened(driver):
                self._opened.labels(driver).inc()
            case ExpectationMet(driver):
                self._expected.labels(driver, "met").inc()
            case ExpectationFailed(driver):
                self._expected.labels(driver, "failed").inc()
            case CommandDone(driver, command):
                self._commands.labels(driver, command).inc()

    async def text(self) -> bytes:
        """All metrics in the format of Prometheus."""
        self._now.states = {driver.options.name: await driver.state() for driver in self._drivers}
        self._now.plugged = {plugin.options.resource: await plugin.state() for plugin in self._plugins}
        return generate_latest(self._registry)

    async def serve(self, address: str, port: int, token: BearerToken | None) -> "MetricsServer":
        """Serves the metrics at `/metrics` to clients with the token, or to everybody; port 0 selects a free port.

        Raises OSError if the port is in use.
        """
        server = MetricsServer(self.text, token)
        await server.start(address, port)
        return server


class _Now(Collector):
    """The state of the drivers at the time of the request."""

    def __init__(self, drivers: Sequence[FakeDriver], plugins: Sequence[FakeDevicePlugin]) -> None:
        self._drivers = drivers
        self._plugins = plugins
        self.states: Mapping[str, DriverState] = {}
        self.plugged: Mapping[str, PluginState] = {}

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that the registration reads no values."""
        return ()

    def collect(self) -> Iterator[Metric]:
        devices, faults = Count[Labels](), Count[Labels]()
        for driver in self._drivers:
            devices.update((driver.options.name, str(device.health)) for device in driver.health.all())
        for plugin in self._plugins:
            devices.update((plugin.options.resource, device.health) for device in plugin.known)
        both: Mapping[str, DriverState | PluginState] = {**self.states, **self.plugged}
        for name, state in both.items():
            faults.update((name, fault) for ids in state.faults.values() for fault in ids)
        yield _calls(self._drivers, self._plugins)
        yield _family("devices", "Devices by their reported health.", devices, "health")
        yield _family("faults", "Devices with a fault, by the fault.", faults, "fault")
        yield _each("streams", "Health streams that are open.", both, lambda state: state.streams)
        yield _each("prepared_claims", "Claims that are prepared.", self.states, lambda state: len(state.prepared))
        yield _each(
            "listed_devices", "Devices that a device plugin lists.", self.plugged, lambda state: len(state.listed)
        )
        yield _each("running", "1 while the driver runs.", both, lambda state: state.running)
        yield _each(
            "registered",
            "1 once a kubelet has registered the driver.",
            both,
            lambda state: state.registered,
        )


def _each(name: str, text: str, states: Mapping[str, State], value: Callable[[State], float]) -> Metric:
    return _family(name, text, {(driver,): value(state) for driver, state in states.items()})


def _calls(drivers: Iterable[FakeDriver], plugins: Iterable[FakeDevicePlugin]) -> Metric:
    family = CounterMetricFamily(
        "drahealth_fake_calls", "Calls of gRPC methods, as a kubelet makes them.", labels=("driver", "method")
    )
    for driver in drivers:
        streams = {HEALTH_APIS[name].method.path: count for name, count in driver.health.requests.items()}
        for path, count in {**driver.calls, **streams}.items():
            family.add_metric((driver.options.name, path.removeprefix("/")), count)
    for plugin in plugins:
        for path, count in plugin.calls.items():
            family.add_metric((plugin.options.resource, path.removeprefix("/")), count)
    return family


def _family(name: str, text: str, values: Mapping[Labels, float], *labels: str) -> Metric:
    family = GaugeMetricFamily(f"drahealth_fake_{name}", text, labels=("driver", *labels))
    for key, value in values.items():
        family.add_metric(key, value)
    return family
