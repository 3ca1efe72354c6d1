"""The results of a run as data. The table, the JSON report and the exit code derive from it."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from drahealth.suites.judging.ledger import requirements

VERSION = "drahealth-report/v1"

Outcome = Literal["passed", "known issue", "not applicable", "failed", "error"]
"""`known issue`: all failures are known issues of the release. `not applicable`: not run, because the target or the
health API lacks something that the scenario needs. `error`: a failure of the harness or of the machine."""

Verdict = Literal["FAIL", "ERROR", "KNOWN ISSUE", "PASS", "NOT_APPLICABLE", "NOT_TESTED"]
_WORST_FIRST: tuple[Verdict, ...] = ("FAIL", "ERROR", "KNOWN ISSUE", "PASS", "NOT_APPLICABLE", "NOT_TESTED")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one scenario."""

    name: str
    title: str
    requirements: tuple[str, ...]
    outcome: Outcome
    seconds: float
    known_issues: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """The requirements that failed, also by known issues."""
    problem: str = ""
    """The full error text; empty after success."""
    history: str = ""
    rerun: str = ""
    """The command that runs only this scenario again; empty after success."""
    beyond: tuple[str, ...] = ()
    """The requirements that make it not applicable."""
    reason: str = ""
    """Why it is not applicable."""
    where: str = ""
    """For a failed timeline: the step, with its file and line."""
    notes: tuple[str, ...] = ()
    """Remarks on a scenario that passed, one line each."""
    history_file: str = ""
    """The file with its history, relative to the directory of the report; empty without `--histories`."""
    history_sha256: str = ""
    """Digest of that file."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Result":
        """Create a result from plain data."""
        lists = {name: tuple(data[name]) for name in ("requirements", "known_issues", "broken", "beyond", "notes")}
        return cls(**{**data, **lists})

    def then(self, later: "Result") -> "Result":
        """Merge with a later result of the same scenario, such as an error of its cleanup."""
        problem = "\n".join(filter(None, (self.problem, later.problem)))
        seconds = round(self.seconds + later.seconds, 3)
        broken = () if later.outcome == "error" else self.broken
        return replace(self, outcome=later.outcome, seconds=seconds, broken=broken, problem=problem)

    def verdicts(self) -> dict[str, Verdict]:
        """The verdicts on requirements. A failure leaves out requirements that were not reached."""
        broken: Verdict = "KNOWN ISSUE" if self.outcome == "known issue" else "FAIL"
        verdicts: dict[str, Verdict] = {}
        if self.outcome == "error":
            verdicts = dict.fromkeys(self.requirements, "ERROR")
        elif self.outcome == "not applicable":
            verdicts = dict.fromkeys(self.beyond, "NOT_APPLICABLE")
        elif self.outcome != "failed":
            verdicts = dict.fromkeys((*self.requirements, *_invariants()), "PASS")
        return {**verdicts, **dict.fromkeys(self.broken, broken)}


@dataclass
class Run:
    """All results of a run on one target."""

    target: str
    about: str
    """A short description of the target."""
    health_api: str | None = None
    """The only health API of the drivers; `all` if each scenario was played over one after the other; None for the
    default ones."""
    results: list[Result] = field(default_factory=list)
    interrupted: bool = False
    """Whether it ended before all its scenarios had run."""

    def take(self, data: Mapping[str, Any]) -> Result:
        """Add a result from plain data. A later result of the same scenario is merged into the first one."""
        result = Result.of(data)
        for old in self.results:
            if old.name == result.name:
                self.results.remove(old)
                result = old.then(result)
                break
        self.results.append(result)
        return result

    def counts(self) -> Mapping[Outcome, int]:
        """The number of results per outcome."""
        return Counter(result.outcome for result in self.results)

    def exit_code(self) -> int:
        """0 passed, 1 failed, 2 no scenario ran, 3 error of harness or environment, or an interrupted run."""
        return exit_code(self.counts(), interrupted=self.interrupted)

    def verdicts(self) -> dict[str, Verdict]:
        """The worst verdict per requirement; NOT_TESTED if no scenario of the run checked it."""
        verdicts: dict[str, set[Verdict]] = {name: {"NOT_TESTED"} for name in requirements()}
        for result in self.results:
            for name, verdict in result.verdicts().items():
                verdicts[name].add(verdict)
        return {name: min(verdicts, key=_WORST_FIRST.index) for name, verdicts in verdicts.items()}

    def to_json(self) -> str:
        """The contents of the report file."""
        ledger = requirements()
        verdicts = self.verdicts()
        return json.dumps(
            {
                "report": VERSION,
                "target": self.target,
                "about": self.about,
                "health_api": self.health_api,
                "exit_code": self.exit_code(),
                "interrupted": self.interrupted,
                "counts": dict(self.counts()),
                "requirements": {
                    name: {"level": ledger[name].level, "sentence": ledger[name].sentence, "verdict": verdict}
                    for name, verdict in verdicts.items()
                },
                "scenarios": [asdict(result) for result in self.results],
            },
            indent=2,
        )


def exit_code(counts: Mapping[Outcome, int], *, interrupted: bool) -> int:
    """The exit code of a run with these outcomes."""
    if interrupted or counts.get("error"):
        return 3
    if counts.get("failed"):
        return 1
    return 0 if any(counts.values()) else 2


def _invariants() -> list[str]:
    return [entry.id for entry in requirements().values() if entry.judged == "invariant"]
