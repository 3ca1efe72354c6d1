"""Results of earlier runs: valid files, matching files and rejected files."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from drahealth.suites.driver_checks.evidence import Evidence, EvidenceWriter
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.report.check_report import check_report
from drahealth.suites.report.document import Outcome, to_json
from drahealth.suites.report.document import ScenarioResult as Scenario
from drahealth.suites.report.page_view import Column, sections
from drahealth.suites.report.result_files import read_files
from drahealth.suites.report.run_report import Run
from drahealth.suites.unit.driver_checks.certificates import certified, core_run
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run
from drahealth.suites.unit.report.reports import RERUN, failing, leave_sockets, summary_of

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as `drahealth certify` writes it: of a driver that violates PLUGIN-18."""
    summary, evidence = failing()
    (tmp_path / "report.json").write_text(to_json(check_report(summary, evidence, RERUN)))
    write_evidence(tmp_path / "evidence.jsonl", evidence)
    return tmp_path


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    path = tmp_path / "healthy.json"
    path.write_text(to_json(check_report(summary_of(healthy_run()), healthy_run(started=False), RERUN)))
    return path


@pytest.fixture
def kubelet(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run.json", "failed")


def write_evidence(path: Path, evidence: Evidence) -> None:
    with closing(EvidenceWriter(evidence.header, path)) as writer:
        for record in evidence.records:
            writer.add(record.at, record.experiment, record.what)
        writer.finish()


def write_run(path: Path, outcome: Outcome, stopped: str = "") -> Path:
    run = Run("reference", "the reference", interrupted=bool(stopped), stopped=stopped)
    scenario = Scenario("test_a", "a status shows it", ("STATUS-01",), outcome, 1, rerun="drahealth run -k test_a")
    broken = ("STATUS-01",) if outcome == "failed" else ()
    run.take({**asdict(scenario), "problem": "expected Unhealthy" if broken else "", "broken": broken})
    path.write_text(to_json(run.report(ended="2026-11-22T09:00:00+00:00")))
    return path


def results(*paths: Path) -> list[Column]:
    return read_files(paths).columns()


def test_folder_of_a_certificate_is_a_result_with_lanes(folder: Path) -> None:
    (result,) = results(folder)
    assert (result.verdict, result.tone, result.lanes is not None) == ("fails", "bad", True)


def test_report_without_evidence_has_no_lanes(folder: Path) -> None:
    (result,) = results(folder / "report.json")
    assert (result.lanes, result.why_no_lanes != "") == (None, True)


def test_evidence_of_another_run_is_rejected(folder: Path, healthy: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        results(healthy, folder / "evidence.jsonl")
    assert error.value.message.startswith(str(folder / "evidence.jsonl"))


def test_requirements_on_which_results_differ_come_first(folder: Path, healthy: Path) -> None:
    first, *others = sections(results(folder, healthy))
    assert [(row.requirement.id, [cell.verdict for cell in row.cells]) for row in first.rows] == [
        ("PLUGIN-18", ["FAIL", "PASS"])
    ]
    assert [section.title for section in others] == ["plugin contract", "health", "taints"]


def test_failed_scenario_explains_its_requirement(kubelet: Path) -> None:
    (result,) = results(kubelet)
    (detail,) = result.cells["STATUS-01"].details
    assert (result.tone, result.cells["STATUS-01"].verdict) == ("bad", "FAIL")
    assert (detail.name, detail.seen) == ("scenario a status shows it", "expected Unhealthy")


def test_run_with_an_untested_must_has_tone_open(tmp_path: Path) -> None:
    (result,) = results(write_run(tmp_path / "run.json", "passed"))
    assert (result.verdict.startswith("passed, "), result.tone) == (True, "open")


def test_run_without_its_end_is_not_passed(tmp_path: Path) -> None:
    (result,) = results(write_run(tmp_path / "run.json", "passed", stopped="a signal"))
    assert (result.verdict, result.tone) == ("interrupted", "open")
    assert any(one.startswith("The run is not complete: a signal; ") for one in result.reasons)


@pytest.mark.parametrize(
    "edit",
    [
        {"interrupted": True},
        {"interrupted": True, "complete": False},
        {"planned": 2},
        {"planned": 2, "complete": False},
        {"planned": 0},
        {"run": 0},
        {"deselected": 1},
        {"complete": False},
        {"exit_code": 1},
        {"verdict": "passed"},
    ],
    ids=str,
)
def test_a_run_that_contradicts_itself_is_rejected(tmp_path: Path, edit: dict[str, Any]) -> None:
    path = write_run(tmp_path / "run.json", "passed")
    path.write_text(json.dumps(json.loads(path.read_text()) | edit))
    with pytest.raises(ConfigurationError, match="the file was edited"):
        results(path)


def test_driver_and_kubelet_results_have_no_differences_section(folder: Path, kubelet: Path) -> None:
    assert "differences" not in [section.title for section in sections(results(folder, kubelet))]


@pytest.mark.parametrize(
    "edit",
    [
        lambda report: report.update(format="drahealth-report/v9"),
        lambda report: report.pop("requirements"),
        lambda report: report.update(exit_code="0"),
        lambda report: report.update(exit_code=0),
        lambda report: report.update(interrupted=True),
        lambda report: report["counts"].update(FAIL=0),
        lambda report: report["requirements"][0].update(verdict="FAIL"),
        lambda report: report["requirements"].append(report["requirements"][0]),
    ],
)
def test_edited_report_is_rejected(folder: Path, edit: Edit) -> None:
    path = folder / "report.json"
    report = json.loads(path.read_text())
    edit(report)
    path.write_text(json.dumps(report))
    with pytest.raises(ConfigurationError) as error:
        results(path)
    assert (error.value.message.startswith(str(path)), error.value.hint != "") == (True, True)


def test_report_that_certifies_a_driver_with_violations_is_rejected(tmp_path: Path) -> None:
    _, report = certified(core_run(leave_sockets))
    assert report.certificate
    forged = replace(report, exit_code=4, certificate=replace(report.certificate, certified=True))
    (tmp_path / "report.json").write_text(to_json(forged))
    with pytest.raises(ConfigurationError):
        results(tmp_path)


@pytest.mark.parametrize("edit", [lambda run: run.update(exit_code=0), lambda run: run["counts"].update(failed=2)])
def test_edited_report_of_a_run_is_rejected(kubelet: Path, edit: Edit) -> None:
    run = json.loads(kubelet.read_text())
    edit(run)
    kubelet.write_text(json.dumps(run))
    with pytest.raises(ConfigurationError):
        results(kubelet)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 10**5, b'{"format": ["x"]}', b"%PDF-1.7"])
def test_file_that_is_no_report_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as error:
        results(path)
    assert error.value.message.startswith(str(path))


def test_cut_or_edited_evidence_is_rejected(folder: Path) -> None:
    path = folder / "evidence.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"code":"OK"', b'"code":"ok"', 1))
    with pytest.raises(ConfigurationError):
        results(folder)


@pytest.mark.parametrize("name", ["absent.json", "empty"])
def test_missing_report_is_rejected(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError):
        results(tmp_path / name)


def test_result_that_is_given_twice_is_rejected(healthy: Path) -> None:
    with pytest.raises(ConfigurationError):
        results(healthy, healthy)
