"""`drahealth certify`, `verify`, `sign` and `diff`: run or read, judge, write, and sign."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from shlex import quote
from typing import Any, Literal, get_args

import filelock

from drahealth.fakes.program.console import standard_output
from drahealth.fakes.program.usage import command_as_called
from drahealth.fakes.program.user_files import FileError
from drahealth.proto.quoting import one_line
from drahealth.suites.commands.check_run import (
    Outputs,
    api_server_kind,
    check,
    experiments_for,
    run_with_progress,
    write_annotations,
)
from drahealth.suites.commands.ending import signals_held
from drahealth.suites.driver_checks.driver_run import DriverRun, check_kubeconfig
from drahealth.suites.driver_checks.evidence import EditedEvidenceError, Evidence, EvidenceError, load_evidence
from drahealth.suites.driver_checks.profile.file import read_profile
from drahealth.suites.driver_checks.summary import Summary, summarize
from drahealth.suites.driver_checks.verdicts import Waiver
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.report.attestation import (
    NO_SUBJECT,
    NO_SUBJECT_HINT,
    PAYLOAD_TYPE,
    KeyProblem,
    opened,
    signed,
    statement_of,
    to_text,
    without_url,
)
from drahealth.suites.report.check_report import (
    Difference,
    certificate_of,
    check_report,
    differences,
    exit_code_beside,
    new_findings,
)
from drahealth.suites.report.document import CheckReport, to_json
from drahealth.suites.report.junit import to_junit
from drahealth.suites.report.page import page
from drahealth.suites.report.result_files import EVIDENCE, REPORT, parsed_report, read_bytes, read_report
from drahealth.suites.report.shown_by_releases import kubelet_lines, release_lines
from drahealth.suites.report.text import badge, pull_request_text, show
from drahealth.suites.targets.option import choice

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


# The directory of a certificate: one run at a time, and a certificate is never overwritten by accident.

PAGE, JUNIT, TEXT, BADGE = "report.html", "junit.xml", "summary.md", "badge.svg"
FILES = (EVIDENCE, REPORT, PAGE, JUNIT, TEXT, BADGE, STATEMENT)
"""The files of a certificate, without signatures. There is no statement if the digest of the driver is unknown."""
_LOCK, _NEW = ".lock", ".new-"


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
        if not overwrite and (found := [name for name in FILES if (path / name).exists()]):
            raise ConfigurationError(
                f"{path} has files of an earlier run, such as {found[0]}", "pass --overwrite, or another --out"
            )
        for left in path.glob(f"{_NEW}*"):  # of a run that was killed
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=_NEW, dir=path) as made:
            yield Path(made)
            with signals_held():  # files of two runs are never side by side
                for name in (*FILES, ENVELOPE, BUNDLE):
                    (path / name).unlink(missing_ok=True)
                for name in FILES:
                    if (Path(made) / name).exists():
                        (Path(made) / name).rename(path / name)
    finally:
        (path / _LOCK).unlink(missing_ok=True)
        lock.release()
        if is_new and not any(path.iterdir()):
            path.rmdir()


def files_of(report: Path, evidence: Path | None) -> tuple[Path, Path]:
    """The report and the evidence of a certificate, which a user names as a directory or as two files.

    Raises ConfigurationError.
    """
    if report.is_dir():
        if evidence:
            raise ConfigurationError(
                f"{report} is a directory, which contains the evidence", "remove the argument EVIDENCE"
            )
        return report / REPORT, report / EVIDENCE
    if evidence is None:
        if not report.exists():
            raise ConfigurationError(f"{report} does not exist", "pass the directory of a certificate")
        raise ConfigurationError(
            "missing argument EVIDENCE", "pass REPORT and EVIDENCE, or the directory of the certificate"
        )
    return report, evidence


# `drahealth certify`: run, judge, show, and write the certificate.


@dataclass(frozen=True)
class Request:
    """What a user asks for, besides the run."""

    profile: Path
    out: Path
    overwrite: bool = False
    waivers: Path | None = None
    baseline: Path | None = None
    requirements: tuple[str, ...] = ()
    """The only requirements to judge, without a certificate; empty for all."""


def certify(run: DriverRun, request: Request) -> int:
    """Certifies a driver. Returns the exit code. Raises ConfigurationError before anything starts."""
    check_program(run)
    rerun = f"drahealth certify {quote(str(request.profile))} --level {run.level} --requirement REQUIREMENT"
    outputs = Outputs(waiver_file=request.waivers, requirements=request.requirements)
    if request.requirements:
        return check(run, outputs, rerun)
    outputs.check()
    baseline = _check_report(request.baseline) if request.baseline else None
    with certificate_folder(request.out, overwrite=request.overwrite) as new:
        evidence = run_with_progress(replace(run, evidence=new / EVIDENCE))
        digest = hashlib.sha256((new / EVIDENCE).read_bytes()).hexdigest()
        today = datetime.now(UTC).date()
        try:
            summary, report = judged(evidence, digest, outputs.waivers, today, rerun)
            write_files(new, report, evidence)
        except Exception:  # a mistake of drahealth: what was seen is kept, so that it can be judged again
            (new / EVIDENCE).replace(request.out / EVIDENCE)
            raise
    show(summary, standard_output(), command_as_called(rerun))
    kubelets = report.certificate.kubelets if report.certificate else ()
    for line in ("", *kubelet_lines(kubelets), *release_lines(report.releases)):
        _print(line)
    write_annotations(summary)
    if not evidence.header.artifact_sha256:
        _print(f"\nno {STATEMENT}: {NO_SUBJECT}; {NO_SUBJECT_HINT}")
    _print(f"\n{request.out}: {', '.join(name for name in FILES if (request.out / name).exists())}")
    return _beside(report, baseline) if baseline else summary.exit_code


def judged(
    evidence: Evidence, digest: str, waivers: tuple[Waiver, ...], today: date, rerun: str
) -> tuple[Summary, CheckReport]:
    """The result of a certification, and its report. Pure. `digest` is that of the evidence file."""
    summary = summarize(evidence, waivers=waivers, today=today)
    certificate = certificate_of(summary, evidence, evidence_sha256=digest, waivers=waivers, today=today)
    summary = replace(summary, certificate=certificate.text)
    return summary, check_report(summary, evidence, rerun, certificate)


def write_files(path: Path, report: CheckReport, evidence: Evidence) -> None:
    """Writes the files of the certificate, except its evidence. Raises OSError."""
    texts = {
        REPORT: to_json(report),
        PAGE: page(report, evidence),
        JUNIT: to_junit(report),
        TEXT: pull_request_text(report),
        BADGE: badge(report),
    }
    if report.conditions.artifact_sha256:
        digest = hashlib.sha256(texts[REPORT].encode()).hexdigest()
        texts[STATEMENT] = to_text(statement_of(report, digest, run_url(os.environ)))
    for name, text in texts.items():
        (path / name).write_text(text, encoding="utf-8")


def _beside(report: CheckReport, baseline: CheckReport) -> int:
    """Prints what the baseline did not have. Returns the exit code."""
    found = new_findings(report, baseline)
    for one in found:
        _print(f"not in the baseline: {one}")
    if not found:
        _print("The baseline had all findings.")
    return exit_code_beside(report, baseline)


def check_program(run: DriverRun) -> None:
    """Raises ConfigurationError if the driver's program does not exist."""
    driver = run.profile.driver
    if driver.artifact and not driver.identified()[1]:
        raise ConfigurationError(
            f"artifact of [driver] must be a file, or an image with @sha256:DIGEST, got {driver.artifact}",
            "correct the driver profile",
        )
    if not driver.command or "{" in driver.command[0]:
        return
    program = driver.command[0]
    if "/" in program:
        program = str(driver.working_directory / program)
    if shutil.which(program) is None:
        hint = "set `command` of the driver profile to a program of this machine; drahealth does not pull images"
        raise ConfigurationError(f"cannot run {program}", hint)


