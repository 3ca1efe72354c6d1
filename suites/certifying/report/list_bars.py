"""The bars of Pod statuses and of device plugins' lists. Pure."""

from collections.abc import Iterator, Mapping

from drahealth.proto.events import ListReceived, PodDeleted, StatusSeen, StreamClosed
from drahealth.proto.values import Health
from drahealth.suites.certifying.report.bars import Bar, Span, merged
from drahealth.suites.checking.evidence import Evidence

States = list[tuple[float, Mapping[str, tuple[Health, str]]]]
"""The devices with health and message, at each time at which they were seen."""


def pod_bars(evidence: Evidence) -> Iterator[tuple[str, str, Bar]]:
    """The health in `allocatedResourcesStatus`: experiment, ID of the resource, and bar of each container."""
    found: dict[tuple[str, str, str], States] = {}
    several = has_several_resources(evidence)
    for one in evidence.of(StatusSeen):
        for container, entries in one.what.entries():
            shown = {
                (f"{entry.name}/" if several and not entry.name.startswith("claim:") else "") + each.resource_id: (
                    each.health,
                    each.message,
                )
                for entry in entries
                for each in entry.resources
            }
            key = (one.experiment, one.what.pod, container)
            if shown or key in found:
                found.setdefault(key, []).append((one.at, shown))
    for gone in evidence.of(PodDeleted):
        for (experiment, pod, _), states in found.items():
            if (experiment, pod) == (gone.experiment, gone.what.pod):
                states.append((gone.at, {}))
    for (experiment, pod, container), states in found.items():
        source = f"status of Pod {pod}" + (f", container {container}" if container else "")
        yield from ((experiment, name, bar) for name, bar in state_bars(source, states, _end(evidence)))


def has_several_resources(evidence: Evidence) -> bool:
    """Whether a device plugin listed the devices of several resources: their IDs can then be the same."""
    return len({one.what.driver for one in evidence.of(ListReceived)}) > 1


def list_bars(evidence: Evidence) -> Iterator[tuple[str, str, Bar]]:
    """The health in the lists of a device plugin: experiment, ID of the device, and bar of each stream."""
    found: dict[tuple[str, str], States] = {}
    ends: dict[tuple[str, str], float] = {}
    several = has_several_resources(evidence)
    for one in evidence.of(ListReceived):
        prefix = f"{one.what.driver}/" if several else ""
        listed = {prefix + each.id: (_health(each.health), "") for each in one.what.devices}
        found.setdefault((one.experiment, one.what.stream), []).append((one.at, listed))
    for closed in evidence.of(StreamClosed):
        ends.setdefault((closed.experiment, closed.what.stream), closed.at)
    for (experiment, stream), states in found.items():
        end = ends.get((experiment, stream), _end(evidence))
        source = f"ListAndWatch, stream {stream}"
        yield from ((experiment, name, bar) for name, bar in state_bars(source, states, end))


def state_bars(source: str, states: States, end: float) -> Iterator[tuple[str, Bar]]:
    """The bar of each device in these states. The last state lasts until `end`."""
    stops = [*(at for at, _ in states[1:]), end]
    for name in dict.fromkeys(name for _, health in states for name in health):
        spans = [
            Span(at, stop, *health[name]) for (at, health), stop in zip(states, stops, strict=True) if name in health
        ]
        yield name, Bar(source, tuple(merged(spans)), tuple(at for at, health in states if name in health))


def _health(text: str) -> Health:
    """The health of a device plugin's list; any other text than the two that kubelets know is Unknown."""
    return Health(text) if text in list(Health) else Health.UNKNOWN


def _end(evidence: Evidence) -> float:
    return max((record.at for record in evidence.records), default=0.0)
