"""Whether two streams say the same of a device, although reports are in flight and drivers may poll for each stream.

Two streams of a driver that polls show a change at different times, as late as the next poll. This is no contradiction.
A contradiction is a repeated report of an old value, after the other stream showed the new one.
"""

import itertools
from collections.abc import Callable, Hashable

from drahealth.proto.values import DeviceHealth

Times = list[tuple[float, int, DeviceHealth]]
"""When a device was reported: time, record and content."""
Value = Callable[[DeviceHealth], Hashable]

IN_FLIGHT = 1.0
"""Seconds by which one report may overtake another on the way."""
LATE = 5.0
"""Seconds after which a change that was sent at once on one stream must be on the other one."""


def contradiction(one: Times, other: Times, value: Value) -> tuple[int, int] | None:
    """The records of two reports that contradict each other; None if there are none."""
    return _first_contradiction(one, other, value) or _stale(one, other, value) or _stale(other, one, value)


def _first_contradiction(one: Times, other: Times, value: Value) -> tuple[int, int] | None:
    """The first reports, if they came together, differ, and both stay as they are."""
    if not one or not other or abs(one[0][0] - other[0][0]) > IN_FLIGHT or value(one[0][2]) == value(other[0][2]):
        return None
    stays = all(_constant(times, times[0][0], times[0][0] + LATE, value) for times in (one, other))
    return (one[0][1], other[0][1]) if stays else None


def _stale(fresh: Times, repeating: Times, value: Value) -> tuple[int, int] | None:
    """A repeated report of a value, although the other stream reported another one between the two, and keeps it."""
    for (before, _, old), (after, number, again) in itertools.pairwise(repeating):
        if value(old) != value(again):
            continue
        between = [one for one in fresh if before - IN_FLIGHT <= one[0] < after - IN_FLIGHT]
        if between and value(between[-1][2]) != value(again):
            at, shown, _ = between[-1]
            if _constant(fresh, at, after + IN_FLIGHT, value):
                return shown, number
    return None


def _constant(times: Times, start: float, end: float, value: Value) -> bool:
    return len({value(one) for at, _, one in times if start <= at <= end}) == 1


def lost_change(sender: Times, receiver: Times, end: float, value: Value) -> int | None:
    """The record of a change that one stream showed at once, and the other one not within 5 s; None if there is none.

    Changes that lasted shorter may be merged. Changes in a regular report do not count: the driver may poll.
    """
    start = receiver[0][0] if receiver else end
    regular = [b[0] - a[0] for a, b in itertools.pairwise(sender) if value(a[2]) == value(b[2])]
    for before, (at, number, one) in itertools.pairwise(sender):
        if value(before[2]) == value(one) or at < start or at + LATE > end:
            continue
        at_once = not regular or at - before[0] < 0.8 * max(regular)
        if at_once and _constant(sender, at, at + LATE, value):
            shown = [r for when, _, r in receiver if when <= at - IN_FLIGHT][-1:]
            shown += [r for when, _, r in receiver if at - IN_FLIGHT < when <= at + LATE]
            if value(one) not in {value(r) for r in shown}:
                return number
    return None


def changes(times: Times, value: Value) -> int:
    """How often the value changed."""
    return sum(value(a[2]) != value(b[2]) for a, b in itertools.pairwise(times))
