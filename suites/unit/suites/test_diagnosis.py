"""The diagnosis of a failure names the first step that is missing in the history, or wrong."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from drahealth.manager.profile import KEP
from drahealth.proto.events import (
    CANCELLED,
    DevicesHeld,
    DevicesListed,
    Event,
    GateSet,
    HeldDevice,
    Prepared,
    Registered,
    ReportReceived,
    StatusSeen,
    StreamOpened,
    TimePassed,
)
from drahealth.proto.values import Health, PluginDevice, ResourceHealth, ResourceStatus
from drahealth.suites.judging.diagnosis import DEVICE_PLUGIN, Diagnosis, Setting, diagnose, first_violation
from drahealth.suites.judging.status_content import Sought
from drahealth.suites.unit.suites.histories import (
    DEVICES,
    DRIVER,
    POOL,
    closed,
    container,
    entry,
    history,
    opened,
    pod,
    report,
    resource,
    status,
)

HEALTHY, UNHEALTHY, UNKNOWN = Health
RESOURCE = "example.com/gpu"
SETTING = Setting(KEP, DEVICES, {DRIVER: "v1.DRAResourceHealth", RESOURCE: DEVICE_PLUGIN})
UNHEALTHY_GPU = Sought(
    pod="uid-of-pod-1",
    driver=DRIVER,
    device=(DRIVER, POOL, "gpu-0"),
    id=f"{DRIVER}/{POOL}/gpu-0",
    health=UNHEALTHY,
    message="hot",
    places=("main",),
)
LISTED_GPU = Sought(
    pod="uid-of-pod-1",
    driver=RESOURCE,
    device=(RESOURCE, "", "gpu-0"),
    id="gpu-0",
    health=UNHEALTHY,
    entry=RESOURCE,
    places=("main",),
)
REGISTERED = Registered(DRIVER, "", True)
STARTED = (REGISTERED, Prepared(DRIVER, "", "uid", ("gpu-0",)), opened(), report(), status())
HOT = report(UNHEALTHY, "hot")
SHOWS_HOT = status(UNHEALTHY, "hot")


def diagnosis(*happened: Event | float, sought: Sought | None = UNHEALTHY_GPU) -> Diagnosis:
    return diagnose(history(*happened), sought, SETTING)


def listed(health: str) -> DevicesListed:
    return DevicesListed(RESOURCE, "", "l1", (PluginDevice("gpu-0", health),))


def shows_listed(health: Health) -> StatusSeen:
    return pod([container(ResourceStatus(RESOURCE, (ResourceHealth("gpu-0", health),)))])


LIST_OPENED = StreamOpened(RESOURCE, "", "l1", "v1beta1.DevicePlugin")


@pytest.mark.parametrize(
    ("happened", "cause"),
    [
        ([status()], "not registered"),
        ([Registered(DRIVER, "", False, "no such version"), status()], "not registered"),
        ([REGISTERED, pod([container()])], "no stream"),
        ([*STARTED, closed()], "stream ended"),
        ([*STARTED[:-2], status(UNKNOWN)], "no report"),
        (STARTED, "no report"),
        ([*STARTED, ReportReceived(DRIVER, "", "k1", 1, ()), HOT], "not received"),
        ([*STARTED, HOT], "no status"),
        ([REGISTERED, opened(), HOT], "no pod"),
        ([*STARTED, HOT, status(HEALTHY)], "other content"),
        ([*STARTED, HOT, SHOWS_HOT, status(UNKNOWN)], "other content"),
        ([*STARTED, HOT, SHOWS_HOT, closed(), status(UNKNOWN)], "stream ended"),
        ([*STARTED, HOT, SHOWS_HOT], "elsewhere"),
    ],
)
def test_the_first_step_that_failed_is_the_cause(happened: Sequence[Event], cause: str) -> None:
    assert diagnosis(*happened).cause == cause


@pytest.mark.parametrize(
    ("happened", "cause"),
    [
        ([Registered(RESOURCE, "", True), shows_listed(UNKNOWN)], "no stream"),
        ([LIST_OPENED, shows_listed(UNKNOWN)], "no report"),
        ([LIST_OPENED, listed("Healthy"), shows_listed(HEALTHY)], "no report"),
        ([LIST_OPENED, listed("Healthy"), shows_listed(HEALTHY), listed("Unhealthy")], "no status"),
        ([LIST_OPENED, listed("Unhealthy"), shows_listed(HEALTHY)], "other content"),
        ([LIST_OPENED, listed("Unhealthy"), shows_listed(UNHEALTHY)], "elsewhere"),
    ],
)
def test_a_device_plugin_has_the_same_steps(happened: Sequence[Event], cause: str) -> None:
    assert diagnosis(*happened, sought=LISTED_GPU).cause == cause


def test_a_kubelet_without_any_stream_is_asked_for_its_gate() -> None:
    assert diagnosis(REGISTERED, pod([container()])).text == (
        f"the kubelet opened no health stream to driver {DRIVER}, which serves v1.DRAResourceHealth; "
        "does the kubelet have the feature gate ResourceHealthStatus?"
    )


def test_a_gate_that_the_scenario_disabled_is_named() -> None:
    off = GateSet("ResourceHealthStatus", False, True, False)
    found = diagnosis(REGISTERED, off, pod([container()]))
    assert found.text.endswith("the scenario has disabled the feature gate ResourceHealthStatus in the kubelet")


def test_a_driver_without_a_health_api_needs_no_stream() -> None:
    silent = replace(SETTING, health_apis={DRIVER: ""})
    unknown = replace(UNHEALTHY_GPU, health=UNKNOWN, message="")
    assert diagnose(history(REGISTERED, status(UNKNOWN)), unknown, silent).cause == "elsewhere"
    assert diagnose(history(REGISTERED, status(HEALTHY)), unknown, silent).cause == "other content"


def test_a_late_status_says_by_how_much_on_the_clock_of_the_node() -> None:
    records = history(*STARTED, HOT, TimePassed(30.0), 5.0, SHOWS_HOT)
    since = records[len(STARTED)].at
    found = diagnose(records, replace(UNHEALTHY_GPU, since=since, limit=4.2), SETTING)
    words = "the status of pod pod-1 showed gpu-0 Unhealthy 'hot' 30.8 s late: the limit is 4.2 s"
    assert found == Diagnosis("late", words)


def test_a_wrong_status_in_time_is_not_replaced_by_a_later_one() -> None:
    records = history(*STARTED, HOT, status(HEALTHY, "new"), TimePassed(600.0), status(UNKNOWN))
    found = diagnose(records, replace(UNHEALTHY_GPU, since=records[0].at, limit=5.0), SETTING)
    assert (found.cause, "shows gpu-0 Healthy 'new', not Unhealthy" in found.text) == ("other content", True)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (status(UNHEALTHY), "shows gpu-0 Unhealthy with the message '', not 'hot'"),
        (status(HEALTHY, "hot"), "shows gpu-0 Healthy 'hot', not Unhealthy"),
        (status(device="gpu-1"), f"does not list {DRIVER}/{POOL}/gpu-0, but {DRIVER}/{POOL}/gpu-1"),
        (pod([container()]), "has no allocatedResourcesStatus"),
        (
            pod([container(), container(entry(resource(UNHEALTHY, "hot")), name="side")]),
            "shows gpu-0 in container side, and not in container main",
        ),
    ],
)
def test_other_content_is_named(shown: StatusSeen, words: str) -> None:
    assert f"written at 0.06 s, {words}" in diagnosis(*STARTED, HOT, shown).text


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"claim:claim-1/gpu": ["a"], "claim:claim-2/gpu": ["b"]}, "has no entry claim:claim-2/gpu in container main"),
        ({}, "has another entry in container main: claim:claim-1/gpu"),
        ({"claim:claim-1/gpu": ["a", "b"]}, "does not list b in the entry claim:claim-1/gpu of container main"),
        ({"claim:claim-1/gpu": []}, "also lists a in the entry claim:claim-1/gpu of container main"),
    ],
)
def test_other_entries_are_named(entries: dict[str, list[str]], words: str) -> None:
    shown = pod([container(ResourceStatus("claim:claim-1/gpu", (ResourceHealth("a", HEALTHY),)))])
    found = diagnosis(shown, sought=Sought(pod="uid-of-pod-1", entries=entries))
    assert (found.cause, words in found.text) == ("other content", True)


def test_health_that_must_not_be_there_is_other_content() -> None:
    found = diagnosis(*STARTED, sought=Sought(pod="uid-of-pod-1", is_absent=True))
    assert found.text == (
        "the status of pod pod-1, written at 0.04 s, has claim:claim-1/gpu in allocatedResourcesStatus, "
        "where no health is expected"
    )


@pytest.mark.parametrize(
    ("happened", "cause"),
    [
        ([], "not registered"),
        ([REGISTERED], "not prepared"),
        ([REGISTERED, Prepared(DRIVER, "", "uid", ("gpu-0",))], "no pod"),
    ],
)
def test_a_pod_that_does_not_start_names_what_it_waits_for(happened: Sequence[Event], cause: str) -> None:
    held = DevicesHeld("pod-1", "uid-of-pod-1", (HeldDevice("main", "claim-1", "gpu", DRIVER, POOL, "gpu-0"),), ())
    waits = replace(pod(phase="Pending"), pending="claims are not ready")
    found = diagnosis(*happened, held, waits, sought=Sought(pod="uid-of-pod-1"))
    assert found.cause == cause


def test_a_driver_that_is_not_registered_again_is_named() -> None:
    again = Sought(driver=DRIVER, is_registration=True, since=1001.0)
    found = diagnosis(REGISTERED, opened(), 2.0, sought=again)
    assert found == Diagnosis("not registered", f"the kubelet did not register driver {DRIVER} again")


def test_a_device_that_becomes_unknown_too_late_names_the_last_sign() -> None:
    unknown = replace(UNHEALTHY_GPU, health=UNKNOWN, message="")
    found = diagnosis(*STARTED, replace(closed(), why=CANCELLED), sought=unknown)
    words = (
        f"the last stream of driver {DRIVER} ended at 0.05 s, and the kubelet wrote no status of pod pod-1 in the next"
    )
    assert (found.cause, found.text.startswith(words)) == ("no status", True)


def test_without_a_device_the_held_devices_are_compared_with_their_last_reports() -> None:
    held = DevicesHeld("pod-1", "uid-of-pod-1", (HeldDevice("main", "claim-1", "gpu", DRIVER, POOL, "gpu-0"),), ())
    assert diagnosis(held, *STARTED, HOT, sought=None).cause == "no status"
    assert diagnosis(held, *STARTED, HOT, SHOWS_HOT, sought=None).cause == "elsewhere"


def test_an_invariant_is_diagnosed_by_its_first_violation() -> None:
    records = history(*STARTED, 3.0, status(UNHEALTHY), status(HEALTHY), status(UNHEALTHY, "twice"))
    found = first_violation(records, "STATUS-07", SETTING)
    words = f"first at 3 s: pod pod-1 showed {DRIVER}/{POOL}/gpu-0 Unhealthy, and no driver reported it"
    assert found == Diagnosis("other content", words)
