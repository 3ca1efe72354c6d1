"""The certificate of a kubelet, from the report of a complete run of scenarios. Pure."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from typing import Literal

from drahealth.manager import releases
from drahealth.manager.profile import KEP
from drahealth.proto.version import __version__
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.judging.ledger import KnownIssue, every_known_issue, requirements
from drahealth.suites.report.document import (
    CertifiedIssue,
    KubeletCertificate,
    KubeletReport,
    RequirementResult,
    RunReport,
    ScenariosReport,
    certification_code,
)
from drahealth.suites.targets.versions import missing_in

JudgedBy = Literal["release", "kep"]
_SHOWN = 8
"""Characters of a digest in a text."""
_OUTCOMES = {1: "fails", 3: "harness error", 4: "incomplete"}
_NOT_RUN = "no scenario judged it"


def certify(
    run: RunReport, *, judged_by: JudgedBy, evidence_sha256: str, artifact: str = "", artifact_sha256: str = ""
) -> KubeletReport:
    """The certificate of a run. `evidence_sha256` is the digest of the file with its report.

    A known issue of the release is WAIVED if judged by the release, and FAIL if judged by the KEP. A requirement that
    no scenario judged is NOT_TESTED, unless the release lacks what it is about.
    """
    not_applicable = _not_applicable(run)
    judged = tuple(_judged(one, judged_by, not_applicable) for one in run.requirements)
    untested = {one.id for one in judged if one.verdict is Verdict.NOT_TESTED}
    certificate = KubeletCertificate(
        certified=False,
        text="",
        judged_by=judged_by,
        profile=" + ".join(_profiles(run)),
        kubelets=run.conditions.kubelets,
        newer_than=_newer_than(run),
        known_issues=tuple(_shown_issues(run)),
        not_applicable={one.id: not_applicable[one.id] for one in judged if one.verdict is Verdict.NOT_APPLICABLE},
        not_tested={name: _why_not_tested(run, name) for name in sorted(untested)},
        artifact=artifact,
        artifact_sha256=artifact_sha256,
        drahealth=__version__,
        ledger_sha256=ledger_sha256(),
        evidence_sha256=evidence_sha256,
    )
    values = {one.name: getattr(run, one.name) for one in fields(ScenariosReport)}
    changed = {"kind": "kubelet-certificate", "requirements": judged, "certificate": certificate}
    report = KubeletReport(**{**values, **changed})
    code = certification_code(report)
    certificate = replace(certificate, certified=code == 0)
    certificate = replace(certificate, text=_text(report, certificate, code))
    return replace(
        report, certificate=certificate, verdict=certificate.text, exit_code=code, reasons=tuple(_reasons(report))
    )


def _judged(one: RequirementResult, judged_by: JudgedBy, not_applicable: Mapping[str, str]) -> RequirementResult:
    verdict = one.verdict
    if verdict is Verdict.KNOWN_ISSUE:
        verdict = Verdict.WAIVED if judged_by == "release" else Verdict.FAIL
    elif verdict in (Verdict.NOT_APPLICABLE, Verdict.NOT_TESTED):
        verdict = Verdict.NOT_APPLICABLE if one.id in not_applicable else Verdict.NOT_TESTED
    return replace(one, verdict=verdict)


def _not_applicable(run: RunReport) -> dict[str, str]:
    """The requirements that are about something which a release of the run lacks, each with the reason.

    What only the target lacks does not count: another target can test it.
    """
    behaves_as = (releases.profile_named(name) for name in _profiles(run))
    versions = run.conditions.kubelets or tuple(one.release for one in behaves_as if one and one.release)
    lacks = [missing_in(version) for version in versions]
    return {
        name: missing[capability]
        for name, requirement in requirements().items()
        for capability in requirement.needs
        for missing in lacks[:1]
        if all(capability in each for each in lacks)
    }


def _why_not_tested(run: RunReport, requirement: str) -> str:
    """The reason of a scenario that was not applicable, if there is one."""
    reasons = (one.reason for one in run.scenarios if requirement in one.requirements and one.reason)
    return next(reasons, _NOT_RUN)


def _shown_issues(run: RunReport) -> Iterator[CertifiedIssue]:
    """The known issues that violated a requirement, in the order of the ledger."""
    violated: dict[str, set[str]] = {}
    for scenario in run.scenarios:
        if scenario.outcome == "known issue":
            for name in scenario.known_issues:
                violated.setdefault(name, set()).update(scenario.broken)
    for name, broken in violated.items():
        mine = _entries(run, name)
        found = tuple(dict.fromkeys(one.requirement for one in mine if one.requirement in broken))
        what = " ".join(dict.fromkeys(one.what for one in mine))
        yield CertifiedIssue(name, found, what, tuple(dict.fromkeys(link for one in mine for link in one.links)))


def _entries(run: RunReport, name: str) -> list[KnownIssue]:
    """The entries of an issue in the ledger for the profiles of the run; all, for an issue of a newer API server."""
    profiles, known = set(_profiles(run)), [one for one in every_known_issue() if one.id == name]
    return [one for one in known if profiles & set(one.releases)] or known


def _profiles(run: RunReport) -> tuple[str, ...]:
    """The profiles of the kubelets: those of the nodes, if each is judged by itself."""
    return tuple(dict.fromkeys(one.profile for one in run.nodes)) or (run.conditions.profile,)


def _newer_than(run: RunReport) -> str:
    newest = releases.MINORS[-1]
    return newest if any(map(releases.is_newer, run.conditions.kubelets)) else ""


def _text(report: KubeletReport, certificate: KubeletCertificate, code: int) -> str:
    parts = ["certified" if certificate.certified else f"not certified ({_OUTCOMES[code]})", report.subject]
    if certificate.kubelets:
        parts.append(f"kubelet {' + '.join(certificate.kubelets)}")
    if (judge := _judge(certificate)) not in report.subject:  # the title of the reference has its profile
        parts.append(judge)
    if report.interrupted:
        parts.append("the run did not reach its end")
    if report.health_api:
        parts.append(f"health API {report.health_api}")
    for verdict, words in ((Verdict.WAIVED, "waived"), (Verdict.NOT_TESTED, "not tested")):
        if found := [one.id for one in report.requirements if one.verdict is verdict]:
            parts.append(f"{words} {' + '.join(found)}")
    if certificate.known_issues:
        parts.append(f"known issues {' + '.join(one.id for one in certificate.known_issues)}")
    parts.append(f"drahealth {certificate.drahealth}")
    parts.append(f"ledger {certificate.ledger_sha256[:_SHOWN]}")
    return ", ".join(parts)


def _judge(certificate: KubeletCertificate) -> str:
    """By what it was judged: a kubelet without a profile of its own has only the known issues of the newest one."""
    if certificate.judged_by == "kep" or certificate.profile == KEP.name:
        return f"profile {KEP.name}"
    if certificate.newer_than:
        known = f"{KEP.name} and the known issues of {certificate.profile}"
        return f"judged by {known}, because {certificate.newer_than} is the newest known release"
    return f"profile {certificate.profile}"


def _reasons(report: KubeletReport) -> Iterator[str]:
    musts = [one for one in report.requirements if one.level == "MUST"]
    if failed := [one.id for one in musts if one.verdict is Verdict.FAIL]:
        yield f"Violated: {', '.join(failed)}."
    elif report.counts.get("failed"):
        yield "A scenario failed without a violated requirement."
    if errors := [one.id for one in musts if one.verdict is Verdict.ERROR]:
        yield f"Not judged because of errors: {', '.join(errors)}."
    reasons: dict[str, list[str]] = {}
    for one in musts:
        if one.verdict is Verdict.NOT_TESTED:
            reasons.setdefault(report.certificate.not_tested[one.id], []).append(one.id)
    yield from (f"Not tested: {', '.join(names)}: {why}." for why, names in reasons.items())
    yield from (one for one in report.reasons if one.startswith("The run is not complete"))


def ledger_sha256() -> str:
    """Digest of the requirements and of the known issues: changes with any of them."""
    content = [*map(asdict, requirements().values()), *map(asdict, every_known_issue())]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
