"""Runs of ci/mutants/run: what they say of a change that does not import, and what an interrupt does."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from drahealth.suites.unit.mutation.mutants_run import finish, results, start, write_map
from mutation.hand import ROOT
from mutation.operators import Mutation, mutations
from mutation.running import digest

DRA, CHECKPOINT = "manager/dra.py", "manager/checkpoint.py"
REPORTED = f"{DRA} DraManager._reported"
INTERRUPTED = "interrupted: the same command continues"


def changes() -> tuple[Mutation, Mutation]:
    """Without a notification the scenario waits until its window ends, so the trial of the first one takes long."""
    notify, save = (one for one in mutations(DRA, (ROOT / DRA).read_text()) if one.key.startswith(REPORTED))
    return notify, save


def wait_for(run: subprocess.Popen[str], line: str) -> None:
    """Reads its output up to a line with this text."""
    assert run.stdout
    next(text for text in run.stdout if line in text)


def interrupt(run: subprocess.Popen[str], how: signal.Signals = signal.SIGINT) -> list[str]:
    """Sends the signal to its process group, as a terminal does. Returns the lines until its end."""
    os.killpg(run.pid, how)
    return finish(run)


def using(folder: Path) -> list[psutil.Process]:
    """The processes whose arguments name a file in the folder."""
    every = psutil.process_iter(["cmdline"])
    return [one for one in every if any(str(folder) in word for word in one.info["cmdline"] or ())]


def test_a_run_says_which_change_does_not_import(tmp_path: Path) -> None:
    year = next(one for one in mutations(CHECKPOINT, (ROOT / CHECKPOINT).read_text()) if one.before == "9999")
    write_map(tmp_path, CHECKPOINT, year.line)
    with start(tmp_path, year.key) as run:
        tried, *others = finish(run)
    assert tried.rpartition("  ")[2] == f"no import: {year.key} ValueError: year 10000 is out of range"
    assert (run.returncode, others[-1]) == (0, "automatic: 1 changes: 1 no import. Caught: 0 of 0 (0.0%)")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_an_interrupted_run_ends_its_trials(tmp_path: Path, how: signal.Signals) -> None:
    notify, save = changes()
    write_map(tmp_path, DRA, notify.line)
    before = digest()
    with start(tmp_path, REPORTED) as run:
        wait_for(run, f"not covered: {save.key}")
        trials = using(tmp_path)
        lines = interrupt(run, how)
    assert (len(trials), run.returncode, INTERRUPTED in lines) == (1, 130, True)
    assert (using(tmp_path), [*tmp_path.glob("drahealth-mutant-*")], digest()) == ([], [], before)


def test_the_run_after_an_interrupted_one_tries_only_the_rest(tmp_path: Path) -> None:
    notify, save = changes()
    write_map(tmp_path, DRA, notify.line)
    with start(tmp_path, REPORTED) as run:
        wait_for(run, f"not covered: {save.key}")
        interrupt(run)
    write_map(tmp_path, DRA)
    with start(tmp_path, REPORTED) as run:
        lines = finish(run)
    tried = [one for one in (notify, save) if any(f"not covered: {one.key}" in line for line in lines)]
    assert (run.returncode, tried) == (0, [notify])


def test_a_run_that_is_interrupted_before_its_trials_leaves_no_map(tmp_path: Path) -> None:
    pytest.importorskip("coverage", reason="without it there is no map; `ci/set-up test,mutants` installs it")
    with start(tmp_path, REPORTED) as run:
        wait_for(run, "running all scenarios once")
        lines = interrupt(run)
    assert (run.returncode, INTERRUPTED in lines) == (130, True)
    assert (using(tmp_path), [*results(tmp_path).glob("coverage.json")]) == ([], [])
