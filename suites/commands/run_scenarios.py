"""`drahealth run`: pytest with our scenarios, independent of the pytest settings of the current folder."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from shlex import quote
from types import FrameType

import pytest
from rich.console import Console

from drahealth.suites.commands.console import Live
from drahealth.suites.commands.worker_count import worker_count
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.output_paths import check_histories_folder, check_output_file
from drahealth.suites.run.catalogue import scenarios
from drahealth.suites.run.matching import suggestions
from drahealth.suites.run.options import Options
from drahealth.suites.targets.cache import default_root


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
    arguments += [f"--drahealth-{name}={value}" for name, value in flags.items() if value is not None]
    arguments += ["-k", match] if match else []
    arguments += [f"--drahealth-report={Path(report).absolute()}"] if report else []
    arguments += [f"--drahealth-histories={Path(histories).absolute()}"] if histories else []
    arguments += [f"--junitxml={Path(junitxml).absolute()}"] if junitxml else []
    # pytest captures the output of scenarios. Rows are written to a copy of the original output.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as output, _isolated(), _terminated_gracefully():
        live = Live(console or Console(file=output, highlight=False))
        start = time.monotonic()
        code = pytest.main(arguments, plugins=[live])
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


@contextmanager
def _terminated_gracefully() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C: cancel the current step, and stop everything that was started."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background
            signal.default_int_handler(number, frame)
        signal.raise_signal(signal.SIGINT)  # the running event loop handles it

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
