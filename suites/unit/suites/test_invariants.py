"""What holds in every history: made-up ones that break it are caught, good ones are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.proto.events import Event, GateSet, ReportSent, Restarted, StatusSeen, StreamClosed, TimePassed
from drahealth.proto.values import Health
from drahealth.suites.judging import invariants
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


def unreported(*happened: Event | float) -> list[str]:
    return list(invariants.unreported(history(*happened), DEVICES))


def overlaps(*happened: Event | float) -> list[str]:
    return list(invariants.overlaps(history(*happened)))


# STATUS-06: nothing is there twice


def test_an_entry_name_that_is_there_twice_in_a_container_is_found() -> None:
    seen = pod([container(entry(resource()), entry(resource(device="gpu-1")))])
    assert list(invariants.duplicates(history(seen))) == [
        "entry claim:claim-1/gpu is there twice in container main of pod pod-1"
    ]


def test_a_device_that_is_there_twice_in_an_entry_is_found() -> None:
    seen = pod([container(entry(resource(), resource(UNHEALTHY)))])
    assert list(invariants.duplicates(history(seen))) == [
        "gpu.example.com/node-a/gpu-0 is there twice in entry claim:claim-1/gpu of pod pod-1"
    ]


def test_init_containers_and_the_pod_itself_are_looked_at_too() -> None:
    twice = (entry(resource()), entry(resource(device="gpu-1")))
    seen = pod(init=[container(*twice, name="first")], own=twice)
    assert list(invariants.duplicates(history(seen))) == [
        "entry claim:claim-1/gpu is there twice in container first of pod pod-1",
        "entry claim:claim-1/gpu is there twice in pod pod-1",
    ]


@pytest.mark.parametrize("place", ["init", "own"])
def test_an_invention_or_an_old_health_is_found_wherever_it_stands(place: str) -> None:
    def shown(health: Health) -> StatusSeen:
        entries = entry(resource(health))
        return pod(init=[container(entries)]) if place == "init" else pod(own=(entries,))

    assert unreported(report(HEALTHY), shown(UNHEALTHY)) == [
        f"pod pod-1 showed {resource(UNHEALTHY)}, which was never reported"
    ]
    assert len(not_converged(opened(), report(HEALTHY), report(UNHEALTHY), shown=shown(HEALTHY))) == 1


def test_the_same_device_and_entry_in_several_containers_and_statuses_are_no_doubles() -> None:
    shared = entry(resource())
    seen = pod([container(shared, entry(resource(), name="claim:other")), container(shared, name="second")])
    assert list(invariants.duplicates(history(seen, seen))) == []


# STATUS-07: nothing is invented


def test_what_was_reported_may_be_shown_and_shown_again_later() -> None:
    assert unreported(report(), status(), report(UNHEALTHY, "hot"), status(), status(UNHEALTHY, "hot")) == []


def test_a_health_that_was_never_reported_is_an_invention() -> None:
    assert unreported(report(HEALTHY), status(UNHEALTHY)) == [
        f"pod pod-1 showed {resource(UNHEALTHY)}, which was never reported"
    ]


def test_a_health_that_is_reported_only_afterwards_is_an_invention() -> None:
    assert len(unreported(report(), status(UNHEALTHY, "hot"), report(UNHEALTHY, "hot"))) == 1


@pytest.mark.parametrize(
    "shown",
    [
        status(HEALTHY, "hot"),
        status(UNHEALTHY),
        status(UNHEALTHY, "hotter"),
        status(UNKNOWN, "hot"),
        status(UNHEALTHY, "hot", device="gpu-1"),
        status(UNHEALTHY, "hot", device="gpu-of-nobody"),
    ],
)
def test_another_message_or_device_than_the_reported_one_is_an_invention(shown: Event) -> None:
    assert len(unreported(report(HEALTHY), report(UNHEALTHY, "hot"), shown)) == 1


def test_a_long_message_may_be_cut_in_the_status() -> None:
    assert unreported(report(UNHEALTHY, LONG + LONG), status(UNHEALTHY, (LONG + LONG)[:1021] + "...")) == []


def test_a_message_that_could_be_shown_whole_may_not_be_another_at_its_end() -> None:
    assert len(unreported(report(UNHEALTHY, "m" * 300), status(UNHEALTHY, "m" * 299 + "n"))) == 1


def test_a_message_may_be_dropped_while_the_gate_is_off_and_no_longer() -> None:
    said, off, on = (
        report(UNHEALTHY, "hot"),
        GateSet("ResourceHealthStatus", False),
        GateSet("ResourceHealthStatus", True),
    )
    assert unreported(said, off, status(UNHEALTHY, "hot"), status(UNHEALTHY)) == []
    assert len(unreported(said, off, status(HEALTHY), status(UNHEALTHY, "hotter"))) == 2
    assert len(unreported(said, off, on, status(UNHEALTHY))) == 1


@pytest.mark.parametrize(("api_server", "kubelet", "found"), [(True, False, 1), (False, True, 0), (False, False, 0)])
def test_a_message_may_be_dropped_by_the_api_servers_gate_and_not_by_the_kubelets(
    api_server: bool, kubelet: bool, found: int
) -> None:
    off = GateSet("ResourceHealthStatus", False, api_server, kubelet)
    assert len(unreported(report(UNHEALTHY, "hot"), off, status(UNHEALTHY))) == found


def test_unknown_before_anything_was_shown_needs_no_cause() -> None:
    assert unreported(status(UNKNOWN), report(), status()) == []


def test_unknown_after_something_was_shown_needs_a_cause() -> None:
    assert len(unreported(opened(), report(), status(), status(UNKNOWN))) == 1


def test_unknown_that_the_driver_said_is_no_invention() -> None:
    assert unreported(report(), status(), report(UNKNOWN, "no answer"), status(UNKNOWN, "no answer")) == []


@pytest.mark.parametrize("cause", [closed(), Restarted("kubelet"), GateSet("ResourceHealthStatus", True)])
def test_unknown_is_excused_once_the_stream_ended_or_the_kubelet_was_restarted(cause: Event) -> None:
    assert unreported(report(), status(), cause, status(UNKNOWN)) == []


def test_a_cause_excuses_nothing_once_something_newer_was_shown() -> None:
    again: list[Event | float] = [opened("s2"), report(stream="s2"), status()]
    assert len(unreported(report(), status(), closed(), status(UNKNOWN), *again, status(UNKNOWN))) == 1
    assert (
        unreported(report(), status(), closed(), status(UNKNOWN), *again, Restarted("kubelet"), status(UNKNOWN)) == []
    )


def test_a_status_from_before_the_cause_may_come_late() -> None:
    assert unreported(report(), status(), closed(), status(), status(UNKNOWN), report(stream="s2"), status()) == []


def test_a_device_that_no_driver_has_is_an_invention_though_it_is_unknown() -> None:
    assert len(unreported(report(), status(UNKNOWN, device="gpu-of-nobody"))) == 1


def test_the_end_of_another_drivers_stream_excuses_nothing() -> None:
    other = StreamClosed("nic.example.com", "", "s9", "ended")
    assert len(unreported(report(), status(), other, status(UNKNOWN))) == 1


@pytest.mark.parametrize(
    ("timeout", "fresh", "late"), [(0, 29.9, 30.1), (-1, 29.9, 30.1), (2, 1.9, 2.1), (60, 59.9, 60.1)]
)
def test_unknown_is_excused_once_the_devices_own_timeout_is_over(timeout: int, fresh: float, late: float) -> None:
    told = report(timeout=timeout)
    assert len(unreported(told, status(), fresh, status(UNKNOWN))) == 1
    assert unreported(told, status(), late, status(UNKNOWN)) == []


def test_a_timeout_runs_anew_with_each_report() -> None:
    assert len(unreported(report(timeout=2), status(), 1.5, report(timeout=2), 1.5, status(UNKNOWN))) == 1


def test_a_clock_that_jumped_counts_for_the_timeout() -> None:
    assert unreported(report(), status(), TimePassed(31), status(UNKNOWN)) == []
    assert len(unreported(report(), status(), TimePassed(29), status(UNKNOWN))) == 1


def test_a_device_that_was_late_may_still_read_unknown_right_after_the_report_that_ends_it() -> None:
    assert unreported(report(timeout=2), status(), 3, report(timeout=2), status(UNKNOWN), status()) == []


# STREAM-03: one stream an instance


def test_two_streams_of_one_instance_beside_each_other_are_found() -> None:
    assert overlaps(opened("s1"), opened("s2"), 1, closed("s1"), closed("s2")) == [
        "driver gpu.example.com had streams s1 and s2 open beside each other for 1.01 s"
    ]


def test_two_streams_that_stay_open_are_found_at_the_end_of_the_history() -> None:
    assert len(overlaps(opened("s1"), 60, opened("s2"), 1, report(stream="s2"))) == 1


@pytest.mark.parametrize("order", [("s1", "s2"), ("s2", "s1")])
def test_a_stream_whose_end_is_noticed_a_little_late_is_no_second_one(order: tuple[str, str]) -> None:
    first, second = order
    assert overlaps(opened("s1"), 60, opened("s2"), 0.3, closed(first), 60, closed(second)) == []


def test_one_stream_after_the_other_and_one_for_each_instance_are_no_overlap() -> None:
    assert overlaps(opened("s1"), 5, closed("s1"), opened("s2"), 5, opened("s3", instance="b"), 5, report()) == []


def test_two_streams_are_seen_while_they_are_two() -> None:
    records = history(opened("s1"), opened("s1", instance="b"), opened("s2"), closed("s1"))
    assert [invariants.has_two_streams(records[:n]) for n in range(5)] == [False, False, False, True, False]


def test_an_empty_history_is_without_fault() -> None:
    assert invariants.violations([], {}) == {"STATUS-06": [], "STATUS-07": [], "STREAM-03": []}


# STATUS-10: the final state is the latest


def not_converged(*happened: Event | float, shown: StatusSeen, gates_on: bool = True) -> list[str]:
    return invariants.not_converged(history(*happened), [shown], DEVICES, gates_on)


def test_a_running_pod_that_shows_something_older_is_astray() -> None:
    found = not_converged(opened(), report(), report(UNHEALTHY, "hot"), shown=status())
    assert found == [
        f"pod pod-1 shows {resource()}, reported last was {report(UNHEALTHY, 'hot').devices[0]}",
    ]


@pytest.mark.parametrize(
    "shown", [status(UNHEALTHY), status(HEALTHY, "hot"), status(UNKNOWN), status(UNHEALTHY, "hotter")]
)
def test_health_and_message_must_both_be_the_latest(shown: StatusSeen) -> None:
    assert len(not_converged(opened(), report(UNHEALTHY, "hot"), shown=shown)) == 1
    assert not_converged(opened(), report(UNHEALTHY, "hot"), shown=status(UNHEALTHY, "hot")) == []


@pytest.mark.parametrize(
    "happened",
    [
        pytest.param([opened(), report(UNHEALTHY), closed()], id="the stream is over"),
        pytest.param([opened(), report(UNHEALTHY), closed(), opened("s2")], id="nothing was said on the new stream"),
        pytest.param([opened(), report(UNHEALTHY), opened("s2", "b")], id="two instances are watched"),
        pytest.param([opened(), report(UNHEALTHY, timeout=2), 3.0, report(device="gpu-1")], id="it is late"),
        pytest.param([opened(), report(UNHEALTHY, timeout=20), TimePassed(21)], id="the clock jumped past it"),
        pytest.param([opened(), report(UNHEALTHY, LONG + LONG)], id="its message is to be cut"),
        pytest.param([opened()], id="nothing was ever said"),
    ],
)
def test_nothing_is_asked_of_a_device_whose_latest_health_is_open_to_question(happened: list[Event | float]) -> None:
    assert not_converged(*happened, shown=status()) == []


def test_nothing_is_asked_of_a_pod_that_does_not_run_or_while_the_gate_is_off() -> None:
    happened: list[Event | float] = [opened(), report(UNHEALTHY)]
    assert not_converged(*happened, shown=status(phase="Failed")) == []
    assert not_converged(*happened, shown=status(), gates_on=False) == []


def test_a_device_that_was_shown_and_is_reported_may_not_be_lost() -> None:
    found = not_converged(opened(), report(), status(), shown=pod([container()]))
    assert found == [f"pod pod-1 does not show {DRIVER}/{POOL}/gpu-0 any more"]


@pytest.mark.parametrize(
    ("happened", "shown"),
    [
        pytest.param([], pod([container()], phase="Failed"), id="its pod does not run"),
        pytest.param([], pod([container()], name="another"), id="it was shown by another pod"),
        pytest.param([closed()], pod([container()]), id="nobody watches it"),
    ],
)
def test_what_need_not_be_shown_is_not_lost(happened: list[Event | float], shown: StatusSeen) -> None:
    assert not_converged(opened(), report(), status(), *happened, shown=shown) == []


def test_nothing_is_lost_while_the_gate_is_off() -> None:
    assert not_converged(opened(), report(), status(), shown=pod([container()]), gates_on=False) == []


# All of them on histories that a good kubelet could leave

healths = st.builds(report, st.sampled_from(Health), st.sampled_from(["", "hot", LONG + LONG]), timeout=st.just(3600))


@given(st.lists(healths, min_size=1))
def test_a_kubelet_that_shows_each_report_is_without_fault(reports: list[ReportSent]) -> None:
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
def test_a_kubelet_that_shows_another_message_once_is_caught(reports: list[ReportSent], data: st.DataObject) -> None:
    told: list[Event | float] = [opened(), *reports]
    told.insert(data.draw(st.integers(0, len(told))), status(UNHEALTHY, "made up"))
    assert len(invariants.violations(history(*told), DEVICES)["STATUS-07"]) == 1
