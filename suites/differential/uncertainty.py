"""The moments of a play that are too close to the end of a timeout for a certain outcome. Pure.

The reference follows the times of the kubelet's play within a fraction of a second. So close to the end of a device's
timeout, both outcomes are valid: a difference means nothing, and the script is played again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drahealth.proto.values import DEFAULT_TIMEOUT
from drahealth.suites.differential import wire
from drahealth.suites.differential.script import EndStream, Garbage, Report, RestartKubelet, Script, Start, Step, Stop

MARGIN = 0.35
"""Maximum time difference of the two plays, in seconds."""
_RETRY = 5 - MARGIN
"""Seconds in which an ended stream is certainly not open again (W-23)."""
_ENDLESS = 10**9
_MOMENTS = ("pushed", "synced", "recovered")

Moment = tuple[int, str]


@dataclass(slots=True)
class _Known:
    """The ends of device timeouts, by driver and the kubelet's name of the device.

    `older` has the ends from earlier reports, because a restarted kubelet restores them (H-17).
    """

    ends: dict[tuple[int, str], float] = field(default_factory=dict)
    older: list[tuple[int, float]] = field(default_factory=list)

    def add_report(self, driver: int, device: str, at: float, timeout: int) -> None:
        seconds = timeout if timeout > 0 else DEFAULT_TIMEOUT
        if seconds < _ENDLESS:
            self.ends[driver, device] = at + seconds
            self.older.append((driver, at + seconds))

    def clear(self, driver: int) -> None:
        self.ends = {key: end for key, end in self.ends.items() if key[0] != driver}
        self.older = [(of, end) for of, end in self.older if of != driver]

    def restarted(self) -> None:
        self.ends |= {(driver, f"\0{number}"): end for number, (driver, end) in enumerate(self.older)}

    def near(self, first: float, last: float, driver: int | None = None) -> bool:
        """Whether a timeout ends between these times, or close to them."""
        ends = (end for (of, _), end in self.ends.items() if driver in (None, of))
        return any(first - MARGIN < end < last + MARGIN for end in ends)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """The uncertain moments of a play.

    `read`: moments close to the end of a device's timeout. `since`: the moment of the first report close to the end of
    a timeout of the same driver. All later moments show whether the device expired before the report.
    """

    read: frozenset[Moment] = frozenset()
    since: Moment | None = None

    def covers(self, step: int, moment: str) -> bool:
        """Whether a difference at this moment means nothing."""
        if (step, moment) in self.read:
            return True
        return self.since is not None and _order(step, moment) >= _order(*self.since)


def uncertainty(script: Script, times: Mapping[str, float]) -> Uncertainty:
    """The uncertain moments of a play with these times."""
    known = _Known()
    for driver in range(len(script.drivers)):
        _report_all(known, script, driver, times.get("-1 started", 0.0))
    read: set[Moment] = set()
    since: Moment | None = None
    is_shown = False
    for number, step in enumerate(script.steps):
        at = times.get(f"{number} action", 0.0)
        if since is None and isinstance(step, Report) and known.near(at, at, step.driver):
            since = (number, "pushed")
        _apply(known, script, number, step, times)
        near = set(_near_moments(known, script, number, times))
        if is_shown and f"{number} pushed" in times:
            near.add("pushed")  # a pod keeps showing its last status until the next update
        read |= {(number, moment) for moment in near}
        moments = [moment for moment in _MOMENTS if f"{number} {moment}" in times]
        is_shown = moments[-1] in near if moments else is_shown
    return Uncertainty(frozenset(read), since)


def _apply(known: _Known, script: Script, number: int, step: Step, times: Mapping[str, float]) -> None:
    at = times.get(f"{number} action", 0.0)
    if isinstance(step, Stop | Garbage | EndStream):
        known.clear(step.driver)
    if isinstance(step, Report | Garbage):
        for reading in step.says if isinstance(step, Report) else wire.decode(bytes.fromhex(step.payload)):
            pool = reading.pool if reading.identified else ""
            for name in wire.names(reading) if reading.identified else [""]:
                known.add_report(step.driver, f"{pool}/{name}", at, reading.timeout)
    elif isinstance(step, Start):
        _report_all(known, script, step.driver, times.get(f"{number} started", at))
    elif isinstance(step, RestartKubelet):
        known.restarted()
        for driver in range(len(script.drivers)):
            _report_all(known, script, driver, times.get(f"{number} restarted", at))


def _near_moments(known: _Known, script: Script, number: int, times: Mapping[str, float]) -> Iterator[str]:
    at = times.get(f"{number} action", 0.0)
    for moment in _MOMENTS:
        if f"{number} {moment}" not in times:
            continue
        if moment == "recovered":
            for driver in range(len(script.drivers)):
                _report_all(known, script, driver, times.get(f"{number} retried", at))
        if moment != "recovered" and _ends_a_stream(script.steps[number]) and times[f"{number} {moment}"] > at + _RETRY:
            yield moment  # it may be open again by then
            continue
        first = at if moment == "pushed" else times.get(f"{number} {moment} asked", at)
        if known.near(first, times[f"{number} {moment}"]):
            yield moment


def _ends_a_stream(step: Step) -> bool:
    """Whether the step ends a stream, or may end one."""
    return isinstance(step, EndStream | Garbage) or (
        isinstance(step, Report) and len(wire.encode(step.says)) > wire.LONGEST
    )


def _report_all(known: _Known, script: Script, number: int, at: float) -> None:
    driver = script.drivers[number]
    if driver.greets:
        for device in driver.devices:
            known.add_report(number, f"{driver.pool}/{device.name}", at, driver.timeout)


def _order(step: int, moment: str) -> tuple[int, int]:
    """The order of moments in a play. Moments outside of steps come first."""
    return step, _MOMENTS.index(moment) if moment in _MOMENTS else -1
