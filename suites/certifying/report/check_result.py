"""The report of a check or a certification as a result on the page. Pure."""

from collections.abc import Iterator
from shlex import join

from drahealth.suites.certifying.pod_status.lines import shown_text
from drahealth.suites.certifying.pod_status.view import ReleaseView
from drahealth.suites.certifying.report.document import CheckFinding, Report, RequirementResult
from drahealth.suites.certifying.report.lanes import lanes_of
from drahealth.suites.certifying.report.results import Cell, Detail, ReleaseRow, Requirement, Result, link, shown, some
from drahealth.suites.checking.abilities import by_grade
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.verdicts import Verdict

RELEASE_ROWS = 80
"""The most rows about releases: twenty devices."""
NOT_JUDGED_AGAIN = "as the report file has them; the evidence was not judged again"
"""What a page of earlier results says of their verdicts."""
_RECORDS = 10
"""The most line numbers of one finding."""


def check_result(report: Report, evidence: Evidence | None = None, name: str = "") -> Result:
    """The report as a result; with its evidence also the lanes."""
    problems = (Verdict.FAIL, Verdict.ERROR, Verdict.NOT_TESTED, Verdict.WAIVED)
    verdict, _, scope = report.verdict.partition(", ") if report.certificate else (report.verdict, "", "")
    suspects = (one.seen for each in report.requirements for one in each.findings if one.verdict in problems)
    return Result(
        name=shown(name) or f"drahealth {report.run.level}",
        verdict=shown(verdict),
        scope=shown(scope),
        tone=tone(report),
        reasons=some(report.reasons),
        facts=(*_facts(report), *([("verdicts", NOT_JUDGED_AGAIN)] if name else ())),
        requirements={one.id: _requirement(one) for one in report.requirements},
        cells={one.id: Cell(one.verdict, tuple(_details(one, report.rerun))) for one in report.requirements},
        lanes=lanes_of(evidence, suspects) if evidence else None,
        releases=tuple(map(_release, report.releases[:RELEASE_ROWS])),
        why_no_lanes="" if evidence else "The lanes over time need the evidence of the run.",
    )


def tone(report: Report) -> str:
    """good only for a run that is complete and whose driver meets its requirements; of a certification: certified."""
    certified = report.certificate is None or report.certificate.certified
    if report.exit_code == 0 and report.complete and not report.partial and certified:
        return "good"
    return "bad" if report.exit_code == 1 else "open"


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    run = report.run
    yield "level", run.level
    for family, outcome in report.families.items():
        yield family, shown(outcome)
    for grade, names in by_grade(report.abilities).items():
        yield grade, shown(", ".join(names))
    if run.profile:
        yield "driver profile", shown(run.profile)
    if run.workload:
        yield "started as", f"{shown(run.workload)} in a cluster"
    else:
        yield "command", shown(join(run.command)) if run.command else "a driver that was already running"
    yield "API server", shown(run.api_server)
    yield "started", shown(run.started)
    yield "drahealth", shown(run.drahealth)
    if certificate := report.certificate:
        yield "judged", f"{certificate.judged}, by drahealth {shown(certificate.drahealth)}"
        yield "ledger", f"sha256 {shown(certificate.ledger_sha256)}"
        yield "evidence", f"sha256 {shown(certificate.evidence_sha256)}"


def _release(one: ReleaseView) -> ReleaseRow:
    reasons = tuple(map(shown, one.reasons))
    return ReleaseRow(shown(one.device), one.release, shown(one.resource_id), shown(shown_text(one.shown)), reasons)


def _requirement(one: RequirementResult) -> Requirement:
    return Requirement(shown(one.id), one.level, one.family, shown(one.sentence), shown(one.source), link(one.link))


def _details(one: RequirementResult, rerun: str) -> Iterator[Detail]:
    command = rerun.replace("REQUIREMENT", one.id) if rerun else ""
    for finding in one.findings:
        yield _detail(finding, finding.verdict, command)
    for remark in one.remarks:
        yield _detail(remark, "remark by an unproven check", command)


def _detail(finding: CheckFinding, verdict: str, rerun: str) -> Detail:
    failed = finding.verdict in (Verdict.FAIL, Verdict.WAIVED)
    lines = ", ".join(map(str, finding.records[:_RECORDS])) + (", ..." if len(finding.records) > _RECORDS else "")
    return Detail(
        name=f"check {shown(finding.check)}",
        verdict=verdict,
        seen=shown(finding.seen),
        expected=shown(finding.expected),
        evidence=f"line {lines}" if lines else "",
        fix=shown(finding.fix) if failed else "",
        grade=finding.grade,
        rerun=shown(rerun) if failed or finding.verdict is Verdict.ERROR else "",
    )
