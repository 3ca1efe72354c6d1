"""What the page shows: reports of all kinds as columns of one table, as data. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import join
from types import MappingProxyType

from drahealth.proto.history import HistoryFile
from drahealth.proto.quoting import printable_lines
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.judge import by_grade
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.judging.ledger import every_known_issue
from drahealth.suites.report.document import (
    CheckedRequirement,
    CheckFinding,
    CheckReport,
    KubeletCertificate,
    KubeletReport,
    ObservationReport,
    ReleaseView,
    RequirementResult,
    RunReport,
    ScenarioResult,
    ScenariosReport,
    Tone,
)
from drahealth.suites.report.lanes import Group, Lanes, lanes_of, scenario_group
from drahealth.suites.report.soak import Soak

NODE_WORDS = {Verdict.PASS: "passes", Verdict.FAIL: "fails", Verdict.NOT_APPLICABLE: "passes"}
"""The verdict on a node in words; any other is incomplete."""

# The columns, and the table of them. A template turns them into a page.

TEXT_LIMIT = 2000
"""Characters of the longest text on a page. The middle of a longer one is left out: the cause is often at its end."""
REASONS = 20
"""The most reasons of a verdict on a page."""
ORDER = (*Verdict, "")
"""The verdicts, the worst first, and that of a report which does not have the requirement."""
LOUD = ORDER[: ORDER.index(Verdict.STATIC)]
"""The verdicts whose explanation is open."""


@dataclass(frozen=True, slots=True)
class Detail:
    """What explains a verdict."""

    name: str
    """The check or the scenario, such as `check first-report-is-prompt`."""
    verdict: str
    seen: str
    expected: str = ""
    evidence: str = ""
    """Where the evidence shows it."""
    fix: str = ""
    rerun: str = ""
    grade: str = ""
    """How the ability was proven: observed, asked or forced; empty where this does not apply."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The verdict of one result on a requirement."""

    verdict: str
    """Empty if the result does not have the requirement."""
    details: tuple[Detail, ...] = ()

    @property
    def is_loud(self) -> bool:
        """Whether its explanation is open at first."""
        return self.verdict in LOUD


@dataclass(frozen=True, slots=True)
class ScenarioView:
    """A scenario of a run."""

    title: str
    outcome: str
    group: Group | None = None
    """Its devices over time; None without a history."""


@dataclass(frozen=True, slots=True)
class Column:
    """One report: a column of the page."""

    name: str
    """Name of the file, or of the command."""
    verdict: str
    tone: Tone
    reasons: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    """What was tested and how, as names and values."""
    requirements: Mapping[str, RequirementResult]
    cells: Mapping[str, Cell]
    scope: str = ""
    """What a certificate holds for; the verdict and this are one sentence."""
    lanes: Lanes | None = None
    why_no_lanes: str = ""
    scenarios: Mapping[str, ScenarioView] | None = None
    """The scenarios of a run by key; None for a check."""
    releases: tuple[ReleaseView, ...] = ()

    @property
    def has_histories(self) -> bool:
        """Whether it is a run with a history of at least one scenario."""
        return any(view.group for view in (self.scenarios or {}).values())

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """The number of requirements by verdict, the worst first."""
        counted = Counter(cell.verdict for cell in self.cells.values())
        return tuple((verdict, counted[verdict]) for verdict in ORDER if counted[verdict])


@dataclass(frozen=True, slots=True)
class Row:
    """A requirement with the cells of all results."""

    requirement: RequirementResult
    cells: tuple[Cell, ...]

    @property
    def worst(self) -> str:
        """The worst verdict of the row, by which the page filters."""
        return min((cell.verdict for cell in self.cells), key=ORDER.index)

    @property
    def differs(self) -> bool:
        """Whether the results that have the requirement differ."""
        return len({cell.verdict for cell in self.cells} - {""}) > 1


@dataclass(frozen=True, slots=True)
class Section:
    """Rows with a heading."""

    title: str
    rows: tuple[Row, ...]


def sections(results: Sequence[Column]) -> tuple[Section, ...]:
    """The table: requirements on which results differ, then those that are not met, then the others by family."""
    known: dict[str, RequirementResult] = {}
    for result in results:
        for name, requirement in result.requirements.items():
            known.setdefault(name, requirement)
    rows = [
        Row(requirement, tuple(result.cells.get(name, Cell("")) for result in results))
        for name, requirement in known.items()
    ]
    return tuple(_sections(rows))


def _sections(rows: Sequence[Row]) -> Iterator[Section]:
    rows = sorted(rows, key=lambda row: ORDER.index(row.worst) if row.differs or row.worst in LOUD else len(ORDER))
    found = {"differences": [row for row in rows if row.differs]}
    found["not met, or not judged"] = [row for row in rows if not row.differs and row.worst in LOUD]
    rest = [row for row in rows if not row.differs and row.worst not in LOUD]
    for family in dict.fromkeys(row.requirement.family for row in rest):
        found[family] = [row for row in rest if row.requirement.family == family]
    return (Section(title, tuple(each)) for title, each in found.items() if each)


