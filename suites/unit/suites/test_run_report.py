"""The report file of a run, and its JSON Schema."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from drahealth.suites.judging.ledger import requirements
from drahealth.suites.judging.report import Conditions, Result, Run, report_of, run_report_schema, to_json

PUBLISHED = json.loads(Path(__file__).parents[3].joinpath("docs", "run-report.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(PUBLISHED)
ENDED = "2026-11-22T09:00:00+00:00"


def document() -> dict[str, Any]:
    """The report of one passed scenario of two."""
    run = Run("reference", "the reference", planned=2, conditions=Conditions(started=ENDED, seed=7))
    run.results.append(Result("test_a", "a", ("STATUS-01",), "passed", 0.5, id="drahealth.kep::test_a"))
    found: dict[str, Any] = json.loads(to_json(report_of(run, ended=ENDED)))
    return found


def test_published_schema_is_that_of_this_release() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)
    assert run_report_schema() == PUBLISHED


def test_each_key_of_the_schema_has_a_description() -> None:
    kinds = PUBLISHED, *(PUBLISHED["$defs"][name] for name in ("Conditions", "Result"))
    keys = [(name, about) for kind in kinds for name, about in kind["properties"].items()]
    assert [name for name, about in keys if "description" not in about] == []


def test_schema_accepts_a_report() -> None:
    VALIDATOR.validate(document())


@pytest.mark.parametrize("change", [{"report": "drahealth-report/v0"}, {"complete": "yes"}, {"planned": None}])
def test_schema_rejects_another_document(change: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid({**document(), **change})


def test_report_begins_with_its_completeness() -> None:
    found = document()
    assert dict(list(found.items())[:8]) == {
        "report": "drahealth-report/v1",
        "complete": False,
        "reason": "scenarios have no result; 1 of 2 planned scenarios have a result",
        "interrupted": False,
        "planned": 2,
        "run": 1,
        "deselected": 0,
        "exit_code": 3,
    }


def test_the_report_has_each_requirement_and_each_result() -> None:
    found = document()
    sentence = requirements()["STATUS-01"].sentence
    assert list(found["requirements"]) == list(requirements())
    assert found["requirements"]["STATUS-01"] == {"level": "MUST", "sentence": sentence, "verdict": "PASS"}
    assert [(one["id"], one["outcome"]) for one in found["scenarios"]] == [("drahealth.kep::test_a", "passed")]
