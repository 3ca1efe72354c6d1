"""Leaks: whether a process holds more and more descriptors, threads or memory. Pure functions of samples.

A sample is taken at the end of each round, when all that the round made is removed. So the counts of two samples differ
by what is never released, by noise, and by warm-up: caches and pools that fill after the start of a process.

- The warm-up of a process is not judged: its first `WARM_UP` seconds, and its first rounds, because memory fills with
  work and not with time. A restarted process is a new series.
- The growth is the median of the slopes of all pairs of samples of a series (Theil and Sen), over all series. A few
  outliers, such as a sample during a garbage collection, do not change it.
- Warm-up slows down, and a leak does not. So the growth in the later half of the samples must reach the limit, too,
  and the total growth must be more than noise.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, lgamma, log, log1p
from statistics import median
from typing import TypeVar

from drahealth.suites.report.soak import LeakVerdict, Resource, ResourceSeries, ResourceUse

WARM_UP = 60.0
"""Seconds after the start of a process that are not judged."""
SAMPLES = 6
"""The fewest samples of a judged series."""
KEPT = 120
"""The most samples of a series. Later ones replace every second one, so that a report stays small."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What is a leak of a resource."""

    per_minute: float
    """The growth per minute, half of that of the smallest leak that must be found."""
    noise: float
    """The growth in all that can be noise."""
    warm_up: int
    """The samples at the start of a process that are not judged, even if its warm-up in seconds is over."""
    judged: float
    """Seconds after the warm-up. A shorter series is not judged: its growth is noise, or still warm-up."""


LIMITS: Mapping[Resource, Limit] = {
    "processes": Limit(0.5, 2, 5, 180),
    "descriptors": Limit(0.5, 2, 5, 180),
    "threads": Limit(0.5, 2, 5, 180),
    "memory": Limit(0.5, 2.5, 20, 600),
}
"""Memory in MB."""

T = TypeVar("T")

Points = Sequence[tuple[float, float]]
"""Seconds since the start of the soak, and a count."""


def use_of(process: str, resource: Resource, series: Sequence[Points]) -> ResourceUse:
    """The verdict on one resource of the processes with this name. Each series is that of one process."""
    limit = LIMITS[resource]
    warm = (_after_warm_up(points, limit.warm_up) for points in series)
    kept = [points for points in warm if _is_long(points, limit.judged)]
    values = [value for points in series for _, value in points]
    found: LeakVerdict = "not judged"
    growth = None
    if kept:
        growth = slope(kept) * 60
        late = slope([_second_half(points) for points in kept]) * 60
        is_leak = min(growth, late) >= limit.per_minute and sum(map(_growth, kept)) > limit.noise
        found = "leak" if is_leak else "no leak"
    return ResourceUse(
        process=process,
        resource=resource,
        verdict=found,
        per_minute=None if growth is None else round(growth, 3),
        lowest=min(values, default=0.0),
        highest=max(values, default=0.0),
        seconds=round(sum(points[-1][0] - points[0][0] for points in kept), 1),
        processes=len(series),
    )


def uses(series: Iterable[ResourceSeries]) -> Iterator[ResourceUse]:
    """The verdict on each resource of each process."""
    found = defaultdict[tuple[str, Resource], list[Points]](list)
    for one in series:
        for resource in LIMITS:
            if points := one.of(resource):
                found[one.process, resource].append(points)
    for (process, resource), every in found.items():
        yield use_of(process, resource, every)


def slope(series: Iterable[Points]) -> float:
    """The median of the slopes of all pairs of samples, each pair of one series; 0 without a pair."""
    slopes = [
        (after - before) / (later - earlier)
        for points in series
        for (earlier, before), (later, after) in combinations(points, 2)
        if later > earlier
    ]
    return median(slopes) if slopes else 0.0


def thinned(points: Sequence[T]) -> tuple[T, ...]:
    """At most `KEPT` samples: those of the warm-up, and others that are spread evenly, among them the last one."""
    if len(points) <= KEPT:
        return tuple(points)
    first = max(limit.warm_up for limit in LIMITS.values())
    return (*points[:first], *points[first:-1:2], points[-1])


def _after_warm_up(points: Points, samples: int) -> Points:
    return [point for point in points[samples:] if point[0] - points[0][0] >= WARM_UP]


def _is_long(points: Points, seconds: float) -> bool:
    return len(points) >= SAMPLES and points[-1][0] - points[0][0] >= seconds


def _second_half(points: Points) -> Points:
    middle = (points[0][0] + points[-1][0]) / 2
    return [point for point in points if point[0] >= middle]


def _growth(points: Points) -> float:
    """From the first to the last third of a series."""
    third = max(1, len(points) // 3)
    return median(value for _, value in points[-third:]) - median(value for _, value in points[:third])


# The upper bound of the rate of failures.

CONFIDENCE = 0.95


def rounds_bound(failures: int, rounds: int) -> float:
    """The share of rounds that fail, at most, with a confidence of 95 % (Clopper and Pearson); 1 without rounds."""
    if failures >= rounds:
        return 1.0
    return _root(lambda share: _binomial(failures, rounds, share), 0.0, 1.0)


def hours_bound(failures: int, hours: float) -> float:
    """The failures in an hour, at most, with a confidence of 95 % (Poisson); 3.0 / hours without a failure."""
    return _root(lambda mean: _poisson(failures, mean), 0.0, failures * 3 + 20.0) / hours


def _root(chance: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling probability of at most so many failures reaches 5 %."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > 1 - CONFIDENCE else (low, middle)
    return high


def _poisson(failures: int, mean: float) -> float:
    return sum(exp(count * log(mean) - mean - lgamma(count + 1)) for count in range(failures + 1)) if mean else 1.0


def _binomial(failures: int, rounds: int, share: float) -> float:
    if share in (0.0, 1.0):
        return 1.0 - share
    return sum(
        exp(lgamma(rounds + 1) - lgamma(n + 1) - lgamma(rounds - n + 1) + n * log(share) + (rounds - n) * log1p(-share))
        for n in range(failures + 1)
    )
