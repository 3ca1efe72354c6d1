"""Verdicts: a requirement without evidence never passes."""

from dataclasses import replace
from functools import cache
from typing import get_args

import pytest

from drahealth.proto.events import ExperimentEnded, GrpcCall
from drahealth.proto.events.checks import Outcome
from drahealth.suites.driver_checks.all_checks import CHECKS, Check
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.judge import ABSENCES, judge, unfinished
from drahealth.suites.driver_checks.verdicts import LEVELS, Finding, Level, SubjectKind, Verdict, failed, requirements
from drahealth.suites.driver_checks.verdicts import verdict_of as verdict_of_all
from drahealth.suites.unit.driver_checks.evidence_of import HEADER, evidence_of
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run
from drahealth.suites.unit.driver_checks.test_device_plugin_checks import FAULTS as PLUGIN_FAULTS
from drahealth.suites.unit.driver_checks.test_device_plugin_checks import PODS as PLUGIN_PODS
from drahealth.suites.unit.driver_checks.test_device_plugin_checks import WRONG as PLUGIN_CALLS
from drahealth.suites.unit.driver_checks.test_device_plugin_checks import run_of
from drahealth.suites.unit.driver_checks.test_fault_space_checks import WRONG as FAULT_SPACE
from drahealth.suites.unit.driver_checks.test_fault_space_checks import run as run_of_plan
from drahealth.suites.unit.driver_checks.test_health_checks import ROWS as HEALTH
from drahealth.suites.unit.driver_checks.test_plugin_checks import ROWS as PLUGIN
from drahealth.suites.unit.driver_checks.test_pod_checks import ROWS as PODS
from drahealth.suites.unit.driver_checks.test_taint_checks import WRONG as TAINTS
from drahealth.suites.unit.driver_checks.test_taint_checks import run as run_with_taints

NO_SLICES = {"slices": ExperimentEnded("not applicable", "no API server")}


def verdict_of(requirement: str, evidence: Evidence) -> Verdict:
    return next(one.verdict for one in judge(evidence) if one.requirement.id == requirement)


def test_empty_evidence_passes_nothing() -> None:
    assert {one.verdict for one in judge(evidence_of())} == {Verdict.NOT_TESTED}


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        ("not applicable", Verdict.NOT_APPLICABLE),
        ("incomplete", Verdict.NOT_TESTED),
        ("error", Verdict.ERROR),
        ("done", Verdict.NOT_TESTED),
    ],
)
def test_experiment_outcome_gives_the_verdict_without_other_evidence(outcome: Outcome, verdict: Verdict) -> None:
    ended = ("registration", ExperimentEnded(outcome, "" if outcome == "done" else "no socket"))
    assert verdict_of("PLUGIN-01", evidence_of(ended)) is verdict


def test_start_of_a_running_driver_is_not_applicable() -> None:
    running = replace(HEADER, command=())
    assert verdict_of("PLUGIN-03", evidence_of(header=running)) is Verdict.NOT_APPLICABLE


def test_not_applicable_experiment_takes_precedence_over_a_missing_one() -> None:
    ended = ("slices", ExperimentEnded("not applicable", "no API server"))
    found = next(one for one in judge(evidence_of(ended)) if one.requirement.id == "PLUGIN-13")
    assert found.findings["driver-publishes-its-devices"].verdict is Verdict.NOT_APPLICABLE


def test_passed_requirement_lists_not_applicable_checks_with_the_reason() -> None:
    found = next(one for one in judge(healthy_run(ends=NO_SLICES)) if one.requirement.id == "PLUGIN-13")
    reasons = {name: finding.seen for name, finding in found.not_judged.items()}
    assert (found.verdict, reasons) == (
        Verdict.PASS,
        {"driver-publishes-its-devices": "experiment slices: no API server"},
    )


def test_not_applicable_requirement_lists_no_skipped_checks() -> None:
    running = replace(HEADER, command=())
    found = next(one for one in judge(evidence_of(header=running)) if one.requirement.id == "PLUGIN-03")
    assert found.not_judged == {}


