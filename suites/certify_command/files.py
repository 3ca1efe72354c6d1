"""Reads the reports and the evidence that commands are given."""

from pathlib import Path

from drahealth.suites.certify_command import folder
from drahealth.suites.certifying.report.document import Report
from drahealth.suites.certifying.report.reading import parse_report
from drahealth.suites.errors import ConfigurationError


def read_report(path: Path) -> Report:
    """Reads a report, which a user can also name by the directory of its certificate. Raises ConfigurationError."""
    path = path / folder.REPORT if path.is_dir() else path
    return parsed_report(read_bytes(path), path)


def parsed_report(content: bytes, path: Path) -> Report:
    """The report of a file with this content. Raises ConfigurationError."""
    try:
        return parse_report(content)
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}", "pass a report.json of `drahealth certify`") from None


def files_of(report: Path, evidence: Path | None) -> tuple[Path, Path]:
    """The report and the evidence of a certificate, which a user names as a directory or as two files.

    Raises ConfigurationError.
    """
    if report.is_dir():
        if evidence:
            raise ConfigurationError(
                f"{report} is a directory, which contains the evidence", "remove the argument EVIDENCE"
            )
        return report / folder.REPORT, report / folder.EVIDENCE
    if evidence is None:
        if not report.exists():
            raise ConfigurationError(f"{report} does not exist", "pass the directory of a certificate")
        raise ConfigurationError(
            "missing argument EVIDENCE", "pass REPORT and EVIDENCE, or the directory of the certificate"
        )
    return report, evidence


def read_bytes(path: Path) -> bytes:
    """The content of a file. Raises ConfigurationError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror}", "pass the directory of a certificate, or its files"
        ) from None
