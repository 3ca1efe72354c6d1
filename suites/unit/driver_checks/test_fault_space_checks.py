"""The invariants over all experiments with faults: verdicts on a healthy driver and on wrong ones."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from drahealth.proto.events import (
    Event,
    ExperimentEnded,
    FaultCleared,
    FaultInjected,
    ProcessStarted,
    ReportReceived,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.health_apis import V1, V1ALPHA1
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed_health import OURS
from drahealth.suites.driver_checks.verdicts import Finding, Verdict
from drahealth.suites.unit.driver_checks.evidence_of import evidence_at

State = tuple[Health, str]
OK: State = (Health.HEALTHY, "")
SICK: State = (Health.UNHEALTHY, "too hot")
LOST: State = (Health.UNKNOWN, "no answer")
BREAK, CLEAR = 10.0, 30.0
PLAN = "fault-plan"
AGREE, BYSTANDERS = "reports-agree-while-a-fault-lasts", "bystanders-keep-their-health"
MESSAGES = "messages-agree-while-a-fault-lasts"
DECLARED = "message-is-that-of-the-fault"


def broken(device: str, health: Health = Health.UNHEALTHY, **more: object) -> FaultInjected:
    given = ("planned", "hot", "break", "pool", device, "write FILE", "forced", str(health), 1.0, "done", 0.1)
    return replace(FaultInjected(*given), **more)  # type: ignore[arg-type]


def cleared(device: str) -> FaultCleared:
    return FaultCleared("planned", "hot", "pool", device, "remove FILE", 1.0, "done", 0.1)


STEPS: Mapping[float, Event] = {BREAK: broken("gpu-1"), CLEAR: cleared("gpu-1")}
Reported = Callable[[str, str, float], State]


def right(stream: str, device: str, at: float) -> State:
    """What a right driver reports of gpu-1, which breaks and recovers."""
    return SICK if device == "gpu-1" and BREAK < at < CLEAR else OK


def run(
    reported: Reported = right, steps: Mapping[float, Event] = STEPS, late: float = 20.0, experiment: str = PLAN
) -> Evidence:
    """Two streams over v1, one over v1alpha1, and one over v1 that is opened late. A report each 2 s, 0.5 s later."""
    records = [(at, experiment, event) for at, event in steps.items()]
    for name, api, opened in (("a", V1, 0.4), ("b", V1, 0.4), ("old", V1ALPHA1, 0.4), ("late", V1, late)):
        records.append((opened, experiment, StreamOpened("d", "", name, api.name, "/s")))
        times = [opened + 0.1, *(at + 0.5 for at in range(2, 60, 2) if at > opened)]
        for at in times:
            each = tuple(
                DeviceHealth("pool", device, *reported(name, device, at)) for device in ("gpu-0", "gpu-1", "gpu-2")
            )
            records.append((at, experiment, ReportReceived("d", "/s", name, 90, each)))
        records.append((60.0, experiment, StreamClosed("d", "", name, OURS, "/s", "CANCELLED")))
    return evidence_at(*records)


def finding(check: str, evidence: Evidence) -> Finding:
    return CHECKS[check].judge(evidence)


def verdict(check: str, reported: Reported) -> Verdict:
    return finding(check, run(reported)).verdict


@pytest.mark.parametrize("check", [AGREE, MESSAGES, BYSTANDERS, "each-break-is-reported", "each-recovery-is-reported"])
def test_right_driver_passes(check: str) -> None:
    assert finding(check, run()).verdict is Verdict.PASS


def test_messages_that_agree_have_the_grade_of_the_faults() -> None:
    assert finding(MESSAGES, run()).grade == "forced"


def test_streams_with_different_messages_of_one_fault_fail() -> None:
    def reported(stream: str, device: str, at: float) -> State:
        health, message = right(stream, device, at)
        return health, "" if stream == "b" else message

    assert verdict(MESSAGES, reported) is Verdict.FAIL


def test_messages_that_change_by_themselves_are_not_compared() -> None:
    def reported(stream: str, device: str, at: float) -> State:
        health, message = right(stream, device, at)
        return health, f"{message} at {at:g} s" if health is not Health.HEALTHY else ""

    assert verdict(MESSAGES, reported) is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("declared", "expected"),
    [("hot", Verdict.PASS), ("cold", Verdict.FAIL), ("", Verdict.NOT_APPLICABLE)],
)
def test_messages_of_a_fault_must_have_the_declared_text(declared: str, expected: Verdict) -> None:
    steps: dict[float, Event] = {BREAK: broken("gpu-1", message=declared), CLEAR: cleared("gpu-1")}
    assert finding(DECLARED, run(steps=steps)).verdict is expected


def test_message_of_one_stream_without_the_declared_text_fails() -> None:
    def reported(stream: str, device: str, at: float) -> State:
        health, message = right(stream, device, at)
        return health, "" if stream == "late" else message

    steps: dict[float, Event] = {BREAK: broken("gpu-1", message="hot"), CLEAR: cleared("gpu-1")}
    assert finding(DECLARED, run(reported, steps)).verdict is Verdict.FAIL


def test_message_on_its_way_since_before_the_fault_does_not_count() -> None:
    def reported(stream: str, device: str, at: float) -> State:
        before = (Health.UNHEALTHY, "cold")
        return before if device == "gpu-1" and at < BREAK + 1 else right(stream, device, at)

    steps: dict[float, Event] = {
        5.0: broken("gpu-1"),
        BREAK: broken("gpu-1", step="change", message="hot"),
        CLEAR: cleared("gpu-1"),
    }
    assert finding(DECLARED, run(reported, steps)).verdict is Verdict.PASS


def test_fault_after_an_idle_time_must_be_reported_too() -> None:
    idle = [(one.at + 100, "idle", one.what) for one in run(lambda *_: OK).records]
    evidence = evidence_at(*((one.at, PLAN, one.what) for one in run().records), *idle)
    assert finding("each-break-is-reported", evidence).verdict is Verdict.FAIL


@pytest.mark.parametrize("check", [AGREE, BYSTANDERS, "each-break-is-reported"])
def test_run_without_faults_is_not_tested(check: str) -> None:
    assert finding(check, run(steps={})).verdict is Verdict.NOT_TESTED


def test_health_api_that_stays_healthy_fails() -> None:
    found = finding(AGREE, run(lambda stream, device, at: OK if stream == "old" else right(stream, device, at)))
    assert found.verdict is Verdict.FAIL
    assert "v1alpha1" in found.seen
    assert "after the settle time" in found.seen


def test_first_report_without_a_current_fault_fails() -> None:
    first = lambda stream, device, at: OK if stream == "late" and at < 20.2 else right(stream, device, at)  # noqa: E731
    found = finding(AGREE, run(first))
    assert found.verdict is Verdict.FAIL
    soon = run(
        lambda stream, device, at: OK if stream == "late" and at < 12.0 else right(stream, device, at), late=11.0
    )
    assert "in the first report of a new stream" in finding(AGREE, soon).seen


WRONG: list[tuple[str, str, Reported]] = [
    (AGREE, "one health API stays healthy", lambda s, device, at: OK if s == "old" else right(s, device, at)),
    (AGREE, "taken back while it lasts", lambda s, device, at: OK if 12.1 < at < 13 else right(s, device, at)),
    (AGREE, "new stream does not know it", lambda s, device, at: OK if s == "late" else right(s, device, at)),
    (BYSTANDERS, "all devices break", lambda s, _, at: right(s, "gpu-1", at)),
    (
        BYSTANDERS,
        "on a new stream",
        lambda s, device, at: SICK if (s, device) == ("late", "gpu-0") else right(s, device, at),
    ),
    ("each-break-is-reported", "never", lambda *_: OK),
    ("each-break-is-reported", "late", lambda s, device, at: OK if at < 17 else right(s, device, at)),
    ("each-recovery-is-reported", "never", lambda _, device, at: SICK if device == "gpu-1" and at > BREAK else OK),
]
"""Checks that fail, what is wrong, and what the driver reports."""


@pytest.mark.parametrize(("check", "what", "reported"), WRONG)
def test_wrong_driver_fails(check: str, what: str, reported: Reported) -> None:
    assert verdict(check, reported) is Verdict.FAIL


def test_stream_may_show_a_fault_until_the_settle_time_is_over() -> None:
    slow = verdict(AGREE, lambda stream, device, at: OK if stream == "b" and at < 14 else right(stream, device, at))
    assert slow is Verdict.PASS


@pytest.mark.parametrize(
    ("when", "expected"), [((10.1, 11.0), Verdict.FAIL), ((30.1, 31), Verdict.FAIL), ((40, 60), Verdict.PASS)]
)
def test_bystander_that_changes_with_another_device_fails(when: tuple[float, float], expected: Verdict) -> None:
    def reported(stream: str, device: str, at: float) -> State:
        return LOST if device == "gpu-2" and when[0] < at < when[1] else right(stream, device, at)

    assert verdict(BYSTANDERS, reported) is expected


OTHERS = ["backend-restart", "fault-while-stopped", "fault-over-restart", "rolling-update"]


@pytest.mark.parametrize("experiment", OTHERS)
def test_bystander_that_changes_in_any_experiment_with_faults_fails(experiment: str) -> None:
    def reported(stream: str, device: str, at: float) -> State:
        return LOST if device == "gpu-2" and 10.1 < at < 11 else right(stream, device, at)

    assert finding(BYSTANDERS, run(reported, experiment=experiment)).verdict is Verdict.FAIL
    assert finding(BYSTANDERS, run(experiment=experiment)).verdict is Verdict.PASS


def test_bystander_that_is_known_again_after_a_restart_of_the_backend_passes() -> None:
    def reported(stream: str, device: str, at: float) -> State:
        return LOST if device == "gpu-2" and 5 < at < 10 else right(stream, device, at)

    assert finding(BYSTANDERS, run(reported, experiment="backend-restart")).verdict is Verdict.PASS
    assert finding(BYSTANDERS, run(reported, experiment="fault-while-stopped")).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("experiment", "expected"),
    [("backend-restart", Verdict.PASS), ("fault-while-stopped", Verdict.PASS), (PLAN, Verdict.FAIL)],
)
def test_devices_that_are_lost_together_after_a_pause_are_no_effect_of_the_fault(
    experiment: str, expected: Verdict
) -> None:
    def reported(stream: str, device: str, at: float) -> State:
        return LOST if 10.1 < at < 11 else right(stream, device, at)

    assert finding(BYSTANDERS, run(reported, experiment=experiment)).verdict is expected


def test_instance_that_does_not_know_a_device_yet_passes_beside_an_older_one() -> None:
    steps: dict[float, Event] = {5.0: ProcessStarted("newer", 8, ("./driver",)), **STEPS}
    older = run(steps=steps, experiment="rolling-update").records
    newer: list[tuple[float, str, Event]] = [(6.0, "rolling-update", StreamOpened("d", "", "new", V1.name, "/s2"))]
    for at in (6.1, 8.6, 10.6, 12.6):
        states = [OK, right("", "gpu-1", at), LOST if at < 10 else OK]
        each = tuple(DeviceHealth("pool", f"gpu-{number}", *state) for number, state in enumerate(states))
        newer.append((at, "rolling-update", ReportReceived("d", "/s2", "new", 90, each)))
    both = evidence_at(*((one.at, one.experiment, one.what) for one in older), *newer)
    assert finding(BYSTANDERS, both).verdict is Verdict.PASS


def test_bystander_that_changes_names_the_adapter_as_possible_cause() -> None:
    both = finding(BYSTANDERS, run(lambda _, device, at: right("", "gpu-1" if device == "gpu-2" else device, at)))
    assert "the fault adapter may also change pool/gpu-2" in both.seen
    instead = finding(BYSTANDERS, run(lambda _, device, at: right("", "gpu-1" if device == "gpu-2" else "", at)))
    assert "the fault adapter may break another device than pool/gpu-1" in instead.seen


def test_recovery_that_heals_another_broken_device_fails() -> None:
    both = {**STEPS, 20.0: broken("gpu-2")}

    def reported(stream: str, device: str, at: float) -> State:
        return SICK if device == "gpu-2" and 20 < at < CLEAR else right(stream, device, at)

    assert finding(AGREE, run(reported, both)).verdict is Verdict.FAIL


def test_two_devices_that_break_together_are_no_bystanders() -> None:
    both = {**STEPS, 10.05: broken("gpu-2")}

    def reported(stream: str, device: str, at: float) -> State:
        return SICK if device == "gpu-2" and at > 10.1 else right(stream, device, at)

    assert [finding(check, run(reported, both)).verdict for check in (BYSTANDERS, AGREE)] == [Verdict.PASS] * 2


def test_failed_action_is_no_proof_against_the_driver() -> None:
    steps: dict[float, Event] = {BREAK: broken("gpu-1", outcome="failed", problem="no file")}
    assert finding("each-break-is-reported", run(steps=steps)).verdict is Verdict.NOT_TESTED
    assert finding(BYSTANDERS, run(steps=steps)).verdict is Verdict.PASS


def test_device_that_changed_instead_is_named_with_the_adapter_as_possible_cause() -> None:
    other = finding(
        "each-break-is-reported", run(lambda _, device, at: right("", "gpu-1" if device == "gpu-2" else "", at))
    )
    assert other.verdict is Verdict.FAIL
    assert "pool/gpu-2 changed instead: the fault adapter may break another device than pool/gpu-1" in other.seen


def test_fault_without_any_effect_names_the_adapter_as_possible_cause() -> None:
    nothing = finding("each-break-is-reported", run(lambda *_: OK))
    assert "no device changed: the fault adapter may have no effect" in nothing.seen


def test_fault_that_works_on_another_device_speaks_against_the_driver() -> None:
    steps = {**STEPS, 40.0: broken("gpu-2")}
    found = finding("each-break-is-reported", run(steps=steps))
    assert "the same fault had an effect on pool/gpu-1" in found.seen


def test_bystander_that_a_starting_driver_does_not_know_yet_passes() -> None:
    def reported(stream: str, device: str, at: float) -> State:
        return LOST if device == "gpu-2" and 15 < at < 17 else right(stream, device, at)

    steps: dict[float, Event] = {**STEPS, 15.0: ProcessStarted("planned", 7, ("./driver",))}
    assert finding(BYSTANDERS, run(reported, steps)).verdict is Verdict.PASS


def test_fault_that_a_new_stream_does_not_show_fails_also_right_before_the_next_action() -> None:
    def reported(stream: str, device: str, at: float) -> State:
        return OK if stream == "late" else right(stream, device, at)

    next_action: dict[float, Event] = {BREAK: broken("gpu-1"), 20.3: cleared("gpu-1")}
    assert finding(AGREE, run(reported, next_action)).verdict is Verdict.FAIL


def test_effect_shortly_before_the_recorded_start_of_its_action_passes() -> None:
    def reported(stream: str, device: str, at: float) -> State:
        return SICK if device == "gpu-1" and (4 < at < 6 or at >= 10.5) else OK

    steps: dict[float, Event] = {4.0: broken("gpu-1"), 6.0: cleared("gpu-1"), 10.61: broken("gpu-1")}
    assert [finding(check, run(reported, steps)).verdict for check in (AGREE, BYSTANDERS)] == [Verdict.PASS] * 2


def healed_at_last(stream: str, device: str, at: float) -> State:
    return SICK if device == "gpu-1" and BREAK < at < 55 else OK


def test_effect_of_an_action_that_the_end_of_the_run_interrupted_passes() -> None:
    interrupted = replace(cleared("gpu-1"), outcome="interrupted", seconds=5.5)
    steps: dict[float, Event] = {BREAK: broken("gpu-1"), 59.9: interrupted}
    assert finding(AGREE, run(healed_at_last, steps)).verdict is Verdict.PASS


def test_effect_of_an_action_that_a_killed_run_did_not_record_passes() -> None:
    evidence = run(healed_at_last, {BREAK: broken("gpu-1")})
    killed = replace(
        evidence, records=tuple(one for one in evidence.records if not isinstance(one.what, ExperimentEnded))
    )
    assert [finding(AGREE, one).verdict for one in (evidence, killed)] == [Verdict.FAIL, Verdict.PASS]


def test_change_without_another_message_is_expected_to_be_reported() -> None:
    found = finding("each-change-of-a-cause-is-reported", run(steps={**STEPS, 20.0: broken("gpu-1", step="change")}))
    assert found.verdict is Verdict.FAIL
    assert "is reported with another health or message within" in found.expected
    assert found.seen.endswith("still Unhealthy 'too hot'")
