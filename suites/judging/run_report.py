"""The report file of a run: its data, its JSON Schema, and what in it contradicts itself. Pure.

The writer, the reader and the JSON Schema derive from these types, so they cannot differ.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from drahealth.suites.judging.ledger import requirements
from drahealth.suites.judging.report import Conditions, Outcome, Result, Run, Verdict, exit_code

FORMAT: Literal["drahealth-report/v1"] = "drahealth-report/v1"


@dataclass(frozen=True, slots=True)
class Judged:
    """A requirement in the report."""

    level: Literal["MUST", "SHOULD", "MAY"]
    sentence: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The report of `drahealth run`, `drahealth play`, or pytest with these scenarios. Readers ignore unknown keys."""

    # Meanings in the JSON Schema are the docstrings of the fields.
    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    report: Literal["drahealth-report/v1"]
    """Name and version of this format. The version changes if a key is removed or changes its meaning."""
    complete: bool
    """Whether the run reached its end, and the user selected all scenarios."""
    reason: str
    """Why the run is not complete; empty for a complete run."""
    interrupted: bool
    """Whether a signal, an error of the environment or an internal error ended the run. A report without an end, such
    as after SIGKILL, is interrupted too."""
    planned: int
    """The number of scenarios that the run was to play."""
    run: int
    """The number of scenarios with a result."""
    deselected: int
    """The number of scenarios that the user left out, for example with `-k`."""
    exit_code: int
    """Exit code of the process. `drahealth`: 0 passed, 1 failed, 2 no scenario ran, 3 error or interrupted. pytest
    has its own exit codes, and includes other tests."""
    ended: str | None
    """End of the run, RFC 3339; null if the run did not reach its end."""
    conditions: Conditions
    """When, where and how the run took place."""
    target: str
    """Name of the target."""
    about: str
    """A short description of the target."""
    health_api: str | None
    """The only health API of the drivers; `all` if each scenario was played over every health API; null for the
    default APIs."""
    counts: Mapping[Outcome, int]
    """The number of scenarios by outcome."""
    requirements: Mapping[str, Judged]
    """The result for each requirement."""
    scenarios: tuple[Result, ...]
    """The result of each scenario that ended."""

    @property
    def ended_early(self) -> bool:
        """Whether the run ended before all planned scenarios had run."""
        return self.interrupted or self.run < self.planned

    def result_code(self) -> int:
        """The exit code that `drahealth run` has for these results."""
        return exit_code(self.counts, interrupted=self.interrupted, missing=max(0, self.planned - self.run))

    def contradiction(self) -> str:
        """What does not fit together, as in an edited file; empty if all does."""
        if Counter(one.outcome for one in self.scenarios) != Counter(self.counts):
            return "`counts` differs from the scenarios"
        if self.run != len(self.scenarios) or self.run > self.planned:
            return "`run` or `planned` differs from the scenarios"
        if self.complete == bool(self.ended_early or self.deselected):
            return "`complete` differs from `interrupted`, `planned`, `run` and `deselected`"
        code = self.result_code()
        if self.conditions.command == "pytest":
            return "`exit_code` must not be 0 for these scenarios" if self.exit_code == 0 and code in (1, 3) else ""
        return "" if code == self.exit_code else f"`exit_code` must be {code} for these scenarios"


def report_of(run: Run, *, ended: str | None, exit_code: int | None = None) -> RunReport:
    """The report of a run. `exit_code` is that of the process; None: that of `drahealth run`."""
    ledger, verdicts = requirements(), run.verdicts()
    return RunReport(
        report=FORMAT,
        complete=not run.reason(),
        reason=run.reason(),
        interrupted=run.interrupted,
        planned=run.selected,
        run=len(run.results),
        deselected=run.deselected,
        exit_code=run.exit_code() if exit_code is None else exit_code,
        ended=ended,
        conditions=run.conditions,
        target=run.target,
        about=run.about,
        health_api=run.health_api,
        counts=dict(run.counts()),
        requirements={
            name: Judged(ledger[name].level, ledger[name].sentence, verdict) for name, verdict in verdicts.items()
        },
        scenarios=tuple(run.results),
    )


def to_json(report: RunReport) -> str:
    """The content of the report file."""
    return json.dumps(asdict(report), indent=2) + "\n"


def run_report_schema() -> dict[str, Any]:
    """The JSON Schema of the report file."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(RunReport).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
