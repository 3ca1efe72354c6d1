"""Comparison of two plays of a script. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from differential import script as wire
from differential.lane import Played, PodShown, Snapshot
from differential.script import EndStream, Garbage, Report, RestartKubelet, Script, Start, Step, Stop
from drahealth.proto.values import DEFAULT_TIMEOUT

# The moments of a play that are too close to the end of a timeout for a certain outcome. Pure.
#
# The reference follows the times of the kubelet's play within a fraction of a second. So close to the end of a
# device's timeout, both outcomes are valid: a difference means nothing, and the script is played again.

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


# Comparison of two plays of a script. Pure.

_LONGEST = 60
_NONE = "nothing"

Facts = dict[str, str]
"""The contents of a snapshot: value by name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs between the plays."""

    step: int
    moment: str
    what: str
    reference: str
    kubelet: str

    @property
    def kind(self) -> tuple[str, ...]:
        """The part that it shares with the same difference in a smaller script: the moment and both values."""
        return self.moment, *(text.split(" ")[0] for text in (self.reference, self.kubelet))

    def __str__(self) -> str:
        when = f"step {self.step}, {self.moment}" if self.step >= 0 else "at the start"
        return f"{when}: {self.what}: reference {_short(self.reference)}, kubelet {_short(self.kubelet)}"


def compare(references: Sequence[Played], kubelet: Played) -> list[Difference]:
    """The values of the kubelet's play that no reference's play has, in the order of time.

    There are several references if the profile has several valid outcomes.
    """
    ours = [_facts_by_moment(reference) for reference in references]
    theirs = _facts_by_moment(kubelet)
    moments = dict.fromkeys(moment for play in (theirs, *ours) for moment in play)
    return [
        Difference(*moment, what, a, b)
        for moment in sorted(moments, key=lambda moment: moment[0])  # stable: keeps the order within a step
        for what, a, b in _differing([play.get(moment) for play in ours], theirs.get(moment))
    ]


def _facts_by_moment(played: Played) -> dict[tuple[int, str], Facts]:
    return {(seen.step, seen.moment): dict(_facts(seen)) for seen in played.snapshots}


def _differing(ours: Sequence[Facts | None], theirs: Facts | None) -> Iterator[tuple[str, str, str]]:
    known = [facts for facts in ours if facts is not None]
    if theirs is None or not known:
        yield "the moment", "comes" if known else "does not come", "does not come" if theirs is None else "comes"
        return
    for what in dict.fromkeys([*theirs, *(what for facts in known for what in facts)]):
        if all(facts.get(what) != theirs.get(what) for facts in known):
            outcomes = dict.fromkeys(facts.get(what, _NONE) for facts in known)
            yield what, " or ".join(outcomes), theirs.get(what, _NONE)


def _facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The contents of a snapshot, as pairs of name and value."""
    for instance, opened in snapshot.streams.items():
        yield f"streams opened on {instance}", str(opened)
    for name, pod in snapshot.pods.items():
        yield from ((f"{name} {what}", value) for what, value in _pod_facts(pod))


def _pod_facts(pod: PodShown) -> Iterator[tuple[str, str]]:
    yield "phase", pod.phase
    yield "status", "refused" if pod.stuck else "taken"
    for container, entries in pod.containers.items():
        yield f"{container} field", "there" if entries is not None else _NONE
        for entry, readings in (entries or {}).items():
            for resource, (health, message) in readings.items():
                yield f"{container} {entry} {resource!r}", f"{health} {message!r}" if message else health


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 12]}...{text[-8:]} ({len(text.encode())} bytes)"
