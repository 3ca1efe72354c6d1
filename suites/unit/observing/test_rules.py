"""The rules of `drahealth observe`: each wrong node fails the rule for it, and a right one fails none."""

import pytest

from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.observing.facts import EventFact, NodeFacts
from drahealth.suites.observing.rules import judged, lasting, most_in_a_minute, node_verdict
from drahealth.suites.unit.observing.objects import DRIVER, END, entry, pod, resource_slice, seen, shown

HEALTHY = pod(entry(shown()))
UNHEALTHY = pod(entry(shown("Unhealthy", "XID 48")))
TAINTED = resource_slice(taints={"gpu-0": "NoSchedule"})


def failed(facts: NodeFacts) -> set[str]:
    return {name for name, found in judged(facts, END).items() if found.verdict is Verdict.FAIL}


def test_a_right_driver_passes() -> None:
    facts = seen(
        [(0, HEALTHY), (20, UNHEALTHY), (40, HEALTHY)],
        [(0, resource_slice()), (21, TAINTED), (41, resource_slice(generation=2))],
    )
    assert {name: one.verdict for name, one in judged(facts, END).items()} == dict.fromkeys(
        (f"OBSERVE-0{n}" for n in range(1, 10)), Verdict.PASS
    )


WRONG = {
    "an entry without its device": ({"OBSERVE-01"}, seen([(0, HEALTHY), (20, pod(entry()))])),
    "the entry goes": ({"OBSERVE-01"}, seen([(0, HEALTHY), (20, pod())])),
    "another order of devices": (
        {"OBSERVE-02"},
        seen(
            [
                (0, pod(entry(shown(), shown(name=f"{DRIVER}/node/gpu-1")))),
                (20, pod(entry(shown(name=f"{DRIVER}/node/gpu-1"), shown()))),
            ],
            devices=("gpu-0", "gpu-1"),
        ),
    ),
    "no report": ({"OBSERVE-03"}, seen([(0, pod(entry(shown("Unknown"))))])),
    "no heartbeat": ({"OBSERVE-03"}, seen([(0, HEALTHY), (31, pod(entry(shown("Unknown"))))])),
    "a device of another claim": ({"OBSERVE-04"}, seen([(0, pod(entry(shown(name=f"{DRIVER}/node/gpu-7"))))])),
    "a device in use is no longer published": (
        {"OBSERVE-04"},
        seen([(0, HEALTHY)], [(0, resource_slice()), (20, resource_slice(["gpu-1"], generation=2))]),
    ),
    "a health that flaps": (
        {"OBSERVE-05"},
        seen([(second, UNHEALTHY if second % 2 else HEALTHY) for second in range(10)] + [(11, HEALTHY)]),
    ),
    "slices that are written without a change": (
        {"OBSERVE-06"},
        seen([(0, HEALTHY)], [(second, resource_slice()) for second in range(20)]),
    ),
    "a new generation each second": (
        {"OBSERVE-06"},
        seen([(0, HEALTHY)], [(second, resource_slice(generation=second + 1)) for second in range(20)]),
    ),
    "a pool that lacks a slice": ({"OBSERVE-07"}, seen([(0, HEALTHY)], [(0, resource_slice(count=2))])),
    "an unhealthy device without a taint": ({"OBSERVE-08"}, seen([(0, HEALTHY), (20, UNHEALTHY)])),
    "a taint that stays after the recovery": ({"OBSERVE-08"}, seen([(0, UNHEALTHY), (20, HEALTHY)], [(0, TAINTED)])),
    "devices that cannot be prepared": (
        {"OBSERVE-09"},
        seen([(0, HEALTHY)], events=[EventFact(3, "Pod default/job", "FailedPrepareDynamicResources", "no")]),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_driver_fails_the_rule_for_its_error_alone(name: str) -> None:
    expected, facts = WRONG[name]
    assert failed(facts) == expected


def test_an_entry_for_each_request_is_right() -> None:
    assert failed(seen([(0, pod(entry(shown(), name="claim:gpu/gpu")))])) == set()


def test_what_lasts_shorter_than_the_limit_is_no_violation() -> None:
    facts = seen(
        [(0, HEALTHY), (20, UNHEALTHY), (25, HEALTHY)],
        [(0, resource_slice()), (30, resource_slice(count=2)), (35, resource_slice(generation=2))],
    )
    assert failed(facts) == set()


def test_a_kubelet_that_is_known_for_a_random_order_is_not_judged_by_it() -> None:
    _, facts = WRONG["another order of devices"]
    found = NodeFacts("node", kubelet="v1.37.2", pods=facts.pods, slices=facts.slices)
    assert judged(found, END)["OBSERVE-02"].verdict is Verdict.NOT_APPLICABLE


def test_a_health_that_is_unknown_for_a_moment_is_no_missing_heartbeat() -> None:
    assert failed(seen([(0, HEALTHY), (50, pod(entry(shown("Unknown")))), (53, HEALTHY)])) == set()


def test_an_unknown_health_with_a_message_of_the_driver_is_no_missing_heartbeat() -> None:
    assert failed(seen([(0, HEALTHY), (31, pod(entry(shown("Unknown", "link is down"))))])) == set()


def test_a_cdi_id_is_compared_with_no_device() -> None:
    assert failed(seen([(0, pod(entry(shown(name="example.com/gpu=0"))))])) == set()


def test_an_unhealthy_device_with_a_cdi_id_needs_a_taint() -> None:
    assert failed(seen([(0, pod(entry(shown("Unhealthy", name="example.com/gpu=0"))))])) == {"OBSERVE-08"}


@pytest.mark.parametrize(
    ("facts", "end"),
    [
        (seen(), END),
        (seen([(0, pod())]), END),
        (seen([(0, HEALTHY)]), 20.0),
        (seen([(0, pod(state="waiting", phase="Pending"))]), END),
    ],
)
def test_a_node_without_a_pod_or_with_too_little_time_does_not_pass(facts: NodeFacts, end: float) -> None:
    assert node_verdict(judged(facts, end)) is Verdict.NOT_TESTED


def test_a_node_that_is_lost_does_not_pass_and_its_violations_before_stay() -> None:
    facts = seen([(0, HEALTHY)])
    facts.lost = (50.0, "node node is not Ready")
    assert node_verdict(judged(facts, END)) is Verdict.NOT_TESTED
    facts.slices = seen(slices=[(0, resource_slice(count=2))]).slices
    assert failed(facts) == {"OBSERVE-07"}


def test_a_deleted_pod_is_judged_until_its_end() -> None:
    facts = seen([(0, HEALTHY), (20, UNHEALTHY)])
    facts.gone["1"] = 25.0
    assert failed(facts) == set()


def test_lasting_counts_from_the_first_state_with_a_problem() -> None:
    states = [(0.0, ["a"]), (5.0, ["a", "b"]), (12.0, ["b"])]
    assert sorted(lasting(states, 14.0, 9.0)) == [("a", 0.0, 12.0), ("b", 5.0, 9.0)]


def test_most_in_a_minute() -> None:
    assert most_in_a_minute([0, 10, 59, 60, 100, 119.5]) == 3
