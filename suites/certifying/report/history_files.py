"""Reads the histories that the report of a run of scenarios names."""

import hashlib
from pathlib import Path

from drahealth.proto.history import HistoryError, HistoryFile, load_history
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.run_report import RunReport


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
