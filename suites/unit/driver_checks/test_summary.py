"""The verdict on a driver: failures, remarks, and runs without judgements."""

from dataclasses import replace
from datetime import date
from io import StringIO
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from drahealth.proto.events import (
    Event,
    ExperimentEnded,
    ExperimentStarted,
    GrpcCall,
    PodDeleted,
    ProcessExited,
    SocketsListed,
)
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS, NO_FAULTS, NOT_ASKED
from drahealth.suites.driver_checks.judge import judge
from drahealth.suites.driver_checks.summary import CUT_SHORT, NOT_SHOWN, Outcome, Summary, proven, summarize
from drahealth.suites.driver_checks.verdicts import Level, Verdict, Waiver, requirements, static
from drahealth.suites.report.check_report import check_report
from drahealth.suites.report.junit import to_junit
from drahealth.suites.report.text import show
from drahealth.suites.unit.driver_checks.certificates import core_run
from drahealth.suites.unit.driver_checks.evidence_of import evidence_of
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run, prepare

TODAY = date(2026, 11, 22)
ALL_PROVEN = frozenset[str]()


def summary(evidence: Evidence, *waivers: Waiver, unproven: frozenset[str] = ALL_PROVEN) -> Summary:
    return summarize(evidence, waivers=waivers, today=TODAY, unproven=unproven)


def waiver(id_: str) -> Waiver:
    return Waiver(id_, "known", "https://example.com/7", "gpu-team", TODAY)


def leave_sockets(_: str, event: Event) -> Event:
    if isinstance(event, SocketsListed) and event.moment == "ended":
        return replace(event, registry=("gpu-reg.sock",))
    return event


def prepare_held_devices(_: str, event: Event) -> Event:
    if isinstance(event, GrpcCall) and event.request == {"claims": [{"uid": "t"}]}:
        return prepare({"t": "gpu-1"})
    return event


def test_healthy_driver_conforms() -> None:
    found = summary(healthy_run())
    assert (found.verdict, found.exit_code, found.reasons) == ("conforms", 0, ())


def crashed_run() -> Evidence:
    """The driver exits after its registration: no later experiment reaches its end."""
    crash = ProcessExited("main", 1, 3, 0, ("starting", "panic: no device"))
    ends = [(name, ExperimentEnded("incomplete", "gone")) for name in ("services", "slices", "watch", "claims")]
    return evidence_of(("registration", ExperimentStarted("main")), ("registration", crash), *ends)


def test_exit_of_the_driver_is_one_reason_for_what_is_not_tested() -> None:
    found = summary(crashed_run())
    assert list(found.exits) == ["the driver exited with code 3; its last line of output: panic: no device"]
    assert found.reasons[0] == "The driver exited with code 3; its last line of output: panic: no device."
    names = next(iter(found.exits.values()))
    assert (
        {"PLUGIN-05", "PLUGIN-14", "HEALTH-01", "HEALTH-06"}
        <= set(names)
        <= {one.requirement.id for one in found.of(Verdict.NOT_TESTED)}
    )


def test_table_names_requirements_without_a_verdict_after_an_exit_once() -> None:
    found = summary(crashed_run())
    output = StringIO()
    show(found, Console(file=output, width=200), "")
    assert [output.getvalue().count(name) for name in ("HEALTH-06", "PLUGIN-05", "panic: no device")] == [1, 1, 1]


def test_requirements_after_an_exit_have_the_exit_in_a_few_words() -> None:
    output = StringIO()
    show(summary(crashed_run()), Console(file=output, width=200), "")
    lines = output.getvalue().splitlines()
    assert lines.count("  the driver exited") == 1
    assert [line for line in lines if "seen:" in line] == ["  seen:     in experiment registration, the driver exited"]


def test_driver_that_is_killed_at_its_end_has_no_exit_of_its_own() -> None:
    assert summary(healthy_run()).exits == {}


