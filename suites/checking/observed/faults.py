"""The faults of a run, from the break to the heal, and when the health streams showed each step. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from drahealth.proto.events import FaultCleared, FaultInjected, SignalSent
from drahealth.proto.values import DEFAULT_TIMEOUT, DeviceHealth, Health
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.faults import MARGIN
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.observed.streams import Stream, arrivals, streams
from drahealth.suites.checking.verdicts import Finding, failed, not_tested

Step = Observation[FaultInjected] | Observation[FaultCleared]
Wanted = Callable[[DeviceHealth], bool]


@dataclass(frozen=True, slots=True)
class Shown:
    """Whether a stream that was open showed a step."""

    stream: Stream
    seconds: float
    """From the end of the step to the report; 0 if the report came before."""
    record: int
    """Of the report; without one, of the report that proves its absence; 0 for none."""
    outcome: str
    """`in time`, `late`, `never`, or `unproven`: no later report proves the absence."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One fault: the break, and perhaps a change of the cause and a heal."""

    broken: Observation[FaultInjected]
    changed: Observation[FaultInjected] | None
    healed: Observation[FaultCleared] | None
    streams: tuple[Stream, ...]
    """Those of the experiment."""
    end: float
    """When the next fault of the experiment began."""
    signals: tuple[Observation[SignalSent], ...] = ()
    """The signals that were sent to the driver in the experiment."""

    @property
    def device(self) -> Device:
        """The device that was broken."""
        return Device(self.broken.what.pool, self.broken.what.device)

    @property
    def steps(self) -> tuple[tuple[Step, Wanted], ...]:
        """The steps that are done, with what each must show."""
        found: list[tuple[Step, Wanted]] = [(self.broken, self.shows_break)]
        found += [(self.changed, self.shows_change)] if self.changed else []
        found += [(self.healed, shows_heal)] if self.healed else []
        return tuple((step, wanted) for step, wanted in found if step.what.outcome == "done")

    def shows_break(self, reported: DeviceHealth) -> bool:
        """Whether a report has the declared health."""
        return str(reported.health) == self.broken.what.health

    def shows_change(self, reported: DeviceHealth) -> bool:
        """Whether a report differs from all reports of the device between the break and the change."""
        assert self.changed
        start, end = began(self.broken), began(self.changed)
        each = (times for stream in self.streams for times in arrivals(stream).get(self.device, []))
        before = {(one.health, one.message) for at, _, one in each if start <= at < end}
        return (reported.health, reported.message) not in before

    def reactions(self, step: Step, wanted: Wanted) -> list[Shown]:
        """Whether each stream showed a step that is done; streams that were not open are left out."""
        return [found for stream in self.streams if (found := self._reaction(stream, step, wanted))]

    def best(self, step: Step, wanted: Wanted) -> Shown | None:
        """The first stream that showed it; otherwise one that proves that none did."""
        order = ("in time", "late", "never", "unproven")
        found = self.reactions(step, wanted)
        return min(found, key=lambda one: (order.index(one.outcome), one.seconds), default=None)

    def _reaction(self, stream: Stream, step: Step, wanted: Wanted) -> Shown | None:
        limit = deadline(step)
        closed = stream.end.at if stream.end else float("inf")
        times = [one for one in arrivals(stream).get(self.device, []) if began(step) <= one[0] < self.end]
        for at, number, one in times:
            if wanted(one):
                return Shown(stream, max(at - step.at, 0.0), number, "in time" if at <= limit else "late")
        if closed < limit or stream.opened.at > limit:
            return None
        later = [(number, one) for at, number, one in times if at > limit]
        if later:
            return Shown(stream, limit - step.at, later[0][0], "never")
        timeout = max((one.timeout for _, _, one in times), default=0)
        silent = stream.opened.at + stream.open_seconds >= limit + (timeout if timeout > 0 else DEFAULT_TIMEOUT)
        return Shown(stream, limit - step.at, 0, "never" if silent else "unproven")


def shows_heal(reported: DeviceHealth) -> bool:
    """Whether a report shows a healthy device."""
    return reported.health is Health.HEALTHY


def failed_adapter(step: Step, about: str) -> Finding | None:
    """What the driver profile declares for a step whose adapter failed; None for a step that is done."""
    if step.what.outcome == "done":
        return None
    seen = f"{about}: `{step.what.action}` {step.what.outcome}: {step.what.problem}"
    if step.what.on_error == "FAIL":
        return failed("the fault adapter works", seen, step.number)
    return not_tested(seen, step.number)


def began(step: Step) -> float:
    """When the action of a step began."""
    return step.at - step.what.seconds


def moved(step: Step, at: float) -> Step:
    """The step as if its action had been done at this time."""
    if isinstance(step.what, FaultCleared):
        return Observation(step.number, at, step.experiment, replace(step.what, seconds=0.0))
    return Observation(step.number, at, step.experiment, replace(step.what, seconds=0.0))


def deadline(step: Step) -> float:
    """When a report must show a step that is done."""
    return step.at + step.what.settle + MARGIN


def episodes(evidence: Evidence, *experiments: str) -> Iterator[Episode]:
    """The faults of these experiments, in order."""
    for name in experiments:
        breaks = [one for one in evidence.of(FaultInjected, name) if one.what.step == "break"]
        changes = [one for one in evidence.of(FaultInjected, name) if one.what.step == "change"]
        heals = list(evidence.of(FaultCleared, name))
        open_ = tuple(streams(evidence, name))
        signals = tuple(evidence.of(SignalSent, name))
        for number, broken in enumerate(breaks):
            end = began(breaks[number + 1]) if number + 1 < len(breaks) else float("inf")

            def mine(step: Step, start: float = broken.at, end: float = end) -> bool:
                return start <= step.at and began(step) < end

            changed, healed = next(filter(mine, changes), None), next(filter(mine, heals), None)
            yield Episode(broken, changed, healed, open_, end, signals)
