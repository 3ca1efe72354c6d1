"""The report: one document for runs of scenarios, checks and certificates, as data, JSON and JSON Schema. Pure."""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from drahealth.proto.quoting import one_line, quoted
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.evidence import Header
from drahealth.suites.driver_checks.verdicts import (
    OPEN,
    ExitCode,
    Finding,
    Grade,
    Level,
    SubjectKind,
    Verdict,
    Waiver,
    verdict_of,
)
from drahealth.suites.judging.diagnosis import Cause
from drahealth.suites.judging.ledger import Quote
from drahealth.suites.report.soak import Soak

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# The writer, the reader and the JSON Schema derive from these types, so they cannot differ. In the JSON Schema, the
# meaning of a key is the docstring of its field.

Format = Literal["drahealth-report/v1"]
FORMAT: Format = "drahealth-report/v1"
Tone = Literal["good", "bad", "open"]
"""Whether the subject met its requirements, failed, or was not judged completely."""


# What all reports have.


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementResult:
    """The verdict on one requirement."""

    id: str
    level: Literal["MUST", "SHOULD", "MAY"]
    family: str
    """What it is about. Reports list requirements of one family together."""
    sentence: str
    source: str
    """Text and section."""
    link: str
    """URL of the source; empty without one."""
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(ABC):
    """The report of `run`, `play`, `soak`, `check`, `judge`, `certify` or `observe`. Readers ignore unknown keys."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    format: Format
    """Name and version of this format. The version changes if a key is removed or changes its meaning."""
    kind: Literal["run", "play", "soak", "check", "certificate", "kubelet-certificate", "observation"]
    """What the report is about: a run of scenarios or of timelines, a soak, a check or a certification of a driver, the
    certification of a kubelet, or an observation."""
    subject: str
    """What was tested: the target, or the driver."""
    verdict: str
    """The result in words, such as conforms. A run that is not complete has a verdict of its own."""
    exit_code: int
    """Exit code of the process."""
    complete: bool
    """Whether the run reached its end, and judged everything: the user selected nothing."""
    interrupted: bool
    """Whether the run did not reach its end."""
    reasons: tuple[str, ...]
    """Why the verdict is not a better one, or the run is not complete: one sentence each."""
    counts: Mapping[Any, int]
    """The number of results by verdict."""
    requirements: tuple[RequirementResult, ...]
    """The result for each requirement."""

    @property
    @abstractmethod
    def program(self) -> str:
        """The program that tested, such as `drahealth run`; of a check with its level, such as `drahealth core`."""

    @property
    @abstractmethod
    def tone(self) -> Tone:
        """good only for a complete run whose subject meets all MUSTs."""

    @abstractmethod
    def contradiction(self) -> str:
        """What does not fit together, as in an edited file; empty if all does."""


# The report of a run of scenarios or timelines.

Outcome = Literal["passed", "known issue", "not applicable", "failed", "error"]
"""`known issue`: all failures are known issues of the release. `not applicable`: not run, because the target or the
health API lacks something that the scenario needs. `error`: a failure of the harness or of the machine."""

Command = Literal["drahealth run", "drahealth play", "drahealth soak", "pytest"]


@dataclass(frozen=True, slots=True)
class KnownViolation:
    """A check that failed because of a known issue."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    issue: str
    """ID of the known issue."""
    requirement: str
    assertion: str
    """Name of the check in the scenario."""
    expected: str
    seen: str


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The result of one scenario."""

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
    violations: tuple[KnownViolation, ...] = ()
    """What failed because of known issues."""
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
    node: str = ""
    """The node that is judged; empty if each scenario runs once, on any node."""

    @property
    def key(self) -> str:
        """Identifies it among the results of a run, and the same scenario in other runs."""
        return self.id or self.name

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "ScenarioResult":
        """Create a result from plain data."""
        lists = {name: tuple(data[name]) for name in ("requirements", "known_issues", "broken", "beyond", "notes")}
        quotes = tuple(Quote(**one) for one in data["quotes"])
        violations = tuple(KnownViolation(**one) for one in data["violations"])
        return cls(**{**data, **lists, "quotes": quotes, "violations": violations})

    def then(self, later: "ScenarioResult") -> "ScenarioResult":
        """Merge with a later result of the same scenario, such as an error of its cleanup."""
        problem = "\n".join(filter(None, (self.problem, later.problem)))
        seconds = round(self.seconds + later.seconds, 3)
        broken = () if later.outcome == "error" else self.broken
        return replace(self, outcome=later.outcome, seconds=seconds, broken=broken, problem=problem)


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
    kubelets: tuple[str, ...] = ()
    """The releases of the kubelets, with patch levels, oldest first; empty without a real kubelet."""
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


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """The result of one node, for a run that judges each node by itself."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    node: str
    """Name of the Node object."""
    kubelet: str
    """Version of its kubelet."""
    profile: str
    """Profile of its kubelet."""
    counts: Mapping[Outcome, int]
    """The number of scenarios by outcome."""
    verdict: str
    """passed, failed, harness error, or not complete: a planned scenario has no result."""

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items())
        return f"kubelet {self.kubelet}, profile {self.profile}: {self.verdict} ({counts or 'no result'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenariosReport(Report):
    """The report of a run of scenarios, or of a certification by them."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

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
    health_api: str | None
    """The only health API of the drivers; `all` if each scenario was played over every health API; null for the
    default APIs."""
    counts: Mapping[Outcome, int]
    """The number of scenarios by outcome."""
    scenarios: tuple[ScenarioResult, ...]
    """The result of each scenario that ended."""
    nodes: tuple[NodeSummary, ...] = ()
    """The result of each node; empty if each scenario runs once, on any node."""

    @property
    def program(self) -> str:
        """The program that played the scenarios."""
        return self.conditions.command

    @property
    def ended_early(self) -> bool:
        """Whether the run ended before all planned scenarios had run."""
        return self.interrupted or self.run < self.planned

    @property
    def tone(self) -> Tone:
        """good only for a run that judged each MUST, and met all."""
        verdicts = {one.verdict for one in self.requirements if one.level == "MUST"}
        code = self.result_code()
        met = code == 0 and self.complete and verdicts <= {Verdict.PASS, Verdict.NOT_APPLICABLE}
        return "bad" if code == 1 else "good" if met else "open"

    def result_code(self) -> int:
        """The exit code that `drahealth run` has for these results."""
        return exit_code(self.counts, interrupted=self.interrupted, missing=max(0, self.planned - self.run))

    def words(self) -> str:
        """The result in words: a run of some scenarios, or an interrupted one, is never just passed."""
        code = self.result_code()
        if self.interrupted:
            return "interrupted"
        if self.ended_early:
            return "failed, and ended early" if code == 1 else "ended early"
        verdict = {0: "passed", 1: "failed", 2: "no scenario ran"}.get(code, "harness error")
        if code == 0 and self.counts.get("known issue", 0):
            verdict += ", with known issues"
        untested = sum(one.verdict is Verdict.NOT_TESTED for one in self.requirements if one.level == "MUST")
        return f"{verdict}, {untested} MUST not tested" if code == 0 and untested else verdict

    def contradiction(self) -> str:
        """What does not fit together, as in an edited file; empty if all does."""
        if Counter(one.outcome for one in self.scenarios) != Counter(self.counts):
            return "`counts` differs from the scenarios"
        if self.run != len(self.scenarios) or self.run > self.planned:
            return "`run` or `planned` differs from the scenarios"
        if self.complete == bool(self.ended_early or self.deselected):
            return "`complete` differs from `interrupted`, `planned`, `run` and `deselected`"
        if self.verdict != self.words():
            return f"`verdict` must be {self.words()!r} for these scenarios"
        code = self.result_code()
        if self.conditions.command == "pytest":
            return "`exit_code` must not be 0 for these scenarios" if self.exit_code == 0 and code in (1, 3) else ""
        return "" if code == self.exit_code else f"`exit_code` must be {code} for these scenarios"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport(ScenariosReport):
    """The report of `drahealth run`, `drahealth play`, `drahealth soak`, or pytest with these scenarios."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    kind: Literal["run", "play", "soak"]
    soak: Soak | None = None
    """What only a soak has; null for any other run. The scenarios of a soak are its rounds."""

    @property
    def tone(self) -> Tone:
        """As of other runs; of a soak, good only if all leaks were judged."""
        found = ScenariosReport.tone.fget(self)  # type: ignore[attr-defined]
        return "open" if found == "good" and self.soak and self.soak.not_judged else found

    def result_code(self) -> int:
        """As of other runs. A leak is a failure, too."""
        code = ScenariosReport.result_code(self)
        return 1 if code == 0 and self.soak and self.soak.leaks else code

    def words(self) -> str:
        """As of other runs; of a soak, also what leaks, or whose leaks were not judged."""
        words = ScenariosReport.words(self)
        if self.soak is None or self.interrupted:
            return words
        if self.soak.leaks:
            return f"{words}, {', '.join(f'{one.process} leaks {one.resource}' for one in self.soak.leaks)}"
        unjudged = " and ".join(self.soak.not_judged)
        return f"{words}, leaks of {unjudged} not judged" if unjudged else words


