"""The output of `drahealth run`."""

import io
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from drahealth.suites.commands.running import Live
from drahealth.suites.judging.ledger import known_issues
from drahealth.suites.report.document import Conditions, Outcome
from drahealth.suites.report.document import ScenarioResult as Result
from drahealth.suites.report.run_report import Run

FAILED = Result(
    "test_it_is_so",
    "it is so",
    ("STATUS-01",),
    "failed",
    5.068,
    problem="expected: [red]so[/]\nseen:     not so",
    history="   0.000 s  # it begins\n" + "x" * 200,
    rerun="drahealth run --target reference -k test_it_is_so",
)


class Screen:
    """A terminal of 80 columns without colors, and its content."""

    def __init__(self) -> None:
        self._out = io.StringIO()
        self.live = Live(Console(file=self._out, width=80, highlight=False))

    def begins(self, about: str, items: int) -> None:
        run = Run("reference", about, conditions=Conditions(profile="v1.37"))
        manager = SimpleNamespace(get_plugin=lambda name: SimpleNamespace(run=run, cannot_start=False))
        config = SimpleNamespace(pluginmanager=manager)
        self.live.pytest_runtestloop(cast("Any", SimpleNamespace(config=config, items=[None] * items)))

    def ends(self, result: Result) -> None:
        report = pytest.TestReport("id", ("file", 0, "id"), {}, "passed", None, "call")
        report.drahealth = asdict(result)  # type: ignore[attr-defined]
        assert self.live.run
        self.live.run.take(asdict(result))
        self.live.pytest_runtest_logreport(report)

    def text(self) -> str:
        return self._out.getvalue()

    def lines(self) -> list[str]:
        return self.text().splitlines()


def test_a_terminal_of_50_columns_folds_rows_and_keeps_commands_whole() -> None:
    out = io.StringIO()
    screen = Screen()
    screen.live = Live(Console(file=out, width=50, force_terminal=True, color_system=None))
    screen.begins("a kubelet", 1)
    screen.ends(replace(FAILED, title="a device that its driver never reported shows unknown"))
    lines = out.getvalue().splitlines()
    assert [line for line in lines if "shows unknown" in line] == ["    never reported shows unknown  STATUS-01"]
    assert f"rerun: {FAILED.rerun}" in lines


@pytest.fixture
def screen() -> Screen:
    screen = Screen()
    screen.begins("a kubelet [1.37]", 3)
    return screen


def passed(name: str, outcome: Outcome = "passed", known_issues: tuple[str, ...] = ()) -> Result:
    return Result(f"test_{name}", name, ("STATUS-01",), outcome, 0.0449, known_issues)


def test_the_first_line_has_the_target_and_the_number_of_scenarios(screen: Screen) -> None:
    assert screen.lines() == ["a kubelet [1.37], 3 scenarios", ""]


def test_one_scenario_is_singular() -> None:
    screen = Screen()
    screen.begins("the reference", 1)
    assert screen.lines()[0] == "the reference, 1 scenario"


def test_a_scenario_is_a_row(screen: Screen) -> None:
    screen.ends(passed("first"))
    screen.ends(passed("second", "known issue", ("B-02",)))
    assert screen.lines()[2:] == [
        "PASS     0.04 s  first  STATUS-01",
        "KNOWN    0.04 s  second  STATUS-01 B-02",
    ]


def test_a_known_issue_is_explained_below_its_row(screen: Screen) -> None:
    (issue,) = (one for one in known_issues("v1.37") if (one.id, one.requirement) == ("P-08", "STATUS-04"))
    screen.ends(replace(passed("second", "known issue", ("P-08",)), broken=("STATUS-04",)))
    assert screen.lines()[3:] == [f"{'':18}P-08: {issue.what}"]


def test_a_scenario_that_is_not_applicable_is_a_row_with_the_reason(screen: Screen) -> None:
    screen.ends(replace(passed("third", "not applicable"), seconds=0.0, reason="STATUS-01 needs more"))
    screen.live.close(1)
    assert screen.lines()[2:] == ["N/A      0.00 s  third  STATUS-01 needs more", "", "1 not applicable in 1.0 s"]


def test_a_failure_is_printed_in_full_with_the_command_to_rerun_it(screen: Screen) -> None:
    screen.ends(FAILED)
    assert screen.lines()[2:] == [
        "FAIL     5.07 s  it is so  STATUS-01",
        *FAILED.problem.splitlines(),
        *FAILED.history.splitlines(),
        "rerun: drahealth run --target reference -k test_it_is_so",
    ]


def test_control_characters_of_plugins_are_escaped(screen: Screen) -> None:
    order = "\x1b]0;mine\x07\x9b2J\r"
    screen.ends(replace(FAILED, problem=order, history=f"{order}\n{order}", reason=order))
    assert all(line.isprintable() for line in screen.text().split("\n"))


def test_an_error_without_a_history_leaves_no_empty_line(screen: Screen) -> None:
    screen.ends(
        Result("test_a", "a", (), "error", 0.0, problem="no node; see the log", rerun="drahealth run -k test_a")
    )
    assert screen.lines()[3:] == ["no node; see the log", "rerun: drahealth run -k test_a"]


def test_the_last_line_counts_outcomes(screen: Screen) -> None:
    for result in (passed("a"), passed("b", "known issue"), passed("c"), FAILED):
        screen.ends(result)
    screen.live.close(12.34)
    assert screen.lines()[-2:] == ["", "2 passed, 1 known issue, 1 failed in 12.3 s"]


def test_a_run_without_results_has_no_last_line(screen: Screen) -> None:
    screen.live.close(1)
    assert screen.lines() == ["a kubelet [1.37], 3 scenarios", ""]
