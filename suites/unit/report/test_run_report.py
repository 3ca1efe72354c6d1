"""The results of a run as data: exit codes, verdicts by requirement, and the report file."""

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest

from drahealth.suites.judging.ledger import requirements
from drahealth.suites.report.document import Outcome
from drahealth.suites.report.document import ScenarioResult as Result
from drahealth.suites.report.run_report import Run
from drahealth.suites.report.text import pull_request_text

INVARIANTS = {name for name, entry in requirements().items() if entry.judged == "invariant"}


def result(outcome: Outcome, *judges: str, name: str = "test_a", **more: Any) -> Result:
    broken = judges if outcome in ("failed", "known issue") else ()
    return Result(name, "a", judges, outcome, 0.5, **{"broken": broken, **more})


def run_of(*results: Result) -> Run:
    run = Run("reference", "the reference")
    for number, one in enumerate(results):
        run.take({**asdict(one), "name": f"{one.name}_{number}"})
    return run


def verdicts(*results: Result) -> dict[str, str]:
    """The requirements with another verdict than NOT_TESTED."""
    return {name: verdict for name, verdict in run_of(*results).verdicts().items() if verdict != "NOT_TESTED"}


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["passed"], 0),
        (["passed", "known issue", "not applicable"], 0),
        (["passed", "failed", "known issue"], 1),
        (["failed", "error", "passed"], 3),
        ([], 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst_outcome(outcomes: list[Outcome], code: int) -> None:
    assert run_of(*(result(outcome, "STATUS-01") for outcome in outcomes)).exit_code() == code


@pytest.mark.parametrize(
    ("outcomes", "planned", "words"),
    [
        (["passed", "known issue"], 2, "passed"),
        (["passed", "failed"], 2, "failed"),
        (["failed", "error"], 2, "harness error"),
        (["passed"], 2, "not complete"),
        ([], 0, "not complete"),
    ],
)
def test_a_node_has_a_verdict_of_its_own(outcomes: list[Outcome], planned: int, words: str) -> None:
    run = run_of(*(result(outcome, "STATUS-01", node="a") for outcome in outcomes))
    run.nodes, run.planned = {"a": ("1.37.2", "v1.37")}, planned
    (node,) = run.report(ended=None).nodes
    assert (node.node, node.verdict, node.counts) == ("a", words, dict(Counter(outcomes)))
    assert f"- Node a, kubelet 1.37.2, profile v1.37: {words}" in pull_request_text(run.report(ended=None)).replace(
        "\\", ""
    )


def test_a_passed_scenario_passes_its_requirements_and_the_invariants() -> None:
    assert verdicts(result("passed", "STATUS-01", "STATUS-02")) == dict.fromkeys(
        {"STATUS-01", "STATUS-02", *INVARIANTS}, "PASS"
    )


def test_a_known_issue_is_a_verdict_on_its_own_requirement_only() -> None:
    found = verdicts(result("known issue", "TERM-01", "TERM-02", broken=("TERM-02",), known_issues=("B-19",)))
    assert (found["TERM-01"], found["TERM-02"], found["STATUS-10"]) == ("PASS", "KNOWN ISSUE", "PASS")


def test_a_scenario_that_is_not_applicable_has_verdicts_only_on_unmet_needs() -> None:
    beyond = result("not applicable", "TIMEOUT-02", "TIMEOUT-03", beyond=("TIMEOUT-02",), reason="TIMEOUT-02 needs ...")
    assert verdicts(beyond) == {"TIMEOUT-02": "NOT_APPLICABLE"}
    assert verdicts(beyond, result("passed", "TIMEOUT-02"))["TIMEOUT-02"] == "PASS"


def test_a_failure_is_a_verdict_only_on_its_own_requirement() -> None:
    assert verdicts(result("failed", "TERM-01", "TERM-02", broken=("TERM-01",))) == {"TERM-01": "FAIL"}


def test_a_violated_invariant_fails_without_a_scenario() -> None:
    found = verdicts(result("passed", "STATUS-01"), result("failed", "STATUS-03", broken=("STATUS-10",)))
    assert found == dict.fromkeys({"STATUS-01", *INVARIANTS}, "PASS") | {"STATUS-10": "FAIL"}


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        (["passed", "known issue", "error", "failed"], "FAIL"),
        (["passed", "known issue", "error"], "ERROR"),
        (["known issue", "passed"], "KNOWN ISSUE"),
    ],
)
def test_the_worst_verdict_of_several_scenarios_counts(outcomes: list[Outcome], verdict: str) -> None:
    found = verdicts(*(result(outcome, "CRASH-01") for outcome in outcomes))
    assert found["CRASH-01"] == verdict


def test_without_results_all_requirements_are_not_tested() -> None:
    assert set(Run("reference", "").verdicts().values()) == {"NOT_TESTED"}


def test_results_round_trip_through_plain_data() -> None:
    told = result("known issue", "TERM-02", broken=("TERM-02",), known_issues=("B-19",), history="0 s")
    run = Run("reference", "")
    assert run.take(json.loads(json.dumps(asdict(told)))) == told
    assert run.results == [told]


def test_a_cleanup_error_is_merged_into_the_result() -> None:
    run = Run("reference", "")
    run.take(asdict(result("failed", "TERM-01", problem="it followed", history="0 s  # all")))
    run.take(asdict(result("error", "TERM-01", "TERM-02", problem="pods did not go away")))
    assert [(r.outcome, r.problem, r.seconds, r.history) for r in run.results] == [
        ("error", "it followed\npods did not go away", 1.0, "0 s  # all")
    ]
    assert (run.exit_code(), run.verdicts()["TERM-01"]) == (3, "ERROR")


@pytest.mark.parametrize(
    ("outcomes", "planned", "interrupted", "code"),
    [
        (["passed"], 2, False, 3),
        (["failed"], 2, False, 1),
        (["failed"], 2, True, 3),
        ([], 2, True, 3),
    ],
)
def test_a_run_without_all_results_never_exits_with_0(
    outcomes: list[Outcome], planned: int, interrupted: bool, code: int
) -> None:
    run = run_of(*(result(outcome, "STATUS-01") for outcome in outcomes))
    run.planned, run.interrupted = planned, interrupted
    assert (run.exit_code(), run.ended_early) == (code, True)


def test_scenarios_of_different_files_with_the_same_name_are_different_results() -> None:
    run = Run("reference", "")
    for folder, outcome in (("a", "failed"), ("b", "passed")):
        run.take({**asdict(result("passed", "STATUS-01")), "id": f"{folder}::test_a", "outcome": outcome})
    assert [one.outcome for one in run.results] == ["failed", "passed"]
