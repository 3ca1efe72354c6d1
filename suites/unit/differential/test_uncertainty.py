"""Moments that are too close to the end of a timeout for a comparison."""

import pytest

from differential.comparison import Moment, Uncertainty, uncertainty
from differential.script import EndStream, Report, RestartKubelet, Silence
from drahealth.suites.unit.differential.scripts import script, unhealthy

SHORT = script(unhealthy(timeout=2, pause=3))


def times(pushed: float, asked: float, synced: float) -> dict[str, float]:
    return {"0 action": 10.0, "0 pushed": pushed, "0 synced asked": asked, "0 synced": synced}


@pytest.mark.parametrize(
    ("at", "read"),
    [
        (times(11.2, 13.0, 13.9), set()),
        (times(11.8, 13.0, 13.9), {(0, "pushed")}),
        (times(11.2, 12.2, 13.9), {(0, "synced")}),
        (times(11.2, 11.3, 11.5), set()),
    ],
)
def test_a_reading_close_to_the_end_of_a_timeout_is_uncertain(at: dict[str, float], read: set[Moment]) -> None:
    assert uncertainty(SHORT, at) == Uncertainty(frozenset(read))


def test_a_report_close_to_the_end_of_another_devices_timeout_is_uncertain() -> None:
    twice = script(unhealthy(timeout=2), Report(0, ()))
    assert uncertainty(twice, {"0 action": 0.0, "1 action": 2.1}).since == (1, "pushed")


@pytest.mark.parametrize("timeout", [0, -5, 30])
def test_a_device_without_a_timeout_expires_after_thirty_seconds(timeout: int) -> None:
    story = script(unhealthy(timeout=timeout), Silence(29))
    seen = uncertainty(story, {"0 action": 0.0, "1 synced asked": 29.0, "1 synced": 29.8})
    assert seen == Uncertainty(frozenset({(1, "synced")}))


def test_a_cleared_device_has_no_timeout() -> None:
    story = script(unhealthy(timeout=2), EndStream(0, "OK"))
    seen = uncertainty(story, {"0 action": 0.0, "1 action": 1.0, "1 synced asked": 1.9, "1 synced": 2.1})
    assert seen == Uncertainty()


def test_a_restart_restores_the_timeouts_of_earlier_reports() -> None:
    story = script(unhealthy(timeout=60), unhealthy(timeout=60), RestartKubelet())
    at = {"0 action": 0.0, "1 action": 30.0, "2 action": 50.0, "2 restarted": 59.0}
    assert uncertainty(story, {**at, "2 synced asked": 59.9, "2 synced": 60.3}).read == {(2, "synced")}


@pytest.mark.parametrize(
    ("step", "moment", "doubtful"),
    [(0, "pushed", True), (1, "synced", False), (2, "pushed", False), (2, "synced", True), (3, "pushed", True)],
)
def test_an_uncertain_report_covers_all_later_moments_and_an_uncertain_reading_itself(
    step: int, moment: str, doubtful: bool
) -> None:
    assert Uncertainty(frozenset({(0, "pushed")}), (2, "synced")).covers(step, moment) is doubtful


def test_a_reading_after_a_possible_reopening_is_uncertain() -> None:
    story, at = script(EndStream(0, "OK")), {"0 action": 10.0, "0 pushed": 12.0, "0 synced asked": 12.0}
    assert [uncertainty(story, {**at, "0 synced": late}).read for late in (14.0, 15.0)] == [set(), {(0, "synced")}]


def test_an_uncertain_reading_stays_until_the_next_sync() -> None:
    story = script(unhealthy(timeout=2), Silence(0, looks=False), Silence(0))
    at = {"0 action": 0.0, "0 pushed": 1.2, "0 synced asked": 1.3, "0 synced": 2.0}
    later = {"2 action": 9.0, "2 pushed": 10.0, "2 synced asked": 10.1, "2 synced": 11.0}
    assert uncertainty(story, at | later).read == {(0, "synced"), (2, "pushed")}