def shown(text: str, limit: int = TEXT_LIMIT) -> str:
    """Text from a driver or a file for the page, which gets all its text so.

    Unprintable characters are escaped, and the middle of a long text is left out.
    """
    return _cut(printable_lines(_cut(text, limit)), limit + 100)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]} [... {len(text) - limit} characters ...] {text[-(limit // 2) :]}"


def some(reasons: Sequence[str]) -> tuple[str, ...]:
    """The first reasons, and the number of the others."""
    more = [f"And {len(reasons) - REASONS} more."] if len(reasons) > REASONS else []
    return (*reasons[:REASONS], *more)


def link(address: str) -> str:
    """The address of a web page; empty for anything else, such as a script."""
    return address if address.startswith(("https://", "http://")) else ""


# The report of a check or a certification as a column. Pure.

RELEASE_ROWS = 80
"""The most rows about releases: twenty devices."""
NOT_JUDGED_AGAIN = "as the report file has them; the evidence was not judged again"
"""What a page of earlier results says of their verdicts."""
_RECORDS = 10
"""The most line numbers of one finding."""


def check_column(report: CheckReport, evidence: Evidence | None = None, name: str = "") -> Column:
    """The report as a column; with its evidence also the lanes."""
    problems = (Verdict.FAIL, Verdict.ERROR, Verdict.NOT_TESTED, Verdict.WAIVED)
    verdict, _, scope = report.verdict.partition(", ") if report.certificate else (report.verdict, "", "")
    suspects = (one.seen for each in report.requirements for one in each.findings if one.verdict in problems)
    return Column(
        name=name or report.program,
        verdict=verdict,
        scope=scope,
        tone=report.tone,
        reasons=some(report.reasons),
        facts=(*_facts_of_check(report), *([("verdicts", NOT_JUDGED_AGAIN)] if name else ())),
        requirements={one.id: one for one in report.requirements},
        cells={one.id: Cell(one.verdict, tuple(_checks(one, report.rerun))) for one in report.requirements},
        lanes=lanes_of(evidence, suspects) if evidence else None,
        releases=report.releases[:RELEASE_ROWS],
        why_no_lanes="" if evidence else "The lanes over time need the evidence of the run.",
    )


def _facts_of_check(report: CheckReport) -> Iterator[tuple[str, str]]:
    run = report.conditions
    yield "level", run.level
    yield from report.families.items()
    for grade, names in by_grade(report.abilities).items():
        yield grade, ", ".join(names)
    for dimension, values in report.covered.items():
        yield f"faults by {dimension}", ", ".join(values)
    if report.not_caused:
        yield "not caused", "; ".join(report.not_caused)
    if run.profile:
        yield "driver profile", run.profile
    if run.workload:
        yield "started as", f"{run.workload} in a cluster"
    else:
        yield "command", join(run.command) if run.command else "a driver that was already running"
    yield "API server", run.api_server
    yield "started", run.started
    yield "drahealth", run.drahealth
    if certificate := report.certificate:
        yield "judged", f"{certificate.judged}, by drahealth {certificate.drahealth}"
        for one in certificate.kubelets:
            yield f"kubelet {one.release}", str(one)
        yield "ledger", f"sha256 {certificate.ledger_sha256}"
        yield "evidence", f"sha256 {certificate.evidence_sha256}"


def _checks(one: CheckedRequirement, rerun: str) -> Iterator[Detail]:
    command = rerun.replace("REQUIREMENT", one.id) if rerun else ""
    for finding in one.findings:
        yield _check(finding, finding.verdict, command)
    for remark in one.remarks:
        yield _check(remark, "remark by an unproven check", command)


def _check(finding: CheckFinding, verdict: str, rerun: str) -> Detail:
    failed = finding.verdict in (Verdict.FAIL, Verdict.WAIVED)
    lines = ", ".join(map(str, finding.records[:_RECORDS])) + (", ..." if len(finding.records) > _RECORDS else "")
    return Detail(
        name=f"check {finding.check}",
        verdict=verdict,
        seen=finding.seen,
        expected=finding.expected,
        evidence=f"line {lines}" if lines else "",
        fix=finding.fix if failed else "",
        grade=finding.grade,
        rerun=rerun if failed or finding.verdict is Verdict.ERROR else "",
    )


# The report of a run of scenarios as a column. Pure.

_SCENARIOS = 10
"""The most scenarios of one requirement."""


def run_column(
    report: ScenariosReport, name: str = "", histories: Mapping[str, HistoryFile] = MappingProxyType({})
) -> Column:
    """The report as a column. `histories` are those of its scenarios, by key."""
    counts = ", ".join(f"{count} {outcome}" for outcome, count in report.counts.items())
    about, soak = report.conditions, report.soak if isinstance(report, RunReport) else None
    facts = {
        "target": report.subject,
        "health API": report.health_api or "v1 and v1alpha1, as advertised",
        "started": about.started,
        "drahealth": about.versions.get("drahealth", ""),
        "machine": " ".join(about.host.get(key, "") for key in ("system", "release", "machine")).strip(),
        "commit": about.revision or "",
        **{f"node {one.node}": str(one) for one in report.nodes},
        **(_soak_facts(soak) if soak else {}),
    }
    why_no_lanes = "The histories that the report names are not there."
    if soak:
        why_no_lanes = "A soak keeps no histories."
    elif not any(one.history_file for one in report.scenarios):
        why_no_lanes = (
            "The lanes over time need the histories of the run: `drahealth run --report FILE --histories DIR`."
        )
    verdict, scope, explained = report.verdict, "", {}
    if isinstance(report, KubeletReport):
        verdict, _, scope = report.verdict.partition(", ")
        facts |= dict(_facts_of_kubelet(report.certificate))
        explained = {one.id: _explanations(one, report.certificate) for one in report.requirements}
    return Column(
        name=name or report.program,
        verdict=verdict,
        scope=scope,
        tone=report.tone,
        reasons=(*([f"Scenarios: {counts}."] if counts else []), *some(report.reasons)),
        facts=tuple((name, value) for name, value in facts.items() if value),
        requirements={one.id: one for one in report.requirements},
        cells={
            one.id: Cell(one.verdict, (*explained.get(one.id, ()), *_scenarios(one.id, report.scenarios)))
            for one in report.requirements
        },
        scenarios={
            one.key: ScenarioView(
                one.title, one.outcome, scenario_group(histories[one.key]) if one.key in histories else None
            )
            for one in report.scenarios
        },
        why_no_lanes=why_no_lanes,
    )


def _facts_of_kubelet(certificate: KubeletCertificate) -> Iterator[tuple[str, str]]:
    yield "judged by", certificate.judged_by
    yield "profile", certificate.profile
    yield "kubelet", " + ".join(certificate.kubelets)
    if certificate.artifact:
        yield "file", f"{certificate.artifact}, sha256 {certificate.artifact_sha256}"
    yield "ledger", f"sha256 {certificate.ledger_sha256}"
    yield "evidence", f"sha256 {certificate.evidence_sha256}"


def _explanations(one: RequirementResult, certificate: KubeletCertificate) -> tuple[Detail, ...]:
    return tuple(Detail("certificate", one.verdict, line) for line in certificate.explanation(one.id))


def _soak_facts(soak: Soak) -> dict[str, str]:
    """The time of a soak, its bound, and a row for each resource of each process."""
    about, failures = soak.lines()
    uses = {f"{use.process} {use.resource}": str(use).partition(": ")[2] for use in soak.uses}
    return {"soak": about, "failures": failures, **uses}


def _scenarios(id_: str, scenarios: tuple[ScenarioResult, ...]) -> tuple[Detail, ...]:
    """The scenarios that decide the verdict: the broken ones, otherwise all that judge the requirement."""
    broken = [one for one in scenarios if id_ in one.broken]
    found = broken or [one for one in scenarios if id_ in (*one.requirements, *one.beyond)]
    more = [Detail("scenarios", "", f"and {len(found) - _SCENARIOS} more")] if len(found) > _SCENARIOS else []
    known = {issue.id: issue.what for issue in every_known_issue()}
    details = []
    for one in found[:_SCENARIOS]:
        issues = (f"{name}: {known.get(name, 'unknown to this release')}" for name in one.known_issues)
        text = one.problem or one.reason or "; ".join((*issues, *one.notes))
        details.append(Detail(f"scenario {one.title}", one.outcome, text, rerun=one.rerun))
    return (*details, *more)


# The report of an observation: a column for each node. Pure.

_TONES: Mapping[Verdict, Tone] = {Verdict.PASS: "good", Verdict.FAIL: "bad"}


def node_columns(report: ObservationReport) -> list[Column]:
    """The nodes as columns, in the order of the report."""
    return [
        Column(
            name=node.node,
            verdict="interrupted" if report.interrupted else NODE_WORDS.get(node.verdict, "incomplete"),
            tone="open" if report.interrupted else _TONES.get(node.verdict, "open"),
            reasons=some(node.unseen),
            facts=(
                ("driver", report.subject),
                ("kubelet", node.kubelet),
                ("Pods", str(node.pods)),
                ("devices in use", str(node.devices)),
                ("started", report.started),
                ("observed", f"{report.seconds:.0f} s"),
                ("drahealth", report.drahealth),
            ),
            requirements={one.id: one for one in report.requirements},
            cells={
                name: Cell(found.verdict, (Detail(node.node, found.verdict, found.seen, found.expected),))
                for name, found in node.findings.items()
            },
            why_no_lanes="An observation has no lanes over time.",
        )
        for node in report.nodes
    ]
