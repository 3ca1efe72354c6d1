"""Run the commands of this project in processes of their own, without importing everything each time.

Imports take most of the time of a call of `drahealth`. So these processes are forked from one that has done the imports
and nothing else: multiprocessing's fork server. Each process has its own arguments, environment, folder, output,
signals and exit code. Start a new Python instead if the test is about imports.
"""

import asyncio
import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

COMMAND = "from drahealth.suites.command import main\nmain()"
"""The program of the installed `drahealth`."""

FAKES = "from drahealth.fakes.command import main\nmain()"
"""The program of `python -m drahealth.fakes`, the command in a pod's image."""

PYTEST = 'import sys, pytest\nsys.exit(pytest.main(["-p", "no:hypothesispytest", *sys.argv[1:]]))'
"""pytest. Hypothesis's plugin is left out: at the end of each run it imports all of Hypothesis."""

PATIENCE = 240.0
"""Seconds that a program may take on a loaded machine."""

IMPORTED = (
    "_pytest.junitxml",
    "anyio.pytest_plugin",
    "drahealth.fakes.command",
    "drahealth.fakes.serve.program",
    "drahealth.suites.commands.certify_kubelet",
    "drahealth.suites.commands.certify_run",
    "drahealth.suites.commands.verify_run",
    "drahealth.suites.commands.selftest",
    "drahealth.suites.command",
    "drahealth.suites.commands.running",
    "drahealth.suites.manager_command.program",
    "drahealth.suites.run.timelines",
    "drahealth.suites.run.reporting",
    "drahealth.suites.run.session",
    "drahealth.suites.targets.kind.target",
    "drahealth.suites.targets.reference.target",
    "drahealth.suites.up_command.starting",
    "jinja2",
    "prometheus_client",
    "typer.rich_utils",
)
"""The modules that the fork server imports."""

COLOURS = ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS")
"""The variables with any of which typer's module prints colours, from its import on; pytest's pytester sets one."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([*IMPORTED])

Done = subprocess.CompletedProcess[str]


def run(program: str, *arguments: str, folder: Path | None = None) -> Done:
    """Run a program, given as Python source, to its end. Raises TimeoutError."""
    with _outputs() as (out, err):
        process = _start(program, arguments, folder, out, err)
        process.join(PATIENCE)
        return _done(process, arguments, out, err)


async def run_async(program: str, *arguments: str, folder: Path | None = None) -> Done:
    """Run a program without blocking the event loop. Raises TimeoutError."""
    with _outputs() as (out, err):
        process = _start(program, arguments, folder, out, err)
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(process.sentinel, ended.set)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), PATIENCE)
        finally:
            loop.remove_reader(process.sentinel)
        return _done(process, arguments, out, err)


def run_pytest(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest in the folder of the pytester. Raises TimeoutError."""
    done = run(PYTEST, *arguments, folder=pytester.path)
    return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), duration=0.0)


@contextmanager
def _outputs() -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        yield Path(folder, "out"), Path(folder, "err")


def _start(program: str, arguments: tuple[str, ...], folder: Path | None, *outputs: Path) -> ForkServerProcess:
    with pytest.MonkeyPatch.context() as patch:
        for name in COLOURS:
            patch.delenv(name, raising=False)
        forkserver.ensure_running()
    files = (os.devnull, *map(str, outputs))
    where = str(folder or Path.cwd())
    process = _CONTEXT.Process(target=_main, args=(program, arguments, where, dict(os.environ), files))
    process.start()
    return process


def _done(process: ForkServerProcess, arguments: tuple[str, ...], out: Path, err: Path) -> Done:
    if process.exitcode is None:
        process.kill()
        process.join()
        raise TimeoutError(f"{arguments} has not ended within {PATIENCE:g} s: {err.read_text()}")
    done = subprocess.CompletedProcess(arguments, process.exitcode, out.read_text(), err.read_text())
    process.close()
    return done


def _main(
    program: str, arguments: tuple[str, ...], folder: str, environment: dict[str, str], files: tuple[str, ...]
) -> None:
    """The main function of the new process."""
    gc.freeze()  # a collection would look through all that the fork server imported
    for number, path in enumerate(files):
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["drahealth", *arguments]
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
