"""The checks of Pods: their verdicts on a healthy driver and on wrong drivers."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from drahealth.proto.events import (
    CdiSpecsRead,
    Event,
    EventSeen,
    GrpcCall,
    PodDeleted,
    PodRequested,
    PreparedClaimsRead,
    ReportReceived,
    StatusSeen,
    StreamClosed,
)
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.unit.driver_checks.edits import (
    INFOS,
    PREPARES,
    UNPREPARES,
    answering,
    calls,
    devices,
    failing,
    finding,
    reports,
)
from drahealth.suites.unit.driver_checks.healthy_run import CHANGE, DRIVER, INFO, POOL, Edit, cdi, status, without

RUN, KUBELET_RUN = "pod-status", "kubelet-pod-status"
STARTS, LISTS = "pod-with-a-claim-starts", "pod-status-lists-allocated-devices"
SHOWS, ENDS = "pod-status-shows-reported-health", "deleted-pod-ends"
CDI = "cdi-devices-exist-while-the-pod-runs"
BOTH = (STARTS, LISTS, SHOWS, ENDS)
FAIL, PASS, NOT_TESTED = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED


def all_of(*edits: Edit) -> Edit:
    """Each edit after the other; an event that one of them leaves out is gone."""

    def edit(experiment: str, event: Event) -> Event | None:
        for one in edits:
            found = one(experiment, event)
            if found is None:
                return None
            event = found
        return event

    return edit


def never_running(_: str, event: Event) -> Event | None:
    return None if isinstance(event, StatusSeen) and event.phase == "Running" else event


def statuses(*names: str, at: float) -> Edit:
    """The running Pod always shows these devices, as they were reported at that time."""

    def edit(_: str, event: Event) -> Event:
        return status(at, *names) if isinstance(event, StatusSeen) and event.phase == "Running" else event

    return edit


def pod_devices(change: Callable[[DeviceHealth], DeviceHealth]) -> Edit:
    """Changes the reported devices on the stream of the Pod's kubelet."""
    return devices(change, "pod")


@pytest.mark.parametrize("check", [*BOTH, *(f"kubelet-{one}" for one in BOTH), CDI])
def test_pod_of_a_healthy_driver_passes(check: str) -> None:
    assert finding(check).verdict is PASS


ROWS: list[tuple[str, Edit, Verdict]] = [
    (STARTS, all_of(never_running, calls(PREPARES, failing(), RUN)), FAIL),
    (STARTS, never_running, FAIL),
    (f"kubelet-{STARTS}", never_running, FAIL),
    (f"kubelet-{LISTS}", without(PreparedClaimsRead, KUBELET_RUN), FAIL),
    (f"kubelet-{ENDS}", without(PodDeleted, KUBELET_RUN), FAIL),
    (STARTS, all_of(never_running, without(PodRequested, RUN)), NOT_TESTED),
    (LISTS, never_running, NOT_TESTED),
    (LISTS, statuses("gpu-0", at=1), FAIL),
    (SHOWS, never_running, NOT_TESTED),
    (SHOWS, statuses("gpu-0", "gpu-1", at=1), FAIL),
    (SHOWS, statuses("gpu-0", "gpu-1", at=CHANGE), FAIL),
    (SHOWS, pod_devices(lambda one: replace(one, pool=DRIVER)), FAIL),
    (SHOWS, pod_devices(lambda one: replace(one, device="a")), FAIL),
    (ENDS, without(PodDeleted, RUN), FAIL),
    (ENDS, all_of(without(PodDeleted, RUN), calls(UNPREPARES, failing(), RUN)), FAIL),
    (ENDS, never_running, NOT_TESTED),
    (CDI, without(CdiSpecsRead, RUN), NOT_TESTED),
]


@pytest.mark.parametrize(("check", "edit", "expected"), ROWS)
def test_pod_check_gives_the_expected_verdict(check: str, edit: Edit, expected: Verdict) -> None:
    assert finding(check, edit).verdict is expected


