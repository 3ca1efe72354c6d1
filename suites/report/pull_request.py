"""The badge of a verdict, and the text for a pull request."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

from drahealth.proto.quoting import one_line
from drahealth.suites.driver_checks.judge import by_grade
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.judging.report import Result, RunReport
from drahealth.suites.report.document import Report, RequirementResult
from drahealth.suites.report.kubelet_result import kubelet_result
from drahealth.suites.report.results import tone

# The templates of this folder. All text that they insert is escaped.


def render(name: str, **values: Any) -> str:
    """The template with these values. Raises jinja2.UndefinedError for a missing one."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(text_of),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name).render(values)


@cache
def text_of(name: str) -> str:
    """The content of a file of this folder."""
    return resources.files("drahealth.suites.report").joinpath(name).read_text(encoding="utf-8")


# The badge: a small SVG picture with the verdict on a driver. Pure.

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


# The text for a pull request: the verdict and what is wrong, in Markdown, under 40 lines. Pure.

_ROWS = 20
"""The most requirements in the table."""
_TEXT = 200
"""Characters of the longest text."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]()!|~@<>&$]|^[-+#=]|(?<=^\d)[.)](?=\s|$))")
"""What Markdown and HTML treat as more than text: anywhere, or at the start of a line."""
_LISTED = (Verdict.ERROR, Verdict.FAIL, Verdict.NOT_TESTED, Verdict.WAIVED)
_SIGNS = {"good": "✅", "bad": "❌", "open": "⚠️"}


def pull_request_text(report: Report | RunReport) -> str:
    """The text of a check, or of a run of scenarios or timelines.

    Texts of the driver are escaped: they can make neither a table, a link nor a mention.
    """
    lines = _run_lines(report) if isinstance(report, RunReport) else _lines(report)
    return "\n".join(lines) + "\n"


def _run_lines(report: RunReport) -> Iterator[str]:
    result = kubelet_result(report)
    yield f"### {_SIGNS[result.tone]} {report.conditions.command}: {_plain(result.verdict)}"
    yield f"\n{_plain(report.about)}"
    if report.reason:
        yield f"\n- {_plain(f'The run is not complete: {report.reason}.')}"
    listed = [one for outcome in ("error", "failed") for one in report.scenarios if one.outcome == outcome]
    if listed:
        yield from ("", "| result | scenario | problem |", "| --- | --- | --- |")
        yield from map(_scenario_row, listed[:_ROWS])
        if len(listed) > _ROWS:
            yield f"\nand {len(listed) - _ROWS} more"
    known = dict.fromkeys(name for one in report.scenarios for name in one.known_issues)
    if known:
        yield f"\nKnown issues: {_plain(', '.join(sorted(known)))}."
    counts = ", ".join(f"{count} {outcome}" for outcome, count in report.counts.items()) or "no scenario"
    about = report.conditions
    yield f"\n{counts}. Run of {_plain(about.started)}, drahealth {_plain(about.versions.get('drahealth', ''))}."


def _scenario_row(one: Result) -> str:
    judged = "" if one.authors_step else f" ({', '.join(one.broken or one.requirements)})"
    problem = " ".join(one.problem.split())
    return f"| {one.outcome} | {_plain(f'{one.title}{judged}')} | {_plain(problem)} |"


def _lines(report: Report) -> Iterator[str]:
    yield f"### {_SIGNS[tone(report)]} drahealth {report.run.level}: {_plain(report.verdict)}"
    if report.reasons:
        yield ""
    for reason in report.reasons[:5]:
        yield f"- {_plain(reason)}"
    listed = sorted((one for one in report.requirements if one.verdict in _LISTED), key=lambda one: one.verdict)
    if listed:
        yield from ("", "| verdict | requirement | seen |", "| --- | --- | --- |")
        yield from map(_row, listed[:_ROWS])
        if len(listed) > _ROWS:
            yield f"\nand {len(listed) - _ROWS} more"
    yield ""
    if abilities := by_grade(report.abilities):
        yield "; ".join(f"{grade}: {_plain(', '.join(names))}" for grade, names in abilities.items()) + ".\n"
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items()).replace("_", " ")
    yield f"{counts}. Run of {_plain(report.run.started)}, drahealth {_plain(report.run.drahealth)}."


def _row(one: RequirementResult) -> str:
    seen = "; ".join(dict.fromkeys(found.seen for found in one.findings if found.verdict is one.verdict))
    verdict = one.verdict.replace("_", " ")
    name = f"[{one.id}]({one.link})" if re.fullmatch(r"https?://[^\s()<>|]+", one.link) else _plain(one.id)
    return f"| {verdict} | {name} {one.level}: {_plain(one.sentence)} | {_plain(seen)} |"


def _plain(text: str) -> str:
    """Text on one line in which no character has a meaning in Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", one_line(text, _TEXT)).replace("://", "\\://")
