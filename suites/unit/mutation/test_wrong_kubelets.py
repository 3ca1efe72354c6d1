"""Wrong kubelets: their files, and the results of scenarios on them."""

from pathlib import Path
from typing import Any

import pytest

from mutation.hand import ROOT, HandMutantError
from mutation.kubelets import judge, outcomes, page, parse_wrong_kubelets, read_wrong_kubelets, table
from mutation.running import Trial

FILE = """\
part = "the status"
[[kubelet]]
name = "message-lost"
does = "The message is lost."
file = "pkg/kubelet/a.go"
old = "one"
new = ""
scenarios = ["a_message_shows", "a_device_shows"]
"""
[WRONG] = parse_wrong_kubelets(FILE, "status.toml")
RIGHT = {"a_message_shows": "passed", "a_device_shows": "known issue", "fails_anyway": "failed"}
SURVIVED = Trial(
    "message-lost",
    "survived",
    reason="a_device_shows has a known issue on the right kubelet, which can hide the bug",
)


def report(**found: str) -> dict[str, Any]:
    """A report with these outcomes of scenarios."""
    return {
        "scenarios": [
            {"name": f"test_{name}", "outcome": outcome, "broken": ["A-1"]} for name, outcome in found.items()
        ]
    }


def test_a_wrong_kubelet_is_a_change_and_the_scenarios_that_notice_it() -> None:
    assert (WRONG.name, WRONG.scenarios) == ("message-lost", ("a_message_shows", "a_device_shows"))
    assert WRONG.change.changed("no one") == "no "


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('part = "the status"', ""),
        ('does = "The message is lost."', ""),
        ('old = "one"', 'old = ""'),
        ('scenarios = ["a_message_shows", "a_device_shows"]', "scenarios = []"),
        ('scenarios = ["a_message_shows", "a_device_shows"]', 'scenarios = "a_message_shows"'),
        ("[[kubelet]]", "[[kubelet"),
    ],
)
def test_a_wrong_file_is_rejected_and_named(old: str, new: str) -> None:
    with pytest.raises(HandMutantError, match=r"status\.toml"):
        parse_wrong_kubelets(FILE.replace(old, new), "status.toml")


def test_two_wrong_kubelets_with_one_name_are_rejected(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text(FILE)
    with pytest.raises(HandMutantError, match="message-lost"):
        read_wrong_kubelets(tmp_path)


def test_another_change_has_another_folder() -> None:
    [other] = parse_wrong_kubelets(FILE.replace('new = ""', 'new = "two"'), "status.toml")
    assert other.folder != WRONG.folder


@pytest.mark.parametrize(
    ("found", "trial"),
    [
        (report(a_device_shows="failed"), Trial("message-lost", "caught", ("A-1",), "a_device_shows")),
        (report(a_device_shows="known issue", a_message_shows="passed"), SURVIVED),
        (report(fails_anyway="failed"), SURVIVED),
        (
            report(a_device_shows="error", a_message_shows="failed"),
            Trial("message-lost", "caught", ("A-1",), "a_message_shows"),
        ),
        (report(a_device_shows="error"), Trial("message-lost", "error", reason="the end")),
        (report(), Trial("message-lost", "error", reason="the end")),
        (None, Trial("message-lost", "error", reason="the end")),
    ],
)
def test_new_scenario_failures_catch_a_wrong_kubelet(found: dict[str, Any] | None, trial: Trial) -> None:
    assert judge(WRONG, RIGHT, found, "begin\nthe end\n\n") == trial


def test_uncaught_bug_without_a_known_issue_survives_without_a_reason() -> None:
    right = dict.fromkeys(WRONG.scenarios, "passed")
    assert judge(WRONG, right, report(a_device_shows="passed"), "") == Trial("message-lost", "survived")


def test_the_outcomes_of_a_report_are_by_scenario() -> None:
    assert outcomes(report(a="passed", b="failed")) == {"a": "passed", "b": "failed"}


def test_the_page_counts_and_lists_results() -> None:
    trials = {"message-lost": Trial("message-lost", "caught", ("A-1",), "a_device_shows")}
    text = page([WRONG], trials, "1.37.1")
    assert "Caught bugs: 1 of 1." in text
    assert "| `message-lost` | The message is lost. | `a.go` | caught by “a device shows” (A-1) |" in text
    assert table([WRONG], trials)[-1] == "caught 1 of 1"


def test_each_wrong_kubelet_names_scenarios_that_exist() -> None:
    text = "".join(file.read_text() for file in (ROOT / "suites" / "kep").glob("test_*.py"))
    named = {
        name for wrong in read_wrong_kubelets(ROOT / "ci" / "mutants" / "wrong-kubelets") for name in wrong.scenarios
    }
    assert [name for name in sorted(named) if f"async def test_{name}(" not in text] == []
