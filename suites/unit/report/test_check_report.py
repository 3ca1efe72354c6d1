"""Certificates: certified drivers, differences from the evidence, and findings accepted by a baseline."""

from dataclasses import replace
from datetime import date, timedelta
from xml.etree import ElementTree as ET

import pytest

from drahealth.proto.events import Event, ExperimentEnded, ListReceived, SocketsListed
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.summary import needing_api_server
from drahealth.suites.driver_checks.verdicts import Verdict, Waiver, requirements
from drahealth.suites.report.check_report import (
    Difference,
    differences,
    exit_code_beside,
    ledger_sha256,
    new_findings,
    subject_name,
)
from drahealth.suites.report.document import CheckReport, ScenarioResult, parse_report, to_json
from drahealth.suites.report.junit import to_junit
from drahealth.suites.report.run_report import Run
from drahealth.suites.unit.driver_checks.certificates import TODAY, certified, core_run
from drahealth.suites.unit.driver_checks.healthy_plugin_run import plugin_run

TOMORROW = TODAY + timedelta(days=1)


def leave_sockets(_: str, event: Event) -> Event:
    if isinstance(event, SocketsListed) and event.moment == "ended":
        return replace(event, registry=("gpu-reg.sock",))
    return event


CUT = ExperimentEnded("incomplete", "the deadline passed")


def waiver(until: date = TOMORROW) -> Waiver:
    return Waiver("PLUGIN-18", "known", "https://example.com/7", "gpu-team", until)


def test_junit_file_names_the_command() -> None:
    (suite,) = ET.fromstring(to_junit(certified(core_run())[1]))
    assert (suite.get("name"), suite[1].get("classname")) == ("drahealth certify", "drahealth.certify.plugin-contract")


def test_verdict_of_a_certified_driver_names_driver_versions_and_ledger() -> None:
    summary, report = certified(core_run())
    assert report.certificate is not None
    assert (report.certificate.certified, summary.exit_code) == (True, 0)
    parts = report.verdict.split(", ")
    assert [part.partition(" ")[0] for part in parts] == [
        "certified",
        "gpu.example.com",
        "health",
        "no",
        "Kubernetes",
        "drahealth",
        "ledger",
    ]
    assert parts[-1] == f"ledger {ledger_sha256()[:8]}"


@pytest.mark.parametrize(
    ("evidence", "exit_code"),
    [
        (core_run(leave_sockets), 1),
        (core_run(claims=CUT), 4),
        (replace(core_run(), complete=False), 4),
        (core_run(lambda *_: None), 4),
    ],
)
def test_driver_with_an_open_must_is_not_certified(evidence: Evidence, exit_code: int) -> None:
    summary, report = certified(evidence)
    assert report.certificate is not None
    assert (report.certificate.certified, summary.exit_code) == (False, exit_code)
    assert report.verdict.startswith("not certified core (")


def test_certificate_names_its_waivers() -> None:
    summary, report = certified(core_run(leave_sockets), waiver())
    assert report.certificate is not None
    assert (report.certificate.certified, "waived PLUGIN-18" in report.verdict, summary.exit_code) == (True, True, 0)


@pytest.mark.parametrize("expired", [waiver(TODAY - timedelta(days=1))])
def test_expired_or_unnecessary_waiver_is_not_certified(expired: Waiver) -> None:
    assert [certified(core_run(leave_sockets), expired)[0].exit_code, certified(core_run(), waiver())[0].exit_code] == [
        1,
        1,
    ]


def test_certificate_of_a_device_plugin_names_its_api() -> None:
    run = plugin_run()
    summary, report = certified(replace(run, header=replace(run.header, level="core")))
    assert report.certificate
    assert report.certificate.health_apis == ("v1beta1.DevicePlugin",)
    assert "device plugin API v1beta1" in summary.verdict


def test_certificate_of_a_device_plugin_names_all_its_resources() -> None:
    run = plugin_run()
    listed = next(run.of(ListReceived))
    other = replace(listed, what=replace(listed.what, driver="example.com/nic"))
    assert subject_name(replace(run, records=(*run.records, other))) == "example.com/gpu + example.com/nic"


