"""The shipped timelines detect mutants. Another test plays them on the reference."""

from dataclasses import replace
from pathlib import Path

import pytest

from drahealth.fakes.timelines.play import stories
from drahealth.suites.judging.status_content import StepFailed, Violation
from drahealth.suites.run.timelines import as_scenario
from drahealth.suites.unit.suites import mutants, plugin_mutants, report_mutants, stream_mutants
from drahealth.suites.unit.suites.mutant_play import NOT_DUE, SOON, Case, play

SHIPPED = Path(__file__).resolve().parents[3] / "fakes" / "timelines" / "shipped"
NOTHING = Case("", lambda: None)
BROKEN = [
    ("gpu-off-the-bus", replace(NOTHING, manager=mutants.NeverNotifies, resync=NOT_DUE)),
    ("gpu-off-the-bus", replace(NOTHING, manager=report_mutants.ForgetsMessages)),
    ("gpu-off-the-bus", replace(NOTHING, manager=report_mutants.ForgetsTheAbsent)),
    ("recovery-fails-once", replace(NOTHING, manager=report_mutants.NeverForgives)),
    ("recovery-fails-once", replace(NOTHING, manager=report_mutants.ReportsTheFirst)),
    ("link-flaps", replace(NOTHING, manager=report_mutants.NeverForgives)),
    ("thermal-saw", replace(NOTHING, manager=mutants.HushesUpBadNews)),
    ("silent-lying-dead", replace(NOTHING, manager=report_mutants.AlwaysTheDefault)),
    ("upgrade-under-faults", replace(NOTHING, manager=stream_mutants.WatchesTwice)),
    ("upgrade-under-faults", replace(NOTHING, manager=report_mutants.NeverForgives)),
    ("story-1", replace(NOTHING, manager=mutants.IgnoresWaiting)),
    ("story-1", replace(NOTHING, manager=mutants.HushesUpBadNews)),
    ("story-1", replace(NOTHING, manager=report_mutants.NeverForgives)),
    ("device-plugin", replace(NOTHING, device_plugins=plugin_mutants.TellsNobody, resync=NOT_DUE)),
    ("device-plugin", replace(NOTHING, device_plugins=plugin_mutants.StaysSick)),
    ("device-plugin", replace(NOTHING, device_plugins=plugin_mutants.ListensOnce)),
]


@pytest.mark.parametrize(("name", "broken"), BROKEN, ids=str)
def test_a_broken_reference_fails_a_shipped_timeline(name: str, broken: Case) -> None:
    (story,) = stories(SHIPPED / f"{name}.timeline.yaml")
    with pytest.raises((StepFailed, Violation)):
        play(replace(broken, story=as_scenario(story)), SOON)


def test_without_the_taint_the_next_pod_of_story_1_gets_the_same_device(tmp_path: Path) -> None:
    steps = (SHIPPED / "story-1.timeline.yaml").read_text().split("\n  - ")
    path = tmp_path / "story-1.timeline.yaml"
    path.write_text("\n  - ".join(step for step in steps if not step.startswith(("taint", "untaint"))))
    (story,) = stories(path)
    with pytest.raises(StepFailed, match="it holds gpu-0, and not gpu-1"):
        play(replace(NOTHING, story=as_scenario(story)))


def test_each_shipped_timeline_detects_a_broken_reference() -> None:
    assert {name for name, _ in BROKEN} == {path.name.partition(".")[0] for path in SHIPPED.iterdir()}
