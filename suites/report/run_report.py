"""A run of scenarios or timelines: its results as they come in, and its report. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.report.document import (
    FORMAT,
    Conditions,
    NodeSummary,
    Outcome,
    RequirementResult,
    RunReport,
    ScenarioResult,
    exit_code,
)
from drahealth.suites.report.soak import Soak

_WORST_FIRST = (
    *(Verdict.FAIL, Verdict.ERROR, Verdict.KNOWN_ISSUE),
    *(Verdict.PASS, Verdict.NOT_APPLICABLE, Verdict.NOT_TESTED),
)
"""Scenarios that ended decide the verdict on a requirement, whatever else did not."""


@dataclass
class Run:
    """All results of a run on one target."""

    target: str
    about: str
    """A short description of the target: the subject of the report."""
    health_api: str | None = None
    """The only health API of the drivers; `all` if each scenario was played over one after the other; None for the
    default ones."""
    results: list[ScenarioResult] = field(default_factory=list)
    interrupted: bool = False
    """Whether a signal, an error of the environment or an internal error ended it."""
    planned: int = 0
    """The number of scenarios that it was to play."""
    deselected: int = 0
    """The number of scenarios that the user left out."""
    stopped: str = ""
    """Why it ended before all planned scenarios had run, if that is known."""
    conditions: Conditions = field(default_factory=Conditions)
    nodes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The nodes that are judged by themselves: the release of the kubelet and its profile, by name."""
    soak: Soak | None = None
    """What only a soak has."""

    def take(self, data: Mapping[str, Any]) -> ScenarioResult:
        """Add a result from plain data. A later result of the same scenario is merged into the first one."""
        result = ScenarioResult.of(data)
        for old in self.results:
            if old.key == result.key:
                self.results.remove(old)
                result = old.then(result)
                break
        self.results.append(result)
        return result

    def counts(self) -> Mapping[Outcome, int]:
        """The number of results per outcome."""
        return Counter(result.outcome for result in self.results)

    @property
    def missing(self) -> int:
        """The number of planned scenarios without a result."""
        return max(0, self.planned - len(self.results))

    @property
    def selected(self) -> int:
        """The number of planned scenarios, or of results if nobody planned."""
        return max(self.planned, len(self.results))

    @property
    def ended_early(self) -> bool:
        """Whether it ended before all planned scenarios had run."""
        return self.interrupted or self.missing > 0

    def reason(self) -> str:
        """Why the run is not complete, in a clause; empty if it is."""
        if self.soak and self.interrupted:
            found = self.stopped or "the soak was interrupted"
            return f"{found}; it has lasted {self.soak.lasted:.0f} s of {self.soak.asked:.0f} s"
        if self.ended_early:
            found = self.stopped or ("the run was interrupted" if self.interrupted else "scenarios have no result")
            return f"{found}; {len(self.results)} of {self.selected} planned scenarios have a result"
        if self.deselected:
            return f"{self.selected} of {self.selected + self.deselected} scenarios were selected"
        return ""

    def by_node(self) -> tuple[NodeSummary, ...]:
        """The result of each node that is judged by itself. As many scenarios are planned on each node."""
        found = []
        for name, (kubelet, profile) in self.nodes.items():
            counts = Counter(one.outcome for one in self.results if one.node == name)
            complete = not self.interrupted and self.missing == 0 and counts.total() > 0
            code = exit_code(counts, interrupted=False)
            verdict = {1: "failed", 3: "harness error"}.get(code, "passed" if complete else "not complete")
            found.append(NodeSummary(name, kubelet, profile, dict(counts), verdict))
        return tuple(found)

    def exit_code(self) -> int:
        """0 passed, 1 failed or a leak, 2 no scenario ran, 3 error of harness or environment, or no end."""
        code = exit_code(self.counts(), interrupted=self.interrupted, missing=self.missing)
        return 1 if code == 0 and self.soak and self.soak.leaks else code

    def verdicts(self) -> dict[str, Verdict]:
        """The worst verdict per requirement; NOT_TESTED if no scenario of the run checked it."""
        verdicts = {name: {Verdict.NOT_TESTED} for name in requirements()}
        for result in self.results:
            for name, verdict in _verdicts(result).items():
                verdicts[name].add(verdict)
        return {name: min(verdicts, key=_WORST_FIRST.index) for name, verdicts in verdicts.items()}

    def report(self, *, ended: str | None, exit_code: int | None = None) -> RunReport:
        """The report. `exit_code` is that of the process; None: that of `drahealth run`."""
        ledger, verdicts = requirements(), self.verdicts()
        failed = [name for name, verdict in verdicts.items() if verdict is Verdict.FAIL]
        reasons = [f"The run shows violations of {', '.join(failed)}."] if failed else []
        if self.soak:
            reasons += [f"A leak: {one}." for one in self.soak.leaks]
        if reason := self.reason():
            reasons.append(f"The run is not complete: {reason}.")
        report = RunReport(
            format=FORMAT,
            kind="soak" if self.soak else "play" if self.conditions.command == "drahealth play" else "run",
            subject=self.about,
            verdict="",
            exit_code=self.exit_code() if exit_code is None else exit_code,
            complete=not reason,
            reasons=tuple(reasons),
            counts=dict(self.counts()),
            interrupted=self.interrupted,
            planned=self.selected,
            run=len(self.results),
            deselected=self.deselected,
            ended=ended,
            conditions=self.conditions,
            target=self.target,
            health_api=self.health_api,
            requirements=tuple(
                RequirementResult(
                    id=name,
                    level=ledger[name].level,
                    family=f"requirements of the {ledger[name].applies_to}",
                    sentence=ledger[name].sentence,
                    source=ledger[name].source,
                    link="",
                    verdict=verdict,
                )
                for name, verdict in verdicts.items()
                if not self.soak or verdict is not Verdict.NOT_TESTED  # a soak checks only what holds in any history
            ),
            scenarios=tuple(self.results),
            nodes=self.by_node(),
            soak=self.soak,
        )
        return replace(report, verdict=report.words())


def _verdicts(result: ScenarioResult) -> dict[str, Verdict]:
    """The verdicts of a scenario on requirements. A failure leaves out requirements that were not reached."""
    broken = Verdict.KNOWN_ISSUE if result.outcome == "known issue" else Verdict.FAIL
    verdicts: dict[str, Verdict] = {}
    if result.outcome == "error":
        verdicts = dict.fromkeys(result.requirements, Verdict.ERROR)
    elif result.outcome == "not applicable":
        verdicts = dict.fromkeys(result.beyond, Verdict.NOT_APPLICABLE)
    elif result.outcome != "failed":
        invariants = (entry.id for entry in requirements().values() if entry.judged == "invariant")
        verdicts = dict.fromkeys((*result.requirements, *invariants), Verdict.PASS)
    return {**verdicts, **dict.fromkeys(result.broken, broken)}
