"""The checks of a process with device plugins of two resources."""

from dataclasses import replace

import pytest

from drahealth.proto.device_plugin import GET_OPTIONS, PRE_START_CONTAINER
from drahealth.proto.events import Event, GrpcCall, ListReceived, SocketRemoved, StreamClosed, StreamOpened
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.judge import judge
from drahealth.suites.driver_checks.verdicts import Verdict, requirements
from drahealth.suites.unit.driver_checks.healthy_plugin_run import POD_EXPERIMENTS, Edit, plugin_run
from drahealth.suites.unit.driver_checks.test_device_plugin_checks import WRONG

FAIL, PASS, NOT_TESTED = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED
OTHER = "example.com/nic"


def with_other_resource(change: Edit = lambda _, event: event) -> Evidence:
    """The evidence of a process that registers another resource, too. `change` edits what happens to that one."""
    evidence = plugin_run()
    records = []
    for one in evidence.records:
        records.append(one)
        other = of_other_resource(one.what) if one.experiment not in ("plugin-faults", *POD_EXPERIMENTS) else None
        if other and (kept := change(one.experiment, other)):
            records.append(replace(one, what=kept))
    numbered = tuple(replace(one, number=number) for number, one in enumerate(records, start=2))
    return replace(evidence, records=numbered)


def of_other_resource(event: Event) -> Event | None:
    """The same event of the other resource; None if it belongs to the process."""
    match event:
        case GrpcCall(request=request) if "resource_name" in request:
            return replace(event, driver=OTHER, request={**request, "resource_name": OTHER})
        case GrpcCall():
            return replace(event, driver=OTHER)
        case ListReceived() | StreamOpened() | StreamClosed():
            return replace(event, driver=OTHER, stream=f"{event.stream}-nic")
        case SocketRemoved():
            return replace(event, resource=OTHER)
    return None


def test_two_healthy_resources_pass() -> None:
    found = {one.requirement.id: one.verdict for one in judge(with_other_resource())}
    assert found == {one.id: PASS for one in requirements().values() if one.binds == "device-plugin"}


@pytest.mark.parametrize(
    ("check", "edit", "verdict"),
    [
        pytest.param(check, edit, verdict, id=f"{check}-{name}")
        for check, name, edit, verdict in WRONG
        if check.startswith(
            ("device-ids", "device-health", "each-container", "cdi-names", "unknown-device", "required", "advertised")
        )
        and verdict is FAIL
    ],
)
def test_mistake_in_one_resource_is_found_and_named(check: str, edit: Edit, verdict: Verdict) -> None:
    found = CHECKS[check].judge(with_other_resource(edit))
    assert (found.verdict, f"{OTHER}: " in found.seen) == (verdict, True)


def test_resource_that_was_not_tested_is_named() -> None:
    late = with_other_resource(lambda _, event: event if isinstance(event, GrpcCall) else None)
    found = CHECKS["first-list-is-prompt"].judge(late)
    assert (found.verdict, found.seen) == (NOT_TESTED, f"{OTHER}: ListAndWatch was not called")


def test_call_that_one_resource_does_not_advertise_does_not_apply_to_it() -> None:
    def edit(_: str, event: Event) -> Event | None:
        if isinstance(event, GrpcCall) and f"/{event.method}" == GET_OPTIONS.path:
            return replace(event, response={})
        return None if isinstance(event, GrpcCall) and f"/{event.method}" == PRE_START_CONTAINER.path else event

    assert CHECKS["required-pre-start-is-served"].judge(with_other_resource(edit)).verdict is PASS
