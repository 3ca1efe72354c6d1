"""How a run showed the abilities of a driver."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date

from drahealth.proto.events import Event, FaultInjected, ReportReceived
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.judge import ABILITIES, by_grade, graded, shown_abilities
from drahealth.suites.driver_checks.summary import summarize
from drahealth.suites.driver_checks.verdicts import Finding, Verdict, failed, not_tested, passed, strongest, worst
from drahealth.suites.unit.driver_checks.edits import finding
from drahealth.suites.unit.driver_checks.evidence_of import evidence_at
from drahealth.suites.unit.driver_checks.fault_run import fault_run
from drahealth.suites.unit.driver_checks.healthy_run import RECORDS, healthy_run

RECEIVED = "all-subscribers-receive-all-reports"


def with_grade(grade: str) -> Finding:
    return replace(passed("x"), grade=grade)  # type: ignore[arg-type]


def quiet(event: Event) -> Event:
    """No device changes."""
    if isinstance(event, ReportReceived):
        return replace(event, devices=tuple(replace(one, health=Health.HEALTHY, message="") for one in event.devices))
    return event


def with_faults_alone(edit: Callable[[Event], Event] = lambda event: event) -> Evidence:
    """A run in which no device changes, except in the process of the faults."""
    quiet_run = [(at, name, quiet(event)) for at, name, event in RECORDS if name != "faults"]
    return evidence_at(*quiet_run, *((one.at, one.experiment, edit(one.what)) for one in fault_run().records))


def asked(event: Event) -> Event:
    return replace(event, grade="asked") if isinstance(event, FaultInjected) else event


def too_long(event: Event) -> Event:
    if not isinstance(event, ReportReceived):
        return event
    return replace(event, devices=tuple(replace(one, message="x" * 1025) for one in event.devices))


def test_abilities_name_checks_once() -> None:
    names = [check for one in ABILITIES for check in one.checks]
    assert (len(names), set(names) - CHECKS.keys()) == (len(set(names)), set())


def test_grade_of_several_findings_is_the_strongest_of_the_worst() -> None:
    found = [with_grade("observed"), with_grade("asked"), replace(not_tested("y"), grade="forced")]
    assert worst(found[:2]).grade == "asked"
    assert worst(found).grade == "forced"
    assert strongest([]) == ""


def test_finding_keeps_its_own_grade_and_gets_none_without_a_result() -> None:
    check = "children-end-with-the-driver"
    assert graded(check, passed("x")).grade == "asked"
    assert graded(check, failed("x", "y")).grade == "asked"
    assert graded(check, not_tested("x")).grade == ""
    assert graded(RECEIVED, with_grade("observed")).grade == "observed"
    assert graded("first-report-is-prompt", passed("x")).grade == ""


def test_ability_has_the_strongest_grade_of_its_passed_checks() -> None:
    kubelet = ("driver-registers-again-at-the-same-socket", "slices-return-after-a-kubelet-restart")
    found = [(kubelet[0], with_grade("asked")), (kubelet[1], with_grade("forced"))]
    assert shown_abilities(found) == {"restarts of the kubelet": "forced"}
    assert shown_abilities([(kubelet[1], replace(found[1][1], verdict=Verdict.FAIL))]) == {}


def test_change_without_a_fault_has_grade_observed() -> None:
    assert (finding(RECEIVED).verdict, finding(RECEIVED).grade) == (Verdict.PASS, "observed")


def test_change_in_another_process_counts_with_the_grade_of_its_fault() -> None:
    caused = finding(RECEIVED, with_faults_alone())
    assert (caused.verdict, caused.grade) == (Verdict.PASS, "forced")
    assert finding(RECEIVED, with_faults_alone(asked)).grade == "asked"


def test_change_in_short_streams_of_a_fault_counts() -> None:
    quiet_run = [(at, name, quiet(event)) for at, name, event in RECORDS if name != "faults"]
    short = [(one.at / 20, one.experiment, one.what) for one in fault_run().records]
    assert finding(RECEIVED, evidence_at(*quiet_run, *short)).verdict is Verdict.PASS


def test_message_in_another_process_counts() -> None:
    check = "messages-have-at-most-1024-bytes"
    assert finding(check, with_faults_alone()).verdict is Verdict.PASS
    assert finding(check, with_faults_alone(too_long)).verdict is Verdict.FAIL


def test_summary_lists_the_abilities_by_grade() -> None:
    run = healthy_run()
    evidence = replace(run, header=replace(run.header, level="core"))
    shown = by_grade(summarize(evidence, today=date(2026, 11, 22)).abilities)
    assert list(shown) == ["forced", "asked", "observed"]
    assert "end of child processes" in shown["asked"]
    assert shown["observed"] == ["changes of health", "heartbeats"]
