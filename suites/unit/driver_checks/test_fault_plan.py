"""The plan of faults: it covers each value, or each pair of values, and says what cannot be caused."""

from dataclasses import replace
from itertools import product

import pytest

from drahealth.proto.events import FaultGap, FaultStage
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.fault_plan import (
    DRIVERS,
    IDLE,
    MOST,
    NO_API,
    OTHER,
    PLUGINS,
    PREPARE,
    SECOND,
    START,
    TWO_FAULTS,
    UNPREPARE,
    FaultPlan,
    Space,
    Target,
    changes_of,
    chosen,
    covered,
    not_caused,
    plan,
)
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.profile.faults import Fault, PatchObject, RemoveFile, WriteFile
from drahealth.suites.driver_checks.verdicts import Level
from drahealth.suites.unit.driver_checks.evidence_of import HEADER, evidence_of
from drahealth.suites.unit.driver_checks.runs import fault

FILE, LINK = "/health/{device}", "/links/{device}"
HOT = fault("hot", WriteFile(FILE, "hot"), RemoveFile(FILE), change=WriteFile(FILE, "fan"), settle=1.0)
LOST = fault("lost", WriteFile(FILE, "lost"), RemoveFile(FILE), health=Health.UNKNOWN, settle=1.0)
UNLINKED = fault("unlinked", WriteFile(LINK, "no link"), RemoveFile(LINK), settle=1.0)
PATCHED = fault(
    "patched",
    PatchObject("Gpu", "{device}", "", {"broken": "yes"}),
    PatchObject("Gpu", "{device}", "", {"broken": "yes"}),
    settle=1.0,
)
ALL = (HOT, LOST)
MOMENTS, CHANGES = DRIVERS.values("moment"), DRIVERS.values("change")


def targets(count: int) -> list[Target]:
    return [Target(Device("pool", f"gpu-{number}")) for number in range(count)]


def begun(made: FaultPlan) -> list[tuple[str, str, str]]:
    """The moment, the device and the change of each first act."""
    return [(stage.moment, device.name, change) for stage in made.stages for device, change in stage.begins]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 40])
@pytest.mark.parametrize("level", ["core", "full"])
def test_each_device_that_breaks_recovers_and_leaves_a_bystander(count: int, level: Level) -> None:
    made = plan(ALL, targets(count), level)
    state: dict[Device, tuple[Health, ...]] = {}
    for stage in made.stages:
        devices = [act.device for act in stage.acts]
        assert len(set(devices)) == len(devices)
        assert count <= 2 or len(devices) < count
        state |= {act.device: act.shows for act in stage.acts}
    assert set(state.values()) == {(Health.HEALTHY,)}
    assert len(state) == min(count, MOST)


@pytest.mark.parametrize("count", [3, 4, 5, 8, 16])
@pytest.mark.parametrize("space", [DRIVERS, PLUGINS])
def test_full_breaks_two_devices_at_once_at_each_moment_and_with_each_change(count: int, space: Space) -> None:
    made = plan((HOT, LOST, UNLINKED), targets(count), "full", space=space)
    pairs = [stage for stage in made.stages if len(stage.begins) > 1]
    assert made.gaps == ()
    assert {stage.moment for stage in pairs} == set(space.values("moment"))
    assert {change for stage in pairs for _, change in stage.begins} == set(space.values("change"))


@pytest.mark.parametrize("settle", [1.0, 3.0])
@pytest.mark.parametrize("faults", [(HOT, PATCHED), (HOT, LOST), (HOT,)])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_another_device_is_broken_at_the_moment_of_a_second_fault(
    count: int, faults: tuple[Fault, ...], settle: float
) -> None:
    made = plan([one.model_copy(update={"settle": settle}) for one in faults], targets(count), "full")
    broken: set[Device] = set()
    for stage in made.stages:
        assert stage.moment != SECOND or broken - {act.device for act in stage.acts}
        for act in stage.acts:
            (broken.discard if act.shows == (Health.HEALTHY,) else broken.add)(act.device)


