"""The checks of Pods with broken devices: their verdicts on a healthy driver and on wrong drivers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from drahealth.proto.events import Event, FaultInjected, PodDeleted, PodRequested, ReportReceived, StatusSeen
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed_pods import resources
from drahealth.suites.driver_checks.pods_experiments import devices_to_break, faults_of_pods
from drahealth.suites.driver_checks.profile.faults import RemoveFile, SetEnvironment, WriteFile
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.unit.driver_checks.edits import finding
from drahealth.suites.unit.driver_checks.healthy_run import Edit, healthy_run, without
from drahealth.suites.unit.driver_checks.runs import fault

CHECKS = [
    ("fault-appears-in-the-pod-status", "pod-faults"),
    ("kubelet-fault-appears-in-the-pod-status", "kubelet-pod-faults"),
]
BREAK, HEAL = WriteFile("/f", "x"), RemoveFile("/f")
both = pytest.mark.parametrize(("check", "run"), CHECKS)


def never(health: Health) -> Edit:
    """No Pod status has this health after the Pod has started."""

    def edit(_: str, event: Event) -> Event | None:
        shows = isinstance(event, StatusSeen) and any(one.health is health for one in resources(event))
        return None if shows else event

    return edit


def steps(kind: type[Event], change: Callable[[Any], Event]) -> Edit:
    return lambda _, event: change(event) if isinstance(event, kind) else event


@both
def test_break_and_heal_in_the_pod_status_pass_with_times(check: str, run: str) -> None:
    found = finding(check)
    assert (found.verdict, found.grade) == (Verdict.PASS, "forced")
    assert "Unhealthy in the Pod status after 0.5 s" in found.seen


@both
def test_break_that_the_pod_does_not_show_fails(check: str, run: str) -> None:
    assert finding(check, never(Health.UNHEALTHY)).verdict is Verdict.FAIL


@both
def test_break_that_the_driver_does_not_report_is_not_tested(check: str, run: str) -> None:
    def unreported(where: str, event: Event) -> Event | None:
        if isinstance(event, ReportReceived):
            well = tuple(replace(one, health=Health.HEALTHY) for one in event.devices)
            return replace(event, devices=well)
        return never(Health.UNHEALTHY)(where, event)

    found = finding(check, unreported)
    assert found.verdict is Verdict.NOT_TESTED
    assert "no device changed: the fault adapter may have no effect" in found.seen


@both
def test_other_device_that_the_driver_reports_instead_is_named(check: str, run: str) -> None:
    def renamed(where: str, event: Event) -> Event | None:
        if isinstance(event, ReportReceived):
            other = tuple(replace(one, device=f"{one.device}-other") for one in event.devices)
            return (
                replace(event, devices=(*event.devices, *other)) if not _sick(event) else replace(event, devices=other)
            )
        return never(Health.UNHEALTHY)(where, event)

    found = finding(check, renamed)
    assert found.verdict is Verdict.FAIL
    assert "-other changed instead: the fault adapter may break another device than" in found.seen


def _sick(event: ReportReceived) -> bool:
    return any(one.health is Health.UNHEALTHY for one in event.devices)


@both
def test_heal_that_the_pod_does_not_show_fails(check: str, run: str) -> None:
    assert finding(check, never(Health.HEALTHY)).verdict is Verdict.FAIL


@both
def test_fault_without_effect_is_judged_as_the_profile_declares(check: str, run: str) -> None:
    def declared(where: str, event: Event) -> Event | None:
        if isinstance(event, FaultInjected):
            return replace(event, on_no_effect="NOT_TESTED")
        return never(Health.UNHEALTHY)(where, event)

    assert finding(check, declared).verdict is Verdict.NOT_TESTED


@both
@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.NOT_TESTED])
def test_adapter_that_fails_never_passes(check: str, run: str, verdict: Verdict) -> None:
    broken = steps(FaultInjected, lambda one: replace(one, outcome="failed", problem="no file", on_error=verdict.value))
    assert finding(check, broken).verdict is verdict


@both
def test_check_without_a_fault_or_a_pod_is_not_tested(check: str, run: str) -> None:
    assert finding(check, without(FaultInjected, run)).verdict is Verdict.NOT_TESTED
    assert finding(check, without(PodRequested, run)).verdict is Verdict.NOT_TESTED


def test_faults_that_restart_the_driver_are_left_out_and_lasting_ones_come_last() -> None:
    lasting, hot = fault("lasting", BREAK, "none", device="gpu-2"), fault("hot", BREAK, HEAL, device="pool/gpu-1")
    restarts = fault("restarts", BREAK, "restart", device="gpu-3"), fault("env", SetEnvironment({"A": "1"}), HEAL)
    assert faults_of_pods([lasting, *restarts, hot]) == [hot, lasting]
    assert devices_to_break([lasting, *restarts, hot]) == {"gpu-1", "gpu-2"}


def evicted(effect: str) -> Evidence:
    """The Pod shows no break, and is deleted right after it, by another than drahealth."""

    def edit(where: str, event: Event) -> Event | None:
        if isinstance(event, FaultInjected):
            return replace(event, taint=f"gpu.example.com/unhealthy:{effect}")
        return never(Health.UNHEALTHY)(where, event)

    whole = healthy_run(edit)
    start = min(one.at for one in whole.of(FaultInjected, "kubelet-pod-faults"))
    seen = (one for one in whole.records if not (isinstance(one.what, StatusSeen) and one.at > start))
    records = (replace(one, at=start) if isinstance(one.what, PodDeleted) else one for one in seen)
    return replace(whole, records=tuple(records))


@pytest.mark.parametrize(("effect", "verdict"), [("NoExecute", Verdict.NOT_APPLICABLE), ("NoSchedule", Verdict.FAIL)])
def test_pod_that_a_taint_evicts_is_not_judged(effect: str, verdict: Verdict) -> None:
    assert finding("kubelet-fault-appears-in-the-pod-status", evicted(effect)).verdict is verdict
