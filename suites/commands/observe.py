"""`drahealth observe`: what the user asks for, the observation, and its report as table, JSON and JUnit XML."""

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from drahealth.fakes.cluster.access import kubectl_config
from drahealth.fakes.cluster.api import timestamp
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.object_rules import subdomain_errors
from drahealth.fakes.durations import FIXED_HINT, option_seconds
from drahealth.fakes.program.console import standard_output
from drahealth.proto.quoting import printable, quoted
from drahealth.proto.version import __version__
from drahealth.suites.commands.ending import harness_errors, run_terminable
from drahealth.suites.driver_checks.verdicts import Verdict, verdict_of
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.observing.facts import NodeFacts
from drahealth.suites.observing.observer import Asked, Observation, observe
from drahealth.suites.observing.rules import REFRESHED, RULES, judged, node_verdict, unseen
from drahealth.suites.output_paths import check_output_file
from drahealth.suites.report.document import FORMAT, NodeResult, ObservationReport, RequirementResult, code_of, to_json
from drahealth.suites.report.junit import to_junit
from drahealth.suites.report.page import page_of
from drahealth.suites.report.page_view import NODE_WORDS, node_columns
from drahealth.suites.report.text import STYLE

app = typer.Typer()


@app.command("observe")
@harness_errors
def observe_driver(
    driver: Annotated[str, typer.Option(metavar="NAME", help="Name of the driver, as in its ResourceSlices.")],
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Kubeconfig of the cluster; default: that of kubectl.")
    ] = None,
    context: Annotated[str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig.")] = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Existing namespace for the Pods and claims of the observer.")
    ] = "default",
    node_selector: Annotated[
        str, typer.Option(metavar="LABELS", help="Observe only nodes with these labels, such as gpu=true,zone=a.")
    ] = "",
    device_class: Annotated[
        str, typer.Option(metavar="NAME", help="DeviceClass for the claims; default: the only one for the driver.")
    ] = "",
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="Image of the Pods; it must run until it is stopped.")
    ] = "registry.k8s.io/pause:3.10",
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long to watch, such as 90s or 10m.")
    ] = "150s",
    report: Annotated[str | None, typer.Option(metavar="FILE.json", help="Write the report as JSON.")] = None,
    junitxml: Annotated[str | None, typer.Option(metavar="FILE.xml", help="Write the verdicts as JUnit XML.")] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE.html", help="Write the report as a web page, a column for each node.")
    ] = None,
) -> None:
    """Observe an installed driver on all its nodes, from the API alone, and judge each node.

    The command changes no object of others. On each node it starts a small Pod with a claim for one free device,
    watches what statuses, ResourceSlices and Events show, and removes the Pods.
    Exit codes: 0 all nodes pass, 1 a node fails, 2 wrong usage, 3 error in the environment or interrupted, 4 a node was
    not judged completely.
    """

    asked = asked_for(driver, duration, namespace, device_class, image, node_selector)
    raise typer.Exit(run(asked, kubeconfig, context, Outputs(report, junitxml, html)))


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


_LONGEST_DAYS = 7
"""Seconds: an observer keeps all facts in memory."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files for the results."""

    report: str | None
    junitxml: str | None
    html: str | None

    def check(self) -> None:
        """Raises ConfigurationError for a file that cannot be written."""
        for name in (self.report, self.junitxml, self.html):
            check_output_file(name)

    def write(self, report: ObservationReport) -> None:
        """Writes the files."""
        if self.report:
            Path(self.report).write_text(to_json(report), encoding="utf-8")
        if self.junitxml:
            Path(self.junitxml).write_text(to_junit(report), encoding="utf-8")
        if self.html:
            Path(self.html).write_text(page_of(node_columns(report)), encoding="utf-8")


def asked_for(driver: str, duration: str, namespace: str, device_class: str, image: str, node_selector: str) -> Asked:
    """What the options say. Raises ConfigurationError."""
    if any(subdomain_errors(driver)):
        raise ConfigurationError(
            f"--driver must be the name of a driver, got {quoted(driver)}", "such as gpu.example.com"
        )
    try:
        seconds = option_seconds("--for", duration, _LONGEST_DAYS)
    except ValueError as error:
        raise ConfigurationError(str(error), FIXED_HINT) from None
    return Asked(driver, seconds, namespace, device_class, image, node_selector)


def run(asked: Asked, kubeconfig: Path | None, context: str | None, outputs: Outputs) -> int:
    """Observes, prints and writes the results; returns the exit code."""
    outputs.check()
    started, console = timestamp(time.time()), Console(stderr=True, highlight=False)
    if asked.seconds < REFRESHED:
        console.print(f"note: OBSERVE-03 is not tested in less than {REFRESHED:g} s", soft_wrap=True)
    seen = run_terminable(_observe(asked, kubeconfig, context, console))
    report = observation_report(asked.driver, seen, started)
    show_observation(report, standard_output())
    outputs.write(report)
    return report.exit_code


async def _observe(asked: Asked, path: Path | None, context: str | None, console: Console) -> Observation:
    try:
        if path is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            api = KubeClient.in_cluster()
        else:
            api = await KubeClient.from_kubeconfig(path or kubectl_config(), context)
    except ValueError as error:
        raise ConfigurationError(str(error), "pass a kubeconfig with --kubeconfig") from None
    try:
        return await observe(api, asked, lambda what: console.print(what, style="dim", markup=False, soft_wrap=True))
    finally:
        await api.close()
