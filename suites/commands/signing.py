"""`drahealth sign`, and the part of `verify` about the statement of a certificate and its signatures."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drahealth.proto.quoting import one_line
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.report.attestation import (
    NO_SUBJECT,
    NO_SUBJECT_HINT,
    PAYLOAD_TYPE,
    KeyProblem,
    opened,
    signed,
    statement_of,
    without_url,
)
from drahealth.suites.report.document import CheckReport
from drahealth.suites.report.result_files import REPORT, read_bytes, read_report

STATEMENT = "statement.json"
ENVELOPE, BUNDLE = f"{STATEMENT}.dsse", f"{STATEMENT}.sigstore.json"
"""The signatures: with a key of the user, and with sigstore."""


@dataclass(frozen=True)
class Signer:
    """Who must have signed a certificate; empty for any, or no, signature."""

    key: Path | None = None
    """Public key in a PEM file."""
    identity: str = ""
    """With sigstore: the email or URI in the certificate of the signer."""
    issuer: str = ""
    """With sigstore: the OpenID Connect issuer of this identity."""
    trust_config: Path | None = None
    """With sigstore: the trust of another instance; by default the public one."""
    subject: Path | None = None
    """The driver that the certificate must be about."""

    def check(self) -> None:
        """Raises ConfigurationError for options that need each other."""
        if bool(self.identity) != bool(self.issuer):
            raise ConfigurationError("--identity and --issuer need each other", "pass both, or --key PUBLIC.pem")
        if self.trust_config and not self.identity:
            raise ConfigurationError("--trust-config is only for signatures with sigstore", "pass --identity, too")


def run_url(environment: Mapping[str, str]) -> str:
    """The URL of the run of GitHub Actions, or of GitLab CI, that these variables name; empty outside them."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    server, repository, run = (environment.get(name, "") for name in names)
    return f"{server}/{repository}/actions/runs/{run}" if run else environment.get("CI_JOB_URL", "")


# `drahealth sign`.