def exit_code(counts: Mapping[Outcome, int], *, interrupted: bool, missing: int = 0) -> int:
    """The exit code of a run with these outcomes. `missing` is the number of planned scenarios without one."""
    if interrupted or counts.get("error"):
        return 3
    if counts.get("failed"):
        return 1
    if missing:
        return 3
    return 0 if any(counts.values()) else 2


# The certificate of a kubelet: a run of scenarios, and whether the kubelet is certified by it.


@dataclass(frozen=True, slots=True)
class CertifiedIssue:
    """A known issue of released kubelets that the run showed."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    id: str
    requirements: tuple[str, ...]
    """The violated requirements."""
    what: str
    """What the kubelet does."""
    links: tuple[str, ...]
    """The places in the code of Kubernetes, and the threads about it."""


@dataclass(frozen=True, slots=True)
class KubeletCertificate:
    """The certificate of a run of scenarios: whether the kubelet is certified, and by what it was judged."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    certified: bool
    """Whether the run was complete, and no applicable MUST has FAIL, NOT_TESTED or ERROR."""
    text: str
    """The verdict in words, with the target, releases and profile."""
    judged_by: Literal["release", "kep"]
    """`release`: the known issues of the profile are waived. `kep`: they are failures."""
    profile: str
    """The profile of the kubelet, such as v1.36.4: which known issues its release has. Several are joined by ` + `."""
    kubelets: tuple[str, ...]
    """The releases of the kubelets, with patch levels, oldest first; empty for the reference."""
    newer_than: str
    """The newest release that drahealth knows, if a kubelet is newer; otherwise empty."""
    known_issues: tuple[CertifiedIssue, ...]
    """The known issues that the run showed, each waived or a failure."""
    not_applicable: Mapping[str, str]
    """The requirements that do not apply to this release, each with the reason."""
    not_tested: Mapping[str, str]
    """The requirements that no scenario judged, each with the reason."""
    artifact: str
    """The file of the kubelet; empty if the target does not show it."""
    artifact_sha256: str
    """Digest of that file."""
    drahealth: str
    """Version of drahealth that judged the run."""
    ledger_sha256: str
    """Digest of the requirements and the known issues."""
    evidence_sha256: str
    """Digest of the report of the run, which has the digests of its histories."""

    def issues_of(self, requirement: str) -> tuple[CertifiedIssue, ...]:
        """The known issues that violated this requirement."""
        return tuple(one for one in self.known_issues if requirement in one.requirements)

    def explanation(self, requirement: str) -> tuple[str, ...]:
        """Why its verdict is not PASS, as far as a known issue or a missing scenario is the reason: some lines."""
        issues = tuple(" ".join((f"known issue {o.id}: {o.what}", *o.links)) for o in self.issues_of(requirement))
        reasons = (found.get(requirement) for found in (self.not_applicable, self.not_tested))
        return (*issues, *filter(None, reasons))


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletReport(ScenariosReport):
    """The report of `drahealth certify --kubelet`: the run that is its evidence, and the certificate.

    The verdict on a requirement never is KNOWN ISSUE, but WAIVED or FAIL.
    """

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    kind: Literal["kubelet-certificate"]
    exit_code: int
    """Exit code of the command: 0 certified, 1 fails, 3 harness error, 4 incomplete."""
    certificate: KubeletCertificate
    """The certificate, even if the kubelet is not certified."""

    @property
    def program(self) -> str:
        """What certified it, as a label."""
        return "drahealth kubelet"

    @property
    def tone(self) -> Tone:
        """good only for a certified kubelet."""
        return "good" if self.certificate.certified else "bad" if self.exit_code == 1 else "open"

    def result_code(self) -> int:
        """The exit code for these results."""
        return certification_code(self)

    def words(self) -> str:
        """The text of the certificate."""
        return self.certificate.text

    def contradiction(self) -> str:
        """What does not fit together, as in an edited file; empty if all does."""
        if problem := ScenariosReport.contradiction(self):
            return problem
        found = self.certificate
        if found.certified != (self.exit_code == 0):
            return "`certified` differs from `exit_code`"
        if found.text.startswith("certified, ") != found.certified:
            return "`verdict` and the text of the certificate differ from `certified`"
        if any(one.verdict is Verdict.KNOWN_ISSUE for one in self.requirements):
            return "a certificate waives a known issue, or fails by it"
        return ""