def test_core_breaks_two_devices_at_once_however_little_time_there_is() -> None:
    slow = [one.model_copy(update={"settle": 6.0}) for one in ALL]
    pairs = [stage for stage in plan(slow, targets(2), "core").stages if len(stage.begins) > 1]
    assert [stage.moment for stage in pairs] == [IDLE]


def test_two_devices_break_at_once_while_only_they_can() -> None:
    patched = PATCHED.model_copy(update={"device": "gpu-0"})
    files = [HOT.model_copy(update={"name": f"hot {name}", "device": name}) for name in ("gpu-1", "gpu-2")]
    pairs = [stage for stage in plan([patched, *files], targets(3), "full").stages if len(stage.begins) > 1]
    assert NO_API in {stage.moment for stage in pairs}


def test_what_two_devices_at_once_do_not_cover_in_time_is_a_gap() -> None:
    made = plan(ALL, targets(2), "full")
    assert [gap.dimension for gap in made.gaps] == ["pairs"]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_core_covers_each_value(count: int) -> None:
    found = begun(plan(ALL, targets(count), "core"))
    assert {moment for moment, _, _ in found} == set(MOMENTS)
    assert {change for _, _, change in found} == set(CHANGES)
    assert len({device for _, device, _ in found}) == count


@pytest.mark.parametrize("count", [2, 3, 8])
def test_full_covers_each_pair_of_values(count: int) -> None:
    made = plan(ALL, targets(count), "full")
    found = [(stage.moment, act.device.name, act.change) for stage in made.stages for act in stage.acts]
    devices = [one.device.name for one in targets(count)]
    assert {(moment, device) for moment, device, _ in found} == set(product(MOMENTS, devices))
    assert {(moment, change) for moment, _, change in found} == set(product(MOMENTS, CHANGES))
    assert {(device, change) for _, device, change in found} == set(product(devices, CHANGES))


def test_core_fits_beside_the_watch_and_full_into_three_minutes() -> None:
    assert plan(ALL, targets(8), "core").seconds < 36
    assert plan(ALL, targets(8), "full").seconds < 120


def test_two_devices_break_at_the_same_time() -> None:
    found = [any(len(one.begins) > 1 for one in plan(ALL, targets(n), "core").stages) for n in (1, 2, 5)]
    assert found == [False, True, True]


def test_same_input_gives_the_same_plan() -> None:
    assert plan(ALL, targets(5), "full") == plan(ALL, targets(5), "full")


def test_driver_starts_again_only_while_no_device_is_broken() -> None:
    broken: set[Device] = set()
    for stage in plan(ALL, targets(4), "full").stages:
        assert stage.moment != START or not broken
        for act in stage.acts:
            (broken.discard if act.shows == (Health.HEALTHY,) else broken.add)(act.device)


def test_second_fault_meets_a_broken_device_that_stays_broken() -> None:
    made = plan(ALL, targets(3), "core")
    before = made.stages[: [one.moment for one in made.stages].index(SECOND)]
    assert before[-1].begins
    second = next(stage for stage in made.stages if stage.moment == SECOND)
    assert {act.device for act in second.acts} == {device for device, _ in second.begins}


def test_moment_that_cannot_be_caused_is_a_gap_with_its_reason() -> None:
    made = plan(ALL, targets(3), "core", {PREPARE: "no claim", UNPREPARE: "no claim"})
    assert {(gap.value, gap.reason) for gap in made.gaps} == {(PREPARE, "no claim"), (UNPREPARE, "no claim")}
    assert {moment for moment, _, _ in begun(made)} == set(MOMENTS) - {PREPARE, UNPREPARE}


def test_fault_in_the_api_server_is_not_caused_while_it_is_down() -> None:
    made = plan((PATCHED,), targets(3), "full")
    assert NO_API not in {moment for moment, _, _ in begun(made)}
    assert [gap.value for gap in made.gaps if gap.dimension == "moment"] == [NO_API]