def test_verdict_names_a_driver_not_started_by_drahealth() -> None:
    run = core_run()
    evidence = replace(run, header=replace(run.header, command=()))
    assert "driver not started by drahealth" in certified(evidence)[1].verdict


def test_verdict_of_a_driver_without_an_api_server_says_how_much_was_not_judged() -> None:
    run = core_run()
    summary, report = certified(replace(run, header=replace(run.header, api_server="none")))
    count = len(needing_api_server(summary.judgements))
    assert count > 0
    assert f"without an API server ({count} requirements not judged)" in report.verdict


def test_verdict_names_the_workload_of_a_driver_in_a_cluster() -> None:
    run = core_run()
    evidence = replace(run, header=replace(run.header, command=(), workload="DaemonSet gpus/driver"))
    summary, report = certified(evidence)
    assert "driver in a cluster (DaemonSet gpus/driver)" in report.verdict
    read = parse_report(to_json(report).encode())
    assert isinstance(read, CheckReport)
    assert (summary.running, read.conditions.workload) == (False, "DaemonSet gpus/driver")
    findings = {name: one for judgement in summary.judgements for name, one in judgement.findings.items()}
    assert findings["children-end-with-the-driver"].verdict is Verdict.NOT_APPLICABLE


def test_report_round_trips_through_its_file() -> None:
    report = certified(core_run(leave_sockets), waiver())[1]
    assert parse_report(to_json(report).encode()) == report


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "drahealth-evidence/v1"}', '{"format": 1}'])
def test_invalid_report_file_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"report|JSON"):
        parse_report(text.encode())


def test_edited_verdict_is_the_only_difference() -> None:
    right = certified(core_run(leave_sockets))[1]
    edited = tuple(replace(one, verdict=Verdict.PASS) if one.id == "PLUGIN-18" else one for one in right.requirements)
    found = differences(replace(right, requirements=edited), right, same_run=True)
    assert [(one.where, one.first, one.second) for one in found] == [("PLUGIN-18.verdict", "PASS", "FAIL")]


def test_reports_of_two_runs_differ_in_settings_and_verdicts() -> None:
    first, second = certified(core_run())[1], certified(core_run(leave_sockets))[1]
    second = replace(second, conditions=replace(second.conditions, api_server="real", started="later"))
    assert [one.where for one in differences(first, second)] == ["conditions.api_server", "PLUGIN-18"]


def test_baseline_accepts_its_own_findings_only() -> None:
    runs = (core_run(), core_run(leave_sockets), core_run(claims=CUT))
    fine, broken, cut = (certified(run)[1] for run in runs)
    assert [exit_code_beside(broken, broken), exit_code_beside(fine, broken), exit_code_beside(broken, fine)] == [
        0,
        0,
        1,
    ]
    assert exit_code_beside(cut, broken) == 4
    assert [one.partition(" ")[0] for one in new_findings(broken, fine)] == ["PLUGIN-18"]


def test_baseline_does_not_accept_an_expired_waiver() -> None:
    expired = certified(core_run(leave_sockets), waiver(TODAY - timedelta(days=1)))[1]
    assert exit_code_beside(expired, expired) == 1


def test_ledger_digest_changes_with_a_requirement(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ledger_sha256()
    monkeypatch.setitem(requirements(), "PLUGIN-01", replace(requirements()["PLUGIN-01"], level="MAY"))
    assert ledger_sha256() != before


def test_certificate_names_changes_that_the_driver_made_by_itself() -> None:
    _, report = certified(core_run())
    assert report.verdict.split(", ")[3] == "no faults (changes of health observed)"
    assert report.abilities["changes of health"] == "observed"


def test_reports_of_two_runs_of_scenarios_differ_in_verdicts_and_outcomes() -> None:
    first, second = (Run("reference", "the reference") for _ in range(2))
    met = ScenarioResult("test_a", "a", ("STATUS-01",), "passed", 1)
    first.results.append(met)
    second.results.append(replace(met, outcome="failed", broken=("STATUS-01",), seconds=2))
    found = differences(first.report(ended=None), second.report(ended=None))
    assert [one for one in found if one.where in ("STATUS-01", "test_a")] == [
        Difference("STATUS-01", "PASS", "FAIL"),
        Difference("test_a", "passed", "failed"),
    ]
