"""The report document: its JSON for all kinds, and its JSON Schema."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drahealth.suites.driver_checks.summary import Summary
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.report.check_report import check_report
from drahealth.suites.report.document import Conditions, Report, ScenarioResult, parse_report, report_schema, to_json
from drahealth.suites.report.run_report import Run
from drahealth.suites.unit.driver_checks.certificates import certified, core_run
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run
from drahealth.suites.unit.report.reports import RERUN, failing, soaked, summaries

PUBLISHED = json.loads(Path(__file__).parents[3].joinpath("docs", "reference", "report.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(PUBLISHED)
ENDED = "2026-11-22T09:00:00+00:00"


def document(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(report))
    return found


def check(summary: Summary) -> Report:
    return check_report(summary, healthy_run(), RERUN)


def run(command: Any = "drahealth run") -> Report:
    """The report of one passed scenario of two."""
    found = Run("reference", "the reference", planned=2, conditions=Conditions(command=command, started=ENDED, seed=7))
    found.results.append(ScenarioResult("test_a", "a", ("STATUS-01",), "passed", 0.5, id="drahealth.kep::test_a"))
    return found.report(ended=ENDED)


OF_ALL_KINDS = {
    "run": run(),
    "play": run("drahealth play"),
    "soak": soaked(),
    "check": check(failing()[0]),
    "certificate": certified(core_run())[1],
}


def test_published_schema_is_that_of_this_release() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)
    assert report_schema() == PUBLISHED


@pytest.mark.parametrize("kind", ["RunReport", "KubeletReport", "CheckReport", "Conditions", "ScenarioResult", "Soak"])
def test_each_key_of_the_schema_has_a_description(kind: str) -> None:
    keys = PUBLISHED["$defs"][kind]["properties"].items()
    assert [name for name, about in keys if "description" not in about] == []


@pytest.mark.parametrize("kind", OF_ALL_KINDS)
def test_schema_and_reader_accept_a_report_of_each_kind(kind: str) -> None:
    report = OF_ALL_KINDS[kind]
    VALIDATOR.validate(document(report))
    assert (report.kind, parse_report(to_json(report).encode())) == (kind, report)


@given(summaries(st.text()))
@settings(max_examples=50, deadline=None)
def test_schema_accepts_any_report(summary: Summary) -> None:
    VALIDATOR.validate(document(check(summary)))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        *(("run", {key: value}) for key, value in (("complete", "yes"), ("planned", None), ("kind", "check"))),
        *(("check", {key: value}) for key, value in (("exit_code", 5), ("counts", {"OK": 1}), ("conditions", None))),
        ("check", {"format": "drahealth-report/v0"}),
    ],
)
def test_schema_rejects_another_document(kind: str, change: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid({**document(OF_ALL_KINDS[kind]), **change})


def test_report_begins_with_what_all_kinds_have() -> None:
    assert {tuple(document(report))[:10] for report in OF_ALL_KINDS.values()} == {
        (
            *("format", "kind", "subject", "verdict", "exit_code"),
            *("complete", "interrupted", "reasons", "counts", "requirements"),
        )
    }


def test_report_of_a_run_without_all_results_is_not_complete() -> None:
    found = document(run())
    assert {name: found[name] for name in ("verdict", "exit_code", "complete", "interrupted", "reasons")} == {
        "verdict": "ended early",
        "exit_code": 3,
        "complete": False,
        "interrupted": False,
        "reasons": ["The run is not complete: scenarios have no result; 1 of 2 planned scenarios have a result."],
    }


def test_report_of_a_run_has_each_requirement_and_each_result() -> None:
    found = document(run())
    assert [one["id"] for one in found["requirements"]] == list(requirements())
    status = next(one for one in found["requirements"] if one["id"] == "STATUS-01")
    assert (status["level"], status["sentence"], status["verdict"]) == (
        *("MUST", requirements()["STATUS-01"].sentence),
        "PASS",
    )
    assert [(one["id"], one["outcome"]) for one in found["scenarios"]] == [("drahealth.kep::test_a", "passed")]


def test_report_of_a_violation_has_check_observation_and_rerun_command() -> None:
    found = document(check(failing()[0]))
    (violated,) = (one for one in found["requirements"] if one["verdict"] == Verdict.FAIL)
    (finding,) = violated["findings"]
    assert (violated["id"], finding["check"]) == ("PLUGIN-18", "driver-ends-without-sockets")
    assert (found["exit_code"], found["complete"], found["rerun"]) == (1, True, RERUN)
    assert "gpu-reg.sock" in finding["seen"]
