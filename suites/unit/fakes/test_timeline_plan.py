"""Plans of timelines: times, random draws, and equal plans for equal seeds."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.faults.catalogue import fault
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines import plan as plans
from drahealth.fakes.timelines.load import load
from drahealth.fakes.timelines.plan import Action, Plan, PlanError, plan

DEVICES = Inventory.of(4, partitions=2)


def planned(steps: str, seed: int = 1, always: str = "[]") -> Plan:
    head = f"format: fault-timeline/v1\nname: n\nseed: {seed}\n"
    return plan(load(f"{head}timeline: {steps}\nalways: {always}\n")[0].timeline, DEVICES)


def told(actions: Sequence[Action]) -> list[str]:
    return [" ".join(filter(None, (f"{a.at:g}", a.verb, a.device, json.dumps(a.what)))) for a in actions]


def test_steps_are_planned_at_their_time_or_after_the_previous() -> None:
    actions = planned("[{mark: a}, {mark: b, after: 2s}, {mark: c}, {mark: d, at: 1s}, {mark: e}]").actions
    assert told(actions) == ['0 mark "a"', '1 mark "d"', '1 mark "e"', '2 mark "b"', '2 mark "c"']


def test_for_undoes_a_fault_a_stream_fault_and_the_end_of_a_driver() -> None:
    steps = "[{inject: xid/79, device: gpu-0, for: 2s}, {stream: {drop: 50%}, for: 1s}, {driver: crash, for: 3s}]"
    assert told(planned(steps).actions) == [
        '0 inject gpu-0 "xid/79"',
        '2 clear gpu-0 "xid/79"',
        "2 stream_drop 0.5",
        '3 stream_restore "drop"',
        "3 crash null",
        "6 start null",
    ]


def test_for_undoes_a_taint_and_a_pod_that_keeps_failing() -> None:
    taint = "{taint: {key: sick, value: a, effect: NoExecute}, device: gpu-1, for: 2s}"
    assert told(planned(f"[{taint}, {{pod: keeps-failing, for: 3s}}, {{untaint: odd, device: gpu-0}}]").actions) == [
        '0 taint gpu-1 {"key": "sick", "value": "a", "effect": "NoExecute"}',
        '2 untaint gpu-1 {"key": "sick", "effect": "NoExecute"}',
        '2 pod "keeps-failing"',
        '5 pod "running"',
        '5 untaint gpu-0 "odd"',
    ]


def test_device_held_is_not_resolved_in_the_plan() -> None:
    (action,) = planned("[{expect: {device: held, health: Healthy}}]").actions
    assert action.device == "held"


def test_next_step_waits_for_the_end_of_a_recovery() -> None:
    steps = "[{recover: {action: reboot, takes: 30s}}, {mark: a}, {recover: {action: reboot, takes: catalogue}}]"
    assert told(planned(steps).actions) == [
        '0 recover {"action": "reboot", "takes": 30.0}',
        '30 mark "a"',
        '30 recover {"action": "reboot", "takes": "catalogue"}',
    ]


def test_fails_sets_the_share_of_failed_recoveries() -> None:
    steps = "[{repeat: {times: 1000, every: 1s, do: [{recover: {action: reboot, fails: 30%}}]}}]"
    assert 250 < sum("fails" in action.what for action in planned(steps).actions) < 350


def test_for_catalogue_takes_the_duration_from_the_catalogue() -> None:
    healed = [
        planned("[{inject: thermal/slowdown, device: gpu-0, for: catalogue}]", seed).actions[1] for seed in (1, 1)
    ]
    known = fault("nvidia", "thermal/slowdown").takes
    assert known.low <= healed[0].at <= known.high
    assert healed[0] == healed[1]


def test_after_counts_from_the_end_of_a_stall() -> None:
    assert told(planned("[{stream: {stall: 5s}}, {mark: a, after: 1s}]").actions) == [
        "0 stream_stall null",
        '5 stream_restore "stall"',
        '6 mark "a"',
    ]


def test_branches_begin_together_and_the_longest_ends_them() -> None:
    steps = "[{parallel: [[{mark: a, after: 3s}], [{mark: b, at: 1s}]], at: 10s}, {mark: c}]"
    assert told(planned(steps).actions) == ['11 mark "b"', '13 mark "a"', '13 mark "c"']


def test_times_in_a_repeat_count_from_each_round() -> None:
    steps = "[{at: 1s, repeat: {times: 2, every: 10s, do: [{mark: a, at: 2s}]}}, {mark: b}]"
    assert told(planned(steps).actions) == ['3 mark "a"', '13 mark "a"', '13 mark "b"']


def test_a_repeat_that_lasts_ends_with_its_time() -> None:
    steps = "[{repeat: {for: 3s, every: 1s, do: [{mark: a}]}}, {mark: b}]"
    assert told(planned(steps).actions) == ['0 mark "a"', '1 mark "a"', '2 mark "a"', '3 mark "b"']


def test_flap_injects_and_clears_its_fault_until_its_end() -> None:
    steps = "[{flap: {device: gpu-0, down: nvlink/link-down, period: 2s, duty: 25%, for: 3s}}]"
    assert [(a.at, a.verb) for a in planned(steps).actions] == [
        (0, "inject"),
        (0.5, "clear"),
        (2, "inject"),
        (2.5, "clear"),
    ]


def test_steps_after_a_trigger_wait_unless_they_have_at() -> None:
    steps = "[{mark: a, when: {calls: 3, method: NodePrepareResources}}, {mark: b, after: 1s}, {mark: c, at: 2s}]"
    triggers = {action.what: (action.at, action.when) for action in planned(steps).actions}
    waits = {"calls": 3, "method": "NodePrepareResources"}
    assert triggers == {"a": (0, waits), "b": (1, waits), "c": (2, None)}


def test_always_steps_start_at_time_0() -> None:
    end = planned("[{mark: a, at: 9s}]", always="[{driver: start}, {reset: true, after: 1s}]").always
    assert told(end) == ["0 start null", "1 reset null"]


def test_a_pick_draws_different_devices() -> None:
    picked = [a.device for a in planned("[{inject: xid/79, device: {pick: 4, from: 'gpu-*'}}]").actions]
    assert sorted(picked) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]


def test_probability_sets_the_share_of_planned_steps() -> None:
    steps = "[{repeat: {times: 1000, every: 1s, do: [{mark: a, probability: 80%}]}}]"
    assert 750 < len(planned(steps).actions) < 850


DRAWS = "{inject: xid/79, device: {pick: 1, from: 'gpu-*'}, after: 1s..9s}"


@given(st.integers(0, 2**64), st.integers(0, 3), st.sampled_from(["{mark: x}", "{recover: reboot, device: gpu-0}"]))
def test_a_step_that_is_put_in_between_changes_no_other(seed: int, where: int, step: str) -> None:
    steps = [DRAWS, DRAWS.replace("79", "95"), DRAWS]
    before = planned(f"[{', '.join(steps)}]", seed)
    after = planned(f"[{', '.join([*steps[:where], step, *steps[where:]])}]", seed)
    assert [(a.at, a.device) for a in after.actions if a.verb == "inject"] == [(a.at, a.device) for a in before.actions]


def test_equal_seeds_give_equal_plans_and_other_seeds_other_plans() -> None:
    hashes = [planned(f"[{DRAWS}, {DRAWS}]", seed).hash for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_plans_are_frozen() -> None:
    assert told(planned(f"[{DRAWS}, {DRAWS}]", 4680).actions) == FROZEN


FROZEN = ['1.868 inject gpu-2 "xid/79"', '8.127 inject gpu-3 "xid/79"']


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ("[{mark: a}, {inject: xid/79}]", "inject needs `device`"),
        ("[{mark: a}, {inject: xid/79, device: gpu-9}]", "no device matches 'gpu-9'"),
        ("[{mark: a}, {inject: xid/79, device: {pick: 5, from: 'gpu-*'}}]", "pick must be at most 4"),
        ("[{mark: a}, {driver: crash, for: catalogue}]", "for: catalogue is only for inject"),
        ("[{mark: a}, {reset: true, for: 1s}]", "reset cannot be undone"),
        ("[{mark: a}, {stream: {close: OK}, for: 1s}]", "stream close cannot be undone"),
        ("[{mark: a}, {repeat: {times: 999, every: 0s, do: [{mark: a}]}}]", "a plan must have at most 500 actions"),
    ],
)
def test_unplannable_step_is_reported_with_its_path(steps: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MOST", 500)
    with pytest.raises(PlanError) as error:
        planned(steps)
    assert str(error.value).startswith(what)
    assert error.value.path[:2] == ("timeline", 1)
