"""The command's own way to show a run: a row as each scenario ends, a table with times, what went wrong in full."""

from typing import Any

import pytest
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from drahealth.suites.report import Result, Run

_STYLE = {"passed": "green", "known issue": "yellow", "failed": "bold red", "error": "bold magenta"}
_MARK = {"passed": "PASS", "known issue": "KNOWN", "failed": "FAIL", "error": "ERROR"}


class Live:
    """A pytest plugin that prints rows; pytest's own terminal output is off."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.run: Run | None = None
        self.problem = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        reporting = session.config.pluginmanager.get_plugin("drahealth-reporting")
        self.run = reporting.run if reporting else None
        if self.run and session.items:
            count = f"{len(session.items)} scenario{'s' if len(session.items) > 1 else ''}"
            self._console.print(f"[bold]{escape(self.run.about)}[/], {count}\n", soft_wrap=True)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "drahealth"):
            self._row(Result.of(report.drahealth))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.problem = str(report.longrepr)

    def pytest_internalerror(self, excrepr: Any) -> None:
        self.problem = str(excrepr)

    def _row(self, result: Result) -> None:
        row = Text(f"{_MARK[result.outcome]:6}", style=_STYLE[result.outcome])
        row.append(f"{result.seconds:7.2f} s  ", style="dim")
        row.append(result.title, style="default")
        row.append(f"  {' '.join((*result.requirements, *result.known_issues))}", style="cyan")
        self._console.print(row, soft_wrap=True)
        if result.outcome in ("failed", "error"):
            self._console.print(Text(result.problem, style="red"), soft_wrap=True)
            for text in filter(None, (result.timeline, f"again: {result.again}")):
                self._console.print(Text(text, style="dim"), soft_wrap=True)

    def close(self, seconds: float) -> None:
        """The last line: how many, how long."""
        if self.run is None or not self.run.results:
            return
        counts = self.run.counts()
        parts = [f"[{_STYLE[o]}]{n} {o}[/]" for o, n in counts.items()]
        self._console.print(f"\n{', '.join(parts)} in {seconds:.1f} s")