def sign(folder: Path, key: Path | None, trust_config: Path | None) -> Path:
    """Signs the statement of a certificate. Returns the new file. Raises ConfigurationError and HarnessError."""
    path, report = folder / STATEMENT, read_report(folder)
    if not path.is_file():
        if isinstance(report, CheckReport) and report.certificate and not report.conditions.artifact_sha256:
            raise ConfigurationError(f"{folder}: {NO_SUBJECT}", f"{NO_SUBJECT_HINT}, and certify again")
        raise ConfigurationError(f"{folder} has no {STATEMENT}", "pass the directory of a certificate")
    payload = read_bytes(path)
    if isinstance(report, CheckReport) and (
        problem := statement_problem(folder, report, read_bytes(folder / REPORT), Signer())
    ):
        raise ConfigurationError(problem, "certify again: only what certify wrote is signed")
    if key:
        content, name = _signed_with(payload, key), ENVELOPE
    else:
        content, name = _signed_by_sigstore(payload, trust_config), BUNDLE
    try:
        (folder / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write {folder / name}: {error.strerror}", "make it writable") from None
    return folder / name


def _key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", "pass the PEM file of a key") from None


def _signed_with(payload: bytes, key: Path) -> str:
    try:
        return signed(payload, _key(key))
    except KeyProblem as error:
        problem, _, hint = str(error).partition("; ")
        raise ConfigurationError(f"{key}: {problem}", hint) from None


_INSTALL = "install it with `pip install 'drahealth[sign]'`, or use --key FILE.pem"


def _signed_by_sigstore(payload: bytes, trust_config: Path | None) -> str:
    try:
        from sigstore.dsse import Statement
        from sigstore.oidc import IdentityToken, Issuer, detect_credential
        from sigstore.sign import SigningContext
    except ImportError:
        raise ConfigurationError("a signature without --key needs sigstore", _INSTALL) from None
    try:
        trust = _trust(trust_config)
        token = detect_credential()
        identity = IdentityToken(token) if token else Issuer(trust.signing_config.get_oidc_url()).identity_token()
        with SigningContext.from_trust_config(trust).signer(identity) as signer:
            return f"{signer.sign_dsse(Statement(payload)).to_json()}\n"
    except Exception as error:  # sigstore, its network libraries and servers raise many kinds
        raise HarnessError(f"sigstore could not sign: {_short(error)}") from None


def _trust(trust_config: Path | None) -> Any:
    from sigstore.models import ClientTrustConfig

    if trust_config is None:
        return ClientTrustConfig.production()
    return ClientTrustConfig.from_json(read_bytes(trust_config).decode(errors="replace"))


def _short(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")


# The part of `drahealth verify` about the statement.


def statement_problem(folder: Path, report: CheckReport, content: bytes, signer: Signer) -> str:
    """Why the statement beside a report, or its signature, is wrong; "" if it is right.

    `content` is that of the file of the report. Raises ConfigurationError for missing or unreadable files.
    """
    path = folder / STATEMENT
    if not path.exists():
        if signer.key or signer.identity or signer.subject:
            problem = NO_SUBJECT if not report.conditions.artifact_sha256 else f"{path} does not exist"
            raise ConfigurationError(problem, "pass the directory of a certificate with a statement")
        return ""
    payload = read_bytes(path)
    try:
        statement = json.loads(payload)
        wanted = statement_of(report, hashlib.sha256(content).hexdigest())
    except (ValueError, RecursionError) as error:
        return f"{path}: {one_line(str(error))}"
    if without_url(statement) != wanted:
        return f"{path} differs from the report"
    if signer.subject and hashlib.sha256(read_bytes(signer.subject)).hexdigest() != report.conditions.artifact_sha256:
        return f"{signer.subject} is another file than the certified {one_line(report.conditions.artifact)}"
    if signer.key and (problem := _key_problem(folder / ENVELOPE, payload, signer.key)):
        return problem
    return _sigstore_problem(folder / BUNDLE, payload, signer) if signer.identity else ""


def unchecked_signature(folder: Path, signer: Signer) -> str:
    """A sentence about a signature that nobody asked to check; "" if there is none."""
    if signer.key or signer.identity or not any((folder / name).exists() for name in (ENVELOPE, BUNDLE)):
        return ""
    return "The signature was not checked; pass --key PUBLIC.pem, or --identity and --issuer."


def _key_problem(path: Path, payload: bytes, key: Path) -> str:
    if not path.exists():
        raise ConfigurationError(f"{path} does not exist", "`drahealth sign DIR --key FILE.pem` writes it")
    try:
        found = opened(read_bytes(path), _key(key))
    except KeyProblem as error:
        problem, _, hint = str(error).partition("; ")
        raise ConfigurationError(f"{key}: {problem}", hint) from None
    except ValueError as error:
        return f"{path}: {error}"
    if found is None:
        return f"{path} is signed by somebody else than the owner of {key}, or was edited"
    return "" if found == payload else f"{path} signs another statement"


def _sigstore_problem(path: Path, payload: bytes, signer: Signer) -> str:
    try:
        from sigstore.errors import VerificationError
        from sigstore.models import Bundle
        from sigstore.verify import Verifier
        from sigstore.verify.policy import Identity
    except ImportError:
        raise ConfigurationError("signatures with sigstore need sigstore", _INSTALL) from None
    if not path.exists():
        raise ConfigurationError(f"{path} does not exist", "`drahealth sign DIR` writes it")
    try:
        bundle = Bundle.from_json(read_bytes(path))
    except Exception as error:  # it wraps the errors of several parsers
        return f"{path} is no bundle of sigstore: {_short(error)}"
    try:
        verifier = Verifier(trusted_root=_trust(signer.trust_config).trusted_root)
    except Exception as error:
        raise HarnessError(f"sigstore could not read its trusted keys: {_short(error)}") from None
    try:
        type_, found = verifier.verify_dsse(bundle, Identity(identity=signer.identity, issuer=signer.issuer))
    except VerificationError as error:
        return f"{path} is not signed by {signer.identity} of {signer.issuer}: {_short(error)}"
    return "" if (type_, found) == (PAYLOAD_TYPE, payload) else f"{path} signs another statement"