def certification_code(report: ScenariosReport) -> ExitCode:
    """The exit code of a certification with these scenarios, and these verdicts on requirements."""
    verdicts = {one.verdict for one in report.requirements if one.level == "MUST"}
    if Verdict.FAIL in verdicts or report.counts.get("failed"):
        return 1
    if Verdict.ERROR in verdicts or report.counts.get("error"):
        return 3
    return 4 if Verdict.NOT_TESTED in verdicts or not report.complete or not report.scenarios else 0


# The report of a check or a certification.


@dataclass(frozen=True, slots=True)
class KubeletHealth:
    """What a kubelet of one release does with the health APIs of a driver."""

    release: str
    """The Kubernetes minor, such as 1.37."""
    health_api: str
    """The health API from which it gets reports; empty if it gets none."""
    shows: bool
    """Whether it can show the health of the driver."""
    reason: str = ""
    """Why it shows nothing, or what it needs; empty if it needs nothing."""

    def __str__(self) -> str:
        said = f"shows health from {self.health_api}" if self.shows else "shows no health"
        return f"{said}, {self.reason}" if self.shows and self.reason else f"{said}: {self.reason}".removesuffix(": ")


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of a run: whether the driver is certified, and for what."""

    certified: bool
    """Whether no applicable MUST of the level has FAIL, NOT_TESTED or ERROR."""
    text: str
    """The verdict in words, with the driver, level, health APIs and releases."""
    level: Level
    """The level: how many requirements were judged."""
    driver: str
    """The name that the driver gave in GetInfo, or the resource of a device plugin; empty without a registration."""
    health_apis: tuple[str, ...]
    """The health APIs on which the driver reported."""
    releases: str
    """The Kubernetes minors of the judged requirements, such as 1.34-1.37."""
    kubelets: tuple[KubeletHealth, ...]
    """What a kubelet of each supported release shows, the oldest first; empty if the driver was not registered."""
    drahealth: str
    """Version of drahealth that judged the evidence."""
    ledger_sha256: str
    """Digest of the content of the ledger."""
    evidence_sha256: str
    """Digest of the evidence file."""
    judged: date
    """The day on which the evidence was judged, which decides whether a waiver has expired."""
    waivers: tuple[Waiver, ...]
    """The accepted violations that the verdict takes into account."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a Pod status shows of a device from a time on."""

    at: float
    """Seconds since the start of the run."""
    health: Health
    message: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseView:
    """What a Pod status of one release shows of one device."""

    release: str
    """The Kubernetes minor, such as 1.37."""
    device: str
    """Pool and name of the device; resource and ID of a device of a device plugin."""
    resource_id: str
    """What names the device in the Pod status."""
    shown: tuple[Seen, ...]
    """What the status shows over time: an entry for each change."""
    reasons: tuple[str, ...]
    """The reasons why the status differs from the reports of the driver, one phrase each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding(Finding):
    """The result of one check."""

    check: str
    """Name of the check."""
    fix: str
    """What to change if the check fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRequirement(RequirementResult):
    """The verdict on one requirement of drivers, with the findings of its checks."""

    kubernetes: str
    """The Kubernetes minors that it holds for, such as 1.34-1.37."""
    apis: tuple[str, ...]
    """The health APIs that it holds for; empty for all."""
    scope: Level
    """The smallest level that judges it."""
    binds: SubjectKind
    findings: tuple[CheckFinding, ...]
    """The finding of each check; the worst one decides."""
    not_judged: Mapping[str, str]
    """Checks that do not apply, each with its reason, if other checks decide the verdict."""
    remarks: tuple[CheckFinding, ...]
    """Failures of unproven checks, which do not change the verdict."""
    reading: str = ""
    """How drahealth reads a source that leaves a choice; empty if it leaves none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Report):
    """The report of `drahealth check`, `judge` or `certify`."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    kind: Literal["check", "certificate"]
    interrupted: bool
    """Whether the evidence of the run was cut short."""
    exit_code: ExitCode
    """Exit code of the command: 0 conforms, 1 fails, 3 harness error, 4 incomplete."""
    partial: bool
    """Whether the user selected some of the requirements."""
    conditions: Header
    """What was checked, and how."""
    counts: Mapping[Verdict, int]
    """The number of requirements by verdict."""
    requirements: tuple[CheckedRequirement, ...]
    """The result for each requirement, with the findings of its checks."""
    rerun: str = ""
    """The command that repeats a part of the run. REQUIREMENT stands for an ID."""
    certificate: Certificate | None = None
    """The certificate, even if the driver is not certified; null for a check."""
    families: Mapping[str, str] = field(default_factory=dict)
    """The result of each family of requirements, such as health: conforms, fails, incomplete, harness error, not shown,
    or does not apply. A family is not shown if nothing changed that would show it."""
    abilities: Mapping[str, Grade] = field(default_factory=dict)
    """How the run showed each ability of the driver: observed, asked or forced. If an ability is missing, the
    run did not show it."""
    covered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values of each dimension of faults that the run caused, such as devices and moments
    (docs/reference/driver-requirements.md). Empty for a run without a plan of faults."""
    not_caused: tuple[str, ...] = ()
    """What the plan of faults could not cause, each with the reason."""
    releases: tuple[ReleaseView, ...] = ()
    """What kubelets of each release show of the same reports: an entry for each prepared device and release."""

    @property
    def program(self) -> str:
        """drahealth with the level of the run."""
        return f"drahealth {self.conditions.level}"

    @property
    def tone(self) -> Tone:
        """good only for a complete run whose driver meets its requirements; of a certification: certified."""
        certified = self.certificate is None or self.certificate.certified
        if self.exit_code == 0 and self.complete and not self.partial and certified:
            return "good"
        return "bad" if self.exit_code == 1 else "open"

    def contradiction(self) -> str:
        """What does not fit together, as in an edited file; empty if all does."""
        ids = [one.id for one in self.requirements]
        if len(set(ids)) < len(ids):
            return "a requirement occurs twice"
        if Counter(one.verdict for one in self.requirements) != Counter(self.counts):
            return "`counts` differs from the requirements"
        for one in self.requirements:
            if one.verdict != verdict_of(finding.verdict for finding in one.findings):
                return f"the verdict of {one.id} differs from its findings"
        verdicts = {one.verdict for one in self.requirements if one.level == "MUST"}
        if Verdict.FAIL in verdicts and self.exit_code == 0:
            return "`exit_code` must not be 0 for a violated MUST"
        if self.complete == (self.interrupted or self.partial):
            return "`complete` differs from `interrupted` and `partial`"
        if self.interrupted and "conforms" in self.families.values():
            return "no family of requirements can conform in a run without its end"
        if self.exit_code == 0 and self.interrupted:
            return "`exit_code` must not be 0 for a run without its end"
        if (self.kind == "certificate") != (self.certificate is not None):
            return "`kind` differs from `certificate`"
        return self._contradiction_of_certificate(verdicts) if self.certificate else ""

    def _contradiction_of_certificate(self, verdicts: Set[Verdict]) -> str:
        """The same of the certificate; `verdicts` are those on the MUSTs."""
        found = self.certificate
        assert found
        if found.certified and verdicts & set(OPEN):
            return "`certified` must be false if a MUST is violated or not tested"
        if found.certified and (self.exit_code != 0 or not self.complete):
            return "`certified` must be false for a run that failed, or that did not reach its end"
        if self.verdict != found.text or found.text.startswith("certified ") != found.certified:
            return "`verdict` and the text of the certificate differ from `certified`"
        if str(found.judged) < self.conditions.started[: len("2026-11-22")]:
            return "the certificate was judged before the run started"
        return ""


# The report of an observation.


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What was observed on one node."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    node: str
    kubelet: str
    """Version of the kubelet, such as v1.37.1; empty if the node does not say it."""
    verdict: Verdict
    """The worst verdict of the MUSTs."""
    findings: Mapping[str, Finding]
    """The finding of each rule, by its ID."""
    pods: int
    """The number of Pods with devices of the driver."""
    devices: int
    """The number of devices that were in use."""
    unseen: tuple[str, ...]
    """What could not be seen, one sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationReport(Report):
    """The report of `drahealth observe`."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    kind: Literal["observation"]
    exit_code: ExitCode
    """Exit code of the command: 0 passes, 1 fails, 3 interrupted, 4 incomplete."""
    drahealth: str
    """Version of drahealth."""
    started: str
    """Start of the observation, RFC 3339."""
    seconds: float
    """Its duration."""
    counts: Mapping[Verdict, int]
    """The number of nodes by verdict."""
    nodes: tuple[NodeResult, ...]
    """The result of each node."""

    @property
    def program(self) -> str:
        """The program that observed."""
        return "drahealth observe"

    @property
    def tone(self) -> Tone:
        """good only for a complete observation in which each node passes."""
        return {0: "good", 1: "bad"}.get(self.exit_code, "open")  # type: ignore[return-value]

    def contradiction(self) -> str:
        """What does not fit together, as in an edited file; empty if all does."""
        if Counter(one.verdict for one in self.nodes) != Counter(self.counts):
            return "`counts` differs from the nodes"
        levels = {one.id: one.level for one in self.requirements}
        for node in self.nodes:
            musts = [found.verdict for name, found in node.findings.items() if levels.get(name) == "MUST"]
            if node.verdict != verdict_of(musts):
                return f"the verdict of node {node.node} differs from its findings"
        if self.exit_code != (code := code_of(self.counts, interrupted=self.interrupted)):
            return f"`exit_code` must be {code} for these nodes"
        return "`complete` differs from `interrupted`" if self.complete == self.interrupted else ""


def code_of(nodes: Mapping[Verdict, int], *, interrupted: bool) -> ExitCode:
    """The exit code of an observation with so many nodes by verdict."""
    if interrupted:
        return 3
    return 1 if nodes.get(Verdict.FAIL) else 0 if set(nodes) == {Verdict.PASS} else 4


# Reports as JSON, and back.

AnyReport = RunReport | KubeletReport | CheckReport | ObservationReport
"""A report of any kind."""


def to_json(report: Report) -> str:
    """The content of the report file."""
    return json.dumps(asdict(report), indent=2, default=str) + "\n"


def parse_report(data: bytes) -> AnyReport:
    """The report of a file's content. Raises ValueError, with the first mistake."""
    from pydantic import ValidationError

    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a complete JSON file ({one_line(str(error))})") from None
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise ValueError(f"not a report: the key `format` must be {FORMAT}, got {quoted(found)}")
    try:
        return _adapter().validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"][1:])) or "kind"
        what = "is missing" if first["type"] in ("missing", "union_tag_not_found") else "has an invalid value"
        raise ValueError(f"key {where} {what}") from None


def report_schema() -> dict[str, Any]:
    """The JSON Schema of reports."""
    from pydantic import TypeAdapter

    schema = _adapter().json_schema()
    shared = {
        name: key
        for base in (ScenariosReport, Report)
        for name, key in TypeAdapter(base).json_schema()["properties"].items()
        if "description" in key
    }
    for kind in ("RunReport", "KubeletReport", "CheckReport", "ObservationReport"):
        keys = schema["$defs"][kind]["properties"]
        for name in keys.keys() & shared.keys():
            keys[name].setdefault("description", shared[name]["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


@cache
def _adapter() -> "TypeAdapter[AnyReport]":
    from pydantic import Discriminator, TypeAdapter

    return TypeAdapter(Annotated[AnyReport, Discriminator("kind")])