def test_failure_names_the_device_that_the_status_does_not_list() -> None:
    found = finding(LISTS, statuses("gpu-0", at=1))
    assert (found.expected, found.seen) == (
        f"{DRIVER}/{POOL}/gpu-1 in the Pod status",
        f"the Pod status lists {DRIVER}/{POOL}/gpu-0",
    )


def test_failure_of_prepare_has_the_error_of_the_driver() -> None:
    found = finding(STARTS, all_of(never_running, calls(PREPARES, failing(), RUN)))
    assert "INTERNAL" in found.seen


def test_report_shortly_before_another_one_need_not_be_shown() -> None:
    def late(_: str, event: Event) -> Event | None:
        return None if isinstance(event, StatusSeen) and event == status(CHANGE, "gpu-0", "gpu-1") else event

    def brief(report: ReportReceived) -> ReportReceived | None:
        return None if report.devices[0].health is Health.UNHEALTHY else report

    assert finding(SHOWS, late).verdict is FAIL
    assert finding(SHOWS, all_of(late, reports(brief, "pod"))).verdict is PASS


def test_driver_without_health_is_not_judged_by_its_health() -> None:
    def unimplemented(where: str, event: Event) -> Event | None:
        return replace(event, code="UNIMPLEMENTED") if where == RUN and isinstance(event, StreamClosed) else event

    no_health = calls(INFOS, answering({**INFO, "supported_versions": ["v1.DRAPlugin"]}), RUN)
    found = [finding(SHOWS, edit).verdict for edit in (no_health, unimplemented)]
    assert found == [Verdict.NOT_APPLICABLE] * 2
    assert finding(LISTS, no_health).verdict is PASS
    no_reports = without(ReportReceived, RUN)
    unlisted = statuses("gpu-0", at=1)
    verdicts = [finding(LISTS, all_of(no_reports, unlisted, edit)).verdict for edit in (no_health, unimplemented)]
    assert verdicts == [Verdict.NOT_APPLICABLE, FAIL]


def test_finding_contains_the_warning_event_of_the_pod() -> None:
    warning = EventSeen("job", "pod", "Warning", "FailedScheduling", "no node")
    start = f"kubelet-{STARTS}"

    def edit(where: str, event: Event) -> Event | None:
        return warning if isinstance(event, StatusSeen) and "kubelet" in where else event

    assert "FailedScheduling: no node" in finding(start, edit).seen


def test_devices_with_one_id_are_judged_by_the_first_on_a_real_kubelet() -> None:
    def shared(_: str, event: Event) -> Event:
        if not isinstance(event, PreparedClaimsRead):
            return event
        devices = ({**event.claims[0].devices[0], "cdi_device_ids": [cdi("gpu-1")]},)
        return replace(event, claims=(replace(event.claims[0], devices=devices), *event.claims[1:]))

    assert finding(f"kubelet-{LISTS}", shared).verdict is PASS
    assert finding(f"kubelet-{SHOWS}", shared).verdict is FAIL


def cdi_ids(*ids: str) -> Edit:
    """The Pod is prepared with these CDI devices."""

    def apply(call: GrpcCall) -> GrpcCall:
        claims = {
            uid: {"devices": [{**one, "cdi_device_ids": [*ids]} for one in answer["devices"]]}
            for uid, answer in (call.response or {})["claims"].items()
        }
        return replace(call, response={"claims": claims})

    return calls(PREPARES, apply, RUN)


def test_pod_without_cdi_devices_is_not_judged_by_its_cdi_specs() -> None:
    assert finding(CDI, cdi_ids()).verdict is Verdict.NOT_APPLICABLE


def test_cdi_device_without_a_spec_is_named() -> None:
    found = finding(CDI, cdi_ids("a.com/gpu=other"))
    assert (found.verdict, "a.com/gpu=other" in found.seen) == (FAIL, True)
