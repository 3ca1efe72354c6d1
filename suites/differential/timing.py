"""Where a play came too near to the edge of a timeout for its outcome to be certain. Pure.

The reference follows the times of the kubelet's play, to within a fraction of a second. What happens that near to the
end of a device's timeout may come out either way: a difference then says nothing, and the script is played again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drahealth.proto.values import DEFAULT_TIMEOUT
from drahealth.suites.differential import wire
from drahealth.suites.differential.script import EndStream, Garbage, Report, RestartKubelet, Script, Start, Step, Stop

MARGIN = 0.35
"""Seconds by which the two plays may be apart."""
_RETRY = 5 - MARGIN
"""Seconds for which a stream that ended is surely not open again (W-23)."""
_ENDLESS = 10**9
_MOMENTS = ("pushed", "synced", "recovered")

Moment = tuple[int, str]


@dataclass(slots=True)
class _Known:
    """When devices' timeouts end, by driver and what the kubelet calls the device.

    `older` are those of earlier reports: a kubelet that is restarted goes back to them (H-17).
    """

    ends: dict[tuple[int, str], float] = field(default_factory=dict)
    older: list[tuple[int, float]] = field(default_factory=list)

    def say(self, driver: int, device: str, at: float, timeout: int) -> None:
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
        """Whether a timeout ends about then."""
        ends = (end for (of, _), end in self.ends.items() if driver in (None, of))
        return any(first - MARGIN < end < last + MARGIN for end in ends)


@dataclass(frozen=True, slots=True)
class Doubts:
    """`read`: moments at which a device was read about the end of its timeout. `since`: the first at which a report
    came about the end of a timeout of its driver's devices: whether it forgot the device shows in all that follows.
    """

    read: frozenset[Moment] = frozenset()
    since: Moment | None = None

    def cover(self, step: int, moment: str) -> bool:
        """Whether a difference then says nothing."""
        if (step, moment) in self.read:
            return True
        return self.since is not None and _order(step, moment) >= _order(*self.since)


def doubts(script: Script, times: Mapping[str, float]) -> Doubts:
    """Where a play with these times came too near to an edge."""
    known = _Known()
    for driver in range(len(script.drivers)):
        _greet(known, script, driver, times.get("-1 started", 0.0))
    read: set[Moment] = set()
    since: Moment | None = None
    is_shown = False
    for number, step in enumerate(script.steps):
        at = times.get(f"{number} action", 0.0)
        if since is None and isinstance(step, Report) and known.near(at, at, step.driver):
            since = (number, "pushed")
        _happen(known, script, number, step, times)
        near = set(_near_moments(known, script, number, times))
        if is_shown and f"{number} pushed" in times:
            near.add("pushed")  # of its own accord a pod goes on to show what it was last seen with
        read |= {(number, moment) for moment in near}
        moments = [moment for moment in _MOMENTS if f"{number} {moment}" in times]
        is_shown = moments[-1] in near if moments else is_shown
    return Doubts(frozenset(read), since)


def _happen(known: _Known, script: Script, number: int, step: Step, times: Mapping[str, float]) -> None:
    at = times.get(f"{number} action", 0.0)
    if isinstance(step, Stop | Garbage | EndStream):
        known.clear(step.driver)
    if isinstance(step, Report | Garbage):
        for said in step.says if isinstance(step, Report) else wire.decode(bytes.fromhex(step.payload)):
            pool = said.pool if said.identified else ""
            for name in wire.names(said) if said.identified else [""]:
                known.say(step.driver, f"{pool}/{name}", at, said.timeout)
    elif isinstance(step, Start):
        _greet(known, script, step.driver, times.get(f"{number} started", at))
    elif isinstance(step, RestartKubelet):
        known.restarted()
        for driver in range(len(script.drivers)):
            _greet(known, script, driver, times.get(f"{number} restarted", at))


def _near_moments(known: _Known, script: Script, number: int, times: Mapping[str, float]) -> Iterator[str]:
    at = times.get(f"{number} action", 0.0)
    for moment in _MOMENTS:
        if f"{number} {moment}" not in times:
            continue
        if moment == "recovered":
            for driver in range(len(script.drivers)):
                _greet(known, script, driver, times.get(f"{number} retried", at))
        if moment != "recovered" and _ends_a_stream(script.steps[number]) and times[f"{number} {moment}"] > at + _RETRY:
            yield moment  # it may have been opened again by then
            continue
        first = at if moment == "pushed" else times.get(f"{number} {moment} asked", at)
        if known.near(first, times[f"{number} {moment}"]):
            yield moment


def _ends_a_stream(step: Step) -> bool:
    """Whether it does, or may."""
    return isinstance(step, EndStream | Garbage) or (
        isinstance(step, Report) and len(wire.encode(step.says)) > wire.LONGEST
    )


def _greet(known: _Known, script: Script, number: int, at: float) -> None:
    driver = script.drivers[number]
    if driver.greets:
        for device in driver.devices:
            known.say(number, f"{driver.pool}/{device.name}", at, driver.timeout)


def _order(step: int, moment: str) -> tuple[int, int]:
    """A moment's place in a play; one that is none of a step's own comes first."""
    return step, _MOMENTS.index(moment) if moment in _MOMENTS else -1