def test_profile_with_one_plain_fault_has_gaps_of_changes() -> None:
    plain = fault("plain", WriteFile(FILE, "x"), RemoveFile(FILE))
    gaps = {gap.value: gap.reason for gap in plan((plain,), targets(2), "core").gaps}
    assert gaps == {
        "unknown": "no fault of the driver profile makes the health unknown",
        "unhealthy to unknown": "no fault of the driver profile makes the health unknown",
        "unknown to unhealthy": "no fault of the driver profile makes the health unknown",
        "message": "no fault of the driver profile has an action `change`",
    }


def test_fault_that_never_ends_is_a_gap_and_no_act() -> None:
    forever = fault("forever", WriteFile(FILE, "x"), "none")
    made = plan((forever,), targets(2), "core")
    assert made.stages == ()
    assert "fault forever" in {gap.value for gap in made.gaps}


def test_fault_of_a_named_device_breaks_only_this_one() -> None:
    named = HOT.model_copy(update={"device": "gpu-1"})
    made = plan((named,), targets(3), "core")
    assert {device for _, device, _ in begun(made)} == {"gpu-1"}
    assert ("device", "no fault of the driver profile breaks pool/gpu-0, pool/gpu-2") in {
        (gap.dimension, gap.reason) for gap in made.gaps
    }


def healths(change: str, *faults: Fault) -> list[tuple[str, str, tuple[Health, ...]]]:
    acts = changes_of(faults, Device("pool", "gpu-0"))[change]
    return [(act.verb, act.fault.name, act.shows) for act in acts]


def test_fault_in_the_same_file_replaces_the_first_one() -> None:
    assert healths("unhealthy to unknown", HOT, LOST) == [
        ("break", "hot", (Health.UNHEALTHY,)),
        ("break", "lost", (Health.UNKNOWN,)),
        ("heal", "lost", (Health.HEALTHY,)),
    ]


def test_fault_elsewhere_lasts_beside_the_first_one() -> None:
    assert healths("unknown to unhealthy", UNLINKED, LOST) == [
        ("break", "lost", (Health.UNKNOWN,)),
        ("break", "unlinked", (Health.UNKNOWN, Health.UNHEALTHY)),
        ("heal", "lost", (Health.UNHEALTHY,)),
        ("heal", "unlinked", (Health.HEALTHY,)),
    ]


def test_many_devices_are_reduced_to_the_last_one_and_one_of_each_kind() -> None:
    many = [Target(Device("pool", f"gpu-{number:03}"), "big" if number == 77 else "small") for number in range(100)]
    names = {one.device.name for one in chosen(many)}
    assert len(names) == MOST
    assert {"gpu-000", "gpu-077", "gpu-099"} <= names


def test_coverage_names_the_values_of_each_dimension_and_the_gaps() -> None:
    stage = FaultStage("planned", IDLE, ("pool/gpu-0",), ("recover",), ("v1.DRAResourceHealth",), ("after", "before"))
    evidence = evidence_of(("fault-plan", stage), ("fault-plan", FaultGap("planned", "moment", PREPARE, "no claim")))
    assert covered(evidence) == {
        "device": ("pool/gpu-0",),
        "health API": ("v1.DRAResourceHealth",),
        "subscriber": ("before", "after"),
        "moment": (IDLE,),
        "change": ("recover",),
    }
    assert not_caused(evidence) == ("moment prepare: no claim",)
    assert covered(evidence_of()) == {}


def test_action_that_names_no_device_is_caused_in_none() -> None:
    fixed = fault("fixed", WriteFile("/health/gpu-1", "x"), RemoveFile("/health/gpu-1"))
    made = plan((fixed,), targets(3), "core")
    assert made.stages == ()
    assert "its action has no {device}, and the fault names no device" in {gap.reason for gap in made.gaps}


@pytest.mark.parametrize("level", ["core", "full"])
def test_moment_that_takes_long_has_one_stage(level: Level) -> None:
    made = plan(ALL, targets(4), level, once={START: "slow"})
    assert [stage.moment for stage in made.stages].count(START) == 1
    assert [gap.reason for gap in made.gaps] == (["slow"] if level == "full" else [])


