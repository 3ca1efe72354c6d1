"""The checks of device taints: their verdicts on a driver that taints a broken device, and on wrong drivers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest

from drahealth.proto.events import (
    ApiServerSwitched,
    BackendSwitched,
    Event,
    FaultCleared,
    FaultInjected,
    ProcessStarted,
    SignalSent,
    SliceChanged,
    SlicesListed,
)
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.fault_space_checks import PLAN
from drahealth.suites.driver_checks.verdicts import Finding
from drahealth.suites.unit.driver_checks.evidence_of import call, evidence_at
from drahealth.suites.unit.driver_checks.fault_run import (
    BREAK,
    BROKEN,
    CLEAR,
    CLEARED,
    END,
    HEALTHY,
    STATES,
    State,
    fault_run,
)

KEY = "gpu.example.com/unhealthy"
TAINT = {"key": KEY, "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:10Z"}
DECLARED: Mapping[float, Event] = {BREAK: replace(BROKEN, taint=f"{KEY}:NoSchedule"), CLEAR: CLEARED}
Taints = Mapping[str, list[dict[str, str]]]
"""The taints by device."""


def slice_of(taints: Taints, *, name: str = "a", generation: int = 1, count: int = 1) -> dict[str, Any]:
    devices = [{"name": one, **({"taints": taints[one]} if one in taints else {})} for one in ("gpu-0", "gpu-1")]
    pool = {"name": "node-a", "generation": generation, "resourceSliceCount": count}
    return {"metadata": {"name": name}, "spec": {"pool": pool, "devices": devices}}


def run(changes: Mapping[float, Taints], steps: Mapping[float, Event] = DECLARED) -> Evidence:
    """The experiment `faults`, with these taints from a time on; the slices are listed at 5 s and at its end."""
    last = changes[max(changes)]
    written = [(time, "faults", SliceChanged("MODIFIED", slice_of(taints))) for time, taints in changes.items()]
    lists = [(5.0, "faults", SlicesListed((slice_of({}),))), (END - 1, "faults", SlicesListed((slice_of(last),)))]
    return fault_run(steps=steps, more=(*lists, *written))


RIGHT: Mapping[float, Taints] = {10.2: {"gpu-1": [TAINT]}, 30.2: {}}


def finding(check: str, evidence: Evidence) -> Finding:
    return CHECKS[check].judge(evidence)


MINE = [name for name, one in CHECKS.items() if one.requirement.startswith("TAINT-")]
OF_PLAN = [name for name in MINE if CHECKS[name].experiments == (PLAN,)]
WITHOUT_RESTART = [name for name in MINE if CHECKS[name].experiments not in (("fault-over-restart",), (PLAN,))]


@pytest.mark.parametrize("check", WITHOUT_RESTART)
def test_driver_that_taints_the_broken_device_passes(check: str) -> None:
    assert finding(check, run(RIGHT)).verdict == "PASS"


WRONG: list[tuple[str, Mapping[float, Taints], str]] = [
    ("broken-device-is-tainted", {30.2: {}}, "the device has no taint"),
    ("broken-device-is-tainted", {10.2: {"gpu-0": [TAINT]}, 30.2: {}}, "the device has no taint"),
    ("broken-device-is-tainted", {18.0: {"gpu-1": [TAINT]}, 30.2: {}}, "only after 8.0 s"),
    ("broken-device-is-tainted", {10.2: {"gpu-1": [{**TAINT, "effect": "None"}]}, 30.2: {}}, f"has {KEY}:None"),
    ("broken-device-is-tainted", {10.2: {"gpu-1": [{**TAINT, "key": "other"}]}}, "has other:NoSchedule"),
    ("broken-device-is-tainted", {10.2: {"gpu-1": [TAINT]}, 15.0: {}, 30.2: {}}, "has no taint later"),
    ("taint-is-removed-after-recovery", {10.2: {"gpu-1": [TAINT]}}, f"has {KEY}:NoSchedule"),
    ("taint-is-removed-after-recovery", {10.2: {"gpu-1": [TAINT]}, 40.0: {}}, "only after 10.0 s"),
    ("fault-leaves-other-taints-alone", {10.2: {"gpu-0": [TAINT], "gpu-1": [TAINT]}, 30.2: {}}, "gpu-0 has"),
    (
        "taint-keeps-its-time",
        {10.2: {"gpu-1": [TAINT]}, 15.0: {"gpu-1": [{**TAINT, "timeAdded": "2026-01-01T00:00:15Z"}]}},
        "timeAdded is 2026-01-01T00:00:15Z",
    ),
    (
        "slices-do-not-churn-during-a-fault",
        {10.2: {"gpu-1": [TAINT]}, 15.0: {"gpu-1": [TAINT]}, 30.2: {}},
        "written again with the same content",
    ),
    ("taint-key-has-a-domain-of-the-vendor", {10.2: {"gpu-1": [{**TAINT, "key": "broken"}]}}, "broken:NoSchedule"),
    ("taint-key-has-a-domain-of-the-vendor", {10.2: {"gpu-1": [{**TAINT, "key": "x.k8s.io/a"}]}}, "x.k8s.io/a"),
]


@pytest.mark.parametrize(("check", "changes", "seen"), WRONG)
def test_wrong_taints_fail(check: str, changes: Mapping[float, Taints], seen: str) -> None:
    found = finding(check, run(changes))
    assert (found.verdict, seen in found.seen) == ("FAIL", True), found


UNCHANGED = {1.0: HEALTHY}
"""What the driver reports of a device on which the fault adapter has no effect."""


def test_missing_taint_names_the_adapter_as_possible_cause_unless_the_health_shows_the_fault() -> None:
    text = "no device changed: the fault adapter may have no effect"
    lists = tuple((at, "faults", SlicesListed((slice_of({}),))) for at in (5.0, END - 1))
    seen = [
        finding("broken-device-is-tainted", fault_run(a=states, b=states, steps=DECLARED, more=lists)).seen
        for states in (UNCHANGED, STATES)
    ]
    assert [text in one for one in seen] == [True, False]


def test_taint_of_another_device_names_the_adapter_as_possible_cause_if_its_health_changed_too() -> None:
    text = "the fault adapter may also change node-a/gpu-0"
    both = slice_of({"gpu-0": [TAINT], "gpu-1": [TAINT]})
    more = ((5.0, "faults", SlicesListed((slice_of({}),))), (10.2, "faults", SliceChanged("MODIFIED", both)))

    def sick(name: str, at: float) -> State:
        return (Health.UNHEALTHY, "too hot") if name == "gpu-0" and BREAK < at < CLEAR else HEALTHY

    runs = fault_run(steps=DECLARED, others=sick, more=more), fault_run(steps=DECLARED, more=more)
    assert [text in finding("fault-leaves-other-taints-alone", one).seen for one in runs] == [True, False]


def test_taints_of_a_fault_that_declares_none_are_a_note() -> None:
    found = finding("broken-device-is-tainted", run(RIGHT, {BREAK: BROKEN, CLEAR: CLEARED}))
    assert (found.verdict, f"the driver taints node-a/gpu-1 with {KEY}:NoSchedule" in found.seen) == (
        "NOT_APPLICABLE",
        True,
    )


def test_further_taint_is_a_note() -> None:
    more = [TAINT, {"key": "gpu.example.com/hot", "effect": "None"}]
    found = finding("broken-device-is-tainted", run({10.2: {"gpu-1": more}, 30.2: {}}))
    assert (found.verdict, "also gpu.example.com/hot:None, which no fault declares" in found.seen) == ("PASS", True)


def test_declared_value_must_be_published() -> None:
    declared = {**DECLARED, BREAK: replace(BROKEN, taint=f"{KEY}=hot:NoSchedule")}
    hot = {10.2: {"gpu-1": [{**TAINT, "value": "hot"}]}, 30.2: {}}
    found = [finding("broken-device-is-tainted", run(changes, declared)).verdict for changes in (hot, RIGHT)]
    assert found == ["PASS", "FAIL"]


def test_missing_taint_without_a_later_list_proves_nothing() -> None:
    early = fault_run(steps=DECLARED, more=((5.0, "faults", SlicesListed((slice_of({}),))),))
    assert finding("broken-device-is-tainted", early).verdict == "NOT_TESTED"


def test_pool_that_needs_more_slices_with_taints_is_written_anew() -> None:
    """A slice with taints has at most 64 devices: a second one comes with the taint, and goes and comes again."""
    one, second = slice_of({}), slice_of({}, name="b", generation=2, count=2)
    writes: list[tuple[float, Event]] = [
        (10.2, SliceChanged("MODIFIED", slice_of({}, generation=2, count=2))),
        (10.2, SliceChanged("ADDED", second)),
        (30.2, SliceChanged("MODIFIED", slice_of({}, generation=3))),
        (30.2, SliceChanged("DELETED", second)),
        (35.2, SliceChanged("MODIFIED", slice_of({}, generation=4, count=2))),
        (35.2, SliceChanged("ADDED", slice_of({}, name="b", generation=4, count=2))),
    ]
    more = ((5.0, "faults", SlicesListed((one,))), *((at, "faults", event) for at, event in writes))
    found = finding("taint-changes-only-its-slice", fault_run(steps=DECLARED, more=more))
    assert found.verdict == "PASS"


def test_other_slice_with_a_new_generation_is_a_needless_write() -> None:
    lists = [slice_of({}, name=name, count=2) for name in "ab"]
    tainted = slice_of({"gpu-1": [TAINT]}, generation=2, count=2)
    other = slice_of({}, name="b", generation=2, count=2)
    evidence = fault_run(
        steps=DECLARED,
        more=(
            (5.0, "faults", SlicesListed(tuple(lists))),
            (10.2, "faults", SliceChanged("MODIFIED", tainted)),
            (10.3, "faults", SliceChanged("MODIFIED", other)),
            (END, "faults", SlicesListed((tainted, other))),
        ),
    )
    names = ("taint-changes-only-its-slice", "slices-do-not-churn-during-a-fault")
    assert [finding(name, evidence).verdict for name in names] == ["FAIL", "PASS"]


CHURN = ("slices-do-not-churn-during-a-fault", "taint-changes-only-its-slice")
OTHERS = "fault-without-api-server"
"""Another experiment with faults."""
REGISTERED = call("pluginregistration.Registration/NotifyRegistrationStatus")


def written(*writes: float, more: Mapping[float, Event], name: str = OTHERS) -> list[str]:
    """The verdicts on a right driver that also writes its slice again in this experiment, with a new generation."""
    again = [(at, name, SliceChanged("MODIFIED", slice_of({}, generation=int(at)))) for at in writes]
    steps = [(at, name, event) for at, event in {9.0: BROKEN, **more}.items()]
    lists = [(5.0, name, SlicesListed((slice_of({}),)))]
    return verdicts_of(*lists, *steps, *again)


def verdicts_of(*more: tuple[float, str, Event]) -> list[str]:
    last = ((END - 1, "faults", SlicesListed((slice_of({}),))), (5.0, "faults", SlicesListed((slice_of({}),))))
    evidence = fault_run(steps=DECLARED, more=(*last, (10.2, "faults", SliceChanged("MODIFIED", RIGHT_SLICE)), *more))
    return [str(finding(name, evidence).verdict) for name in CHURN]


RIGHT_SLICE = slice_of({"gpu-1": [TAINT]})


@pytest.mark.parametrize("name", ["fault-plan", "fault-during-prepare", "fault-during-kubelet-restart", "second-fault"])
def test_slice_that_is_written_again_fails_in_each_experiment_with_faults(name: str) -> None:
    assert written(15.0, more={}, name=name) == ["FAIL", "PASS"]


@pytest.mark.parametrize(
    "more",
    [
        {12.0: ApiServerSwitched("disturbed", reachable=False), 14.0: ApiServerSwitched("disturbed", reachable=True)},
        {8.0: REGISTERED, 14.0: REGISTERED},
        {12.0: SignalSent("disturbed", "SIGSTOP"), 14.0: SignalSent("disturbed", "SIGCONT")},
        {14.0: BackendSwitched("disturbed", "backend.py", running=True)},
    ],
    ids=["API server is back", "registered again", "continued", "backend is back"],
)
def test_event_explains_one_write_of_a_slice(more: Mapping[float, Event]) -> None:
    explained, twice, late = written(15.0, more=more), written(15.0, 16.0, more=more), written(50.0, more=more)
    assert (explained, twice, late) == (["PASS", "PASS"], ["FAIL", "PASS"], ["FAIL", "PASS"])


def test_event_of_the_same_process_explains_a_write_in_the_next_experiment() -> None:
    back = (8.0, OTHERS, ApiServerSwitched("disturbed", reachable=True))
    again = (15.0, "second-fault", SliceChanged("MODIFIED", slice_of({}, generation=2)))
    begins = ((9.0, "second-fault", SlicesListed((slice_of({}),))), (10.0, "second-fault", BROKEN))
    assert verdicts_of(back, *begins, again) == ["PASS", "PASS"]


def test_write_of_a_restarted_driver_is_not_judged() -> None:
    start = ProcessStarted("disturbed", 7, ("./driver",))
    assert written(15.0, 16.0, more={14.0: start}) == ["PASS", "PASS"]


def test_new_generation_of_a_pool_in_which_two_slices_change_is_right() -> None:
    """Two devices in two slices break at once: the Go package resourceslice then writes the whole pool."""

    def pool(taints: Taints, generation: int) -> list[dict[str, Any]]:
        return [slice_of(taints if name in "ab" else {}, name=name, count=3, generation=generation) for name in "abc"]

    before = (9.0, PLAN, SlicesListed(tuple(pool({}, 1))))
    writes = [(10.2, PLAN, SliceChanged("MODIFIED", one)) for one in pool({"gpu-1": [TAINT]}, 2)]
    assert verdicts_of(before, (10.0, PLAN, BROKEN), *writes) == ["PASS", "PASS"]


def test_write_that_changes_another_field_than_the_devices_is_right() -> None:
    """A driver with partitions can change its counters, or where its devices are reachable from."""
    name = "fault-during-prepare"
    other = slice_of({})
    other["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory": {"value": "8Gi"}}}]
    steps = ((9.0, name, SlicesListed((slice_of({}),))), (10.0, name, BROKEN))
    assert verdicts_of(*steps, (10.2, name, SliceChanged("MODIFIED", other))) == ["PASS", "PASS"]


def test_new_generation_with_other_devices_is_right() -> None:
    """A driver that divides a device for a claim publishes a new generation of its pool."""
    divided = slice_of({}, generation=2, count=2)
    divided["spec"]["devices"] += [{"name": "gpu-0-half"}]
    name = "fault-during-prepare"
    before = (9.0, name, SlicesListed(tuple(slice_of({}, name=one, count=2) for one in "ab")))
    writes = [divided, slice_of({}, name="b", generation=2, count=2)]
    changes = [(10.2, name, SliceChanged("MODIFIED", one)) for one in writes]
    assert verdicts_of(before, (10.0, name, BROKEN), *changes) == ["PASS", "PASS"]


def restarted(after: Taints) -> Evidence:
    """A device breaks, the driver starts again at 15 s and publishes these taints, and the device is healed."""
    return evidence_at(
        (5.0, "fault-over-restart", SlicesListed((slice_of({}),))),
        *((time, "fault-over-restart", step) for time, step in DECLARED.items()),
        (10.2, "fault-over-restart", SliceChanged("MODIFIED", slice_of({"gpu-1": [TAINT]}))),
        (15.0, "fault-over-restart", ProcessStarted("interrupted", 7, ("driver",))),
        (16.0, "fault-over-restart", SliceChanged("MODIFIED", slice_of(after, generation=2))),
    )


@pytest.mark.parametrize(
    ("after", "verdicts"),
    [
        ({"gpu-1": [TAINT]}, ["PASS", "PASS"]),
        ({"gpu-1": [{**TAINT, "timeAdded": "2026-01-01T00:00:16Z"}]}, ["PASS", "FAIL"]),
        ({}, ["FAIL", "NOT_APPLICABLE"]),
    ],
)
def test_taint_lasts_over_a_restart(after: Taints, verdicts: list[str]) -> None:
    names = ("taint-returns-after-a-restart", "taint-keeps-its-time-over-a-restart")
    assert [finding(name, restarted(after)).verdict for name in names] == verdicts


# The plan of faults: gpu-0 breaks at 10 s, gpu-1 at 20 s; gpu-0 recovers at 30 s and gpu-1 at 40 s.

HOT, LOST = "gpu.example.com/hot", "gpu.example.com/lost"


def breaks(device: str, fault: str = "hot", step: Literal["break", "change"] = "break") -> FaultInjected:
    taint = f"gpu.example.com/{fault}:NoSchedule"
    where = ("planned", fault, step, "node-a", device, "write FILE")
    return FaultInjected(*where, "forced", "Unhealthy", 1.0, "done", 0.1, taint=taint)


def heals(device: str, fault: str = "hot") -> FaultCleared:
    return FaultCleared("planned", fault, "node-a", device, "remove FILE", 1.0, "done", 0.1)


def with_taints(**devices: str) -> Event:
    """The ResourceSlice with a taint of this key on these devices."""
    taints = {name.replace("_", "-"): [{**TAINT, "key": key}] for name, key in devices.items()}
    return SliceChanged("MODIFIED", slice_of(taints))


PLANNED: Mapping[float, Event] = {
    10.0: breaks("gpu-0"),
    10.2: with_taints(gpu_0=HOT),
    20.0: breaks("gpu-1"),
    20.2: with_taints(gpu_0=HOT, gpu_1=HOT),
    30.0: heals("gpu-0"),
    30.2: with_taints(gpu_1=HOT),
    40.0: heals("gpu-1"),
    40.2: with_taints(),
}

TAINTED_LATE: Mapping[float, Event | None] = {
    12.2: with_taints(gpu_0=HOT),
    20.2: with_taints(gpu_1=HOT),
    30.0: None,
    30.2: None,
}


def planned(changes: Mapping[float, Event | None]) -> list[str]:
    """The verdicts of the two checks on the plan, with these changes of the right driver's records."""
    lists = {5.0: SlicesListed((slice_of({}),)), 60.0: SlicesListed((slice_of({}),))}
    events = {**lists, **PLANNED, **changes}
    found = evidence_at(*((at, PLAN, one) for at, one in sorted(events.items()) if one))
    return [str(finding(check, found).verdict) for check in OF_PLAN]


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ({}, ["PASS", "PASS"]),
        ({20.2: None}, ["FAIL", "PASS"]),
        ({10.2: None, 17.0: with_taints(gpu_0=HOT)}, ["FAIL", "PASS"]),
        ({20.2: with_taints(gpu_1=HOT)}, ["FAIL", "PASS"]),
        ({35.0: with_taints(gpu_0=HOT, gpu_1=HOT)}, ["PASS", "FAIL"]),
        ({30.2: None, 40.2: with_taints(gpu_0=HOT)}, ["PASS", "FAIL"]),
        ({40.2: None, 60.0: SlicesListed((slice_of({"gpu-1": [{**TAINT, "key": HOT}]}),))}, ["PASS", "FAIL"]),
        (
            {10.2: None, 12.0: heals("gpu-0"), 12.1: with_taints(), 20.2: with_taints(gpu_1=HOT), 30.0: None},
            ["PASS", "PASS"],
        ),
        ({9.0: ApiServerSwitched("planned", reachable=False), 10.2: None, 19.0: with_taints(gpu_0=HOT)}, ["PASS"] * 2),
        ({9.0: ProcessStarted("planned", 7, ("./driver",)), 10.2: None}, ["PASS", "PASS"]),
        ({15.0: breaks("gpu-0", "lost", "change"), 15.2: with_taints(gpu_0=LOST)}, ["PASS", "PASS"]),
        ({15.0: breaks("gpu-0", "lost", "change"), 18.0: heals("gpu-0", "lost"), 30.2: None}, ["PASS", "FAIL"]),
        ({10.2: None, 12.0: heals("gpu-0"), **TAINTED_LATE, 12.4: with_taints()}, ["PASS", "PASS"]),
        ({10.2: None, 12.0: heals("gpu-0"), **TAINTED_LATE, 19.5: with_taints()}, ["PASS", "FAIL"]),
    ],
    ids=[
        *("right", "second device without taint", "late", "does not last", "comes back", "first stays", "last stays"),
        *("next action too early", "no API server", "just started", "two faults", "stays after two faults"),
        *("tainted only after the recovery", "tainted after the recovery for too long"),
    ],
)
def test_each_action_of_the_plan_is_judged(changes: Mapping[float, Event | None], verdicts: list[str]) -> None:
    assert planned(changes) == verdicts
