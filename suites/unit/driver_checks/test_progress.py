"""The progress of a run: the judged requirements, the elapsed time and the remaining time."""

import io
import os
import re
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from drahealth.proto.events import Event, ExperimentEnded, ExperimentStarted, ProcessExited, ReportReceived
from drahealth.suites.commands.check_run import PlainView, Progress, TerminalView, judged_by, view_on
from drahealth.suites.driver_checks.driver_run import duration
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.unit.driver_checks.runs import run_with

RUN = run_with(level="core")
END = "end"


@dataclass
class Shown:
    lines: list[str] = field(default_factory=list)
    last: str = ""

    def line(self, text: str) -> None:
        self.lines.append(text)

    def status(self, text: str) -> None:
        self.last = text


@dataclass
class Rig:
    time: float = 0
    shown: Shown = field(default_factory=Shown)

    def progress(self, *only: str) -> Progress:
        return Progress(RUN, self.shown, only, lambda: self.time)

    def after(self, seconds: float, *events: Event, of: Progress, experiment: str = END) -> None:
        self.time += seconds
        for event in events:
            of(experiment, event)


def test_first_line_has_the_requirements_and_the_usual_time() -> None:
    rig = Rig()
    rig.after(0, ExperimentStarted("main"), ExperimentStarted("main"), of=rig.progress())
    number = len({name for each in judged_by(RUN).values() for name in each})
    first, second, _ = rig.shown.lines
    assert first == f"   0.0 s  level core: {number} requirements, about {duration(RUN):.0f} s left"
    assert second.startswith(f"   0.0 s  {END}: ")


def test_experiment_has_its_requirements_and_its_time() -> None:
    rig = Rig()
    progress = rig.progress()
    rig.after(1, ExperimentStarted("main"), of=progress)
    rig.after(2.5, ExperimentEnded("incomplete", "no socket"), of=progress)
    judged = judged_by(RUN)[END]
    start, end = rig.shown.lines[1:]
    assert (f"   1.0 s  {END}: " in start, f" For {', '.join(judged[:3])}" in start) == (True, True)
    assert end == f"   3.5 s  {END}: incomplete after 2.5 s: no socket"


def test_progress_has_the_exit_of_the_driver_in_a_few_words() -> None:
    rig = Rig()
    progress = rig.progress()
    crash = ProcessExited("main", 1, -11, 0, ("panic: no device",))
    rig.after(1, ExperimentStarted("main"), crash, ExperimentEnded("incomplete", exit_text(crash)), of=progress)
    assert rig.shown.lines[-1].endswith(f"{END}: incomplete after 0.0 s: the driver exited")


def test_state_has_the_remaining_time_and_the_running_experiment() -> None:
    rig = Rig()
    progress = rig.progress()
    rig.after(4, ExperimentStarted("main"), ReportReceived("gpu", "", "s", 1, ()), of=progress)
    progress.tick()
    left = duration(RUN) - 4
    assert rig.shown.last == f"   4.0 s  about {left:.0f} s left; running: {END}; 1 health reports"
    rig.time += left
    progress.tick()
    assert " more time than usual; running: " in rig.shown.last


def test_requirements_that_were_not_selected_are_not_named() -> None:
    rig = Rig()
    progress = rig.progress("PLUGIN-18")
    rig.after(1, ExperimentStarted("main"), of=progress)
    rig.after(1, ExperimentStarted("main"), of=progress, experiment="watch")
    assert [re.findall(r"[A-Z]+-\d+", line) for line in rig.shown.lines[1:]] == [["PLUGIN-18"], []]


def test_plain_lines_have_the_state_only_after_a_pause() -> None:
    lines: list[str] = []
    view = PlainView(lines.append)
    for number in range(25):
        if number == 5:
            view.line("experiment")
        view.status(f"state {number}")
    assert lines == ["experiment", "state 14", "state 24"]


def test_terminal_of_50_columns_gets_folded_lines_and_a_cut_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    controller, terminal = os.openpty()
    with os.fdopen(terminal, "w") as file, view_on(Console(file=file, width=50)) as view:
        assert isinstance(view, TerminalView)
        view.line("   0.0 s  " + "word " * 20)
        view.status("   1.0 s  " + "state " * 20)
    shown = os.read(controller, 65536).decode().replace("\r", "\n")
    os.close(controller)
    assert (max(len(line) for line in shown.splitlines() if "word" in line) <= 60, "\x1b[3" in shown) == (True, False)


def test_file_gets_plain_lines() -> None:
    file = io.StringIO()
    with view_on(Console(file=file, force_terminal=True)) as view:
        view.line("one [bold]")
    assert file.getvalue() == "one [bold]\n"
