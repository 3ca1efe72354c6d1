"""Back-off delays of retries and crash loops."""

from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.waiting import CrashLoop, Retry

START = 1e6


def test_retry_delays_double_to_the_limit_and_restart_after_reset() -> None:
    retry = Retry(first=1, limit=5)
    pauses = [retry.next() for _ in range(5)]
    retry.reset()
    assert (pauses, retry.next()) == ([1, 2, 4, 5, 5], 1)


def test_restart_delays_of_a_crashing_container_grow_to_300_s() -> None:
    crashes, now, pauses = CrashLoop(), START, []
    for _ in range(8):
        pauses.append(crashes.left(exited=now, now=now))
        now += pauses[-1]
        crashes.restart(exited=now - pauses[-1], now=now)
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 300]


def test_the_pause_counts_from_the_exit() -> None:
    crashes = CrashLoop()
    crashes.restart(exited=START, now=START)
    lefts = [crashes.left(exited=START + 5, now=START + 5 + passed) for passed in (0, 4, 10)]
    assert lefts == [10, 6, 0]


def test_restart_delay_is_reset_after_ten_minutes_of_running() -> None:
    crashes, now = CrashLoop(), START
    for _ in range(4):
        crashes.restart(exited=now, now=now)
    assert crashes.left(exited=now + 600, now=now + 600) == 80
    assert crashes.left(exited=now + 601, now=now + 601) == 0
    crashes.restart(exited=now + 601, now=now + 601)
    assert crashes.delay == 10


@given(st.lists(st.floats(0, 2000), max_size=20))
def test_delays_never_exceed_the_limit_or_shrink_except_to_zero(
    runs: list[float],
) -> None:
    crashes, now, before = CrashLoop(), START, 0.0
    for run in runs:
        exited = now + run
        left = crashes.left(exited=exited, now=exited)
        assert left <= 300
        assert left == 0 or left >= before
        now, before = exited + left, left
        crashes.restart(exited=exited, now=now)
