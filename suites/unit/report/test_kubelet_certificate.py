"""The certificate of a kubelet: which runs certify, by which known issues, and what it names."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from drahealth.manager.releases import MINORS
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.report.attestation import conformance_report, statement_of
from drahealth.suites.report.document import KubeletReport, parse_report, to_json
from drahealth.suites.report.junit import to_junit
from drahealth.suites.report.page import page_of
from drahealth.suites.report.page_view import run_column
from drahealth.suites.report.text import badge, pull_request_text
from drahealth.suites.unit.report.kubelet_runs import ISSUE, certified, finished

KNOWN = {"STATUS-13": ISSUE}
LINK = "https://github.com/kubernetes/kubernetes/issues/142293"


def verdict(report: KubeletReport, requirement: str) -> Verdict:
    return next(one.verdict for one in report.requirements if one.id == requirement)


def test_a_complete_run_without_violations_certifies_and_names_profile_and_patch_level() -> None:
    report = certified(finished())
    assert (report.exit_code, report.certificate.certified, report.tone) == (0, True, "good")
    assert report.verdict.startswith("certified, a real kubelet, kubelet 1.37.2, profile v1.37, ")


def test_a_known_issue_is_waived_by_the_release_with_its_link() -> None:
    report = certified(finished(KNOWN))
    (issue,) = report.certificate.issues_of("STATUS-13")
    assert (verdict(report, "STATUS-13"), report.exit_code) == (Verdict.WAIVED, 0)
    assert (issue.id, LINK in issue.links) == ("B-01", True)


def test_a_known_issue_is_a_failure_for_the_kep_with_its_link() -> None:
    run = finished({"STATUS-07": {**ISSUE, "broken": ("STATUS-07",)}})
    report = certified(run, judged_by="kep")
    assert (verdict(report, "STATUS-07"), report.exit_code) == (Verdict.FAIL, 1)
    assert ", profile kep, " in report.verdict
    assert [issue.id for issue in report.certificate.known_issues] == ["B-01"]


def test_a_should_that_a_known_issue_violates_does_not_prevent_a_certificate_by_the_kep() -> None:
    report = certified(finished(KNOWN), judged_by="kep")
    assert (verdict(report, "STATUS-13"), report.certificate.certified) == (Verdict.FAIL, True)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"outcome": "failed", "broken": ("STATUS-01",)}, 1),
        ({"outcome": "failed"}, 1),  # a known issue that must happen did not
        ({"outcome": "error"}, 3),
        ({"outcome": "not applicable", "beyond": ("STATUS-01",), "reason": "it needs an image"}, 4),
    ],
)
def test_a_requirement_without_a_pass_prevents_a_certificate(change: dict[str, Any], code: int) -> None:
    report = certified(finished({"STATUS-01": change}))
    assert (report.exit_code, report.certificate.certified) == (code, False)


@pytest.mark.parametrize("of_run", [{"interrupted": True}, {"deselected": 3}])
def test_an_interrupted_or_filtered_run_never_certifies(of_run: dict[str, Any]) -> None:
    report = certified(finished(**of_run))
    assert (report.exit_code, report.certificate.certified, report.tone) == (4, False, "open")


def test_a_run_without_all_planned_scenarios_never_certifies() -> None:
    run = replace(finished(), planned=1000, complete=False)
    assert certified(run).exit_code == 4


def test_a_requirement_that_only_the_target_cannot_judge_is_not_tested() -> None:
    change = {"outcome": "not applicable", "beyond": ("AWAY-01",), "reason": "it needs stop-api-server"}
    report = certified(finished({"AWAY-01": change}))
    assert verdict(report, "AWAY-01") is Verdict.NOT_TESTED
    assert report.certificate.not_tested == {"AWAY-01": "it needs stop-api-server"}
    assert report.reasons == ("Not tested: AWAY-01: it needs stop-api-server.",)


def test_a_requirement_about_what_the_release_lacks_does_not_apply() -> None:
    change = {"outcome": "not applicable", "beyond": ("GATE-08",), "reason": "locked"}
    report = certified(finished({"GATE-08": change}))
    assert (verdict(report, "GATE-08"), report.exit_code) == (Verdict.NOT_APPLICABLE, 0)
    older = certified(finished({"GATE-08": change}, profile="v1.34", kubelets=("1.34.4",)))
    assert (verdict(older, "GATE-08"), older.exit_code) == (Verdict.NOT_TESTED, 4)


def test_a_newer_kubelet_is_judged_by_the_kep_and_the_newest_known_issues_and_says_so() -> None:
    report = certified(finished(KNOWN, kubelets=("1.99.0",)))
    assert (report.certificate.newer_than, verdict(report, "STATUS-13")) == (MINORS[-1], Verdict.WAIVED)
    assert f"judged by kep and the known issues of v1.37, because {MINORS[-1]} is the newest known" in report.verdict


def test_the_profile_of_the_reference_is_named_once() -> None:
    run = replace(finished(kubelets=()), subject="the reference, profile v1.37")
    assert certified(run).verdict.count("v1.37") == 1


def test_the_report_is_read_back_and_does_not_contradict_itself() -> None:
    report = certified(finished(KNOWN))
    assert parse_report(to_json(report).encode()) == report
    assert report.contradiction() == ""


@pytest.mark.parametrize("kind", ["certified", "text", "verdict of a requirement"])
def test_an_edited_certificate_contradicts_itself(kind: str) -> None:
    report = certified(finished({"STATUS-01": {"outcome": "failed", "broken": ("STATUS-01",)}}))
    edited = {
        "certified": replace(report, certificate=replace(report.certificate, certified=True)),
        "text": replace(report, verdict="certified, a kubelet"),
        "verdict of a requirement": replace(
            report, requirements=tuple(replace(one, verdict=Verdict.PASS) for one in report.requirements), exit_code=0
        ),
    }
    assert edited[kind].contradiction()


def test_the_statement_is_about_the_file_of_the_kubelet() -> None:
    report = certified(finished(KNOWN), artifact="kubelet v1.37.2", artifact_sha256="cd" * 32)
    statement = statement_of(report, "ef" * 32)
    predicate = statement["predicate"]
    assert statement["subject"] == [{"name": "kubelet v1.37.2", "digest": {"sha256": "cd" * 32}}]
    assert (predicate["result"], predicate["warnedTests"], predicate["failedTests"]) == ("WARNED", ["STATUS-13"], [])
    assert [one["name"] for one in predicate["configuration"][1:]] == [
        "ledger of requirements",
        "run.json",
        "report.json",
    ]


def test_the_certificate_has_the_form_of_a_conformance_report() -> None:
    found = conformance_report(certified(finished(KNOWN)), {"version": "1"})
    assert (found["kubernetes"], found["mode"], found["certified"]) == ("1.37.2", "release", True)
    assert found["profiles"][0]["extended"]["skippedTests"] == ["STATUS-13"]


def test_page_text_badge_and_junit_show_the_certificate() -> None:
    report = certified(finished(KNOWN))
    assert "B-01: The kubelet reads the entries" in page_of([run_column(report)])
    assert f"[link]({LINK})" in pull_request_text(report)
    assert ">certified<" in badge(report)
    cases = {case.get("name"): case for case in ET.fromstring(to_junit(report)).iter("testcase")}
    assert cases["STATUS-13"].find("skipped") is not None
