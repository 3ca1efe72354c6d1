"""The badge and the text for a pull request."""

from dataclasses import asdict, replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drahealth.proto.events import ExperimentEnded
from drahealth.suites.driver_checks.summary import Outcome, Summary
from drahealth.suites.report.check_report import check_report
from drahealth.suites.report.document import CheckReport, RunReport
from drahealth.suites.report.document import ScenarioResult as Result
from drahealth.suites.report.run_report import Run
from drahealth.suites.report.text import COLORS, badge, pull_request_text
from drahealth.suites.unit.driver_checks.certificates import certified, core_run
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run
from drahealth.suites.unit.report.reports import RERUN, failing, summaries, summary_of


def report(summary: Summary) -> CheckReport:
    return check_report(summary, healthy_run(), RERUN)


CONFORMS = report(summary_of(healthy_run()))


def test_badge_names_level_and_verdict() -> None:
    svg = ET.fromstring(badge(CONFORMS))
    assert svg.get("aria-label") == "drahealth check: conforms"


def test_certificate_badge_has_text_certified_and_the_verdict_as_title() -> None:
    _, run = certified(core_run())
    assert run.certificate
    report = replace(run, exit_code=0, certificate=replace(run.certificate, certified=True))
    svg = ET.fromstring(badge(report))
    texts = [one.text for one in svg.findall(".//{*}text")]
    assert (texts, svg.findtext("{*}title")) == (["drahealth core", "certified"], f"drahealth core: {report.verdict}")


def test_badge_without_a_certificate_is_not_green() -> None:
    _, report = certified(core_run(watch=ExperimentEnded("incomplete", "the deadline is over")))
    assert ("not certified" in badge(report), COLORS["good"] in badge(report)) == (True, False)


@pytest.mark.parametrize(
    ("found", "color"),
    [
        (CONFORMS, "good"),
        (replace(CONFORMS, complete=False), "open"),
        (replace(CONFORMS, partial=True), "open"),
        (report(failing()[0]), "bad"),
        (replace(CONFORMS, exit_code=3), "open"),
        (replace(CONFORMS, exit_code=4), "open"),
    ],
)
def test_badge_is_green_only_for_a_complete_run_that_conforms(found: CheckReport, color: str) -> None:
    assert [name for name, value in COLORS.items() if value in badge(found)] == [color]


def test_badge_escapes_the_verdict_of_an_edited_report() -> None:
    svg = ET.fromstring(badge(replace(CONFORMS, verdict="</text><script>\x00" * 1000)))
    assert svg.findall(".//{*}script") == []


def test_text_for_a_pull_request_names_the_violation() -> None:
    text = pull_request_text(report(failing()[0]))
    assert text.startswith("### ❌ drahealth check: fails\n")
    assert ("| FAIL | [PLUGIN-18](https://" in text, "gpu-reg.sock" in text) == (True, True)


@given(summaries(st.text(st.characters(categories=["P", "L", "S", "Cc", "Zl"]))))
@settings(max_examples=50, deadline=None)
def test_text_for_a_pull_request_is_short_and_its_table_has_three_columns(summary: Summary) -> None:
    text = pull_request_text(report(summary))
    rows = [line.replace("\\\\", "").replace("\\|", "") for line in text.split("\n") if line.startswith("|")]
    assert (len(text.splitlines()) < 40, {row.count("|") for row in rows} <= {4}) == (True, True)


def test_text_for_a_pull_request_escapes_mentions_and_markup() -> None:
    hostile = replace(
        summary_of(healthy_run()), outcome=Outcome.FAILS, reasons=("@everyone <img src=x> [a](http://b)",)
    )
    text = pull_request_text(report(hostile))
    assert "- \\@everyone \\<img src=x\\> \\[a\\]\\(http\\://b\\)" in text


def scenario_run(*results: Result, planned: int = 0) -> RunReport:
    run = Run("reference", "the reference")
    run.planned = planned
    for one in results:
        run.take(asdict(one))
    return run.report(ended="2026-11-22T09:00:00+00:00")


MET = Result("test_a", "a status shows it", ("STATUS-01",), "passed", 1)
BROKEN = replace(MET, name="b", title="b | <b>", outcome="failed", broken=("STATUS-01",), problem="got\n| @all")


@pytest.mark.parametrize(
    ("results", "heading"),
    [
        ((MET,), "⚠️ drahealth run: passed, "),
        ((MET, BROKEN), "❌ drahealth run: failed"),
        ((), "⚠️ drahealth run: no scenario ran"),
    ],
)
def test_text_of_a_run_begins_with_its_verdict(results: tuple[Result, ...], heading: str) -> None:
    assert pull_request_text(scenario_run(*results)).startswith(f"### {heading}")


def test_text_of_a_run_lists_failed_scenarios_and_known_issues() -> None:
    known = replace(MET, name="c", outcome="known issue", known_issues=("P-08",), broken=("STATUS-01",))
    rows = pull_request_text(scenario_run(MET, BROKEN, known, planned=9)).splitlines()
    assert r"| failed | b \| \<b\> \(STATUS-01\) | got \| \@all |" in rows
    assert ("Known issues: P-08." in rows, any("is not complete" in row for row in rows)) == (True, True)


def test_text_of_a_long_run_has_under_40_lines() -> None:
    text = pull_request_text(scenario_run(*(replace(BROKEN, name=f"b{n}") for n in range(200))))
    assert (len(text.splitlines()) < 40, "and 180 more" in text) == (True, True)


def test_badge_of_a_run_with_an_untested_must_is_not_green() -> None:
    found = badge(scenario_run(MET))
    assert ("drahealth run: passed, " in found, COLORS["open"] in found) == (True, True)
