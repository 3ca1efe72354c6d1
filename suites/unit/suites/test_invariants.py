"""The invariants find violations in bad histories, and none in good ones."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.proto.events import (
    CANCELLED,
    Event,
    GateSet,
    PluginDeregistered,
    PluginRegistered,
    Registered,
    ReportSent,
    Restarted,
    StatusSeen,
    Stopped,
    StreamClosed,
    TimePassed,
    Unregistered,
)
from drahealth.proto.values import Health
from drahealth.suites.judging import invariants
from drahealth.suites.judging import invariants as stream_ends
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
LONG = "m" * 1000
GPU = f"{DRIVER}/{POOL}/gpu-0"


def unreported(*happened: Event | float) -> list[str]:
    return list(invariants.unreported(history(*happened), DEVICES))


def overlaps(*happened: Event | float) -> list[str]:
    return list(invariants.overlaps(history(*happened)))


def name(violations: Iterable[str], *parts: str) -> bool:
    """Whether there is one violation, and it names all parts."""
    [violation] = violations
    return all(part in violation for part in parts)


# STATUS-06: no duplicates


def test_a_duplicate_entry_name_in_a_container_is_found() -> None:
    seen = pod([container(entry(resource()), entry(resource(device="gpu-1")))])
    assert name(invariants.duplicates(history(seen)), "claim:claim-1/gpu", "container main", "pod pod-1")


def test_a_duplicate_device_in_an_entry_is_found() -> None:
    seen = pod([container(entry(resource(), resource(UNHEALTHY)))])
    assert name(invariants.duplicates(history(seen)), "gpu.example.com/node-a/gpu-0", "claim:claim-1/gpu", "pod-1")


def test_duplicates_in_init_containers_and_in_the_pod_itself_are_found() -> None:
    twice = (entry(resource()), entry(resource(device="gpu-1")))
    seen = pod(init=[container(*twice, name="first")], own=twice)
    init, own = invariants.duplicates(history(seen))
    assert ("container first" in init, "container" in own) == (True, False)


@pytest.mark.parametrize("place", ["init", "own"])
def test_unreported_or_old_health_is_found_in_init_containers_and_in_the_pod_itself(place: str) -> None:
    def shown(health: Health) -> StatusSeen:
        entries = entry(resource(health))
        return pod(init=[container(entries)]) if place == "init" else pod(own=(entries,))

    assert name(unreported(report(HEALTHY), shown(UNHEALTHY)), "pod-1", f"{GPU} Unhealthy")
    assert len(not_converged(opened(), report(HEALTHY), report(UNHEALTHY), shown=shown(HEALTHY))) == 1


def test_the_same_device_and_entry_in_several_containers_and_statuses_are_no_duplicates() -> None:
    shared = entry(resource())
    seen = pod([container(shared, entry(resource(), name="claim:other")), container(shared, name="second")])
    assert list(invariants.duplicates(history(seen, seen))) == []


# STATUS-07: no unreported health


def test_reported_health_may_be_shown_repeatedly() -> None:
    assert unreported(report(), status(), report(UNHEALTHY, "hot"), status(), status(UNHEALTHY, "hot")) == []


def test_a_health_that_was_never_reported_is_found() -> None:
    assert name(unreported(report(HEALTHY), status(UNHEALTHY)), "pod-1", f"{GPU} Unhealthy")


def test_a_health_that_is_reported_only_afterwards_is_found() -> None:
    assert len(unreported(report(), status(UNHEALTHY, "hot"), report(UNHEALTHY, "hot"))) == 1


@pytest.mark.parametrize(
    "shown",
    [
        status(HEALTHY, "hot"),
        status(UNHEALTHY),
        status(UNHEALTHY, "hotter"),
        status(UNKNOWN, "hot"),
        status(UNHEALTHY, "hot", device="gpu-1"),
        status(UNHEALTHY, "hot", device="gpu-of-no-driver"),
    ],
)
def test_a_wrong_message_or_device_is_found(shown: Event) -> None:
    assert len(unreported(report(HEALTHY), report(UNHEALTHY, "hot"), shown)) == 1


def test_a_long_message_may_be_truncated_in_the_status() -> None:
    assert unreported(report(UNHEALTHY, LONG + LONG), status(UNHEALTHY, (LONG + LONG)[:1021] + "...")) == []


def test_a_short_message_with_another_end_is_found() -> None:
    assert len(unreported(report(UNHEALTHY, "m" * 300), status(UNHEALTHY, "m" * 299 + "n"))) == 1


def test_a_message_may_be_missing_only_while_the_gate_is_off() -> None:
    said, off, on = (
        report(UNHEALTHY, "hot"),
        GateSet("ResourceHealthStatus", False),
        GateSet("ResourceHealthStatus", True),
    )
    assert unreported(said, off, status(UNHEALTHY, "hot"), status(UNHEALTHY)) == []
    assert len(unreported(said, off, status(HEALTHY), status(UNHEALTHY, "hotter"))) == 2
    assert len(unreported(said, off, on, status(UNHEALTHY))) == 1


def test_a_message_may_be_missing_while_the_gate_of_messages_is_off() -> None:
    off, on = GateSet("ResourceHealthStatusMessage", False), GateSet("ResourceHealthStatus", True)
    assert unreported(report(UNHEALTHY, "hot"), off, status(UNHEALTHY)) == []
    assert len(unreported(report(UNHEALTHY, "hot"), off, on, status(UNHEALTHY))) == 1


@pytest.mark.parametrize(("api_server", "kubelet", "found"), [(True, False, 1), (False, True, 0), (False, False, 0)])
def test_a_message_may_be_missing_if_the_gate_is_off_in_the_api_server(
    api_server: bool, kubelet: bool, found: int
) -> None:
    off = GateSet("ResourceHealthStatus", False, api_server, kubelet)
    assert len(unreported(report(UNHEALTHY, "hot"), off, status(UNHEALTHY))) == found


def test_unknown_of_a_device_that_was_not_reported_before_its_pod_needs_no_cause() -> None:
    assert unreported(status(UNKNOWN), report(), status()) == []
    assert unreported(pod(), report(), status(UNKNOWN), status()) == []


def test_unknown_of_a_device_that_was_reported_before_its_pod_needs_a_cause() -> None:
    assert len(unreported(opened(), report(), 1.1, pod(), status(UNKNOWN))) == 1
    assert unreported(opened(), report(), 1.1, pod(), closed(), status(UNKNOWN)) == []


def test_a_report_on_its_way_may_arrive_after_the_start_of_a_pod_unless_another_pod_shows_it() -> None:
    earlier = replace(status(), uid="uid-of-pod-0", pod="pod-0")
    assert unreported(opened(), report(), pod(), status(UNKNOWN), status()) == []
    assert len(unreported(opened(), report(), earlier, pod(), status(UNKNOWN))) == 1


def hung_up(why: str = CANCELLED, instance: str = "") -> StreamClosed:
    return StreamClosed(DRIVER, instance, "s1", why)


def test_a_stream_that_the_kubelet_ends_without_a_cause_is_no_cause_for_unknown() -> None:
    assert len(unreported(opened(), report(), status(), hung_up(), status(UNKNOWN))) == 1
    assert len(unreported(opened(), report(), status(), hung_up("ended by the manager"), status(UNKNOWN))) == 1
    assert unreported(opened(), report(), status(), hung_up("ended by the driver with OK"), status(UNKNOWN)) == []


@pytest.mark.parametrize(
    "cause",
    [
        Unregistered(DRIVER, ""),
        Registered(DRIVER, "newer", ok=True),
        PluginRegistered(DRIVER, "/newer.sock", None),
        PluginDeregistered(DRIVER, ""),
        Stopped("kubelet"),
        GateSet("ResourceHealthStatus", False),
    ],
)
def test_a_kubelet_may_end_a_stream_shortly_before_or_after_the_recorded_cause(cause: Event) -> None:
    before: list[Event | float] = [opened(), report(), status()]
    assert unreported(*before, cause, hung_up(), status(UNKNOWN)) == []
    assert unreported(*before, hung_up(), 1.0, cause, status(UNKNOWN)) == []
    assert stream_ends.without_cause(history(*before, hung_up(), 6.0, cause)) == {(DRIVER, "s1")}


def test_a_cause_before_the_stream_or_of_another_driver_or_instance_does_not_count() -> None:
    of_others = (Unregistered("nic.example.com", ""), Registered(DRIVER, "", ok=True))
    records = history(Stopped("kubelet"), opened(), *of_others, report(), hung_up())
    assert stream_ends.without_cause(records) == {(DRIVER, "s1")}


def test_unknown_after_a_known_health_needs_a_cause() -> None:
    assert len(unreported(opened(), report(), status(), status(UNKNOWN))) == 1


def test_unknown_that_the_driver_reported_needs_no_cause() -> None:
    assert unreported(report(), status(), report(UNKNOWN, "no answer"), status(UNKNOWN, "no answer")) == []


@pytest.mark.parametrize(("late", "found"), [(0.5, 0), (2.0, 1)])
def test_a_driver_may_notice_the_end_of_its_stream_after_the_pod_shows_unknown(late: float, found: int) -> None:
    assert len(unreported(opened(), report(), status(), status(UNKNOWN), late, closed())) == found


@pytest.mark.parametrize("cause", [closed(), Restarted("kubelet"), GateSet("ResourceHealthStatus", True)])
def test_the_end_of_a_stream_and_a_kubelet_restart_are_causes_for_unknown(cause: Event) -> None:
    assert unreported(report(), status(), cause, status(UNKNOWN)) == []


def test_a_cause_counts_only_until_a_newer_health_is_shown() -> None:
    again: list[Event | float] = [opened("s2"), report(stream="s2"), status()]
    assert len(unreported(report(), status(), closed(), status(UNKNOWN), *again, status(UNKNOWN))) == 1
    assert (
        unreported(report(), status(), closed(), status(UNKNOWN), *again, Restarted("kubelet"), status(UNKNOWN)) == []
    )


def test_a_status_from_before_the_cause_may_arrive_late() -> None:
    assert unreported(report(), status(), closed(), status(), status(UNKNOWN), report(stream="s2"), status()) == []


def test_an_unknown_device_of_no_driver_is_found() -> None:
    assert len(unreported(report(), status(UNKNOWN, device="gpu-of-no-driver"))) == 1


def test_the_end_of_another_drivers_stream_is_no_cause() -> None:
    other = StreamClosed("nic.example.com", "", "s9", "ended")
    assert len(unreported(report(), status(), other, status(UNKNOWN))) == 1


@pytest.mark.parametrize(
    ("timeout", "fresh", "late"), [(0, 29.9, 30.1), (-1, 29.9, 30.1), (2, 1.9, 2.1), (60, 59.9, 60.1)]
)
def test_the_timeout_of_a_device_is_a_cause_for_unknown(timeout: int, fresh: float, late: float) -> None:
    told = report(timeout=timeout)
    assert len(unreported(told, status(), fresh, status(UNKNOWN))) == 1
    assert unreported(told, status(), late, status(UNKNOWN)) == []


def test_each_report_restarts_the_timeout() -> None:
    assert len(unreported(report(timeout=2), status(), 1.5, report(timeout=2), 1.5, status(UNKNOWN))) == 1


def test_simulated_time_counts_for_the_timeout() -> None:
    assert unreported(report(), status(), TimePassed(31), status(UNKNOWN)) == []
    assert len(unreported(report(), status(), TimePassed(29), status(UNKNOWN))) == 1


def test_a_stale_device_may_show_unknown_right_after_its_next_report() -> None:
    assert unreported(report(timeout=2), status(), 3, report(timeout=2), status(UNKNOWN), status()) == []


# STREAM-03: one stream an instance


def test_two_open_streams_of_one_instance_are_found() -> None:
    found = overlaps(opened("s1"), opened("s2"), 1, closed("s1"), closed("s2"))
    assert name(found, "gpu.example.com", "s1", "s2", "1.01 s")


def test_two_streams_that_stay_open_are_found_at_the_end_of_the_history() -> None:
    assert len(overlaps(opened("s1"), 60, opened("s2"), 1, report(stream="s2"))) == 1


@pytest.mark.parametrize("order", [("s1", "s2"), ("s2", "s1")])
def test_a_short_overlap_of_streams_is_no_violation(order: tuple[str, str]) -> None:
    first, second = order
    assert overlaps(opened("s1"), 60, opened("s2"), 0.3, closed(first), 60, closed(second)) == []


def test_consecutive_streams_and_streams_of_two_instances_are_no_overlap() -> None:
    assert overlaps(opened("s1"), 5, closed("s1"), opened("s2"), 5, opened("s3", instance="b"), 5, report()) == []


def test_two_streams_are_reported_while_both_are_open() -> None:
    records = history(opened("s1"), opened("s1", instance="b"), opened("s2"), closed("s1"))
    assert [invariants.has_two_streams(records[:n]) for n in range(5)] == [False, False, False, True, False]


def test_an_empty_history_has_no_violations() -> None:
    assert not any(invariants.violations([], {}).values())


# STATUS-10: at the end, each running pod shows the last report


def not_converged(*happened: Event | float, shown: StatusSeen, gates_on: bool = True) -> list[str]:
    return invariants.not_converged(history(*happened), [shown], DEVICES, gates_on)


def test_a_running_pod_with_an_older_health_is_found() -> None:
    found = not_converged(opened(), report(), report(UNHEALTHY, "hot"), shown=status())
    assert name(found, "pod-1", f"{GPU} Healthy", "gpu-0 Unhealthy 'hot'")


@pytest.mark.parametrize(
    "shown", [status(UNHEALTHY), status(HEALTHY, "hot"), status(UNKNOWN), status(UNHEALTHY, "hotter")]
)
def test_health_and_message_must_both_be_those_of_the_last_report(shown: StatusSeen) -> None:
    assert len(not_converged(opened(), report(UNHEALTHY, "hot"), shown=shown)) == 1
    assert not_converged(opened(), report(UNHEALTHY, "hot"), shown=status(UNHEALTHY, "hot")) == []


@pytest.mark.parametrize(
    "happened",
    [
        pytest.param([opened(), report(UNHEALTHY), closed()], id="the stream has ended"),
        pytest.param([opened(), report(UNHEALTHY), closed(), opened("s2")], id="no report on the new stream"),
        pytest.param([opened(), report(UNHEALTHY), opened("s2", "b")], id="two instances are watched"),
        pytest.param([opened(), report(UNHEALTHY, timeout=2), 3.0, report(device="gpu-1")], id="past its timeout"),
        pytest.param([opened(), report(UNHEALTHY, timeout=20), TimePassed(21)], id="simulated time past its timeout"),
        pytest.param([opened(), report(UNHEALTHY, LONG + LONG)], id="its message is truncated"),
        pytest.param([opened()], id="no report"),
    ],
)
def test_a_device_with_an_uncertain_last_health_is_not_checked(happened: list[Event | float]) -> None:
    assert not_converged(*happened, shown=status()) == []


def test_a_pod_that_does_not_run_is_not_checked_nor_any_pod_with_the_gate_off() -> None:
    happened: list[Event | float] = [opened(), report(UNHEALTHY)]
    assert not_converged(*happened, shown=status(phase="Failed")) == []
    assert not_converged(*happened, shown=status(), gates_on=False) == []


def test_a_reported_device_that_only_one_of_its_containers_still_shows_is_found() -> None:
    both = pod([container(entry(resource())), container(entry(resource()), name="second")])
    found = not_converged(opened(), report(), both, shown=pod([container(entry(resource())), container(name="second")]))
    assert name(found, "container second", "pod-1", f"{DRIVER}/{POOL}/gpu-0")


def test_a_reported_device_that_is_missing_from_a_later_status_is_found() -> None:
    found = not_converged(opened(), report(), status(), shown=pod([container()]))
    assert name(found, "pod-1", f"{DRIVER}/{POOL}/gpu-0")


@pytest.mark.parametrize(
    ("happened", "shown"),
    [
        pytest.param([], pod([container()], phase="Failed"), id="its pod does not run"),
        pytest.param([], pod([container()], name="another"), id="it was shown by another pod"),
        pytest.param([closed()], pod([container()]), id="no stream is open"),
    ],
)
def test_a_device_that_need_not_be_shown_may_be_missing(happened: list[Event | float], shown: StatusSeen) -> None:
    assert not_converged(opened(), report(), status(), *happened, shown=shown) == []


def test_devices_may_be_missing_while_the_gate_is_off() -> None:
    assert not_converged(opened(), report(), status(), shown=pod([container()]), gates_on=False) == []


# Devices with the same CDI id have one name

SHARED = {f"{DRIVER}/{POOL}/gpu-all": ((DRIVER, POOL, "gpu-0"), (DRIVER, POOL, "gpu-1"))}


@pytest.mark.parametrize("last", ["gpu-0", "gpu-1"])
@pytest.mark.parametrize(
    ("shown", "found"),
    [
        (status(HEALTHY, device="gpu-all"), 0),
        (status(UNHEALTHY, "hot", device="gpu-all"), 0),
        (status(HEALTHY, "hot", device="gpu-all"), 1),
        (status(UNKNOWN, device="gpu-all"), 1),
    ],
)
def test_a_name_of_several_devices_shows_the_health_of_one_of_them(shown: StatusSeen, found: int, last: str) -> None:
    first = report(device="gpu-1" if last == "gpu-0" else "gpu-0")
    both = replace(first, devices=(*first.devices, *report(UNHEALTHY, "hot", device=last).devices))
    known = status(device="gpu-all"), status(UNHEALTHY, "hot", device="gpu-all")
    records = history(opened(), both, *known, shown)
    assert len(list(invariants.unreported(records, SHARED))) == found
    assert len(invariants.not_converged(records, [shown], SHARED, True)) == found


def test_a_name_of_several_devices_is_unknown_while_one_of_them_was_not_reported() -> None:
    known, unknown = (status(health, device="gpu-all") for health in (HEALTHY, UNKNOWN))
    assert list(invariants.unreported(history(report(device="gpu-0"), known, unknown), SHARED)) == []


# All invariants on histories of a correct kubelet

healths = st.builds(report, st.sampled_from(Health), st.sampled_from(["", "hot", LONG + LONG]), timeout=st.just(3600))


@given(st.lists(healths, min_size=1))
def test_a_kubelet_that_shows_each_report_has_no_violations(reports: list[ReportSent]) -> None:
    told: list[Event | float] = [opened()]
    for said in reports:
        device = said.devices[0]
        told += [
            said,
            status(device.health, device.message[:1021] + "..." if len(device.message) > 1024 else device.message),
        ]
    records = history(*told)
    last = records[-1].what
    assert isinstance(last, StatusSeen)
    assert not any(invariants.violations(records, DEVICES).values())
    assert invariants.not_converged(records, [last], DEVICES, True) == []


@given(st.lists(healths, min_size=1), st.data())
def test_a_kubelet_that_shows_one_wrong_message_is_found(reports: list[ReportSent], data: st.DataObject) -> None:
    told: list[Event | float] = [opened(), *reports]
    told.insert(data.draw(st.integers(0, len(told))), status(UNHEALTHY, "made up"))
    assert len(invariants.violations(history(*told), DEVICES)["STATUS-07"]) == 1
