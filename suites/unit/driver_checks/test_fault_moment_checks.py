"""The checks of faults at bad moments and of interrupted drivers: their verdicts on right and wrong runs."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from drahealth.proto.events import (
    BackendSwitched,
    Event,
    GrpcCall,
    ReportReceived,
    SignalSent,
    SliceChanged,
    SlicesListed,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.health_apis import V1
from drahealth.proto.services import NOTIFY_REGISTRATION
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed_health import OURS
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.unit.driver_checks.evidence_of import evidence_at
from drahealth.suites.unit.driver_checks.fault_run import BROKEN, CLEARED

FAIL, PASS, NOT_TESTED = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED
SICK, WELL = Health.UNHEALTHY, Health.HEALTHY
Record = tuple[float, Event]
BREAK, CLEAR = (10.0, BROKEN), (30.0, CLEARED)


def stream(name: str, start: float, end: float, reports: Mapping[float, Health], devices: int = 3) -> list[Record]:
    """A stream with reports in which gpu-1 has this health; the other devices are healthy."""
    found: list[Record] = [(start, StreamOpened("d", "", name, V1.name, "/s"))]
    for at, health in reports.items():
        listed = tuple(
            DeviceHealth("node-a", f"gpu-{number}", health if number == 1 else WELL) for number in range(devices)
        )
        found.append((at, ReportReceived("d", "/s", name, 90, listed)))
    return [*found, (end, StreamClosed("d", "", name, OURS, "/s", "CANCELLED"))]


def verdict(check: str, *records: Record) -> Verdict:
    experiment = CHECKS[check].experiments[-1]
    evidence: Evidence = evidence_at(*((at, experiment, event) for at, event in records))
    return CHECKS[check].judge(evidence).verdict


@pytest.mark.parametrize("check", ["break-is-reported-during-prepare", "break-is-reported-without-api-server"])
def test_break_must_be_reported_in_time(check: str) -> None:
    right, late = {1.0: WELL, 10.5: SICK, 30.5: WELL}, {1.0: WELL, 20.0: SICK, 30.5: WELL}
    assert verdict(check, *stream("a", 0, 60, right), BREAK, CLEAR) is PASS
    assert verdict(check, *stream("a", 0, 60, late), BREAK, CLEAR) is FAIL


HEARTBEAT = "devices-are-refreshed-within-their-timeout"
WATCH = [(at, "watch", event) for at, event in stream("w", 0, 60, dict.fromkeys((1.0, 11, 21, 31, 41), WELL))]


@pytest.mark.parametrize(
    ("reports", "end", "expected"),
    [
        ({1.0: WELL, 10.5: SICK, 30.5: WELL, 40.5: WELL}, 41, PASS),
        ({1.0: WELL, 10.5: SICK, 30.5: WELL}, 31, NOT_TESTED),
        ({1.0: WELL, 10.5: SICK, 30.5: WELL}, 62, FAIL),
        ({1.0: WELL, 10.5: SICK, 30.5: WELL, 33.0: SICK}, 40, NOT_TESTED),
        ({1.0: WELL, 10.5: SICK, 30.5: WELL, 33.0: SICK, 50.0: WELL}, 62, PASS),
    ],
)
def test_reports_must_go_on_after_a_recovery(reports: Mapping[float, Health], end: float, expected: Verdict) -> None:
    faults = [(at, "faults", event) for at, event in (*stream("a", 0, end, reports), BREAK, CLEAR)]
    assert CHECKS[HEARTBEAT].judge(evidence_at(*WATCH, *faults)).verdict is expected


@pytest.mark.parametrize(
    ("reports", "end", "expected"),
    [({50.0: WELL, 60.0: WELL}, 61, PASS), ({50.0: WELL}, 51, NOT_TESTED), ({50.0: WELL}, 82, FAIL)],
)
def test_reports_must_go_on_after_an_idle_time(reports: Mapping[float, Health], end: float, expected: Verdict) -> None:
    idle = [*stream("a", 0, 2, {1.0: WELL}), *stream("b", 49, end, reports)]
    assert CHECKS[HEARTBEAT].judge(evidence_at(*WATCH, *((at, "idle", one) for at, one in idle))).verdict is expected


def test_withdrawn_device_need_not_be_reported_again() -> None:
    listed = SlicesListed(
        ({"metadata": {"name": "s"}, "spec": {"pool": {"name": "node-a"}, "devices": [{"name": "x"}]}},)
    )
    faults = [*stream("a", 0, 62, {1.0: WELL, 10.5: SICK, 30.5: WELL}), BREAK, CLEAR, (61.0, listed)]
    assert CHECKS[HEARTBEAT].judge(evidence_at(*WATCH, *((at, "faults", one) for at, one in faults))).verdict is PASS


@pytest.mark.parametrize("check", ["new-stream-starts-with-the-fault", "new-kubelet-hears-of-the-fault"])
def test_first_report_of_a_new_stream_must_show_the_fault(check: str) -> None:
    before = stream("a", 0, 9, {1.0: WELL})
    assert verdict(check, *before, BREAK, *stream("b", 17, 25, {17.1: SICK})) is PASS
    assert verdict(check, *before, BREAK, *stream("b", 17, 25, {17.1: WELL, 17.5: SICK})) is FAIL
    assert verdict(check, *before, BREAK, *stream("b", 17, 18, {17.1: WELL}, devices=1)) is FAIL
    assert verdict(check, *before, BREAK, *stream("b", 17, 25, {})) is FAIL
    assert verdict(check, *before, BREAK) is NOT_TESTED


def test_first_report_after_a_heal_must_show_it() -> None:
    check = "new-stream-starts-with-the-fault"
    broken = (*stream("a", 0, 9, {1.0: WELL}), BREAK, *stream("b", 17, 25, {17.1: SICK}), CLEAR)
    assert verdict(check, *broken, *stream("c", 40, 50, {40.1: WELL})) is PASS
    assert verdict(check, *broken, *stream("c", 40, 50, {40.1: SICK})) is FAIL


def test_new_process_must_report_a_fault_of_the_earlier_one() -> None:
    check = "restarted-driver-reports-the-fault"
    before = (*stream("a", 0, 15, {1.0: WELL, 10.5: SICK}), BREAK)
    assert verdict(check, *before, *stream("b", 20, 29, {20.1: SICK})) is PASS
    assert verdict(check, *before, *stream("b", 20, 29, {20.1: WELL})) is FAIL
    assert verdict(check, *stream("a", 0, 60, {1.0: WELL, 20: WELL}), BREAK) is NOT_TESTED


def test_driver_must_use_a_backend_that_returned() -> None:
    check, back = "break-is-reported-after-a-backend-restart", (5.0, BackendSwitched("interrupted", "b.py", True))
    right = stream("a", 0, 60, {1.0: WELL, 10.5: SICK})
    slow, never = {1.0: WELL, 20.0: WELL, 64.0: SICK}, {1.0: WELL, 20.0: WELL, 80.0: WELL}
    assert verdict(check, *right, back, BREAK) is PASS
    assert verdict(check, *stream("a", 0, 90, slow), back, BREAK) is PASS
    assert verdict(check, *stream("a", 0, 90, never), back, BREAK) is FAIL
    assert verdict(check, *stream("a", 0, 60, {1.0: WELL, 6.0: SICK, 10.5: SICK}), back, BREAK) is FAIL
    assert verdict(check, *right, BREAK) is NOT_TESTED
    assert verdict(check, *right, *stream("b", 0, 2, {1.0: Health.UNKNOWN}), back, BREAK) is PASS
    assert verdict(check, *right, *stream("b", 0, 60, {1.0: Health.UNKNOWN}), back, BREAK) is FAIL
    much_later, cleared = (80.0, BROKEN), {1.0: WELL, 80.5: SICK}
    assert verdict(check, *stream("a", 0, 120, cleared), back, much_later) is PASS
    assert verdict(check, *stream("a", 0, 120, {1.0: WELL, 95.0: SICK}), back, much_later) is FAIL


def test_second_fault_must_not_heal_the_device() -> None:
    check = "second-fault-does-not-heal"
    second, clear = (20.0, replace(BROKEN, fault="cold", step="change")), (30.0, CLEARED)
    right = {1.0: WELL, 10.5: SICK, 22.0: SICK, 30.5: WELL}
    assert verdict(check, *stream("a", 0, 60, right), BREAK, second, clear) is PASS
    assert verdict(check, *stream("a", 0, 60, {**right, 22.0: WELL}), BREAK, second, clear) is FAIL
    assert verdict(check, *stream("a", 0, 60, {**right, 22.0: Health.UNKNOWN}), BREAK, second, clear) is FAIL
    unknown = (20.0, replace(BROKEN, fault="lost", step="change", health="Unknown"))
    assert verdict(check, *stream("a", 0, 60, {**right, 22.0: Health.UNKNOWN}), BREAK, unknown, clear) is PASS
    assert verdict(check, *stream("a", 0, 60, {1.0: WELL, 10.5: SICK, 30.5: WELL}), BREAK, second, clear) is NOT_TESTED
    broken = (20.0, replace(second[1], outcome="failed"))
    assert verdict(check, *stream("a", 0, 60, right), BREAK, broken, clear) is NOT_TESTED
    assert verdict(check, *stream("a", 0, 60, right), BREAK, clear) is NOT_TESTED


def test_report_before_the_second_action_returns_counts_if_it_shows_the_second_fault() -> None:
    second, clear = (20.0, replace(BROKEN, fault="lost", step="change", health="Unknown")), (30.0, CLEARED)
    during = {1.0: WELL, 10.5: SICK, 19.95: Health.UNKNOWN, 30.5: WELL}
    assert verdict("second-fault-does-not-heal", *stream("a", 0, 60, during), BREAK, second, clear) is PASS
    unchanged = {**during, 19.95: SICK}
    assert verdict("second-fault-does-not-heal", *stream("a", 0, 60, unchanged), BREAK, second, clear) is NOT_TESTED


def test_change_while_the_driver_is_stopped_must_be_reported_after_sigcont() -> None:
    check = "change-while-stopped-is-reported"
    stops: list[Record] = [(at, SignalSent("p", f"SIG{name}")) for at, name in ((9.0, "STOP"), (20.0, "CONT"))]
    stops += [(at, SignalSent("p", f"SIG{name}")) for at, name in ((29.0, "STOP"), (40.0, "CONT"))]
    assert verdict(check, *stops, BREAK, CLEAR, *stream("a", 0, 80, {1.0: WELL, 20.5: SICK, 40.5: WELL})) is PASS
    assert verdict(check, *stops, BREAK, CLEAR, *stream("a", 0, 80, {1.0: WELL, 28.0: SICK, 40.5: WELL})) is FAIL
    assert verdict(check, *stops, BREAK, CLEAR, *stream("a", 0, 80, {1.0: WELL, 20.5: SICK, 50.0: SICK})) is FAIL
    assert verdict(check, *stops[:1], BREAK, *stream("a", 0, 80, {1.0: WELL, 20.5: SICK})) is NOT_TESTED


def test_each_fault_of_an_experiment_is_judged() -> None:
    check = "new-stream-starts-with-the-fault"
    first = (*stream("a", 0, 9, {1.0: WELL}), BREAK, *stream("b", 17, 25, {17.1: SICK}), CLEAR)
    second: list[Record] = [(50.0, replace(BROKEN, fault="cold"))]
    healed = stream("c", 40, 49, {40.1: WELL})
    assert verdict(check, *first, *healed, *second, *stream("d", 57, 65, {57.1: SICK})) is PASS
    assert verdict(check, *first, *healed, *second, *stream("d", 57, 65, {57.1: WELL})) is FAIL


def test_reports_must_continue_after_a_stop() -> None:
    check, signals = (
        "reports-continue-after-a-stop",
        ((5.0, SignalSent("p", "SIGSTOP")), (10.0, SignalSent("p", "SIGCONT"))),
    )
    assert verdict(check, *signals, *stream("a", 0, 60, {1.0: WELL, 40.0: WELL, 59.0: WELL})) is PASS
    assert verdict(check, *signals, *stream("a", 0, 60, {1.0: WELL, 40.0: WELL})) is NOT_TESTED
    assert verdict(check, *signals, *stream("a", 0, 60, {1.0: WELL, 12.0: WELL})) is FAIL
    assert verdict(check, *signals, *stream("a", 0, 60, {1.0: WELL})) is FAIL
    assert verdict(check, *signals, *stream("a", 0, 20, {1.0: WELL})) is NOT_TESTED
    assert verdict(check, *stream("a", 0, 60, {1.0: WELL})) is NOT_TESTED


def test_each_device_must_be_reported_after_a_stop() -> None:
    signals = ((5.0, SignalSent("p", "SIGSTOP")), (10.0, SignalSent("p", "SIGCONT")))
    fewer = stream("a", 0, 60, {12.0: WELL, 40.0: WELL, 59.0: WELL}, devices=1)[1:]
    whole = stream("a", 0, 60, {1.0: WELL})[:-1]
    assert verdict("reports-continue-after-a-stop", *signals, *whole, *fewer) is FAIL


def test_stream_after_a_pause_must_start_with_all_devices() -> None:
    check, before = "stream-after-a-pause-starts-with-all-devices", stream("a", 0, 5, {1.0: WELL})
    assert verdict(check, *before, *stream("b", 41, 45, {41.1: WELL}), *stream("c", 41, 45, {41.1: WELL})) is PASS
    fewer = stream("c", 41, 45, {41.1: WELL}, devices=1)
    assert verdict(check, *before, *stream("b", 41, 45, {41.1: WELL}), *fewer) is FAIL
    assert verdict(check, *before, *stream("b", 41, 47, {})) is FAIL
    assert verdict(check, *before, *stream("b", 41, 42, {})) is NOT_TESTED
    ended = (42.0, StreamClosed("d", "", "b", "ended by the driver", "/s", "OK"))
    assert verdict(check, *before, *stream("b", 41, 42, {})[:-1], ended) is FAIL
    assert verdict(check, *before, *stream("b", 10, 15, {10.1: WELL})) is NOT_TESTED


def test_slices_must_return_after_a_kubelet_restart() -> None:
    check = "slices-return-after-a-kubelet-restart"
    one = {"metadata": {"name": "s"}, "spec": {"pool": {"name": "p"}, "devices": [{"name": "gpu-0"}]}}
    notified = GrpcCall("d", "/s", NOTIFY_REGISTRATION.path.removeprefix("/"), {}, {}, 0.01)
    deleted = ((1.0, SliceChanged("DELETED", one, "check")), (2.0, notified))
    assert verdict(check, *deleted, (60.0, SliceChanged("ADDED", one)), (61.0, SlicesListed((one,)))) is PASS
    assert verdict(check, *deleted, (92.0, SlicesListed(()))) is FAIL
    assert verdict(check, *deleted, (99.0, SliceChanged("ADDED", one)), (99.1, SlicesListed((one,)))) is FAIL
    assert verdict(check, (92.0, SlicesListed((one,)))) is NOT_TESTED
