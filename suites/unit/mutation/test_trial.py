"""A trial: a changed module in a process of its own, and its outcome."""

import asyncio
from pathlib import Path

import pytest

from mutation.coverage_map import CoverageMap
from mutation.hand import ROOT, HandMutant
from mutation.running import LIMITS, Limits, Results, Trial, run_all

PATH = "manager/dra.py"
SCENARIO = "test_an_unhealthy_device_shows_in_the_pod_status_with_its_message"
EVERY_LINE = {str(number): [SCENARIO] for number in range(1, 500)}
COVERED = CoverageMap({PATH: EVERY_LINE}, {SCENARIO: 0.1}, {SCENARIO: 0.1}, imports=30.0)
NOTIFY = "self._notify(update.changed)"
LOG = "log = logging.getLogger(__name__)"


def tried(tmp_path: Path, old: str, new: str, limits: Limits = LIMITS) -> Trial:
    """The result of one change, which is also kept in the file of results."""
    change = HandMutant("changed", "streams", "It is wrong.", PATH, old, new)
    found: list[Trial] = []
    file = tmp_path / "results.jsonl"
    work = run_all([change], COVERED, Results(file), 1, lambda _, trial: found.append(trial), limits)
    asyncio.run(work)
    assert Results(file).by_key == {change.trial_key: found[0]}
    return found[0]


@pytest.mark.parametrize(
    ("old", "new", "outcome", "scenario"),
    [
        pytest.param(NOTIFY, "pass", "killed", SCENARIO, marks=pytest.mark.long),
        ("self._save(driver, update)", "pass", "survived", ""),
    ],
)
def test_a_scenario_fails_for_a_change_that_it_sees(
    tmp_path: Path, old: str, new: str, outcome: str, scenario: str
) -> None:
    trial = tried(tmp_path, old, new)
    assert (trial.outcome, trial.scenario) == (outcome, scenario)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (LOG, 'raise LookupError("no log")', "LookupError"),
        (LOG, "log = )", "SyntaxError"),
        ("class DraManager:", "class Other:", "ImportError"),  # of another module, which needs the name
    ],
)
def test_a_change_that_does_not_import_names_its_error(tmp_path: Path, old: str, new: str, error: str) -> None:
    trial = tried(tmp_path, old, new)
    assert (trial.outcome, trial.reason.partition(":")[0]) == ("no import", error)


@pytest.mark.parametrize(
    ("does", "limits", "reason"),
    [
        ("while True: pass", Limits(times=4.0, more=1.0), "it computes 4 times as long as the reference, and more"),
        ("__import__('time').sleep(600)", Limits(waiting=3.0), "it waits for 3 s without computing"),
    ],
    ids=["computes", "waits"],
)
def test_a_trial_that_hangs_is_ended(tmp_path: Path, does: str, limits: Limits, reason: str) -> None:
    trial = tried(tmp_path, NOTIFY, does, limits)
    assert (trial.outcome, trial.reason) == ("hangs", reason)


@pytest.mark.parametrize("old", ["no such text", "self._cache."])
def test_a_change_whose_text_does_not_occur_once_does_not_apply(tmp_path: Path, old: str) -> None:
    trial = tried(tmp_path, old, "")
    times = (ROOT / PATH).read_text().count(old)
    expected = f"its old text must occur once in {PATH}, but occurs {times} times"
    assert (trial.outcome, trial.reason) == ("does not apply", expected)
