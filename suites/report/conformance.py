"""A certificate in the form of the ConformanceReport of Gateway API, for a public table of drivers. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.judge import ABILITIES
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.report.document import CheckedRequirement, CheckReport

ABOUT = ("organization", "project", "url", "version", "contact")
"""What a project says of itself, under `implementation`."""
_COUNTED = {
    Verdict.PASS: "Passed",
    Verdict.FAIL: "Failed",
    Verdict.ERROR: "Failed",
    Verdict.NOT_TESTED: "Skipped",
    Verdict.WAIVED: "Skipped",
    Verdict.STATIC: "Skipped",
}
"""Requirements that do not apply are not counted; without an API server, they are skipped."""


def conformance_report(report: CheckReport, about: Mapping[str, str]) -> dict[str, Any]:
    """The content of the YAML file. Core are the MUSTs, and extended are the SHOULDs with the abilities of the driver.

    Raises ValueError for a report without a certificate.
    """
    certificate, run = report.certificate, report.conditions
    if certificate is None:
        raise ValueError("it is no certificate")
    implementation: dict[str, Any] = {"project": certificate.driver, **about}
    if contact := about.get("contact"):
        implementation["contact"] = [one.strip() for one in contact.split(",")]
    musts = [one for one in report.requirements if one.level == "MUST"]
    others = [one for one in report.requirements if one.level != "MUST"]
    shown = [*certificate.health_apis, *report.abilities]
    counted = {**_COUNTED, Verdict.NOT_APPLICABLE: "Skipped"} if run.api_server == "none" else _COUNTED
    tried = _tried(report)
    missing = [name for name in dict.fromkeys(one.name for one in ABILITIES) if name not in report.abilities]
    features = {
        "supportedFeatures": shown,
        "unsupportedFeatures": [name for name in missing if name in tried],
        "untestedFeatures": [name for name in missing if name not in tried],
    }
    return {
        "apiVersion": "drahealth/v1",
        "kind": "ConformanceReport",
        "date": run.started,
        "implementation": implementation,
        **({"artifact": {"name": run.artifact, "sha256": run.artifact_sha256}} if run.artifact_sha256 else {}),
        "drahealthVersion": certificate.drahealth,
        "ledger": certificate.ledger_sha256,
        "mode": certificate.level,
        "kubernetes": certificate.releases,
        "certified": certificate.certified,
        "profiles": [
            {
                "name": run.subject.upper(),
                "summary": certificate.text,
                "core": _status(musts, counted, complete=report.complete),
                "extended": {**_status(others, counted, complete=report.complete), **features},
            }
        ],
    }


def _tried(report: CheckReport) -> set[str]:
    """The abilities that the run tried to show. Others are of a higher level, or their experiments could not run."""
    found = {finding.check: finding.verdict for one in report.requirements for finding in one.findings}
    ran = set(report.conditions.experiments)

    def is_tried(check: str) -> bool:
        if found.get(check) is Verdict.NOT_APPLICABLE:
            return ran.issuperset(CHECKS[check].experiments)
        return found.get(check) in (Verdict.FAIL, Verdict.WAIVED)

    return {one.name for one in ABILITIES if any(map(is_tried, one.checks))}


def _status(
    requirements: Sequence[CheckedRequirement], counted: Mapping[Verdict, str], *, complete: bool
) -> dict[str, Any]:
    """The result of some requirements: failure, partial if one was not judged or the run was cut short, or success."""
    counts = Counter(counted[one.verdict] for one in requirements if one.verdict in counted)
    named = {kind: [one.id for one in requirements if counted.get(one.verdict) == kind] for kind in counts}
    return {
        "result": "failure" if counts["Failed"] else "partial" if counts["Skipped"] or not complete else "success",
        "statistics": {kind: counts[kind] for kind in ("Passed", "Skipped", "Failed")},
        **({"skippedTests": named["Skipped"]} if counts["Skipped"] else {}),
        **({"failedTests": named["Failed"]} if counts["Failed"] else {}),
    }
