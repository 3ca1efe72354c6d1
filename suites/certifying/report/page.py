"""The page: a self-contained HTML file of one result, or of several side by side. No scripts, no network."""

import hashlib
from base64 import b64encode
from collections.abc import Sequence

from drahealth.proto.version import __version__
from drahealth.suites.certifying.report.check_result import check_result
from drahealth.suites.certifying.report.document import Report
from drahealth.suites.certifying.report.drawing import picture
from drahealth.suites.certifying.report.results import ORDER, Result, sections
from drahealth.suites.certifying.report.scenarios import scenario_table
from drahealth.suites.certifying.report.templates import render, text_of
from drahealth.suites.checking.evidence import Evidence

SIGNS = {
    "PASS": "✓",
    "FAIL": "✗",
    "ERROR": "!",
    "NOT_TESTED": "?",
    "KNOWN ISSUE": "≈",
    "WAIVED": "~",
    "STATIC": "=",
    "NOT_APPLICABLE": "-",
    "": "·",
}
"""A sign for each verdict, so that a reader needs no colours."""

OUTCOMES = {
    "passed": "PASS",
    "failed": "FAIL",
    "error": "ERROR",
    "known issue": "KNOWN ISSUE",
    "not applicable": "NOT_APPLICABLE",
    "": "",
}
"""The verdict by which the outcome of a scenario is shown."""


def page(report: Report, evidence: Evidence | None = None) -> str:
    """The page of one run; the lanes over time need its evidence. Not above 4 MB."""
    return page_of([check_result(report, evidence)])


def page_of(results: Sequence[Result]) -> str:
    """The page of some results, side by side."""
    from markupsafe import Markup

    style = text_of("page.css")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    found = sections(results)
    worst = {row.worst for section in found for row in section.rows}
    return render(
        "page.html.jinja",
        results=results,
        pictures=[picture(result.lanes) if result.lanes else None for result in results],
        scenarios=scenario_table(results),
        sections=found,
        verdicts=[verdict for verdict in ORDER if verdict in worst],
        levels=list(dict.fromkeys(row.requirement.level for section in found for row in section.rows)),
        signs=SIGNS,
        outcomes=OUTCOMES,
        style=Markup(style),  # our own file: escaped, it would be no style sheet, and not have this digest
        digest=digest,
        version=__version__,
    )
