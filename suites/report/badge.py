"""The badge: a small SVG picture with the verdict of a report. Pure."""

from drahealth.proto.quoting import one_line
from drahealth.suites.report.document import AnyReport, CheckReport
from drahealth.suites.report.page import render

COLORS = {"good": "#116329", "bad": "#a40e26", "open": "#57606a"}
"""The background of the verdict by tone. White text on it has a contrast of at least 6:1."""
_LIMIT = 60
"""Characters of the longest verdict."""
_TITLE = 500
"""Characters of the longest title."""
_WIDTH = 7
"""Pixels of a character."""


def badge(report: AnyReport) -> str:
    """The badge: green only for a complete run whose subject meets all MUSTs; of a check, those of its level."""
    label, verdict = report.program, report.verdict
    if isinstance(report, CheckReport) and report.certificate:
        verdict = "certified" if report.certificate.certified else "not certified"
    verdict = one_line(verdict, _LIMIT)
    left, right = (_WIDTH * len(text) + 10 for text in (label, verdict))
    color, title = COLORS[report.tone], f"{label}: {one_line(report.verdict, _TITLE)}"
    return render("badge.svg.jinja", label=label, verdict=verdict, title=title, color=color, left=left, right=right)
