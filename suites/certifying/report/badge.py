"""The badge: a small SVG picture with the verdict on a driver. Pure."""

from drahealth.proto.quoting import one_line
from drahealth.suites.certifying.report.check_result import tone
from drahealth.suites.certifying.report.document import Report
from drahealth.suites.certifying.report.templates import render

COLORS = {"good": "#116329", "bad": "#a40e26", "open": "#57606a"}
"""The background of the verdict by tone. White text on it has a contrast of at least 6:1."""
_LIMIT = 60
"""Characters of the longest verdict."""
_TITLE = 500
"""Characters of the longest title."""
_WIDTH = 7
"""Pixels of a character."""


def badge(report: Report) -> str:
    """The badge of a run: green only if it is complete and the driver meets all MUSTs of its level."""
    label = f"drahealth {report.run.level}"
    verdict = one_line(_short(report), _LIMIT)
    left, right = (_WIDTH * len(text) + 10 for text in (label, verdict))
    color, title = COLORS[tone(report)], f"{label}: {one_line(report.verdict, _TITLE)}"
    return render("badge.svg.jinja", label=label, verdict=verdict, title=title, color=color, left=left, right=right)


def _short(report: Report) -> str:
    if report.certificate is None:
        return report.verdict
    return "certified" if report.certificate.certified else "not certified"
