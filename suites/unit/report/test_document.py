"""The machine-readable report, and its JSON Schema."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drahealth.suites.commands.check_output import to_json
from drahealth.suites.driver_checks.summary import Summary
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.report.document import report_of, report_schema
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run
from drahealth.suites.unit.report.reports import RERUN, failing, summaries, summary_of

PUBLISHED = json.loads(Path(__file__).parents[3].joinpath("docs", "report.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(PUBLISHED)


def document(summary: Summary) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(report_of(summary, healthy_run(), RERUN)))
    return found


def test_published_schema_is_that_of_this_release() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)
    assert report_schema() == PUBLISHED


def test_each_key_of_the_schema_has_a_description() -> None:
    without = [name for name, about in PUBLISHED["properties"].items() if "description" not in about]
    assert without == []


@pytest.mark.parametrize("summary", [summary_of(healthy_run()), failing()[0]], ids=["conforms", "fails"])
def test_schema_accepts_the_report_of_a_run(summary: Summary) -> None:
    VALIDATOR.validate(document(summary))


@given(summaries(st.text()))
@settings(max_examples=50, deadline=None)
def test_schema_accepts_any_report(summary: Summary) -> None:
    VALIDATOR.validate(document(summary))


@pytest.mark.parametrize(
    "change", [{"format": "drahealth-check-report/v0"}, {"exit_code": 5}, {"counts": {"OK": 1}}, {"run": None}]
)
def test_schema_rejects_another_document(change: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid({**document(failing()[0]), **change})


def test_report_of_a_violation_has_check_observation_and_rerun_command() -> None:
    found = document(failing()[0])
    (violated,) = (one for one in found["requirements"] if one["verdict"] == Verdict.FAIL)
    (finding,) = violated["findings"]
    assert (violated["id"], finding["check"]) == ("PLUGIN-18", "driver-ends-without-sockets")
    assert (found["exit_code"], found["complete"], found["rerun"]) == (1, True, RERUN)
    assert "gpu-reg.sock" in finding["seen"]
