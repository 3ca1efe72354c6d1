"""The results of a run as data, and the report file with its JSON Schema."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

from drahealth.suites.judging.diagnosis import Cause
from drahealth.suites.judging.ledger import Quote, requirements

# The results of a run as data. The table, the JSON report and the exit code derive from it. Pure.

Outcome = Literal["passed", "known issue", "not applicable", "failed", "error"]
"""`known issue`: all failures are known issues of the release. `not applicable`: not run, because the target or the
health API lacks something that the scenario needs. `error`: a failure of the harness or of the machine."""

Command = Literal["drahealth run", "drahealth play", "pytest"]

Verdict = Literal["FAIL", "ERROR", "KNOWN ISSUE", "PASS", "NOT_APPLICABLE", "NOT_TESTED"]
_WORST_FIRST: tuple[Verdict, ...] = ("FAIL", "ERROR", "KNOWN ISSUE", "PASS", "NOT_APPLICABLE", "NOT_TESTED")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one scenario."""

    # Meanings in the JSON Schema are the docstrings of the fields.
    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    name: str
    """Name of the scenario. Over another health API than the default one, it ends with this API in brackets."""
    title: str
    """The name in words."""
    requirements: tuple[str, ...]
    """The requirements that the scenario checks."""
    outcome: Outcome
    """passed, failed, error, not applicable, or known issue: all its failures are known issues of the release."""
    seconds: float
    """Duration."""
    known_issues: tuple[str, ...] = ()
    """The known issues that the scenario showed."""
    broken: tuple[str, ...] = ()
    """The requirements that failed, also by known issues."""
    problem: str = ""
    """The full error text; empty after success. For a failed check, it begins with the diagnosis."""
    cause: Cause = ""
    """The first step on the way from the driver to the Pod status that failed; empty if no check failed. `late`: the
    status came after the time limit. `elsewhere`: the history has all steps."""
    diagnosis: str = ""
    """The cause in one line, with names and times from the history; empty if the scenario has no driver."""
    quotes: tuple[Quote, ...] = ()
    """The statements of the texts behind the failed requirement, at most two. The most relevant one comes first."""
    expected: str = ""
    """What the failed check expected."""
    seen: str = ""
    """What the failed check saw."""
    history: str = ""
    """What happened, as text; empty after success."""
    rerun: str = ""
    """The command that runs only this scenario again; empty after success."""
    beyond: tuple[str, ...] = ()
    """The requirements because of which the scenario is not applicable."""
    reason: str = ""
    """Why the scenario is not applicable."""
    where: str = ""
    """For a failed timeline: the step, with its file and line."""
    authors_step: bool = False
    """Whether a timeline failed at a step that its author has written, such as an expectation. No requirement is then
    broken."""
    notes: tuple[str, ...] = ()
    """Notes about a scenario that passed, one line each."""
    history_file: str = ""
    """The file with its history, relative to the directory of the report; empty without `--histories`."""
    history_sha256: str = ""
    """Digest of that file."""
    id: str = ""
    """Identifies the scenario in a run, however the run was started. The id of our scenarios is the same in all
    releases: `drahealth.kep::NAME`."""

    @property
    def key(self) -> str:
        """Identifies it among the results of a run, and the same scenario in other runs."""
        return self.id or self.name

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Result":
        """Create a result from plain data."""
        lists = {name: tuple(data[name]) for name in ("requirements", "known_issues", "broken", "beyond", "notes")}
        quotes = tuple(Quote(**one) for one in data["quotes"])
        return cls(**{**data, **lists, "quotes": quotes})

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """When, where and how a run took place."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    command: Command = "drahealth run"
    """The program that ran the scenarios. It decides what `exit_code` means."""
    started: str = ""
    """Start of the run, RFC 3339."""
    profile: str = ""
    """Name of the profile with the known behavior of the kubelet."""
    kubernetes: str | None = None
    """Kubernetes version of the kubelet or API server; null if neither is a real one."""
    seed: int | None = None
    """Seed of all timelines; null if each file has its own."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of drahealth, Python and pytest."""
    host: Mapping[str, str] = field(default_factory=dict)
    """Operating system, machine type and number of CPUs."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The options of the run by name, without the dashes."""
    revision: str | None = None
    """Git commit of the current directory. It ends with -dirty if files have changed since then; null without git."""


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
    """Whether a signal, an error of the environment or an internal error ended it."""
    planned: int = 0
    """The number of scenarios that it was to play."""
    deselected: int = 0
    """The number of scenarios that the user left out."""
    stopped: str = ""
    """Why it ended before all planned scenarios had run, if that is known."""
    conditions: Conditions = field(default_factory=Conditions)

    def take(self, data: Mapping[str, Any]) -> Result:
        """Add a result from plain data. A later result of the same scenario is merged into the first one."""
        result = Result.of(data)
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
        if self.ended_early:
            found = self.stopped or ("the run was interrupted" if self.interrupted else "scenarios have no result")
            return f"{found}; {len(self.results)} of {self.selected} planned scenarios have a result"
        if self.deselected:
            return f"{self.selected} of {self.selected + self.deselected} scenarios were selected"
        return ""

    def exit_code(self) -> int:
        """0 passed, 1 failed, 2 no scenario ran, 3 error of harness or environment, or a run without its end."""
        return exit_code(self.counts(), interrupted=self.interrupted, missing=self.missing)

    def verdicts(self) -> dict[str, Verdict]:
        """The worst verdict per requirement; NOT_TESTED if no scenario of the run checked it."""
        verdicts: dict[str, set[Verdict]] = {name: {"NOT_TESTED"} for name in requirements()}
        for result in self.results:
            for name, verdict in result.verdicts().items():
                verdicts[name].add(verdict)
        return {name: min(verdicts, key=_WORST_FIRST.index) for name, verdicts in verdicts.items()}


def exit_code(counts: Mapping[Outcome, int], *, interrupted: bool, missing: int = 0) -> int:
    """The exit code of a run with these outcomes. `missing` is the number of planned scenarios without one."""
    if interrupted or counts.get("error"):
        return 3
    if counts.get("failed"):
        return 1
    if missing:
        return 3
    return 0 if any(counts.values()) else 2


def _invariants() -> list[str]:
    return [entry.id for entry in requirements().values() if entry.judged == "invariant"]


# The report file of a run: its data, its JSON Schema, and what in it contradicts itself. Pure.
#
# The writer, the reader and the JSON Schema derive from these types, so they cannot differ.

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