def test_violated_must_fails_the_driver() -> None:
    found = summary(healthy_run(leave_sockets))
    assert (found.outcome, found.exit_code) == (Outcome.FAILS, 1)
    assert [one.requirement.id for one in found.of(Verdict.FAIL)] == ["PLUGIN-18"]


def test_waived_must_does_not_fail_the_driver() -> None:
    found = summary(healthy_run(leave_sockets), waiver("PLUGIN-18"))
    assert (found.outcome, [one.requirement.id for one in found.of(Verdict.WAIVED)]) == (
        Outcome.CONFORMS,
        ["PLUGIN-18"],
    )


def test_waiver_of_a_met_requirement_fails_the_run() -> None:
    found = summary(healthy_run(), waiver("PLUGIN-18"))
    assert (found.outcome, len(found.reasons)) == (Outcome.FAILS, 1)


def test_failure_of_an_unproven_check_is_a_remark() -> None:
    found = summary(healthy_run(leave_sockets), unproven=frozenset({"driver-ends-without-sockets"}))
    remarks = [name for one in found.judgements for name in one.remarks]
    assert (found.outcome, remarks) == (Outcome.CONFORMS, ["driver-ends-without-sockets"])


def test_violated_should_is_listed_and_does_not_fail() -> None:
    found = summary(healthy_run(prepare_held_devices))
    assert (found.outcome, [one.requirement.id for one in found.of(Verdict.FAIL, "SHOULD")]) == (
        Outcome.CONFORMS,
        ["PLUGIN-19"],
    )


@pytest.mark.parametrize(
    ("end", "outcome", "code"),
    [
        (ExperimentEnded("incomplete", "the deadline is over"), Outcome.INCOMPLETE, 4),
        (ExperimentEnded("error", "no file descriptors"), Outcome.HARNESS_ERROR, 3),
    ],
)
def test_experiment_without_its_end_is_never_a_pass(end: ExperimentEnded, outcome: Outcome, code: int) -> None:
    found = summary(healthy_run(ends={"reregistration": end}))
    assert (found.outcome, found.exit_code) == (outcome, code)


def test_evidence_that_was_cut_short_is_incomplete() -> None:
    found = summary(replace(healthy_run(), complete=False))
    assert (found.outcome, found.reasons) == (Outcome.INCOMPLETE, (CUT_SHORT,))


def test_violation_in_evidence_that_was_cut_short_says_both() -> None:
    found = summary(replace(healthy_run(leave_sockets), complete=False))
    assert (found.outcome, found.reasons) == (Outcome.FAILS, ("The driver violates PLUGIN-18.", CUT_SHORT))


def test_family_without_a_change_is_not_shown() -> None:
    judged = [one for one in judge(core_run()) if one.requirement.family == "faults"]
    still = tuple(replace(one, findings={"a": static("no fault")}) for one in judged)
    found = replace(summary(core_run()), judgements=still)
    assert (found.families, replace(found, complete=False).families) == (
        {"faults": NOT_SHOWN},
        {"faults": Outcome.INCOMPLETE},
    )


def test_partial_run_without_a_change_is_incomplete() -> None:
    evidence = core_run(faults=ExperimentEnded("not applicable", NO_FAULTS))
    found = summarize(evidence, today=TODAY, only=["FAULT-01"])
    assert (found.verdict, found.reasons) == (
        "partial run: FAULT-01 incomplete",
        ("Nothing changed that shows FAULT-01.",),
    )


def test_check_says_that_it_breaks_no_device() -> None:
    (gap,) = summary(healthy_run()).not_caused
    assert gap.startswith("faults: `drahealth check` breaks no device")


def test_run_that_judged_nothing_is_incomplete() -> None:
    ends = ((name, ExperimentEnded("not applicable", "no plugin")) for name in EXPERIMENTS)
    assert summary(evidence_of(*ends)).reasons == ("The run judged no requirement.",)


