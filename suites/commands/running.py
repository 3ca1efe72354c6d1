"""`drahealth run` and `play`: pytest with our scenarios or timelines, and what they print."""

import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any

import psutil
import pytest
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from drahealth.fakes.program.console import print_line
from drahealth.fakes.program.usage import as_called, command_as_called
from drahealth.fakes.program.user_files import FileError
from drahealth.fakes.timelines.play import stories
from drahealth.proto.quoting import printable, printable_lines
from drahealth.suites.commands.ending import terminated_gracefully
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.judging.ledger import known_issues
from drahealth.suites.output_paths import check_histories_folder, check_output_file
from drahealth.suites.report.document import ScenarioResult
from drahealth.suites.report.run_report import Run
from drahealth.suites.run.options import HandedOver, Options
from drahealth.suites.run.scenario import STANDARD_INPUT, TIMELINE_SUFFIX, scenario_of, scenarios, suggestions
from drahealth.suites.targets.progress import ElapsedTime
from drahealth.suites.targets.registry import TargetDefinition
from drahealth.suites.targets.run_directory import default_root

# The number of processes of a run: one for each processor that scenarios keep busy, and one for each node that fits
# into the memory.

MOST = 4
"""The most processes that nobody asked for."""


def worker_count(asked: int | None, definition: TargetDefinition, *, whole: bool) -> int:
    """The number of processes; 1: no others. `asked` is that of `-n`. `whole`: all scenarios of this project run.

    Raises ConfigurationError if `-n` asks for several, and pytest-xdist is not installed.
    """
    has_xdist = find_spec("xdist") is not None
    if asked is not None and asked > 1 and not has_xdist:
        raise ConfigurationError("-n needs the package pytest-xdist", "run `pip install pytest-xdist`")
    if asked is not None or not has_xdist:
        return asked or 1
    if definition.is_busy:  # a few scenarios end before another process has started
        return min(MOST, len(os.sched_getaffinity(0))) if whole else 1
    return fitting(definition.node_memory, psutil.virtual_memory().available // 2**20)


def fitting(node_memory: int, available: int) -> int:
    """The number of nodes for half of the available memory, in MB: 1 to 4. For nodes that need almost none, 1."""
    return min(MOST, max(1, available // 2 // node_memory)) if node_memory else 1


# The output of `drahealth run`: one row per scenario with its time, and the full text of errors.

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
            self.show(ScenarioResult.of(report.drahealth))

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

    def show(self, result: ScenarioResult) -> None:
        """Print the row of a result."""
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
        if self.run.nodes:
            self._print("")
        for one in self.run.by_node():
            self._print(_text(f"node {one.node}, {one}", "green" if one.verdict == "passed" else "bold red"))
        counts = self.run.counts()
        parts = [f"[{_STYLE[o]}]{n} {_MANY.get(o, o) if n > 1 else o}[/]" for o, n in counts.items()]
        self._print(f"\n{', '.join(parts)} in {seconds:.1f} s")
        if causes := Counter(result.cause for result in self.run.results if result.cause):
            words = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
            self._print(f"causes of the failures: {words}")
        if self.run.ended_early:
            self._print(_text(f"not complete: {self.run.reason()}", "red"))


def _issues(result: ScenarioResult, profile: str) -> Iterator[str]:
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


# `drahealth run`: pytest with our scenarios, independent of the pytest settings of the current folder.


def run_scenarios(
    flags: Mapping[str, str | None],
    *,
    match: str | None = None,
    exitfirst: bool = False,
    last_failed: bool = False,
    workers: int | None = None,
    report: str | None = None,
    junitxml: str | None = None,
    histories: str | None = None,
    played: Sequence[Path] = (),
    console: Console | None = None,
) -> int:
    """Runs them, or the timelines that are `played`, and returns the command's exit code.

    `flags` are the target's, and those of timelines. Raises ConfigurationError before anything is started.
    """
    options = Options.make(flags)
    check_output_file(report)
    check_output_file(junitxml)
    check_histories_folder(histories)
    package = resources.files("drahealth.suites")
    settings = str(package.joinpath("run/run.ini"))
    chosen = [str(path.absolute()) for path in played] or [str(package.joinpath("kep"))]
    arguments = ["-c", settings, "--rootdir", str(package.joinpath("kep")), "-p", "drahealth.suites.run.plugin"]
    arguments += ["-p", "no:terminal", *chosen]
    arguments += ["-p", "no:cacheprovider"] if played else ["-o", f"cache_dir={_last_run(options)}"]
    arguments += ["--last-failed"] if last_failed else []
    arguments += ["--exitfirst"] if exitfirst else []
    count = 1 if played else worker_count(workers, options.definition, whole=not (match or last_failed))
    arguments += ["-p", "xdist.plugin", f"-n{count}"] if count > 1 else []
    arguments += [f"--drahealth-command=drahealth {'play' if played else 'run'}"]
    # Worker processes make the options of the target from texts; this process has them.
    arguments += shlex.split(options.flags_as("--drahealth-")) if count > 1 else []
    arguments += [f"--drahealth-{name}={flags[name]}" for name in ("seed", "speed") if flags.get(name) is not None]
    arguments += ["-k", match] if match else []
    arguments += [f"--drahealth-report={Path(report).absolute()}"] if report else []
    arguments += [f"--drahealth-histories={Path(histories).absolute()}"] if histories else []
    arguments += [f"--junitxml={Path(junitxml).absolute()}"] if junitxml else []
    # pytest captures the output of scenarios. Rows are written to a copy of the original output.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as output, _isolated(), terminated_gracefully():
        live = Live(console or Console(file=output, highlight=False))
        start = time.monotonic()
        code = pytest.main(arguments, plugins=[live, HandedOver(options)])
        live.close(time.monotonic() - start)
    return _exit_code(code, live, match)


def _last_run(options: Options) -> Path:
    """Where pytest stores which scenarios failed on this target."""
    return default_root() / "last-run" / options.target


@contextmanager
def _isolated() -> Iterator[None]:
    """Ignore pytest settings in the environment, and installed plugins."""
    before = dict(os.environ)
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _no_match(match: str | None) -> ConfigurationError:
    """The error for a -k that selects nothing, with the scenarios that it can mean."""
    close = [f"-k {quote(title)}" for title in suggestions(match or "", scenarios())]
    hint = f"did you mean {' or '.join(close)}?" if close else "run `drahealth scenarios` for their names"
    return ConfigurationError(f"no scenario matches -k {match!r}", hint)


def _exit_code(code: int, live: Live, match: str | None) -> int:
    gave_up = live.run is not None and live.run.counts().get("error")  # then others did not run
    if code == pytest.ExitCode.INTERRUPTED and not live.problem and not gave_up:
        sys.stderr.write("drahealth: interrupted\n")
        return 3
    if code == pytest.ExitCode.USAGE_ERROR:
        return 2  # pytest has printed the error of -k
    if live.problem:
        raise HarnessError(f"pytest failed before it started a scenario: {live.problem}")
    if code == pytest.ExitCode.INTERNAL_ERROR:
        return 3  # an output file could not be written; pytest has printed which
    if live.run is None or not live.run.results:
        raise _no_match(match)
    return live.run.exit_code()


# `drahealth play`: play timelines on a target, like `drahealth run` for scenarios.


def play_timelines(
    paths: Sequence[Path],
    flags: Mapping[str, str | None],
    *,
    exitfirst: bool = False,
    report: str | None = None,
    junitxml: str | None = None,
    histories: str | None = None,
) -> int:
    """Play the timelines of files, folders and standard input (-). Raises ConfigurationError with all errors."""
    with _with_standard_input(paths) as played:
        _check([file for path in played for file in _files(path)], flags.get("seed"))
        return run_scenarios(
            flags, exitfirst=exitfirst, report=report, junitxml=junitxml, histories=histories, played=played
        )


@contextmanager
def _with_standard_input(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """The paths, with a file that has the standard input in place of `-`."""
    with tempfile.TemporaryDirectory(prefix="drahealth-") as folder:
        file = Path(folder, STANDARD_INPUT)
        if Path("-") in paths:
            file.write_bytes(sys.stdin.buffer.read())
        yield [file if path == Path("-") else path for path in paths]


def _check(files: Sequence[Path], seed: str | None) -> None:
    """Raises ConfigurationError with all errors of all files."""
    wrong = list[str]()
    for file in files:
        try:
            stories(file, seed=int(seed) if seed else None)
        except FileError as error:
            wrong.append(str(error))
        except OSError as error:
            wrong.append(f"{error.filename or file} cannot be read: {error.strerror}")
    if wrong:
        raise ConfigurationError("\n".join(wrong))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.rglob(f"*{TIMELINE_SUFFIX}"))
        if not files:
            raise ConfigurationError(f"no timelines in {path}", f"their file names must end in {TIMELINE_SUFFIX}")
        return files
    if path.exists() and not path.name.endswith(TIMELINE_SUFFIX):
        raise ConfigurationError(f"{path} is not a timeline", f"its file name must end in {TIMELINE_SUFFIX}")
    return [path]
