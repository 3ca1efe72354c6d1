"""A report as text: for a terminal, for GitHub Actions, in Markdown for a pull request, and as a badge."""

import re
from collections.abc import Collection, Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drahealth.fakes.program.console import print_line
from drahealth.fakes.program.usage import as_called
from drahealth.proto.quoting import one_line, printable
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.judge import Judgement, by_grade
from drahealth.suites.driver_checks.output_text import EXITED, without_exits
from drahealth.suites.driver_checks.summary import Summary
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.report.document import (
    AnyReport,
    CheckedRequirement,
    CheckReport,
    KubeletCertificate,
    KubeletReport,
    NodeResult,
    ObservationReport,
    RequirementResult,
    RunReport,
    ScenarioResult,
    ScenariosReport,
)
from drahealth.suites.report.page import render

# The verdicts as text: a table by requirement, and what explains each verdict that is not a pass.

STYLE = {
    Verdict.ERROR: "bold magenta",
    Verdict.FAIL: "bold red",
    Verdict.NOT_TESTED: "yellow",
    Verdict.KNOWN_ISSUE: "yellow",
    Verdict.WAIVED: "yellow",
    Verdict.STATIC: "cyan",
    Verdict.PASS: "green",
    Verdict.NOT_APPLICABLE: "dim",
}
_ROOM = 80
"""Columns of a terminal that the table needs."""
EXPLAINED = (Verdict.ERROR, Verdict.FAIL, Verdict.WAIVED)


def show(summary: Summary, console: Console, rerun: str) -> None:
    """Prints the table, the explanations and the verdict. REQUIREMENT in `rerun` is replaced.

    The table leaves out the requirements that are not tested because the driver exited by itself.
    """
    left_out = [name for names in summary.exits.values() for name in names]
    shown = [one for one in summary.judgements if one.requirement.id not in left_out]
    for family in dict.fromkeys(one.requirement.family for one in shown):
        judgements = [one for one in shown if one.requirement.family == family]
        outcome = summary.families.get(family, "")
        console.print(Text(f"\n{family}{': ' if outcome else ''}{outcome}", style="bold"))
        if console.is_terminal and console.width >= _ROOM:
            console.print(_table(judgements))
        elif console.is_terminal:
            for judgement in judgements:
                requirement, verdict = judgement.requirement, judgement.verdict
                head = Text.assemble((verdict, STYLE[verdict]), f" {requirement.id} ", (requirement.level, "dim"))
                print_line(console, head)
                print_line(console, Text("  ") + _sentence(judgement))
        else:
            for judgement in judgements:
                requirement = judgement.requirement
                head = Text(f"{judgement.verdict:14} {requirement.id:12} {requirement.level:6} ")
                console.print(head + _sentence(judgement), soft_wrap=True)
    for judgement in summary.judgements:
        if judgement.verdict in EXPLAINED:
            console.print(Text("\n").join(_lines(judgement, rerun, summary.exits)), soft_wrap=True)
    exits = [(EXITED, left_out)] if left_out else []
    for reason, names in (*exits, *_not_tested(shown).items()):
        console.print(
            Text(f"\nNOT_TESTED {', '.join(names)}\n  {as_called(printable(reason))}", style="yellow"), soft_wrap=True
        )
    for judgement in summary.judgements:
        for name, finding in judgement.remarks.items():
            console.print(Text(f"remark by the unproven check {name}: {printable(finding.seen)}", style="yellow"))
    for grade, names in by_grade(summary.abilities).items():
        console.print(Text(f"\n{grade}: {', '.join(names)}", style="dim"), soft_wrap=True, end="")
    for dimension, values in summary.covered.items():
        console.print(
            Text(f"\nfaults by {dimension}: {printable(', '.join(values))}", style="dim"), soft_wrap=True, end=""
        )
    for gap in summary.not_caused:
        console.print(Text(f"\nnot caused: {printable(gap)}", style="dim"), soft_wrap=True, end="")
    reasons = "".join(f"\n  {as_called(printable(reason))}" for reason in summary.reasons)
    style = "bold green" if summary.exit_code == 0 else "bold red"
    console.print(Text(f"\n{summary.verdict}{reasons}", style=style))


