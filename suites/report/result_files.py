"""Reads results of earlier runs: reports, evidence and histories."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drahealth.fakes.program.errors import plain
from drahealth.proto.history import HistoryError, HistoryFile, load_history
from drahealth.proto.quoting import one_line, quoted
from drahealth.suites.driver_checks.evidence import FORMAT as EVIDENCE_FORMAT
from drahealth.suites.driver_checks.evidence import Evidence, EvidenceError, load_evidence
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.report import FORMAT as RUN_FORMAT
from drahealth.suites.judging.report import RunReport
from drahealth.suites.report.document import FORMAT, Report, parse_report
from drahealth.suites.report.kubelet_result import kubelet_result
from drahealth.suites.report.results import Result, check_result

# Reads the histories that the report of a run of scenarios names.


def read_histories(report: RunReport, folder: Path) -> dict[str, HistoryFile]:
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

_FOLDER = ("report.json", "evidence.jsonl")
"""The files of a certificate that are read: a folder must have the first one."""
_HINT = "pass a file that `check` or `run` wrote with `--report`, or the directory of a certificate"


@dataclass
class Files:
    """What some files have."""

    reports: dict[str, Report | RunReport] = field(default_factory=dict)
    """By path."""
    evidence: dict[str, Evidence] = field(default_factory=dict)
    """By path."""
    histories: dict[str, dict[str, HistoryFile]] = field(default_factory=dict)
    """Those of the scenarios of a report, by its path."""

    def results(self) -> list[Result]:
        """The reports as results, each with its evidence. Raises ConfigurationError for evidence without a report."""
        runs = [one.run for one in self.reports.values() if isinstance(one, Report)]
        for path, evidence in self.evidence.items():
            if evidence.header not in runs:
                raise ConfigurationError(
                    f"{path} is the evidence of another run",
                    f"`drahealth judge {path} --report FILE` writes its report",
                )
        return [self._result(path, report) for path, report in self.reports.items()]

    def _result(self, path: str, report: Report | RunReport) -> Result:
        if isinstance(report, RunReport):
            return kubelet_result(report, path, self.histories[path])
        evidence = next((one for one in self.evidence.values() if one.header == report.run), None)
        return check_result(report, evidence, path)


def read_files(paths: Sequence[Path]) -> Files:
    """Reads files and folders of certificates. Raises ConfigurationError, which names the file and the reason."""
    found = Files()
    for path in paths:
        if path.is_dir():
            first, *more = (path / name for name in _FOLDER)
            _read(first, str(path), found)
            for other in more:
                if other.exists():
                    _read(other, str(other), found)
        else:
            _read(path, str(path), found)
    return found


def read_run_report(path: Path) -> RunReport:
    """The report of a run of scenarios. Raises ConfigurationError, which names the file and the reason."""
    try:
        report = _report(path, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", _HINT) from None
    if not isinstance(report, RunReport):
        raise ConfigurationError(
            f"{path} is not a report of `drahealth run`", "pass a file of `drahealth run --report`"
        )
    return report


def _read(path: Path, name: str, found: Files) -> None:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", _HINT) from None
    if _is_evidence(data):
        try:
            found.evidence[name] = load_evidence(data)
        except EvidenceError as error:
            raise ConfigurationError(f"{path}, {error}", "pass the evidence as drahealth has written it") from None
        return
    if name in found.reports:
        raise ConfigurationError(f"{path} is given twice", "pass each result once")
    found.reports[name] = report = _report(path, data)
    if isinstance(report, RunReport):
        found.histories[name] = read_histories(report, path.parent)


def _is_evidence(data: bytes) -> bool:
    return EVIDENCE_FORMAT.encode() in data.partition(b"\n")[0]


def _report(path: Path, data: bytes) -> Report | RunReport:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not a complete JSON file ({one_line(str(error))})", _HINT) from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} must contain a JSON object", _HINT)
    format_ = content.get("format", content.get("report"))
    if format_ not in (FORMAT, RUN_FORMAT):
        formats = f"{FORMAT} or {RUN_FORMAT}"
        raise ConfigurationError(f"{path}: the key `format` must be {formats}, got {quoted(format_)}", _HINT)
    try:
        report = parse_report(data) if format_ == FORMAT else _run_report(content)
    except ValueError as error:
        raise ConfigurationError(f"{path}: {one_line(str(error))}", _HINT) from None
    if problem := report.contradiction():
        raise ConfigurationError(f"{path}: {problem}; the file was edited", "pass the file as drahealth has written it")
    return report


def _run_report(content: dict[str, Any]) -> RunReport:
    """The report of a run of scenarios. Raises ValueError."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(RunReport).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        what = "is missing" if first["type"] == "missing" else plain(str(first["msg"]))
        raise ValueError(f"key {'.'.join(map(str, first['loc']))} {what}") from None
