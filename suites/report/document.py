"""The machine-readable report of a check or a certification, and its JSON Schema."""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.certificate import OPEN, Certificate
from drahealth.suites.driver_checks.evidence import Evidence, Header
from drahealth.suites.driver_checks.judge import Judgement, worst
from drahealth.suites.driver_checks.shown_by_releases import ReleaseView, shown_by_releases
from drahealth.suites.driver_checks.summary import ExitCode, Summary
from drahealth.suites.driver_checks.verdicts import DriverRequirement, Finding, Grade, Verdict

if TYPE_CHECKING:
    from pydantic import TypeAdapter


# The machine-readable report of a check or a certification: what its JSON file has. Pure.
#
# The writer and the JSON Schema derive from these types, so they cannot differ.

Format = Literal["drahealth-check-report/v1"]
FORMAT: Format = "drahealth-check-report/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding(Finding):
    """The result of one check."""

    check: str
    """Name of the check."""
    fix: str
    """What to change if the check fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementResult(DriverRequirement):
    """The result for one requirement."""

    verdict: Verdict
    findings: tuple[CheckFinding, ...]
    """The finding of each check; the worst one decides."""
    not_judged: Mapping[str, str]
    """Checks that do not apply, each with its reason, if other checks decide the verdict."""
    remarks: tuple[CheckFinding, ...]
    """Failures of unproven checks, which do not change the verdict."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of `drahealth check`, `judge` or `certify`. Readers ignore unknown keys."""

    # Meanings in the JSON Schema are the docstrings of the fields.
    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    format: Format
    """Name and version of this format. The version changes if a key is removed or changes its meaning."""
    verdict: str
    """The result for the driver in words, such as conforms."""
    exit_code: ExitCode
    """Exit code of the command: 0 conforms, 1 fails, 3 harness error, 4 incomplete."""
    complete: bool
    """Whether the run reached its end, and judged all requirements."""
    partial: bool
    """Whether the user selected some of the requirements."""
    reasons: tuple[str, ...]
    """Why the driver does not conform, one sentence each."""
    run: Header
    """What was checked, and how."""
    counts: Mapping[Verdict, int]
    """The number of requirements by verdict."""
    requirements: tuple[RequirementResult, ...]
    """The result for each requirement."""
    rerun: str = ""
    """The command that repeats a part of the run. REQUIREMENT stands for an ID."""
    certificate: Certificate | None = None
    """The certificate, even if the driver is not certified; null for a check."""
    families: Mapping[str, str] = field(default_factory=dict)
    """The result of each family of requirements, such as plugin contract, health and Pod status: conforms, fails,
    incomplete, harness error, or does not apply."""
    abilities: Mapping[str, Grade] = field(default_factory=dict)
    """How the run showed each ability of the driver: observed, asked or forced. If an ability is missing, the
    run did not show it."""
    releases: tuple[ReleaseView, ...] = ()
    """What kubelets of each release show of the same reports: an entry for each prepared device and release."""

    def contradiction(self) -> str:
        """What does not fit together, as in an edited file; empty if all does."""
        ids = [one.id for one in self.requirements]
        if len(set(ids)) < len(ids):
            return "a requirement occurs twice"
        if Counter(one.verdict for one in self.requirements) != Counter(self.counts):
            return "`counts` differs from the requirements"
        for one in self.requirements:
            if one.verdict != worst(finding.verdict for finding in one.findings):
                return f"the verdict of {one.id} differs from its findings"
        verdicts = {one.verdict for one in self.requirements if one.level == "MUST"}
        if Verdict.FAIL in verdicts and self.exit_code == 0:
            return "`exit_code` must not be 0 for a violated MUST"
        if self.exit_code == 0 and not (self.complete or self.partial):
            return "`exit_code` must not be 0 for a run without its end"
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
        if str(found.judged) < self.run.started[: len("2026-11-22")]:
            return "the certificate was judged before the run started"
        return ""


def report_of(summary: Summary, evidence: Evidence, rerun: str = "", certificate: Certificate | None = None) -> Report:
    """The report of a run. `rerun` is the command that repeats a part of it, with REQUIREMENT in place of an ID."""
    return Report(
        format=FORMAT,
        verdict=summary.verdict,
        exit_code=summary.exit_code,
        complete=evidence.complete and not summary.only,
        partial=bool(summary.only),
        reasons=summary.reasons,
        run=evidence.header,
        counts=dict(Counter(one.verdict for one in summary.judgements)),
        requirements=tuple(map(_requirement, summary.judgements)),
        rerun=rerun,
        certificate=certificate,
        families=dict(summary.families),
        abilities=summary.abilities,
        releases=shown_by_releases(evidence),
    )


def _requirement(judgement: Judgement) -> RequirementResult:
    return RequirementResult(
        **asdict(judgement.requirement),
        verdict=judgement.verdict,
        findings=_findings(judgement.findings),
        not_judged={name: finding.seen for name, finding in judgement.not_judged.items()},
        remarks=_findings(judgement.remarks),
    )


def _findings(found: Mapping[str, Finding]) -> tuple[CheckFinding, ...]:
    return tuple(CheckFinding(check=name, fix=CHECKS[name].fix, **asdict(finding)) for name, finding in found.items())


def report_schema() -> dict[str, Any]:
    """The JSON Schema of reports."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(Report).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


# Reports as JSON values, and back. Pure.


def plain(report: Report) -> dict[str, Any]:
    """The report as JSON values."""
    found: dict[str, Any] = _adapter().dump_python(report, mode="json")
    return found


def parse_report(data: bytes) -> Report:
    """The report of a file's content. Raises ValueError, with the place of the first mistake."""
    from pydantic import ValidationError

    try:
        return _adapter().validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            raise ValueError("not a JSON file") from None
        where = ".".join(map(str, first["loc"]))
        if where in ("", "format"):
            raise ValueError(f"not a report of format {FORMAT}") from None
        what = "is missing" if first["type"] == "missing" else "has an invalid value"
        raise ValueError(f"key {where} {what}") from None


@cache
def _adapter() -> "TypeAdapter[Report]":
    from pydantic import TypeAdapter

    return TypeAdapter(Report)
