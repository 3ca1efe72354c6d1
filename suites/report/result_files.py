"""Reads results of earlier runs: reports, evidence and histories."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drahealth.proto.history import HistoryError, HistoryFile, load_history
from drahealth.proto.quoting import one_line
from drahealth.suites.driver_checks.evidence import FORMAT as EVIDENCE_FORMAT
from drahealth.suites.driver_checks.evidence import Evidence, EvidenceError, load_evidence
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.report.document import (
    AnyReport,
    CheckReport,
    ObservationReport,
    RunReport,
    ScenariosReport,
    parse_report,
)
from drahealth.suites.report.page_view import Column, check_column, node_columns, run_column

# Reads the histories that the report of a run of scenarios names.


def read_histories(report: ScenariosReport, folder: Path) -> dict[str, HistoryFile]:
    """The histories by scenario. `folder` has the report. A file that is not there is left out.

    Raises ConfigurationError for a file that is not what the run wrote.
    """
    found = {}
    for scenario in report.scenarios:
        path = folder / scenario.history_file
        if not scenario.history_file or not path.is_file():
            continue
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {error.strerror}", "make the file readable") from None
        if hashlib.sha256(content).hexdigest() != scenario.history_sha256:
            raise ConfigurationError(
                f"{path} is not the history that the run wrote: it was edited, or another run replaced it",
                "use a directory of `--histories` for one run only",
            )
        try:
            found[scenario.key] = load_history(content)
        except HistoryError as error:
            raise ConfigurationError(f"{path}: {error}", "run the scenarios again with --histories") from None
    return found


# Reads results of earlier runs: reports of check, certify and run, evidence, and folders of certificates.

EVIDENCE, REPORT = "evidence.jsonl", "report.json"
"""The files of a certificate that are read: a folder must have the report."""
_HINT = "pass a file that `check` or `run` wrote with `--report`, or the directory of a certificate"


@dataclass
class Files:
    """What some files have."""

    reports: dict[str, AnyReport] = field(default_factory=dict)
    """By path."""
    evidence: dict[str, Evidence] = field(default_factory=dict)
    """By path."""
    digests: dict[str, str] = field(default_factory=dict)
    """Those of the files with evidence, by path."""
    histories: dict[str, dict[str, HistoryFile]] = field(default_factory=dict)
    """Those of the scenarios of a report, by its path."""

    def columns(self) -> list[Column]:
        """The reports as columns of a page, each with its evidence.

        Raises ConfigurationError for evidence without a report.
        """
        runs = [one.conditions for one in self.reports.values() if isinstance(one, CheckReport)]
        for path, evidence in self.evidence.items():
            if evidence.header not in runs:
                raise ConfigurationError(
                    f"{path} is the evidence of another run",
                    f"`drahealth judge {path} --report FILE` writes its report",
                )
        return [column for path, report in self.reports.items() for column in self._columns(path, report)]

    def _columns(self, path: str, report: AnyReport) -> list[Column]:
        if isinstance(report, ObservationReport):
            return node_columns(report)
        if isinstance(report, ScenariosReport):
            return [run_column(report, path, self.histories[path])]
        of_run = ((name, one) for name, one in self.evidence.items() if one.header == report.conditions)
        name, evidence = next(of_run, ("", None))
        if evidence and evidence.complete == report.interrupted:
            cut, whole = (name, path) if report.complete else (path, name)
            raise ConfigurationError(
                f"{cut} was cut short, but {whole} has the end of the run",
                f"pass the files as drahealth has written them, or `drahealth judge {name} --report FILE`",
            )
        digest = self.digests.get(name)
        if digest and report.certificate and digest != report.certificate.evidence_sha256:
            raise ConfigurationError(
                f"{name} is not the evidence of {path}: the certificate names another digest",
                "pass the files as drahealth has written them",
            )
        return [check_column(report, evidence, path)]


def read_files(paths: Sequence[Path]) -> Files:
    """Reads files and folders of certificates. Raises ConfigurationError, which names the file and the reason."""
    found = Files()
    for path in paths:
        if path.is_dir():
            _read(path / REPORT, str(path), found)
            if (evidence := path / EVIDENCE).exists():
                _read(evidence, str(evidence), found)
        else:
            _read(path, str(path), found)
    return found


def read_report(path: Path) -> AnyReport:
    """The report of a file, or of the directory of a certificate. Raises ConfigurationError, which names the file."""
    path = path / REPORT if path.is_dir() else path
    report = parsed_report(read_bytes(path), path)
    if problem := report.contradiction():
        raise ConfigurationError(f"{path}: {problem}; the file was edited", "pass the file as drahealth has written it")
    return report


def read_run_report(path: Path) -> RunReport:
    """The report of a run of scenarios. Raises ConfigurationError, which names the file and the reason."""
    report = read_report(path)
    if not isinstance(report, RunReport):
        raise ConfigurationError(
            f"{path} is not a report of `drahealth run`", "pass a file of `drahealth run --report`"
        )
    return report


def parsed_report(data: bytes, path: Path) -> AnyReport:
    """The report of a file with this content, which can contradict itself. Raises ConfigurationError."""
    try:
        return parse_report(data)
    except ValueError as error:
        raise ConfigurationError(f"{path}: {one_line(str(error))}", _HINT) from None


def read_bytes(path: Path) -> bytes:
    """The content of a file. Raises ConfigurationError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", _HINT) from None


def _read(path: Path, name: str, found: Files) -> None:
    data = read_bytes(path)
    if EVIDENCE_FORMAT.encode() in data.partition(b"\n")[0]:
        try:
            found.evidence[name], found.digests[name] = load_evidence(data), hashlib.sha256(data).hexdigest()
        except EvidenceError as error:
            raise ConfigurationError(f"{path}, {error}", "pass the evidence as drahealth has written it") from None
        return
    if name in found.reports:
        raise ConfigurationError(f"{path} is given twice", "pass each result once")
    found.reports[name] = report = read_report(path)
    if isinstance(report, ScenariosReport):
        found.histories[name] = read_histories(report, path.parent)
