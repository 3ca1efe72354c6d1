"""Writes the report file of a run: after each scenario, and at the end.

Until the end, the file is that of an interrupted run. So after SIGKILL no file of an earlier run is left to mislead.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from drahealth.suites.judging.report import Run
from drahealth.suites.judging.run_report import report_of, to_json
from drahealth.suites.run.conditions import now


class ReportFile:
    """A pytest plugin. Workers of a distributed run have none."""

    def __init__(self, path: Path, run: Run) -> None:
        self._path = path
        self._run = run
        self._write_unfinished()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self._write_unfinished()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "drahealth"):
            self._write_unfinished()

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, exitstatus: int) -> Generator[None]:
        """Writes the report when all other plugins have ended."""
        yield
        code = int(exitstatus) if self._run.conditions.command == "pytest" else None
        try:
            self._path.write_text(to_json(report_of(self._run, ended=now(), exit_code=code)))
        except OSError as error:
            pytest.exit(f"drahealth: cannot write {self._path}: {error.strerror}", pytest.ExitCode.INTERNAL_ERROR)

    def _write_unfinished(self) -> None:
        if self._path.exists() and not self._path.is_file():
            return
        unfinished = replace(self._run, interrupted=True, stopped="the run did not reach its end")
        with suppress(OSError):  # an error at the end of the run
            self._path.write_text(to_json(report_of(unfinished, ended=None, exit_code=3)))
