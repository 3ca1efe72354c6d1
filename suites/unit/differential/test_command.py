"""The command of the differential test: its errors and its output."""

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from differential.comparison import Difference
from differential.running import DIFFERENT, SAME, USAGE, Outcome, app, format_counts, format_outcome
from differential.script import Silence, load_record
from drahealth.suites.unit.differential.scripts import dump_script, script, unhealthy

DIFFERENCE = Difference(0, "pushed", "pod-0", "Healthy", "Unknown")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--replay", "none.json"], "none.json cannot be read: No such file or directory"),
        (["--profile", "v9"], "--profile must be one of kep, "),
        (["--kubernetes", "1.99.0"], "drahealth does not support Kubernetes 1.99.0"),
        (["--kubernetes", "new"], "a Kubernetes version must be MAJOR.MINOR or MAJOR.MINOR.PATCH, got 'new'"),
        (["--target", "kind"], "--target "),
        (["--record"], "--record needs --replay"),
    ],
)
def test_a_wrong_argument_gives_a_one_line_error(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == USAGE
    assert result.stderr.startswith(says)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome(4, script(), "same"), []),
        (Outcome(4, script(), "broken", fault="no fence\nlog"), ["script 4: broken: no fence"]),
        (
            Outcome(4, script(), "undecided", plays=3),
            ["script 4: undecided, too close to the end of a timeout 3 times"],
        ),
        (
            Outcome(4, script(), "fleeting", (DIFFERENCE,)),
            [
                "script 4: differed, but not in each replay:",
                "    step 0, pushed: pod-0: reference Healthy, kubelet Unknown",
            ],
        ),
    ],
)
def test_an_outcome_is_printed_unless_it_is_the_same(outcome: Outcome, told: list[str]) -> None:
    assert format_outcome(outcome) == told


def test_only_the_first_differences_are_printed() -> None:
    told = format_outcome(Outcome(1, script(), "different", (DIFFERENCE,) * 9))
    assert (told[0], len(told), told[-1]) == ("script 1: differs:", 8, "    and 3 more")


def test_all_verdicts_are_counted() -> None:
    counted = format_counts(Counter({"same": 3, "broken": 1}))
    assert counted == "3 same, 0 different, 0 fleeting, 0 undecided, 1 broken"


@pytest.mark.long
def test_a_differing_script_is_minimized_written_and_read_again(tmp_path: Path) -> None:
    story = tmp_path / "story.json"
    story.write_text(dump_script(script(Silence(0), unhealthy("é" * 600), unhealthy("hot"), Silence(0))))
    arguments = ["--target", "reference", "--replay", str(story), "--profile", "kep", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*arguments, "--plays", "1"])
    written = tmp_path / "difference-0.json"
    assert (result.exit_code, load_record(written).script.steps) == (DIFFERENT, (Silence(0), unhealthy("é" * 600)))
    assert "1 scripts with 4 steps" in result.output
    assert CliRunner().invoke(app, ["--target", "reference", "--replay", str(written)]).exit_code == SAME


def test_observed_statuses_are_recorded(tmp_path: Path) -> None:
    story = tmp_path / "story.json"
    story.write_text(dump_script(script()))
    assert CliRunner().invoke(app, ["--target", "reference", "--replay", str(story), "--record"]).exit_code == SAME
    seen = load_record(story).seen
    assert seen is not None
    assert [snapshot.moment for snapshot in seen.snapshots] == ["synced"]