def _print(line: str) -> None:
    standard_output().print(line, soft_wrap=True, markup=False, highlight=False)


# The driver profile of `drahealth certify`, with the flags.

CertifiedLevel = Literal["core", "full"]
DEADLINES: dict[CertifiedLevel, float] = {"core": 180.0, "full": 420.0}
"""Seconds of the longest run by default."""


def run_of(
    path: Path,
    *,
    level: str = "core",
    api_server: str | None = None,
    deadline: float | None = None,
    requirements: Sequence[str] = (),
) -> DriverRun:
    """The run of a driver profile. `api_server` replaces that of the profile. Raises ConfigurationError."""
    wanted = _level(level)
    try:
        run = read_profile(path)
    except FileError as error:
        raise ConfigurationError(str(error)) from None
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror}", "`drahealth certify --init` writes a driver profile"
        ) from None
    profile = run.profile
    if api_server:
        if profile.driver.running or profile.driver.cluster:
            raise ConfigurationError(
                "--api-server is for a driver that drahealth starts on this machine", "remove --api-server"
            )
        other = profile.api_server.model_copy(update={"kind": api_server_kind(api_server), "kubeconfig": None})
        profile = profile.model_copy(update={"api_server": other})
    check_kubeconfig(profile)
    return replace(
        run,
        profile=profile,
        level=wanted,
        deadline=DEADLINES[wanted] if deadline is None else deadline,
        only=experiments_for(requirements),
    )


def _level(text: str) -> CertifiedLevel:
    try:
        found: CertifiedLevel = choice(*get_args(CertifiedLevel))(text)
    except ValueError as error:
        raise ConfigurationError(f"--level {error}, got {text!r}", "the default is core") from None
    return found


