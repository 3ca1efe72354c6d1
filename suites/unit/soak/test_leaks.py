"""Leaks differ from warm-up, noise and restarts. The rates of failures have bounds."""

from collections.abc import Callable
from math import exp, inf, log
from random import Random

import pytest

from drahealth.suites.report.soak import Resource, ResourceSample, ResourceSeries
from drahealth.suites.soak.leaks import KEPT, hours_bound, rounds_bound, thinned, use_of, uses

EVERY = 20.0
"""Seconds between two samples, such as the length of a round on a real kubelet."""


def series(minutes: float, value: Callable[[float], float], start: float = 0.0) -> list[tuple[float, float]]:
    """Samples of a process that started at `start`. `value` takes the minutes since then."""
    count = int(minutes * 60 / EVERY) + 1
    return [(start + number * EVERY, value(number * EVERY / 60)) for number in range(count)]


def verdict(resource: Resource, *found: list[tuple[float, float]]) -> str:
    return use_of("kubelet", resource, found).verdict


def noisy(value: Callable[[float], float], size: float) -> Callable[[float], float]:
    random = Random(4680)
    return lambda minute: value(minute) + random.uniform(-size, size)


def test_descriptor_a_minute_is_a_leak() -> None:
    found = use_of("kubelet", "descriptors", [series(8, lambda minute: 22.0 + int(minute))])
    assert (found.verdict, found.lowest, found.highest) == ("leak", 22, 30)
    assert found.per_minute == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("minutes", [17, 30, 600])
def test_megabyte_a_minute_in_noisy_memory_is_a_leak(minutes: float) -> None:
    assert verdict("memory", series(minutes, noisy(lambda minute: 90 + minute, 1.0))) == "leak"


@pytest.mark.parametrize(
    ("resource", "value"),
    [
        ("descriptors", lambda minute: 22.0),
        ("descriptors", noisy(lambda _: 22.0, 4.0)),
        ("memory", noisy(lambda _: 120.0, 8.0)),
        ("memory", lambda minute: 83 + 40 * (1 - exp(-minute / 1.5))),  # caches that fill
        ("memory", lambda minute: 83 + 5 * log(1 + minute)),
        ("memory", lambda minute: 300.0 if 4 < minute < 5 else 90.0),  # a garbage collection that comes late
        ("descriptors", lambda minute: 20.0 if minute < 5 else 24.0),  # a pool grows once
        ("threads", lambda minute: 10.0 + (minute > 3) + (minute > 9)),
    ],
)
def test_warm_up_noise_and_steps_are_no_leak(resource: Resource, value: Callable[[float], float]) -> None:
    assert verdict(resource, series(20, value)) == "no leak"


@pytest.mark.parametrize(("resource", "minutes"), [("descriptors", 3.9), ("memory", 16)])
def test_process_that_ran_too_shortly_is_not_judged(resource: Resource, minutes: float) -> None:
    found = use_of("kubelet", resource, [series(minutes, lambda minute: 22 + 5 * minute)])
    assert (found.verdict, found.per_minute, found.processes) == ("not judged", None, 1)


def test_restart_begins_a_new_series() -> None:
    first, second = series(6, lambda _: 30.0), series(6, lambda _: 80.0, start=400)
    found = use_of("kubelet", "descriptors", [first, second])
    assert (found.verdict, found.per_minute, found.processes) == ("no leak", 0, 2)


def test_leak_is_found_although_the_process_restarts() -> None:
    restarted = [series(5, lambda minute: 22 + minute, start=300.0 * number) for number in range(4)]
    found = use_of("kubelet", "descriptors", restarted)
    assert (found.verdict, found.processes, found.seconds) == ("leak", 4, 800)


def test_each_resource_of_each_process_has_a_verdict() -> None:
    samples = tuple(ResourceSample(20.0 * n, 22 + n // 3, 9, 80.0) for n in range(60))
    own = tuple(ResourceSample(20.0 * n, 22, 9, 80.0, processes=4) for n in range(60))
    found = uses([ResourceSeries("kubelet", 7, samples), ResourceSeries("drahealth", 5, own)])
    assert {(one.process, one.resource): one.verdict for one in found} == {
        ("kubelet", "descriptors"): "leak",
        **{("kubelet", name): "no leak" for name in ("threads", "memory")},
        **{("drahealth", name): "no leak" for name in ("processes", "descriptors", "threads", "memory")},
    }


def test_series_of_a_long_soak_stays_short_and_keeps_its_ends() -> None:
    kept: tuple[tuple[float, float], ...] = ()
    for point in series(24 * 60, lambda minute: minute):
        kept = thinned((*kept, point))
    assert len(kept) <= KEPT
    assert (kept[0][0], kept[-1][0]) == (0, 24 * 3600)
    assert verdict("descriptors", list(kept)) == "leak"


@pytest.mark.parametrize(("failures", "bound"), [(0, 2.996), (1, 4.744), (5, 10.513)])
def test_rate_in_an_hour_has_the_upper_bound_of_poisson(failures: int, bound: float) -> None:
    assert hours_bound(failures, 1.0) == pytest.approx(bound, abs=0.001)
    assert hours_bound(failures, 10.0) == pytest.approx(bound / 10, abs=0.001)


@pytest.mark.parametrize(
    ("failures", "rounds", "bound"), [(0, 100, 0.02951), (1, 100, 0.04656), (3, 10, 0.60662), (10, 10, 1), (0, 0, 1)]
)
def test_share_of_rounds_has_the_upper_bound_of_clopper_and_pearson(failures: int, rounds: int, bound: float) -> None:
    assert rounds_bound(failures, rounds) == pytest.approx(bound, abs=0.0001)


def test_bounds_of_many_rounds_are_finite() -> None:
    assert rounds_bound(0, 10**6) == pytest.approx(3e-6, rel=0.01)
    assert hours_bound(1000, 1.0) < inf
