"""Timelines in Python give the plan that a file gives."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines import build
from drahealth.fakes.timelines.build import dump
from drahealth.fakes.timelines.load import load
from drahealth.fakes.timelines.model import VERBS
from drahealth.fakes.timelines.play import Story, stories
from drahealth.fakes.timelines.validation import checked_plan
from drahealth.suites.unit.expected_errors import file_error

FILE = """
format: fault-timeline/v1
name: a storm
seed: 4680
timeline:
  - {at: 2s, flap: {device: {pick: 2, from: "gpu-*"}, down: nvlink/link-down, period: 1s..3s, duty: 30%, for: 20s}}
  - at: 10s
    repeat:
      times: 3
      every: 8s+-25%
      do:
        - {inject: xid/94, device: {pick: 1, from: "gpu-0/mig-*"}, for: 2s, probability: 80%}
  - parallel:
      - [{stream: {close: UNAVAILABLE}}, {after: 1s, driver: {restart: {offer: [v1alpha1]}}}]
      - [{mark: beside}]
  - {clear: xid/94, device: gpu-0}
  - {recover: {action: gpu-reset, fails: true}, device: gpu-0, after: 1s..2s}
  - {set: {timeout: 30s, heartbeat: 10s}, device: all}
  - {at: 70s, expect: {device: all, health: Healthy}, within: resync, holds: 3s}
always:
  - {driver: start}
  - {reset: true}
"""
DEVICES = Inventory.of(4, partitions=3)


def test_each_verb_has_a_function() -> None:
    assert [verb for verb in VERBS if not hasattr(build, {"set": "set_"}.get(verb, verb))] == []


def test_a_story_in_python_has_the_plan_of_the_same_story_in_a_file() -> None:
    contained = build.inject("xid/94", {"pick": 1, "from": "gpu-0/mig-*"}, for_="2s", probability="80%")
    links = {"pick": 2, "from": "gpu-*"}
    story = build.timeline(
        "a storm",
        [
            build.flap("nvlink/link-down", links, period="1s..3s", duty="30%", lasting="20s", when={"at": "2s"}),
            build.repeat([contained], times=3, every="8s+-25%", at="10s"),
            build.parallel(
                [build.stream(close="UNAVAILABLE"), build.driver({"restart": {"offer": ["v1alpha1"]}}, after="1s")],
                [build.mark("beside")],
            ),
            build.clear("xid/94", "gpu-0"),
            build.recover("gpu-reset", "gpu-0", fails=True, after="1s..2s"),
            build.set_(timeout="30s", heartbeat="10s"),
            build.expect(health="Healthy", within="resync", holds="3s", at="70s"),
        ],
        always=[build.driver("start"), build.reset()],
        seed=4680,
    )
    (loaded,) = load(FILE)
    assert list(build.checked(story, DEVICES).to_lines()) == list(checked_plan(loaded, DEVICES).to_lines())


STORY = """
format: fault-timeline/v1
name: story
use: {workload: {kind: ReplicaSet, devices: 1}}
timeline:
  - {pod: keeps-failing, for: 1s..5s}
  - {taint: {key: a.example.com/sick, value: so}, device: gpu-0, for: 9s}
  - {pod: deleted}
  - {expect: {device: held, health: Healthy}, within: push}
  - {taint: {key: odd, effect: None}, device: gpu-1}
  - {untaint: odd, device: gpu-1}
"""


def test_workloads_and_taints_in_python_are_those_of_a_file() -> None:
    story = build.timeline(
        "story",
        [
            build.pod("keeps-failing", for_="1s..5s"),
            build.taint("a.example.com/sick", "gpu-0", value="so", for_="9s"),
            build.pod("deleted"),
            build.expect("held", health="Healthy"),
            build.taint("odd", "gpu-1", effect="None"),
            build.untaint("odd", "gpu-1"),
        ],
        workload={"kind": "ReplicaSet", "devices": 1},
    )
    (loaded,) = load(STORY)
    assert list(build.checked(story, DEVICES).to_lines()) == list(checked_plan(loaded, DEVICES).to_lines())
    assert load(dump(story))[0].timeline == story


def test_step_has_its_file_line_or_its_path_as_location(tmp_path: Path) -> None:
    path = tmp_path / "storm.timeline.yaml"
    path.write_text(FILE)
    (read,) = stories(path, inventory=DEVICES)
    made = Story(read.timeline, DEVICES, build.checked(read.timeline, DEVICES))
    step = next(action for action in read.plan.actions if action.step == "timeline.2.parallel.0.1")
    assert (read.where(step), made.where(step)) == ("storm.timeline.yaml line 14, " + step.step, step.step)


def test_invalid_step_is_reported_with_its_location() -> None:
    with pytest.raises(ValueError, match="invalid duration '5 sec'"):
        build.inject("xid/79", "gpu-0", at="5 sec")
    with file_error((1, "timeline.0.inject")):
        build.checked(build.timeline("n", [build.inject("xid/97", "gpu-0")]), DEVICES)


@given(st.text())
def test_any_text_survives_dump_and_load(text: str) -> None:
    story = build.timeline("odd", [build.stream(send={"device": text, "message": text})])
    assert load(dump(story))[0].timeline == story