def test_summary_of_some_requirements_names_them() -> None:
    found = summarize(healthy_run(leave_sockets), today=TODAY, only=("PLUGIN-05", "HEALTH-01"))
    assert (found.verdict, [one.requirement.id for one in found.judgements]) == (
        "partial run: PLUGIN-05, HEALTH-01 met",
        ["PLUGIN-05", "HEALTH-01"],
    )


def test_family_of_a_partial_or_interrupted_run_does_not_conform() -> None:
    run = healthy_run()
    partial = summarize(run, today=TODAY, unproven=frozenset(), only=["PLUGIN-01"])
    cut = summarize(replace(run, complete=False), today=TODAY, unproven=frozenset())
    assert partial.families == {}
    assert Outcome.CONFORMS not in cut.families.values()


def test_partial_run_does_not_conform() -> None:
    ends = {"reregistration": ExperimentEnded("not applicable", NOT_ASKED)}
    assert summary(healthy_run(ends=ends)).reasons == ("The evidence is missing for PLUGIN-04.",)


def test_running_driver_conforms_as_a_running_driver() -> None:
    found = summary(healthy_run(started=False))
    absent = [one for one in found.judgements if one.verdict is Verdict.NOT_APPLICABLE]
    needs_start = [one for one in absent if one.requirement.family != "taints"]
    assert found.verdict == "conforms, running driver"
    assert list(found.judgements[: len(needs_start)]) == needs_start


def test_proven_checks_and_their_requirements_exist() -> None:
    assert proven().keys() <= CHECKS.keys()
    assert {check.requirement for check in CHECKS.values()} <= requirements().keys()


def test_table_and_junit_name_not_applicable_checks_of_a_pass() -> None:
    evidence = healthy_run(ends={"slices": ExperimentEnded("not applicable", "no API server")})
    found, output = summary(evidence), StringIO()
    show(found, Console(file=output, width=100), "")
    why = "driver-publishes-its-devices does not apply: experiment slices: no API server"
    row = next(line for line in output.getvalue().splitlines() if "PLUGIN-13" in line)
    cases = ET.fromstring(to_junit(check_report(found, evidence))).iter("testcase")
    case = next(one for one in cases if one.get("name") == "PLUGIN-13")
    assert (row[:4], row[-len(why) - 2 :]) == ("PASS", f"({why})")
    assert case.findtext("system-out") == why


def test_a_terminal_of_50_columns_has_room_for_each_sentence() -> None:
    found, output = summary(healthy_run()), StringIO()
    show(found, Console(file=output, width=50, force_terminal=True, color_system=None), "")
    lines = output.getvalue().splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("PASS PLUGIN-01 "))
    assert (lines[head + 1][:2], max(map(len, lines[head : head + 4])) <= 50) == ("  ", True)


def test_each_family_has_its_own_verdict() -> None:
    def no_pod(_: str, event: Event) -> Event | None:
        return None if isinstance(event, PodDeleted) else event

    evidence = healthy_run(no_pod)
    core = replace(evidence, header=replace(evidence.header, level="core"))
    found = summary(core).families
    assert [found[name] for name in ("plugin contract", "health", "Pod status")] == ["conforms", "conforms", "fails"]


NO_SERVER = ExperimentEnded("not applicable", "the driver has no API server")
WITHOUT_SERVER = {name: NO_SERVER for name, one in EXPERIMENTS.items() if one.needs & {"api-server", "gateway"}}


@pytest.mark.parametrize(("level", "reached"), [("core", True), ("full", False)])
def test_level_full_cannot_be_reached_without_an_api_server(level: Level, reached: bool) -> None:
    run = healthy_run(ends=WITHOUT_SERVER)
    run = replace(run, header=replace(run.header, level=level, api_server="none"))
    reasons = summarize(run, today=TODAY).reasons
    assert any("Level full needs an API server" in one for one in reasons) is not reached
