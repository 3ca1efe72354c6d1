"""`drahealth verify` and `diff`: a certificate beside its evidence, and a report beside another one."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from drahealth.fakes.program.console import standard_output
from drahealth.suites.commands.certificate_files import (
    BADGE,
    JUNIT,
    PAGE,
    RUN,
    TEXT,
    Signer,
    statement_problem,
    unchecked_signature,
)
from drahealth.suites.commands.certify_run import judged
from drahealth.suites.driver_checks.evidence import EditedEvidenceError, EvidenceError, load_evidence
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.report.attestation import (
    Certified,
)
from drahealth.suites.report.check_report import (
    Difference,
    differences,
)
from drahealth.suites.report.document import Certificate, CheckReport, KubeletReport, RunReport
from drahealth.suites.report.kubelet_certificate import certify
from drahealth.suites.report.result_files import EVIDENCE, REPORT, parsed_report, read_bytes, read_report


def files_of(report: Path, evidence: Path | None) -> tuple[Path, Path | None]:
    """The report and the evidence of a certificate, which a user names as a directory or as two files.

    The evidence of a directory is None: the kind of the report decides its name. Raises ConfigurationError.
    """
    if report.is_dir():
        if evidence:
            raise ConfigurationError(
                f"{report} is a directory, which contains the evidence", "remove the argument EVIDENCE"
            )
        return report / REPORT, None
    if evidence is None:
        if not report.exists():
            raise ConfigurationError(f"{report} does not exist", "pass the directory of a certificate")
        raise ConfigurationError(
            "missing argument EVIDENCE", "pass REPORT and EVIDENCE, or the directory of the certificate"
        )
    return report, evidence


# `drahealth verify`: the evidence is judged again, and compared with the report.


_FOR_PEOPLE = (PAGE, TEXT, BADGE, JUNIT)
"""The files of a certificate that `verify` does not compare."""


class _NotVerified(Exception):
    """The files do not belong together; the message says why."""


def verify(report_path: Path, evidence_path: Path | None, signer: Signer, *, require_certified: bool = False) -> int:
    """Judges the evidence again, and compares. Returns 0 if the report says the same, and 1 if it differs.

    The statement beside the report must say the same, and have the signature of the signer.
    Returns 4 if another version or ledger judged the report: then only the verdicts are compared. Returns 4 also for a
    run without its end, and 5 for a driver or kubelet that is not certified, if `require_certified` is set.

    Raises ConfigurationError for files that are no report or no evidence.
    """
    signer.check()
    file = read_bytes(report_path)
    report = parsed_report(file, report_path)
    if not isinstance(report, Certified) or report.certificate is None:
        raise ConfigurationError(
            f"{report_path} is a report of `{report.program}`",
            "pass a report of `drahealth certify`, or use `drahealth judge`",
        )
    try:
        if isinstance(report, KubeletReport):
            evidence = evidence_path or report_path.parent / RUN
            again: Certified = _kubelet_again(report, report_path, evidence)
        else:
            evidence = evidence_path or report_path.parent / EVIDENCE
            again = _driver_again(report, report.certificate, report_path, evidence)
    except _NotVerified as error:
        return _fail(str(error))
    certificate = report.certificate
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
    is_whole = not again.interrupted
    _print(f"{'verified' if is_whole else 'incomplete: the files agree'}: {certificate.text}")
    for reason in report.reasons:
        _print(f"  {reason}")
    if isinstance(report, KubeletReport):
        _print("The histories of the scenarios have their digests; the scenarios are not judged again.")
    if others := [name for name in _FOR_PEOPLE if (report_path.parent / name).exists()]:
        _print(f"not compared: {', '.join(others)}; `drahealth report` writes them again")
    if unchecked := unchecked_signature(report_path.parent, signer):
        _print(unchecked)
    if not is_whole:
        return 4
    if require_certified and not certificate.certified:
        _print("not certified, and --require-certified is set")
        return NOT_CERTIFIED
    return 0


def _driver_again(report: CheckReport, certificate: Certificate, report_path: Path, path: Path) -> CheckReport:
    """The report that the evidence of a driver gives. Raises _NotVerified, ConfigurationError."""
    content = read_bytes(path)
    try:
        evidence = load_evidence(content)
    except EditedEvidenceError as error:
        raise _NotVerified(f"{path} is not what drahealth wrote: {error}") from None
    except EvidenceError as error:
        raise ConfigurationError(f"{path}, {error}", "pass the evidence.jsonl of the report") from None
    digest = _digest(content, certificate.evidence_sha256, report_path, path)
    return judged(evidence, digest, certificate.waivers, certificate.judged, report.rerun)[1]


def _kubelet_again(report: KubeletReport, report_path: Path, path: Path) -> KubeletReport:
    """The report that the run of a kubelet gives. Raises _NotVerified, ConfigurationError."""
    content, certificate = read_bytes(path), report.certificate
    run = parsed_report(content, path)
    if not isinstance(run, RunReport):
        raise ConfigurationError(f"{path} is not a report of `drahealth run`", f"pass the {RUN} of the certificate")
    digest = _digest(content, certificate.evidence_sha256, report_path, path)
    if problem := run.contradiction():
        raise _NotVerified(f"{path} is not what drahealth wrote: {problem}")
    for one in run.scenarios:
        if one.history_file and not _is_history(path.parent / one.history_file, one.history_sha256):
            raise _NotVerified(f"{path.parent / one.history_file} is not the history that the run wrote")
    return certify(
        run,
        judged_by=certificate.judged_by,
        evidence_sha256=digest,
        artifact=certificate.artifact,
        artifact_sha256=certificate.artifact_sha256,
    )


def _is_history(path: Path, digest: str) -> bool:
    return path.is_file() and hashlib.sha256(read_bytes(path)).hexdigest() == digest


def _digest(content: bytes, wanted: str, report_path: Path, path: Path) -> str:
    digest = hashlib.sha256(content).hexdigest()
    if digest != wanted:
        raise _NotVerified(
            f"{report_path} is the report of other evidence: it names {wanted[:8]}, {path} has {digest[:8]}"
        )
    return digest


NOT_CERTIFIED = 5
"""Exit code of `verify --require-certified` for a valid certificate of a driver or kubelet that is not certified."""


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


def _verdicts(first: Certified, second: Certified) -> list[Difference]:
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


def _print(line: str) -> None:
    standard_output().print(line, soft_wrap=True, markup=False, highlight=False)
