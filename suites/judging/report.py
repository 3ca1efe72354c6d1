"""The results of a run as data: what the table, the JSON report and the exit code are made from."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from drahealth.suites.judging.ledger import requirements

VERSION = "drahealth-report/v1"

Outcome = Literal["passed", "known issue", "not applicable", "failed", "error"]
"""`known issue`: all that failed is known of this release. `not applicable`: not run, since the drivers' health API
carries less than what is judged needs. `error`: the harness' or the machine's fault."""

Verdict = Literal["FAIL", "ERROR", "KNOWN ISSUE", "PASS", "NOT_APPLICABLE", "NOT_TESTED"]
_WORST_FIRST: tuple[Verdict, ...] = ("FAIL", "ERROR", "KNOWN ISSUE", "PASS", "NOT_APPLICABLE", "NOT_TESTED")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one scenario."""

    name: str
    title: str
    requirements: tuple[str, ...]
    outcome: Outcome
    seconds: float
    known_issues: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """The requirements that were not fulfilled: those of the failure, or of the known issues."""
    problem: str = ""
    """What went wrong, in full; empty if nothing did."""
    timeline: str = ""
    again: str = ""
    """The command that runs just this scenario, if something went wrong."""
    beyond: tuple[str, ...] = ()
    """The requirements for which it is not applicable."""
    reason: str = ""
    """Why it is not."""
    where: str = ""
    """Of a timeline that failed: the step, with its file and line."""
    notes: tuple[str, ...] = ()
    """What somebody should know of it though it has passed, a line each."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Result":
        """From its plain data."""
        lists = {name: tuple(data[name]) for name in ("requirements", "known_issues", "broken", "beyond", "notes")}
        return cls(**{**data, **lists})

    def then(self, later: "Result") -> "Result":
        """The same scenario once something else was said of it, as when its end goes wrong too."""
        problem = "\n".join(filter(None, (self.problem, later.problem)))
        seconds = round(self.seconds + later.seconds, 3)
        broken = () if later.outcome == "error" else self.broken
        return replace(self, outcome=later.outcome, seconds=seconds, broken=broken, problem=problem)

    def verdicts(self) -> dict[str, Verdict]:
        """What this scenario says of requirements; nothing of those that its failure kept it from judging."""
        broken: Verdict = "KNOWN ISSUE" if self.outcome == "known issue" else "FAIL"
        said: dict[str, Verdict] = {}
        if self.outcome == "error":
            said = dict.fromkeys(self.requirements, "ERROR")
        elif self.outcome == "not applicable":
            said = dict.fromkeys(self.beyond, "NOT_APPLICABLE")
        elif self.outcome != "failed":
            said = dict.fromkeys((*self.requirements, *_invariants()), "PASS")
        return {**said, **dict.fromkeys(self.broken, broken)}


@dataclass
class Run:
    """All results of a run on one target."""

    target: str
    about: str
    """The target in a few words."""
    health_api: str | None = None
    """The drivers' one health API; None: those that were shipped."""
    results: list[Result] = field(default_factory=list)

    def take(self, data: Mapping[str, Any]) -> Result:
        """Adds a result from its plain data; an error at the end of a scenario joins what was noted of it."""
        result = Result.of(data)
        for old in self.results:
            if old.name == result.name:
                self.results.remove(old)
                result = old.then(result)
                break
        self.results.append(result)
        return result

    def counts(self) -> Mapping[Outcome, int]:
        """How many results there are of each outcome."""
        return Counter(result.outcome for result in self.results)

    def exit_code(self) -> int:
        """0 passed, 1 failed, 2 nothing was judged, 3 harness or environment."""
        counts = self.counts()
        if counts.get("error"):
            return 3
        if counts.get("failed"):
            return 1
        return 0 if self.results else 2

    def verdicts(self) -> dict[str, Verdict]:
        """By requirement the worst that a scenario said of it, NOT_TESTED where none of the run judged it."""
        said: dict[str, set[Verdict]] = {name: {"NOT_TESTED"} for name in requirements()}
        for result in self.results:
            for name, verdict in result.verdicts().items():
                said[name].add(verdict)
        return {name: min(verdicts, key=_WORST_FIRST.index) for name, verdicts in said.items()}

    def to_json(self) -> str:
        """The report file."""
        ledger = requirements()
        verdicts = self.verdicts()
        return json.dumps(
            {
                "report": VERSION,
                "target": self.target,
                "about": self.about,
                "health_api": self.health_api,
                "exit_code": self.exit_code(),
                "counts": dict(self.counts()),
                "requirements": {
                    name: {"level": ledger[name].level, "sentence": ledger[name].sentence, "verdict": verdict}
                    for name, verdict in verdicts.items()
                },
                "scenarios": [asdict(result) for result in self.results],
            },
            indent=2,
        )


def _invariants() -> list[str]:
    return [entry.id for entry in requirements().values() if entry.judged == "invariant"]
