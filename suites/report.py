"""The results of a run as data: what the table, the JSON report and the exit code are made from."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from drahealth.suites.ledger import requirements

VERSION = "drahealth-report/v1"

Outcome = Literal["passed", "known issue", "failed", "error"]
"""`known issue`: all that failed is known of this release. `error`: the harness' or the machine's fault."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one scenario."""

    name: str
    title: str
    requirements: tuple[str, ...]
    outcome: Outcome
    seconds: float
    known_issues: tuple[str, ...] = ()
    problem: str = ""
    """What went wrong, in full; empty if nothing did."""
    timeline: str = ""


@dataclass
class Run:
    """All results of a run on one target."""

    target: str
    about: str
    """The target in a few words."""
    results: list[Result] = field(default_factory=list)

    def take(self, data: Mapping[str, Any]) -> Result:
        """Adds a result from its plain data; an error at the end of a scenario replaces what was noted of it."""
        lists = {name: tuple(data[name]) for name in ("requirements", "known_issues")}
        result = Result(**{**data, **lists})
        self.results = [old for old in self.results if old.name != result.name] + [result]
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

    def verdicts(self) -> dict[str, str]:
        """By requirement: FAIL, ERROR, KNOWN ISSUE, PASS, or NOT_TESTED where no scenario of the run judged it."""
        worst: dict[str, str] = {}
        order = ("failed", "error", "known issue", "passed")
        words = {"failed": "FAIL", "error": "ERROR", "known issue": "KNOWN ISSUE", "passed": "PASS"}
        for outcome in order:
            for result in self.results:
                for name in result.requirements if result.outcome == outcome else ():
                    worst.setdefault(name, words[outcome])
        ran = "PASS" if self.results and self.exit_code() == 0 else "NOT_TESTED"
        return {
            name: worst.get(name, ran if entry.judged == "invariant" else "NOT_TESTED")
            for name, entry in requirements().items()
        }

    def to_json(self) -> str:
        """The report file."""
        ledger = requirements()
        verdicts = self.verdicts()
        return json.dumps(
            {
                "report": VERSION,
                "target": self.target,
                "about": self.about,
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
