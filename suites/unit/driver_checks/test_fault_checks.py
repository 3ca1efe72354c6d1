"""The checks of faults: their verdicts on a healthy driver and on wrong drivers."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from drahealth.proto.events import Event, ExperimentEnded, ExperimentStarted, ProcessExited, ProcessStarted
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.experiments import FAULTS_MISSING, NO_FAULTS
from drahealth.suites.driver_checks.judge import judge
from drahealth.suites.driver_checks.verdicts import Finding, Verdict
from drahealth.suites.unit.driver_checks.evidence_of import HEADER, evidence_of
from drahealth.suites.unit.driver_checks.fault_run import (
    BREAK,
    BROKEN,
    CLEAR,
    CLEARED,
    HEALTHY,
    STATES,
    STEPS,
    State,
    fault_run,
)

FAIL, PASS, NOT_TESTED, STATIC = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED, Verdict.STATIC
CHANGES = [name for name, check in CHECKS.items() if check.requirement.startswith("FAULT-")]
SICK: State = (Health.UNHEALTHY, "too hot")
UNKNOWN = (Health.UNKNOWN, "no answer")


def found(check: str, evidence: Evidence) -> Verdict:
    return CHECKS[check].judge(evidence).verdict


def finding(check: str, evidence: Evidence) -> Finding:
    return CHECKS[check].judge(evidence)


def shown(states: Mapping[float, State]) -> Evidence:
    """Both streams show these states."""
    return fault_run(a=states, b=states)


def test_healthy_driver_passes_with_its_latency_and_the_grade() -> None:
    judged = finding("break-is-reported", fault_run())
    assert (judged.verdict, judged.grade) == (PASS, "forced")
    assert "Unhealthy after 0.4 s" in judged.seen
    others = {name: found(name, fault_run()) for name in CHANGES}
    assert others.pop("unknown-is-not-unhealthy") is STATIC
    assert {name for name, verdict in others.items() if verdict is not PASS} <= {
        name for name in CHANGES if CHECKS[name].experiments[-1] != "faults"
    }


def test_fault_reported_on_request_has_grade_asked() -> None:
    asked = {**STEPS, BREAK: replace(BROKEN, grade="asked")}
    assert finding("break-is-reported", fault_run(steps=asked)).grade == "asked"


def test_break_that_is_never_or_late_reported_fails() -> None:
    assert found("break-is-reported", shown({1.0: HEALTHY})) is FAIL
    assert found("break-is-reported", shown({1.0: HEALTHY, BREAK + 5.9: SICK})) is PASS
    assert found("break-is-reported", shown({1.0: HEALTHY, BREAK + 6.1: SICK})) is FAIL


def test_break_that_is_not_reported_names_the_fault_adapter_as_possible_cause() -> None:
    still = {1.0: HEALTHY}
    nothing = finding("break-is-reported", shown(still))
    assert "no device changed: the fault adapter may have no effect" in nothing.seen
    other = fault_run(a=still, b=still, others=lambda name, at: SICK if name == "gpu-2" and at > BREAK else HEALTHY)
    assert "node-a/gpu-2 changed instead: the fault adapter may break another device" in (
        finding("break-is-reported", other).seen
    )


def test_break_without_a_later_report_is_not_tested() -> None:
    assert found("break-is-reported", fault_run(a={1.0: HEALTHY}, b={1.0: HEALTHY}, end=17)) is NOT_TESTED


@pytest.mark.parametrize("outcome", ["failed", "timed out"])
def test_adapter_that_fails_or_hangs_never_passes(outcome: str) -> None:
    for verdict in (NOT_TESTED, FAIL):
        broken = replace(BROKEN, outcome=outcome, problem="no such device", on_error=verdict)  # type: ignore[arg-type]
        evidence = fault_run(steps={**STEPS, BREAK: broken})
        assert found("break-is-reported", evidence) is verdict
        assert {found(name, evidence) for name in CHANGES if CHECKS[name].experiments[-1] == "faults"} <= {
            *(verdict, NOT_TESTED, STATIC)
        }


def test_adapter_without_effect_has_the_verdict_of_the_profile() -> None:
    steps = {**STEPS, BREAK: replace(BROKEN, on_no_effect="NOT_TESTED")}
    still = {1.0: HEALTHY}
    evidence = fault_run(a=still, b=still, steps=steps)
    verdicts = {
        found(name, evidence) for name in ("break-is-reported", "heal-is-reported", "all-subscribers-hear-a-fault")
    }
    assert verdicts == {NOT_TESTED}


def test_heal_that_is_not_reported_fails() -> None:
    assert found("heal-is-reported", shown({1.0: HEALTHY, 10.4: SICK})) is FAIL
    failed = replace(CLEARED, outcome="failed", problem="no file")
    assert found("heal-is-reported", fault_run(steps={**STEPS, CLEAR: failed})) is NOT_TESTED


def test_fault_that_cannot_be_healed_is_static_for_the_heal() -> None:
    assert found("heal-is-reported", fault_run(steps={BREAK: BROKEN})) is STATIC


def test_change_of_the_cause_must_be_another_report() -> None:
    assert found("change-of-the-cause-is-reported", shown({1.0: HEALTHY, 10.4: SICK, 30.2: HEALTHY})) is FAIL
    assert found("change-of-the-cause-is-reported", fault_run(steps={BREAK: BROKEN, CLEAR: CLEARED})) is STATIC


def test_unknown_health_must_not_be_unhealthy() -> None:
    steps: dict[float, Event] = {BREAK: replace(BROKEN, health="Unknown"), CLEAR: CLEARED}
    right, wrong = {1.0: HEALTHY, 10.4: UNKNOWN, 30.2: HEALTHY}, {1.0: HEALTHY, 10.4: SICK, 30.2: HEALTHY}
    assert found("unknown-is-not-unhealthy", fault_run(a=right, b=right, steps=steps)) is PASS
    assert found("unknown-is-not-unhealthy", fault_run(a=wrong, b=wrong, steps=steps)) is FAIL
    assert found("break-is-reported", fault_run(a=right, b=right, steps=steps)) is STATIC


def test_other_device_that_changes_during_the_fault_fails() -> None:
    check = "fault-leaves-other-devices-alone"
    assert found(check, fault_run(others=lambda name, at: SICK if 10.3 < at < 30.1 else HEALTHY)) is FAIL
    assert found(check, fault_run(others=lambda name, at: SICK if name == "gpu-2" else HEALTHY)) is PASS
    assert found(check, fault_run(others=lambda name, at: SICK if at > 40 else HEALTHY)) is PASS


def test_subscriber_that_misses_a_step_fails() -> None:
    check = "all-subscribers-hear-a-fault"
    assert found(check, fault_run(b={1.0: HEALTHY})) is FAIL
    assert found(check, fault_run(b={**STATES, 30.2: SICK})) is FAIL
    assert found(check, fault_run(b={at + 0.3: state for at, state in STATES.items()})) is PASS
    only_the_break = {at: state for at, state in STATES.items() if at < CLEAR}
    assert found(check, fault_run(b=only_the_break)) is FAIL
    assert found(check, fault_run(b=only_the_break, end=37)) is NOT_TESTED


def test_driver_that_exits_after_a_fault_fails() -> None:
    started = (
        (0.0, "faults", ExperimentStarted("broken")),
        (0.1, "faults", ProcessStarted("broken", 7, ("./driver",))),
    )
    exited = (11.0, "faults", ProcessExited("broken", 7, 1, 0, ("no device",)))
    assert found("driver-survives-faults", fault_run(more=(*started, exited))) is FAIL
    assert found("driver-survives-faults", fault_run(more=started)) is PASS
    during = replace(BROKEN, seconds=2.0)  # the driver ends before the action returns
    assert found("driver-survives-faults", fault_run(steps={12.0: during}, more=(*started, exited))) is FAIL


@pytest.mark.parametrize(("reason", "verdict"), [(NO_FAULTS, STATIC), (FAULTS_MISSING, NOT_TESTED)])
def test_profile_without_faults_never_passes(reason: str, verdict: Verdict) -> None:
    done = [(name, ExperimentEnded("done")) for name in ("registration", "services")]
    ended = [(name, ExperimentEnded("not applicable", reason)) for name in ("faults", "fault-plan")]
    judged = judge(evidence_of(*done, *ended, header=replace(HEADER, level="core")))
    core = {one.requirement.id: one.verdict for one in judged if one.requirement.id.startswith("FAULT-0")}
    assert set(core.values()) == {verdict}