def _check_report(path: Path) -> CheckReport:
    report = read_report(path)
    if not isinstance(report, CheckReport):
        raise ConfigurationError(
            f"{path} is a report of `{report.program}`", "pass the report of a check or a certification"
        )
    return report


# `drahealth verify` and `drahealth diff`: a report beside its evidence, and beside another report.


_FOR_PEOPLE = (PAGE, TEXT, BADGE, JUNIT)
"""The files of a certificate that `verify` does not compare."""


def verify(report_path: Path, evidence_path: Path, signer: Signer, *, require_certified: bool = False) -> int:
    """Judges the evidence again, and compares. Returns 0 if the report says the same, and 1 if it differs.

    The statement beside the report must say the same, and have the signature of the signer.
    Returns 4 if another version or ledger judged the report: then only the verdicts are compared. Returns 4 also for a
    run without its end, and 5 for a driver that is not certified, if `require_certified` is set.

    Raises ConfigurationError for files that are no report or no evidence.
    """
    signer.check()
    file = read_bytes(report_path)
    report = parsed_report(file, report_path)
    certificate = report.certificate if isinstance(report, CheckReport) else None
    if not isinstance(report, CheckReport) or certificate is None:
        raise ConfigurationError(
            f"{report_path} is a report of `{report.program}`",
            "pass a report of `drahealth certify`, or use `drahealth judge`",
        )
    content = read_bytes(evidence_path)
    try:
        evidence = load_evidence(content)
    except EditedEvidenceError as error:
        return _fail(f"{evidence_path} is not what drahealth wrote: {error}")
    except EvidenceError as error:
        raise ConfigurationError(f"{evidence_path}, {error}", "pass the evidence.jsonl of the report") from None
    if (digest := hashlib.sha256(content).hexdigest()) != certificate.evidence_sha256:
        return _fail(
            f"{report_path} is the report of other evidence: it names {certificate.evidence_sha256[:8]}, "
            f"{evidence_path} has {digest[:8]}"
        )
    _, again = judged(evidence, digest, certificate.waivers, certificate.judged, report.rerun)
    assert again.certificate
    judges = [(one.drahealth, one.ledger_sha256) for one in (certificate, again.certificate)]
    found = differences(report, again, same_run=True) if judges[0] == judges[1] else _verdicts(report, again)
    if not found and (problem := statement_problem(report_path.parent, report, file, signer)):
        return _fail(problem)
    if not found and judges[0] != judges[1]:
        _print("incomplete: same verdicts, but another version of drahealth or of the ledger judged the report")
        for what, (version, ledger) in zip(("report", "here"), judges, strict=True):
            _print(f"  {what}: drahealth {version}, ledger {ledger[:8]}")
        return 4
    if found:
        return _fail(f"{report_path} differs from its evidence", found, ("the report has", "the evidence gives"))
    _print(f"{'verified' if evidence.complete else 'incomplete: the files agree'}: {certificate.text}")
    for reason in report.reasons:
        _print(f"  {reason}")
    if others := [name for name in _FOR_PEOPLE if (report_path.parent / name).exists()]:
        _print(f"not compared: {', '.join(others)}; `drahealth report` writes them again")
    if unchecked := unchecked_signature(report_path.parent, signer):
        _print(unchecked)
    if not evidence.complete:
        return 4
    if require_certified and not certificate.certified:
        _print("not certified, and --require-certified is set")
        return NOT_CERTIFIED
    return 0


NOT_CERTIFIED = 5
"""Exit code of `verify --require-certified` for a valid certificate of a driver that is not certified."""


def show_diff(first: Path, second: Path) -> int:
    """Prints what differs between two reports. Returns 0 if they say the same, otherwise 1."""
    reports = read_report(first), read_report(second)
    if type(reports[0]) is not type(reports[1]):
        raise ConfigurationError(
            f"{first} is a report of kind {reports[0].kind}, {second} of kind {reports[1].kind}",
            "pass two reports of runs, or two of checks or certifications",
        )
    found = differences(*reports)
    for one in found:
        _print(f"{one.where}: {one.first} -> {one.second}")
    if not found:
        _print("no difference")
    return 1 if found else 0


def _verdicts(first: CheckReport, second: CheckReport) -> list[Difference]:
    """The verdicts that differ on requirements that both ledgers have."""
    ours = {one.id: one.verdict for one in second.requirements}
    return [
        Difference(f"{one.id}.verdict", str(one.verdict), str(ours[one.id]))
        for one in first.requirements
        if ours.get(one.id, one.verdict) is not one.verdict
    ]


def _fail(what: str, found: Sequence[Difference] = (), sides: tuple[str, str] = ("", "")) -> int:
    _print(f"not verified: {what}")
    for one in found:
        _print(f"  {one.where}: {sides[0]} {one.first}, {sides[1]} {one.second}")
    return 1
