"""A certificate for others: an in-toto Statement with signatures, and a ConformanceReport of Gateway API. Pure.

A statement has the predicate type test-result v0.1 of in-toto. Its subject is the digest of the driver that ran. A
signature is either a DSSE envelope of a key of the user, which this module makes and checks, or a bundle of sigstore.
"""

import base64
import binascii
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.judge import ABILITIES
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.report.document import (
    Certificate,
    CheckReport,
    KubeletCertificate,
    KubeletReport,
    RequirementResult,
)

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
NO_SUBJECT = "the certificate names no digest of the driver"
NO_SUBJECT_HINT = "set `artifact` in [driver] to the file of the driver, or to its image with @sha256:DIGEST"
NO_KUBELET = "the certificate names no digest of the kubelet"
NO_KUBELET_HINT = "certify it with --target kubelet, which has the file of the kubelet"

Certified = CheckReport | KubeletReport
"""A report with a certificate of a driver, or of a kubelet."""


def subject_of(report: Certified) -> tuple[str, str]:
    """What the certificate is about: the name of the file or image, and its digest. Both are empty if unknown."""
    about = report.certificate if isinstance(report, KubeletReport) else report.conditions
    return about.artifact, about.artifact_sha256


def no_subject(report: Certified) -> tuple[str, str]:
    """The sentence and the hint about a certificate without the digest of its subject."""
    return (NO_KUBELET, NO_KUBELET_HINT) if isinstance(report, KubeletReport) else (NO_SUBJECT, NO_SUBJECT_HINT)


# The statement.


def statement_of(report: Certified, report_sha256: str, url: str = "") -> dict[str, Any]:
    """The statement of a certificate. `report_sha256` is the digest of its file, and `url` that of the CI run.

    Raises ValueError without the digest of a driver or a kubelet.
    """
    certificate, (name, digest) = report.certificate, subject_of(report)
    if certificate is None or not digest:
        raise ValueError(no_subject(report)[0])
    files = {
        "driver profile": "" if isinstance(report, KubeletReport) else report.conditions.profile_sha256,
        "ledger of requirements": certificate.ledger_sha256,
        "run.json" if isinstance(report, KubeletReport) else "evidence.jsonl": certificate.evidence_sha256,
        "report.json": report_sha256,
    }
    about = {**_scope(certificate), "verdict": certificate.text}
    harness = {"name": "drahealth", "uri": f"pkg:pypi/drahealth@{certificate.drahealth}", "annotations": about}
    tests: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for one in report.requirements:
        if kind := _kind(one):
            tests[kind].append(one.id)
    result = "FAILED" if not certificate.certified else "WARNED" if tests["warnedTests"] else "PASSED"
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "result": result,
            "configuration": [harness, *({"name": n, "digest": {"sha256": d}} for n, d in files.items() if d)],
            **({"url": url} if url else {}),
            **tests,
        },
    }


def _scope(certificate: Certificate | KubeletCertificate) -> dict[str, str]:
    """What the certificate holds for."""
    if isinstance(certificate, KubeletCertificate):
        releases = " + ".join(certificate.kubelets)
        return {"judged by": certificate.judged_by, "profile": certificate.profile, "releases": releases}
    return {"level": certificate.level, "releases": certificate.releases}


def _kind(one: RequirementResult) -> str:
    """The list of a requirement: warned are violated SHOULDs, waivers, and what the run could not change."""
    match one.verdict:
        case Verdict.NOT_APPLICABLE:
            return ""
        case Verdict.PASS:
            return "passedTests"
        case Verdict.FAIL | Verdict.ERROR | Verdict.NOT_TESTED if one.level == "MUST":
            return "failedTests"
        case _:
            return "warnedTests"


def without_url(statement: Any) -> Any:
    """The statement without the URL of its run, which the evidence does not have."""
    predicate = statement.get("predicate") if isinstance(statement, dict) else None
    if not isinstance(predicate, dict):
        return statement
    return {**statement, "predicate": {name: value for name, value in predicate.items() if name != "url"}}


def to_text(statement: dict[str, Any]) -> str:
    """The content of its file."""
    return json.dumps(statement, indent=1) + "\n"


# Signatures with a key: DSSE envelopes, https://github.com/secure-systems-lab/dsse.


class KeyProblem(ValueError):
    """A key cannot be used; the message says why."""


_KEYS = "use an Ed25519 or ECDSA key in a PEM file without a password"


