"""The directory of a certificate: its files, its statement, and the signatures of it."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock

from drahealth.proto.quoting import one_line
from drahealth.suites.commands.ending import signals_held
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.report.attestation import (
    PAYLOAD_TYPE,
    Certified,
    KeyProblem,
    no_subject,
    opened,
    signed,
    statement_of,
    subject_of,
    to_text,
    without_url,
)
from drahealth.suites.report.document import to_json
from drahealth.suites.report.junit import to_junit
from drahealth.suites.report.result_files import EVIDENCE, REPORT, read_bytes, read_report
from drahealth.suites.report.text import badge, pull_request_text

# The directory of a certificate: one run at a time, and a certificate is never overwritten by accident.

STATEMENT = "statement.json"
ENVELOPE, BUNDLE = f"{STATEMENT}.dsse", f"{STATEMENT}.sigstore.json"
"""The signatures: with a key of the user, and with sigstore."""
PAGE, JUNIT, TEXT, BADGE = "report.html", "junit.xml", "summary.md", "badge.svg"
FILES = (EVIDENCE, REPORT, PAGE, JUNIT, TEXT, BADGE, STATEMENT)
"""The files of a driver's certificate, without signatures. There is no statement if the digest of the driver is
unknown."""
RUN, HISTORIES = "run.json", "histories"
"""The evidence of a kubelet's certificate: the report of the run, and the folder of the scenarios' histories."""
KUBELET_FILES = (RUN, HISTORIES, *FILES[1:])
"""The files and the folder of a kubelet's certificate, without signatures."""
_ALL = (*dict.fromkeys((*FILES, *KUBELET_FILES)), ENVELOPE, BUNDLE)
_LOCK, _NEW = ".lock", ".new-"


def _remove(path: Path) -> None:
    """Removes a file, or a folder with its content; nothing if it is not there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def certificate_folder(path: Path, *, overwrite: bool = False) -> Generator[Path, None, None]:
    """A directory for the files of a run. They move to `path` at its end; after an exception `path` is as before.

    Raises ConfigurationError if `path` has files of a run and `overwrite` is not set, if another run uses it, or if it
    cannot be written.
    """
    try:
        is_new = not path.exists()
        path.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path / _LOCK, timeout=0, mode=0o600)
        lock.acquire()
    except filelock.Timeout:
        raise ConfigurationError(f"another certification writes to {path}", "pass another --out") from None
    except OSError as error:
        raise ConfigurationError(f"cannot write to {path}: {error.strerror}", "pass another --out") from None
    try:
        if not overwrite and (found := [name for name in _ALL if (path / name).exists()]):
            raise ConfigurationError(
                f"{path} has files of an earlier run, such as {found[0]}", "pass --overwrite, or another --out"
            )
        for left in path.glob(f"{_NEW}*"):  # of a run that was killed
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=_NEW, dir=path) as made:
            yield Path(made)
            with signals_held():  # files of two runs are never side by side
                for name in _ALL:
                    _remove(path / name)
                for name in _ALL:
                    if (Path(made) / name).exists():
                        (Path(made) / name).rename(path / name)
    finally:
        (path / _LOCK).unlink(missing_ok=True)
        lock.release()
        if is_new and not any(path.iterdir()):
            path.rmdir()


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
    """The driver, or the kubelet, that the certificate must be about."""

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


def certificate_texts(report: Certified, html: str) -> dict[str, str]:
    """The files of a certificate by name, except its evidence. `html` is the page."""
    texts = {
        REPORT: to_json(report),
        PAGE: html,
        JUNIT: to_junit(report),
        TEXT: pull_request_text(report),
        BADGE: badge(report),
    }
    if subject_of(report)[1]:
        digest = hashlib.sha256(texts[REPORT].encode()).hexdigest()
        texts[STATEMENT] = to_text(statement_of(report, digest, run_url(os.environ)))
    return texts


# `drahealth sign`.


def sign(folder: Path, key: Path | None, trust_config: Path | None) -> Path:
    """Signs the statement of a certificate. Returns the new file. Raises ConfigurationError and HarnessError."""
    path, report = folder / STATEMENT, read_report(folder)
    if not path.is_file():
        if isinstance(report, Certified) and report.certificate and not subject_of(report)[1]:
            problem, hint = no_subject(report)
            raise ConfigurationError(f"{folder}: {problem}", f"{hint}, and certify again")
        raise ConfigurationError(f"{folder} has no {STATEMENT}", "pass the directory of a certificate")
    payload = read_bytes(path)
    if isinstance(report, Certified) and (
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


def statement_problem(folder: Path, report: Certified, content: bytes, signer: Signer) -> str:
    """Why the statement beside a report, or its signature, is wrong; "" if it is right.

    `content` is that of the file of the report. Raises ConfigurationError for missing or unreadable files.
    """
    path = folder / STATEMENT
    if not path.exists():
        if signer.key or signer.identity or signer.subject:
            problem = f"{path} does not exist" if subject_of(report)[1] else no_subject(report)[0]
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
    name, digest = subject_of(report)
    if signer.subject and hashlib.sha256(read_bytes(signer.subject)).hexdigest() != digest:
        return f"{signer.subject} is another file than the certified {one_line(name)}"
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
