"""How events become objects: counted, combined, cut off."""

from hypothesis import given
from hypothesis import strategies as st

from drahealth.manager.pod_worker.event_series import BURST, COMBINED, MAX_SIMILAR, REFILL, EventSeries
from drahealth.manager.pod_worker.pod_status import PodEvent


def told(message: str = "gpu-0 is Unhealthy", reason: str = "DeviceUnhealthy") -> PodEvent:
    return PodEvent("Warning", reason, message)


def test_repeated_event_increments_the_count_of_its_object() -> None:
    series = EventSeries()
    first, second = series.add("pod", told(), 100.0), series.add("pod", told(), 107.0)
    assert first
    assert second
    assert (first.count, second.count) == (1, 2)
    assert (second.number, second.first, second.event) == (first.number, 100.0, told())


def test_events_with_different_pod_reason_or_message_are_separate() -> None:
    series = EventSeries()
    ways = [("pod", told()), ("other", told()), ("pod", told("gpu-1 is Unhealthy")), ("pod", told(reason="Started"))]
    written = [series.add(pod, event, 0.0) for pod, event in ways]
    assert [(w.number, w.count) for w in written if w] == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_similar_events_are_combined() -> None:
    series = EventSeries()
    written = [series.add("pod", told(f"message {number}"), number) for number in range(MAX_SIMILAR + 3)]
    last = [(w.count, w.event.message) for w in written[MAX_SIMILAR:] if w]
    assert last == [(n, f"{COMBINED}message {MAX_SIMILAR + n - 1}") for n in (1, 2, 3)]


def test_similar_events_are_not_combined_after_ten_minutes_without_events() -> None:
    series = EventSeries()
    for number in range(MAX_SIMILAR + 1):
        series.add("pod", told(f"message {number}"), 0.0)
    later = series.add("pod", told("another"), 601.0)
    assert later
    assert (later.count, later.event.message) == (1, "another")


def test_event_rate_is_limited_per_pod() -> None:
    series = EventSeries()
    written = [series.add("pod", told(), 0.0) for _ in range(1000)]
    assert sum(w is not None for w in written) == BURST
    assert series.add("other", told(), 0.0) is not None
    later = [series.add("pod", told(), at) for at in (REFILL - 1, REFILL + 1, REFILL + 2)]
    assert [written is None for written in later] == [True, False, True]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.floats(0, 100)), max_size=200))
def test_counts_are_consecutive_and_pods_stay_within_the_rate_limit(events: list[tuple[str, str, float]]) -> None:
    series, now, counts = EventSeries(), 0.0, dict[int, int]()
    taken = dict.fromkeys("ab", 0)
    for pod, message, pause in events:
        now += pause
        if written := series.add(pod, told(message), now):
            assert written.count == counts.get(written.number, 0) + 1
            counts[written.number] = written.count
            taken[pod] += 1
    assert max(taken.values()) <= BURST + now / REFILL