def signed(payload: bytes, private_key: bytes) -> str:
    """The envelope of a payload, signed with a key of a PEM file. Raises KeyProblem."""
    try:
        key = load_pem_private_key(private_key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyProblem("it has no private key that can be read; " + _KEYS) from None
    message = _pre_authentication(payload)
    match key:
        case Ed25519PrivateKey():
            signature = key.sign(message)
        case EllipticCurvePrivateKey():
            signature = key.sign(message, ECDSA(SHA256()))
        case _:
            raise KeyProblem("the kind of its key is not supported; " + _KEYS)
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"sig": base64.b64encode(signature).decode()}],
    }
    return json.dumps(envelope, indent=1) + "\n"


def opened(envelope: bytes, public_key: bytes) -> bytes | None:
    """The payload of an envelope with a signature of this key; None without one.

    Raises KeyProblem for an unusable key, and ValueError for what is no envelope.
    """
    try:
        key = load_pem_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        raise KeyProblem("it has no public key that can be read; use the PEM file of the signer's public key") from None
    if not isinstance(key, Ed25519PublicKey | EllipticCurvePublicKey):
        raise KeyProblem("the kind of its key is not supported; use an Ed25519 or ECDSA key")
    try:
        content = json.loads(envelope)
        payload = base64.b64decode(content["payload"], validate=True)
        signatures = [base64.b64decode(one["sig"], validate=True) for one in content["signatures"]]
        is_statement = content["payloadType"] == PAYLOAD_TYPE
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
        raise ValueError("it is no DSSE envelope") from None
    return payload if is_statement and any(_is_signature(key, one, payload) for one in signatures) else None


def _is_signature(key: Ed25519PublicKey | EllipticCurvePublicKey, signature: bytes, payload: bytes) -> bool:
    message = _pre_authentication(payload)
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, message)
        else:
            key.verify(signature, message, ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def _pre_authentication(payload: bytes) -> bytes:
    """What is signed: the type and the payload, each with its length."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


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


def conformance_report(report: Certified, about: Mapping[str, str]) -> dict[str, Any]:
    """The content of the YAML file. Core are the MUSTs, and extended are the SHOULDs with the abilities of the driver.

    Raises ValueError for a report without a certificate.
    """
    certificate = report.certificate
    if certificate is None:
        raise ValueError("it is no certificate")
    if isinstance(certificate, KubeletCertificate):
        project, mode, kubernetes = "kubelet", str(certificate.judged_by), " + ".join(certificate.kubelets)
    else:
        project, mode, kubernetes = certificate.driver, str(certificate.level), certificate.releases
    implementation: dict[str, Any] = {"project": project, **about}
    if contact := about.get("contact"):
        implementation["contact"] = [one.strip() for one in contact.split(",")]
    artifact, digest = subject_of(report)
    return {
        "apiVersion": "drahealth/v1",
        "kind": "ConformanceReport",
        "date": report.conditions.started,
        "implementation": implementation,
        **({"artifact": {"name": artifact, "sha256": digest}} if digest else {}),
        "drahealthVersion": certificate.drahealth,
        "ledger": certificate.ledger_sha256,
        "mode": mode,
        "kubernetes": kubernetes,
        "certified": certificate.certified,
        "profiles": [_of_kubelet(report) if isinstance(report, KubeletReport) else _of_driver(report)],
    }


def _of_kubelet(report: KubeletReport) -> dict[str, Any]:
    musts, others = _by_level(report.requirements)
    complete = report.complete
    return {
        "name": f"KUBELET-{report.certificate.profile.upper()}",
        "summary": report.certificate.text,
        "core": _status(musts, _COUNTED, complete=complete),
        "extended": _status(others, _COUNTED, complete=complete),
    }


def _by_level(
    requirements: Sequence[RequirementResult],
) -> tuple[list[RequirementResult], list[RequirementResult]]:
    """The MUSTs, and the others."""
    return [one for one in requirements if one.level == "MUST"], [one for one in requirements if one.level != "MUST"]


def _of_driver(report: CheckReport) -> dict[str, Any]:
    run, certificate = report.conditions, report.certificate
    assert certificate
    musts, others = _by_level(report.requirements)
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
        "name": run.subject.upper(),
        "summary": certificate.text,
        "core": _status(musts, counted, complete=report.complete),
        "extended": {**_status(others, counted, complete=report.complete), **features},
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
    requirements: Sequence[RequirementResult], counted: Mapping[Verdict, str], *, complete: bool
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