def _table(judgements: Iterable[Judgement]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for one in judgements:
        requirement = one.requirement
        table.add_row(Text(one.verdict, style=STYLE[one.verdict]), requirement.id, requirement.level, _sentence(one))
    return table


def _sentence(judgement: Judgement) -> Text:
    """The requirement; if it or a check of it does not apply, also why."""
    text = Text(judgement.requirement.sentence)
    if judgement.verdict in (Verdict.NOT_APPLICABLE, Verdict.STATIC):
        judged = {name: one for name, one in judgement.findings.items() if name not in judgement.not_judged}
        reasons = dict.fromkeys(finding.seen for finding in judged.values())
        text.append(f" ({printable('; '.join(reasons))})", style="dim")
    for name, finding in judgement.not_judged.items():
        text.append(f" ({name} does not apply: {printable(finding.seen)})", style="dim")
    return text


def _not_tested(judgements: Iterable[Judgement]) -> dict[str, list[str]]:
    """The requirements without a verdict, by the reason."""
    found: dict[str, list[str]] = {}
    for one in judgements:
        if one.verdict is Verdict.NOT_TESTED:
            reasons = dict.fromkeys(f.seen for f in one.findings.values() if f.verdict is Verdict.NOT_TESTED)
            found.setdefault("; ".join(reasons), []).append(one.requirement.id)
    return found


def _lines(judgement: Judgement, rerun: str, exits: Collection[str]) -> Iterator[Text]:
    """The explanation. Exits have the short form, because the reasons of the verdict have the long form."""
    requirement = judgement.requirement
    yield Text(f"\n{judgement.verdict} {requirement.id}: {requirement.sentence}", style=STYLE[judgement.verdict])
    for name, finding in judgement.findings.items():
        if finding.verdict not in EXPLAINED:
            continue
        if finding.expected:
            yield Text(f"  expected: {printable(finding.expected)}")
        yield Text(f"  seen:     {printable(without_exits(finding.seen, exits))}")
        if finding.records:
            lines = ", ".join(map(str, finding.records[:10]))
            yield Text(f"  evidence: line {lines}", style="dim")
        if finding.verdict is Verdict.FAIL:
            yield Text(f"  fix:      {CHECKS[name].fix}")
    yield Text(f"  source:   {requirement.source}, {requirement.link}", style="dim")
    yield Text(f"  rerun:    {rerun.replace('REQUIREMENT', requirement.id)}", style="dim")


# Annotations for GitHub Actions. Pure.


def annotations(summary: Summary) -> list[str]:
    """Workflow commands of GitHub Actions: an error for each failed MUST, a warning for each failed SHOULD."""
    lines = []
    for one in summary.judgements:
        if one.verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.NOT_TESTED):
            kind = "error" if one.requirement.level == "MUST" else "warning"
            found = "; ".join(f.line for f in one.findings.values() if f.verdict is one.verdict)
            found = found.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
            lines.append(f"::{kind} title={one.requirement.id} {one.verdict}::{found}")
    return lines


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
    return "\n".join(_markdown_lines(report)) + "\n"


def _markdown_lines(report: AnyReport) -> Iterator[str]:
    yield f"### {_SIGNS[report.tone]} {report.program}: {_plain(report.verdict)}"
    if isinstance(report, KubeletReport):
        head = "| verdict | requirement | reason |"
        named = (one for one in report.requirements if one.verdict in _LISTED)
        rows = [_certified_row(one, report.certificate) for one in sorted(named, key=lambda one: one.verdict)]
        drahealth, started = report.certificate.drahealth, report.conditions.started
    elif isinstance(report, ScenariosReport):
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
    if isinstance(report, ScenariosReport) and report.nodes:
        yield ""
        yield from (f"- Node {_plain(f'{one.node}, {one}')}." for one in report.nodes)
    if isinstance(report, RunReport) and report.soak:
        yield ""
        yield from (f"- {_plain(line)}" for line in (*report.soak.lines(), *map(str, report.soak.uses)))
    if report.reasons:
        yield ""
    yield from (f"- {_plain(reason)}" for reason in report.reasons[:5])
    if rows:
        yield from ("", head, re.sub(r"[^|]+", " --- ", head), *rows[:_ROWS])
        if len(rows) > _ROWS:
            yield f"\nand {len(rows) - _ROWS} more"
    yield ""
    if isinstance(report, ScenariosReport):
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


def _certified_row(one: RequirementResult, certificate: KubeletCertificate) -> str:
    found = certificate.issues_of(one.id)
    issues = [f"{_plain(f'{issue.id}: {issue.what}')} {_linked('link', issue.links[-1].split()[0])}" for issue in found]
    reason = certificate.not_tested.get(one.id, "")
    return _requirement_row(one, _plain(one.id), "; ".join(issues) or _plain(reason))


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
    return _requirement_row(one, _linked(one.id, one.link), _plain(seen))


def _requirement_row(one: RequirementResult, name: str, seen: str) -> str:
    return f"| {one.verdict.replace('_', ' ')} | {name} {one.level}: {_plain(one.sentence)} | {seen} |"


def _linked(name: str, address: str) -> str:
    """The name as a link, if the address is one of a web page that can stand in a table."""
    return f"[{name}]({address})" if re.fullmatch(r"https?://[^\s()<>|]+", address) else _plain(name)


def _plain(text: str) -> str:
    """Text on one line in which no character has a meaning in Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", one_line(text, _TEXT)).replace("://", "\\://")


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
    if isinstance(report, CheckReport | KubeletReport) and report.certificate:
        verdict = "certified" if report.certificate.certified else "not certified"
    verdict = one_line(verdict, _LIMIT)
    left, right = (_WIDTH * len(text) + 10 for text in (label, verdict))
    color, title = COLORS[report.tone], f"{label}: {one_line(report.verdict, _TITLE)}"
    return render("badge.svg.jinja", label=label, verdict=verdict, title=title, color=color, left=left, right=right)