def test_what_does_not_fit_into_the_time_is_a_gap() -> None:
    slow = [one.model_copy(update={"settle": 10.0}) for one in ALL]
    made = plan(slow, targets(2), "full")
    assert made.seconds < 200
    assert [gap.reason for gap in made.gaps] == ["they do not fit into 120 s"]


def test_fault_that_writes_to_one_place_for_all_devices_breaks_one_at_a_time() -> None:
    labelled = {"metadata": {"labels": {"broken": "{device}"}}}
    label = fault("label", PatchObject("Node", "n", "", labelled), PatchObject("Node", "n", "", {}), settle=1.0)
    made = plan((label,), targets(3), "core")
    assert {len(stage.acts) for stage in made.stages} == {1}
    reason = "the faults of the driver profile break one device at a time"
    assert {(SECOND, reason), ("two at once", reason)} <= {(gap.value, gap.reason) for gap in made.gaps}
    broken: set[Device] = set()
    for act in (act for stage in made.stages for act in stage.acts):
        (broken.discard if act.verb == "heal" else broken.add)(act.device)
        assert len(broken) < 2


# Device plugins.

PLUGIN_FAULTS = (HOT, UNLINKED.model_copy(update={"health": Health.UNKNOWN}))


@pytest.mark.parametrize("count", [2, 3, 8])
def test_core_covers_each_value_of_device_plugins(count: int) -> None:
    made = plan(PLUGIN_FAULTS, targets(count), "core", space=PLUGINS)
    found = begun(made)
    assert {moment for moment, _, _ in found} == set(PLUGINS.values("moment"))
    assert {change for _, _, change in found} == set(PLUGINS.values("change"))
    assert len({device for _, device, _ in found}) == count
    assert (made.gaps, made.seconds < 50) == ((), True)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_full_covers_each_pair_of_values_of_device_plugins(count: int) -> None:
    made = plan(PLUGIN_FAULTS, targets(count), "full", space=PLUGINS)
    found = [(stage.moment, act.device.name, act.change) for stage in made.stages for act in stage.acts]
    moments, changes = PLUGINS.values("moment"), PLUGINS.values("change")
    devices = [one.device.name for one in targets(count)]
    assert {(moment, device) for moment, device, _ in found} == set(product(moments, devices))
    assert {(moment, change) for moment, _, change in found} == set(product(moments, changes))
    assert {(device, change) for _, device, change in found} == set(product(devices, changes))


def test_two_faults_of_a_device_are_cleared_one_after_another() -> None:
    acts = changes_of((HOT, UNLINKED), Device("pool", "gpu-0"), space=PLUGINS)[TWO_FAULTS]
    assert [(act.verb, act.fault.name) for act in acts] == [
        *(("break", "hot"), ("break", "unlinked")),
        *(("heal", "hot"), ("heal", "unlinked")),
    ]
    assert [act.shows == (Health.HEALTHY,) for act in acts] == [False, False, False, True]


def test_one_fault_of_a_device_plugin_leaves_changes_out() -> None:
    plain = fault("plain", WriteFile(FILE, "x"), RemoveFile(FILE), settle=1.0)
    made = plan((plain,), targets(2), "core", {OTHER: "one device"}, space=PLUGINS)
    assert {gap.value for gap in made.gaps} == {"unknown", TWO_FAULTS, "message", OTHER}


def test_coverage_of_a_device_plugin_names_its_streams() -> None:
    stage = FaultStage("planned", IDLE, ("example.com/gpu/gpu-0",), ("recover",), (), ("before",))
    header = replace(HEADER, subject="device-plugin")
    assert covered(evidence_of(("plugin-fault-plan", stage), header=header)) == {
        "device": ("example.com/gpu/gpu-0",),
        "stream": ("before",),
        "moment": (IDLE,),
        "change": ("recover",),
    }
