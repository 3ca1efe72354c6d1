"""The output of `drahealth run`: one row per scenario with its time, and the full text of errors."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from drahealth.fakes.program.console import print_line
from drahealth.fakes.program.invocation import as_called, command_as_called
from drahealth.proto.quoting import printable, printable_lines
from drahealth.suites.judging.ledger import known_issues
from drahealth.suites.judging.report import Result, Run
from drahealth.suites.run.progress import ElapsedTime
from drahealth.suites.run.scenario import scenario_of

_STYLE = {
    "passed": "green",
    "known issue": "yellow",
    "not applicable": "dim",
    "failed": "bold red",
    "error": "bold magenta",
}
_MANY = {"known issue": "known issues", "error": "errors"}
_MARK = {"passed": "PASS", "known issue": "KNOWN", "not applicable": "N/A", "failed": "FAIL", "error": "ERROR"}


class Live:
    """A pytest plugin that prints rows; pytest's own terminal output is off."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.run: Run | None = None
        self.problem = ""
        self._has_begun = False
        self._pipe_is_closed = False
        self._cannot_start: Callable[[], bool] = lambda: False
        self._elapsed = ElapsedTime(lambda what, seconds: self._print(Text(f"{seconds:13.0f} s  {what}", style="dim")))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        reporting = session.config.pluginmanager.get_plugin("drahealth-reporting")
        self.run = reporting.run if reporting else None
        if reporting:
            self._cannot_start = lambda: bool(reporting.cannot_start)
        if session.items:
            self._begin(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """A worker process has collected the scenarios; this process collects none."""
        if not self._has_begun:
            self._begin(len(ids))

    def _begin(self, scenarios: int) -> None:
        self._has_begun = True
        if self.run:
            seed = self.run.conditions.seed
            count = f"{scenarios} scenario{'s' if scenarios > 1 else ''}{'' if seed is None else f', seed {seed}'}"
            self._print(f"[bold]{escape(self.run.about)}[/], {count}\n")

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        scenario = scenario_of(getattr(item, "function", None))
        self._elapsed.begin(getattr(item, "progress", f"{scenario.title if scenario else item.name} ..."))

    def pytest_runtest_teardown(self) -> None:
        self._elapsed.begin("cleanup ...")

    def pytest_runtest_logfinish(self) -> None:
        self._elapsed.end()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "drahealth"):
            self._row(Result.of(report.drahealth))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.problem = str(report.longrepr)

    def pytest_internalerror(self, excrepr: Any) -> None:
        self.problem = str(excrepr)

    @property
    def _profile(self) -> str:
        return self.run.conditions.profile if self.run else ""

    def _print(self, words: Text | str, *, fold: bool = False) -> None:
        """Print until the reader closes the pipe, as `head` does. The run continues.

        Rows are folded at words; commands and texts to copy are not.
        """
        if self._pipe_is_closed:
            return
        try:
            if fold and isinstance(words, Text):
                print_line(self._console, words)
            else:
                self._console.print(words, soft_wrap=True)
        except (BrokenPipeError, SystemExit):  # rich raises SystemExit
            self._pipe_is_closed = True

    def _row(self, result: Result) -> None:
        if result.outcome == "error" and self._cannot_start():
            self._print(_text(f"No scenario ran: {as_called(result.problem)}", "red"))
            return
        row = Text(f"{_MARK[result.outcome]:6}", style=_STYLE[result.outcome])
        row.append(f"{result.seconds:7.2f} s  ", style="dim")
        row.append(result.title, style="default")
        about = result.reason or " ".join((*result.requirements, *result.known_issues))
        row.append(f"  {printable(about)}", style="cyan")
        self._print(row, fold=True)
        for note in (*_issues(result, self._profile), *result.notes):
            self._print(_text(f"{'':18}{note}", "yellow"), fold=True)
        if result.outcome in ("failed", "error"):
            self._print(_text(as_called(result.problem), "red"))
            for text in filter(None, (result.history, f"rerun: {command_as_called(result.rerun)}")):
                self._print(_text(text, "dim"))

    def close(self, seconds: float) -> None:
        """Print the last line: counts and the total time."""
        self._elapsed.end()
        if self.run is None or not self.run.results or self._cannot_start():
            return
        counts = self.run.counts()
        parts = [f"[{_STYLE[o]}]{n} {_MANY.get(o, o) if n > 1 else o}[/]" for o, n in counts.items()]
        self._print(f"\n{', '.join(parts)} in {seconds:.1f} s")
        if causes := Counter(result.cause for result in self.run.results if result.cause):
            words = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
            self._print(f"causes of the failures: {words}")
        if self.run.ended_early:
            self._print(_text(f"not complete: {self.run.reason()}", "red"))


def _issues(result: Result, profile: str) -> Iterator[str]:
    """What each known issue is that happened, once."""
    happened = (
        f"{issue.id}: {issue.what}"
        for issue in known_issues(profile)
        if issue.id in result.known_issues and issue.requirement in result.broken
    )
    return iter(dict.fromkeys(happened))


def _text(words: str, style: str) -> Text:
    """Text that may contain output of plugins. Control characters are escaped."""
    return Text(printable_lines(words), style)
