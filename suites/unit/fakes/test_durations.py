"""Durations of timelines: syntax and random draws."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.durations import Duration, parse_signed


@pytest.mark.parametrize(
    ("text", "low", "high", "kind"),
    [
        ("500ms", 0.5, 0.5, "fixed"),
        ("1m30s", 90, 90, "fixed"),
        ("1.5h", 5400, 5400, "fixed"),
        ("20s..40s", 20, 40, "uniform"),
        ("8s+-25%", 6, 10, "uniform"),
        ("8s±25%", 6, 10, "uniform"),
        ("exp(5m)", 300, 300, "exponential"),
    ],
)
def test_a_duration_is_read(text: str, low: float, high: float, kind: str) -> None:
    read = Duration.parse(text)
    assert (read.low, read.high, read.kind, str(read)) == (low, high, kind, text)


@pytest.mark.parametrize("text", ["5 sec", "", "s", "10", "-5s", "1s..", "exp()", "8s+-200%", "40s..20s", "9999d"])
def test_invalid_duration_is_rejected_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|time must come first|spread") as refused:
        Duration.parse(text)
    assert text in str(refused.value)


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        seconds = Duration.parse(text).draw(Random(0))
    except ValueError:
        return
    assert 0 <= seconds < float("inf")


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers())
def test_equal_seeds_draw_equal_durations_within_the_range(one: int, other: int, seed: int) -> None:
    low, high = sorted((one, other))
    span = Duration.parse(f"{low}ms..{high}ms")
    drawn = span.draw(Random(seed))
    assert low / 1000 <= drawn <= high / 1000
    assert span.draw(Random(seed)) == drawn


def test_draws_are_frozen() -> None:
    spans = ["20s..40s", "8s+-25%", "exp(5m)"]
    assert [Duration.parse(span).draw(Random(7)) for span in spans] == [26.477, 7.295, 117.394]


def test_signed_duration_can_be_negative() -> None:
    assert (parse_signed("-5m"), parse_signed("+1s"), parse_signed("90s")) == (-300, 1, 90)
