"""Rounds from a seed: the same ones each time, valid, and no disruption that the target cannot do."""

import pytest

from drahealth.fakes.timelines.build import dump
from drahealth.fakes.timelines.load import load
from drahealth.suites.soak.random_timelines import REAL, SIMULATED, Pace, Round, round_of
from drahealth.suites.targets.capabilities import Capability

ALL = frozenset(Capability)


def told(made: Round) -> tuple[object, ...]:
    return made.title, [story.plan.hash for story in made.stories], made.disruptions


@pytest.mark.parametrize("pace", [REAL, SIMULATED])
def test_same_seed_and_number_give_the_same_round(pace: Pace) -> None:
    assert told(round_of(7, 12, pace, ALL)) == told(round_of(7, 12, pace, ALL))
    assert told(round_of(7, 12, pace, ALL)) != told(round_of(8, 12, pace, ALL))


def test_rounds_have_every_kind_of_step_and_disruption() -> None:
    made = [round_of(1, number, SIMULATED, ALL) for number in range(1, 65)]
    verbs = {action.verb for one in made for story in one.stories for action in story.plan.actions}
    assert {"inject", "recover", "set_health", "stream_silence", "stream_close", "stream_send", "restart"} <= verbs
    assert {"crash", "stop", "unregister", "start", "upgrade", "pod"} <= verbs
    assert {done.what for one in made for done in one.disruptions} == {
        *("restart the kubelet", "stop the kubelet", "stop the API server", "start a Pod"),
    }


def test_target_without_capabilities_is_not_disrupted() -> None:
    made = [round_of(1, number, SIMULATED, ()) for number in range(1, 17)]
    assert {done.what for one in made for done in one.disruptions} == {"start a Pod"}


def test_timelines_of_a_round_can_be_written_and_read() -> None:
    story = round_of(3, 1, REAL, ALL).stories[0]
    assert load(dump(story.timeline).encode(), "a.timeline.yaml")[0].timeline == story.timeline
