"""`drahealth report`: a page, a badge or a text from the results of earlier runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drahealth.fakes.program.console import standard_output
from drahealth.suites.certifying.report.badge import badge
from drahealth.suites.certifying.report.check_result import NOT_JUDGED_AGAIN
from drahealth.suites.certifying.report.document import Report, report_schema
from drahealth.suites.certifying.report.page import page_of
from drahealth.suites.certifying.report.pull_request import pull_request_text
from drahealth.suites.certifying.report.result_files import Files, read_files
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.run_report import RunReport
from drahealth.suites.output_paths import check_output_file

MOST = 8
"""The most results side by side: more columns are not readable."""


@dataclass(frozen=True)
class Wanted:
    """The files to write."""

    html: str | None = None
    summary: str | None = None
    badge: str | None = None

    def check(self) -> None:
        """Raises ConfigurationError for no file, or an unwritable one."""
        if not (self.html or self.summary or self.badge):
            raise ConfigurationError("there is nothing to write", "pass --html FILE, --summary FILE or --badge FILE")
        for name in (self.html, self.summary, self.badge):
            check_output_file(name)


def write_files(paths: Sequence[Path], wanted: Wanted) -> None:
    """Reads the results, and writes the files. Raises ConfigurationError."""
    if not paths:
        raise ConfigurationError(
            "missing argument RESULT", "pass files of `--report` or `--evidence`, or directories of certificates"
        )
    wanted.check()
    files = read_files(paths)
    results = files.results()
    if len(results) > MOST:
        raise ConfigurationError(f"at most {MOST} results fit side by side, got {len(results)}", "pass fewer files")
    texts = dict[str, str]()
    if wanted.summary:
        texts[wanted.summary] = pull_request_text(_only_report(files))
    if wanted.badge:
        texts[wanted.badge] = badge(_only_check(files))
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")
    if wanted.html:
        Path(wanted.html).write_text(page_of(results), encoding="utf-8")
    for name, one in files.reports.items():
        if isinstance(one, Report):
            line = f"{name}: verdicts {NOT_JUDGED_AGAIN}"
            standard_output().print(line, soft_wrap=True, markup=False, highlight=False)


def _only_report(files: Files) -> Report | RunReport:
    if len(files.reports) == 1:
        return next(iter(files.reports.values()))
    raise ConfigurationError(f"--summary needs exactly one report, got {len(files.reports)}", "use --html for several")


def _only_check(files: Files) -> Report:
    if len(files.reports) == 1 and isinstance(report := next(iter(files.reports.values())), Report):
        return report
    raise ConfigurationError(
        "--badge needs exactly one report of `drahealth check` or `certify`", "use --html, or --summary for a run"
    )


def schema_text() -> str:
    """The JSON Schema of reports."""
    return json.dumps(report_schema(), indent=1)
