"""The verdicts of a check as text for a terminal, and as annotations of GitHub Actions."""

from collections.abc import Collection, Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drahealth.fakes.program.console import print_line
from drahealth.fakes.program.usage import as_called
from drahealth.proto.quoting import printable
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.judge import Judgement, by_grade
from drahealth.suites.driver_checks.output_text import EXITED, without_exits
from drahealth.suites.driver_checks.summary import Summary
from drahealth.suites.driver_checks.verdicts import Verdict

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