def test_violation_counts_although_its_experiment_did_not_end() -> None:
    call = GrpcCall(
        "gpu.example.com", "/run/dra.sock", "pluginregistration.Registration/GetInfo", {}, None, 0, "INTERNAL"
    )
    evidence = evidence_of(("registration", call), ("registration", ExperimentEnded("incomplete", "GetInfo failed")))
    assert verdict_of("PLUGIN-01", evidence) is Verdict.FAIL


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_violation_counts_for_every_check_whatever_the_outcome_of_its_experiments(outcome: Outcome) -> None:
    def violated(check: Check, subject: SubjectKind) -> Verdict:
        broken = replace(check, judge=lambda _: failed("it serves", "it does not"))
        header = replace(HEADER, level="full", subject=subject)
        evidence = evidence_of(*((name, ExperimentEnded(outcome, "x")) for name in EXPERIMENTS), header=header)
        return next(one.verdict for one in judge(evidence, [broken]) if one.findings)

    found = {name: violated(one, requirements()[one.requirement].binds) for name, one in CHECKS.items()}
    assert {name: verdict for name, verdict in found.items() if verdict is not Verdict.FAIL} == {}


@pytest.mark.parametrize("other", [one for one in Verdict if one is not Verdict.FAIL])
def test_violation_that_one_check_sees_decides_the_requirement(other: Verdict) -> None:
    assert verdict_of_all([other, Verdict.FAIL]) is Verdict.FAIL


@cache
def wrong_runs() -> list[tuple[str, str, Evidence]]:
    """Checks that fail, each with what is wrong in a run, and the evidence of the run."""
    pods = [(check, f"Pod {number}", edit, verdict) for number, (check, edit, verdict) in enumerate(PODS)]
    of_drivers, of_plugins = (*HEALTH, *PLUGIN, *pods), (*PLUGIN_CALLS, *PLUGIN_FAULTS, *PLUGIN_PODS)
    found = [
        *((check, what, healthy_run(edit)) for check, what, edit, verdict in of_drivers if verdict == "FAIL"),
        *((check, what, run_of(edit)) for check, what, edit, verdict in of_plugins if verdict == "FAIL"),
        *((check, what, run_with_taints(changes)) for check, changes, what in TAINTS),
        *((check, what, run_of_plan(reported)) for check, what, reported in FAULT_SPACE),
    ]
    return [(check, what, replace(run, header=replace(run.header, level="full"))) for check, what, run in found]


def test_violation_counts_although_no_experiment_ended() -> None:
    def counts(check: str, run: Evidence) -> bool:
        found = [one.verdict for one in judge(unfinished(run), [CHECKS[check]]) if one.findings]
        return found == [Verdict.FAIL] or (check in ABSENCES and found == [Verdict.NOT_TESTED])

    assert [f"{check}: {what}" for check, what, run in wrong_runs() if not counts(check, run)] == []


def test_violation_counts_without_the_other_experiments() -> None:
    def counts(check: str, whole: Evidence) -> bool:
        shown = CHECKS[check].judge(whole).records
        needed = {"registration", "services", "slices", "plugin-registration", *CHECKS[check].reads}
        needed |= {one.experiment for one in whole.records if one.number in shown}
        kept = replace(whole, records=tuple(one for one in whole.records if one.experiment in needed))
        return CHECKS[check].judge(kept).verdict is Verdict.FAIL

    assert [f"{check}: {what}" for check, what, run in wrong_runs() if not counts(check, run)] == []


def test_mistake_in_a_check_is_an_error_of_the_harness() -> None:
    def broken(_: Evidence) -> Finding:
        raise KeyError("x")

    check = replace(CHECKS["get-info-describes-a-dra-driver"], judge=broken)
    found = [one for one in judge(evidence_of(("registration", ExperimentEnded("done"))), [check]) if one.findings]
    assert [one.verdict for one in found] == [Verdict.ERROR]


def test_every_check_has_a_fix_sentence() -> None:
    assert [name for name, check in CHECKS.items() if not check.fix.endswith(".")] == []


@pytest.mark.parametrize(
    ("level", "scopes"), [("check", {"check"}), ("core", {"check", "core"}), ("full", {"check", "core", "full"})]
)
def test_level_of_the_run_decides_which_requirements_are_judged(level: Level, scopes: set[Level]) -> None:
    found = {one.requirement.id for one in judge(evidence_of(header=replace(HEADER, level=level)))}
    assert found == {one.id for one in requirements().values() if one.scope in scopes and one.binds == "dra-driver"}


def test_larger_level_judges_requirements_of_smaller_levels() -> None:
    core = replace(requirements()["PLUGIN-01"], scope="core")
    assert [core.is_judged_at(level) for level in LEVELS] == [False, True, True]


def test_run_judges_only_requirements_that_bind_its_subject() -> None:
    found = judge(evidence_of(header=replace(HEADER, subject="device-plugin", level="full")))
    assert {one.requirement.binds for one in found} <= {"device-plugin"}
