"""The report of an observation from what was seen, its table for a terminal, and its JUnit XML."""

from collections import Counter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drahealth.proto.quoting import printable
from drahealth.proto.version import __version__
from drahealth.suites.driver_checks.verdicts import Verdict, verdict_of
from drahealth.suites.observing.facts import NodeFacts
from drahealth.suites.observing.observer import Observation
from drahealth.suites.observing.rules import RULES, judged, node_verdict, unseen
from drahealth.suites.report.document import FORMAT, NodeResult, ObservationReport, RequirementResult, code_of
from drahealth.suites.report.page_view import NODE_WORDS
from drahealth.suites.report.text import STYLE

_LOUD = (Verdict.FAIL, Verdict.NOT_TESTED)


def observation_report(driver: str, seen: Observation, started: str) -> ObservationReport:
    """Judges each node. Pure."""
    nodes = tuple(_node(facts, seen.seconds) for _, facts in sorted(seen.nodes.items()))
    requirements = tuple(
        RequirementResult(
            id=rule.id,
            level=rule.level,
            family=rule.family,
            sentence=rule.sentence,
            source=rule.source,
            link=rule.link,
            verdict=verdict_of(node.findings[rule.id].verdict for node in nodes),
        )
        for rule in RULES
    )
    counts = Counter(one.verdict for one in nodes)
    words = (
        "" if seen.interrupted else ", ".join(f"{w} on {n} of {len(nodes)} nodes" for w, n in _by_word(counts).items())
    )
    return ObservationReport(
        format=FORMAT,
        kind="observation",
        subject=driver,
        verdict="interrupted" if seen.interrupted else words,
        exit_code=code_of(counts, interrupted=seen.interrupted),
        complete=not seen.interrupted,
        interrupted=seen.interrupted,
        reasons=tuple(seen.limits),
        drahealth=__version__,
        started=started,
        seconds=round(seen.seconds, 1),
        counts=dict(counts),
        nodes=nodes,
        requirements=requirements,
    )


def _by_word(counts: Counter[Verdict]) -> dict[str, int]:
    found: dict[str, int] = {}
    for verdict in sorted(counts):
        word = NODE_WORDS.get(verdict, "not judged completely")
        found[word] = found.get(word, 0) + counts[verdict]
    return found


def _node(facts: NodeFacts, end: float) -> NodeResult:
    findings = judged(facts, end)
    devices = {device for pod in facts.pods for device in pod.devices()}
    pods = len({pod.uid for pod in facts.pods})
    return NodeResult(
        facts.node, facts.kubelet, node_verdict(findings), findings, pods, len(devices), tuple(unseen(facts))
    )


def show_observation(report: ObservationReport, console: Console) -> None:
    """Prints a table of the nodes, what is wrong on each, what could not be seen, and the verdict."""
    table = Table(box=None, pad_edge=False)
    for heading in ("node", "kubelet", "Pods", "devices", "verdict"):
        table.add_column(heading, no_wrap=True)
    for node in report.nodes:
        word = Text(NODE_WORDS.get(node.verdict, "incomplete"), style=STYLE[node.verdict])
        should = sum(
            one.level == "SHOULD" and node.findings[one.id].verdict is Verdict.FAIL for one in report.requirements
        )
        word.append(f", {should} SHOULD not met" if should else "", style="yellow")
        table.add_row(node.node, node.kubelet, str(node.pods), str(node.devices), word)
    console.print(table)
    levels = {one.id: one for one in report.requirements}
    for node in report.nodes:
        for name, found in node.findings.items():
            if found.verdict in _LOUD:
                head = f"\n{node.node}: {found.verdict} {name} ({levels[name].level}): {levels[name].sentence}"
                console.print(Text(head, style=STYLE[found.verdict]), soft_wrap=True)
                console.print(Text(f"  {printable(found.line)}"), soft_wrap=True)
    not_seen: dict[str, list[str]] = {}
    for node in report.nodes:
        for sentence in node.unseen:
            not_seen.setdefault(sentence, []).append(node.node)
    for sentence, nodes in not_seen.items():
        where = "all nodes" if len(nodes) == len(report.nodes) else ", ".join(nodes[:5])
        console.print(Text(f"not seen on {where}: {printable(sentence)}", style="dim"), soft_wrap=True)
    for reason in report.reasons:
        console.print(Text(printable(reason), style="dim"), soft_wrap=True)
    style = {0: "bold green", 1: "bold red"}.get(report.exit_code, "bold yellow")
    said = f"\n{report.subject}: {report.verdict}, observed for {report.seconds:.0f} s"
    console.print(Text(said, style=style), soft_wrap=True)
