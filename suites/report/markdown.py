"""The text for a pull request: the verdict and what is wrong, in Markdown, under 40 lines. Pure."""

import re
from collections.abc import Iterator

from drahealth.proto.quoting import one_line
from drahealth.suites.driver_checks.judge import by_grade
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.report.document import (
    AnyReport,
    CheckedRequirement,
    CheckReport,
    NodeResult,
    ObservationReport,
    RequirementResult,
    RunReport,
    ScenarioResult,
)

_ROWS = 20
"""The most requirements in the table."""
_TEXT = 200
"""Characters of the longest text."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]()!|~@<>&$]|^[-+#=]|(?<=^\d)[.)](?=\s|$))")
"""What Markdown and HTML treat as more than text: anywhere, or at the start of a line."""
_LISTED = (Verdict.ERROR, Verdict.FAIL, Verdict.NOT_TESTED, Verdict.WAIVED)
_SIGNS = {"good": "✅", "bad": "❌", "open": "⚠️"}


def pull_request_text(report: AnyReport) -> str:
    """The text of a check, or of a run of scenarios or timelines.

    Texts of the driver are escaped: they can make neither a table, a link nor a mention.
    """
    return "\n".join(_lines(report)) + "\n"


def _lines(report: AnyReport) -> Iterator[str]:
    yield f"### {_SIGNS[report.tone]} {report.program}: {_plain(report.verdict)}"
    if isinstance(report, RunReport):
        yield f"\n{_plain(report.subject)}"
        listed = [one for outcome in ("error", "failed") for one in report.scenarios if one.outcome == outcome]
        head, rows = "| result | scenario | problem |", [_scenario_row(one) for one in listed]
        drahealth = report.conditions.versions.get("drahealth", "")
        started = report.conditions.started
    elif isinstance(report, ObservationReport):
        head = "| verdict | node | rule | seen |"
        rows = [
            _node_row(node, rule) for node in report.nodes for rule in report.requirements if _is_listed(node, rule)
        ]
        drahealth, started = report.drahealth, report.started
    else:
        open_ = (one for one in report.requirements if one.verdict in _LISTED)
        head = "| verdict | requirement | seen |"
        rows = [_row(one) for one in sorted(open_, key=lambda one: one.verdict)]
        drahealth, started = report.conditions.drahealth, report.conditions.started
    if report.reasons:
        yield ""
    yield from (f"- {_plain(reason)}" for reason in report.reasons[:5])
    if rows:
        yield from ("", head, re.sub(r"[^|]+", " --- ", head), *rows[:_ROWS])
        if len(rows) > _ROWS:
            yield f"\nand {len(rows) - _ROWS} more"
    yield ""
    if isinstance(report, RunReport):
        if known := sorted({name for one in report.scenarios for name in one.known_issues}):
            yield f"Known issues: {_plain(', '.join(known))}.\n"
    elif isinstance(report, CheckReport) and (abilities := by_grade(report.abilities)):
        yield "; ".join(f"{grade}: {_plain(', '.join(names))}" for grade, names in abilities.items()) + ".\n"
    if isinstance(report, CheckReport) and report.certificate:
        yield from (f"- Kubelet {one.release} {_plain(str(one))}." for one in report.certificate.kubelets)
        yield from (f"- Faults by {name}: {_plain(', '.join(values))}." for name, values in report.covered.items())
        yield from (f"- Not caused: {_plain(gap)}." for gap in report.not_caused)
        yield ""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items()).replace("_", " ")
    yield f"{counts or 'no scenario'}. Run of {_plain(started)}, drahealth {_plain(drahealth)}."


def _scenario_row(one: ScenarioResult) -> str:
    judged = "" if one.authors_step else f" ({', '.join(one.broken or one.requirements)})"
    problem = " ".join(one.problem.split())
    return f"| {one.outcome} | {_plain(f'{one.title}{judged}')} | {_plain(problem)} |"


def _is_listed(node: NodeResult, rule: RequirementResult) -> bool:
    return node.findings[rule.id].verdict in _LISTED


def _node_row(node: NodeResult, rule: RequirementResult) -> str:
    found = node.findings[rule.id]
    what = _plain(f"{rule.id} {rule.level}: {rule.sentence}")
    return f"| {found.verdict.replace('_', ' ')} | {_plain(node.node)} | {what} | {_plain(found.seen)} |"


def _row(one: CheckedRequirement) -> str:
    seen = "; ".join(dict.fromkeys(found.seen for found in one.findings if found.verdict is one.verdict))
    verdict = one.verdict.replace("_", " ")
    name = f"[{one.id}]({one.link})" if re.fullmatch(r"https?://[^\s()<>|]+", one.link) else _plain(one.id)
    return f"| {verdict} | {name} {one.level}: {_plain(one.sentence)} | {_plain(seen)} |"


def _plain(text: str) -> str:
    """Text on one line in which no character has a meaning in Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", one_line(text, _TEXT)).replace("://", "\\://")
