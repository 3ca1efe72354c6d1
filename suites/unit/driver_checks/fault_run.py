"""The evidence of the experiment `faults`: gpu-1 breaks at 10 s, its cause changes at 20 s, and it heals at 30 s."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from drahealth.proto.events import Event, FaultCleared, FaultInjected, ReportReceived, StreamClosed, StreamOpened
from drahealth.proto.health_apis import V1
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed_health import OURS
from drahealth.suites.unit.driver_checks.evidence_of import evidence_at

State = tuple[Health, str]
BREAK, CHANGE, CLEAR, END = 10.0, 20.0, 30.0, 60.0
HEALTHY: State = (Health.HEALTHY, "")
STATES: Mapping[float, State] = {
    1.0: HEALTHY,
    10.4: (Health.UNHEALTHY, "too hot"),
    20.6: (Health.UNHEALTHY, "fan broken"),
    30.2: HEALTHY,
}
"""What the driver reports of gpu-1, and when."""
BROKEN = FaultInjected(
    *("broken", "hot", "break", "node-a", "gpu-1", "write health", "forced", "Unhealthy", 1.0, "done", 0.1),
    message="too hot",
)
CHANGED = replace(BROKEN, step="change", message="fan broken")
CLEARED = FaultCleared("broken", "hot", "node-a", "gpu-1", "remove health", 1.0, "done", 0.1)
STEPS: Mapping[float, Event] = {BREAK: BROKEN, CHANGE: CHANGED, CLEAR: CLEARED}
Others = Callable[[str, float], State]


def fault_run(
    *,
    a: Mapping[float, State] = STATES,
    b: Mapping[float, State] = STATES,
    others: Others = lambda name, at: HEALTHY,
    steps: Mapping[float, Event] = STEPS,
    end: float = END,
    more: tuple[tuple[float, str, Event], ...] = (),
) -> Evidence:
    """Two streams with these states of gpu-1, a heartbeat each 4 s, and the steps of the fault."""
    records = [(at, "faults", event) for at, event in steps.items()]
    for name, states in (("a", a), ("b", b)):
        records += [(at, "faults", event) for at, event in _stream(name, states, others, end)]
    return evidence_at(*records, *more)


def _stream(name: str, states: Mapping[float, State], others: Others, end: float) -> Iterator[tuple[float, Event]]:
    yield 0.5, StreamOpened("d", "", name, V1.name, "/s")
    beats = (4.0 * number + 2 for number in range(int(end / 4)))
    for at in sorted({*states, *beats}):
        mine = [state for since, state in sorted(states.items()) if since <= at]
        shown = {"gpu-0": others("gpu-0", at), "gpu-1": mine[-1] if mine else HEALTHY, "gpu-2": others("gpu-2", at)}
        devices = tuple(DeviceHealth("node-a", device, *state) for device, state in shown.items())
        if at < end:
            yield at, ReportReceived("d", "/s", name, 90, devices)
    yield end, StreamClosed("d", "", name, OURS, "/s", "CANCELLED")
