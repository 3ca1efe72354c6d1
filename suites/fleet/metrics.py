"""The metrics of a fleet for Prometheus: devices by health and by fault, for each rack."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drahealth.proto.events import CommandDone, DriverEvent
from drahealth.suites.fleet.driver import FleetDriver
from drahealth.suites.fleet.topology import HollowNodeName

_Labels = tuple[str, ...]


class FleetMetrics:
    """Counts commands, and reads the state of the devices at each request."""

    def __init__(self, drivers: Sequence[FleetDriver], nodes: Sequence[HollowNodeName]) -> None:
        self._registry = CollectorRegistry()
        self._commands = CounterMetric(
            "drahealth_fleet_commands",
            "Commands of the control socket, by name.",
            ("driver", "command"),
            registry=self._registry,
        )
        self._registry.register(_Now(drivers, nodes))

    def count(self, event: DriverEvent, /) -> None:
        """Counts the event, if it is that of a command."""
        if isinstance(event, CommandDone):
            self._commands.labels(event.driver, event.command).inc()

    async def text(self) -> bytes:
        """All metrics in the format of Prometheus."""
        return generate_latest(self._registry)


class _Now(Collector):
    """The state at the time of the request."""

    def __init__(self, drivers: Sequence[FleetDriver], nodes: Sequence[HollowNodeName]) -> None:
        self._drivers = drivers
        self._place = {node.name: (node.rack, node.zone) for node in nodes}

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that the registration reads no values."""
        return ()

    def collect(self) -> Iterator[Metric]:
        devices, faults = Counter[_Labels](), Counter[_Labels]()
        for driver in self._drivers:
            devices.update((driver.name, *self._place[one.pool], str(one.health)) for one in driver.health.all())
            for path, ids in driver.failing.faults().items():
                place = self._place[path.partition("/")[0]]
                faults.update((driver.name, *place, fault) for fault in ids)
        yield _family("devices", "Devices by their reported health.", devices, "driver", "rack", "zone", "health")
        yield _family("faults", "Devices with a fault, by the fault.", faults, "driver", "rack", "zone", "fault")
        yield _family("nodes", "Hollow nodes.", Counter[_Labels](self._place.values()), "rack", "zone")


def _family(name: str, text: str, values: Counter[_Labels], *labels: str) -> Metric:
    family = GaugeMetricFamily(f"drahealth_fleet_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
