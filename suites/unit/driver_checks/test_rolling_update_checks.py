"""The checks of a rolling update: their verdicts on right and wrong instances."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from drahealth.proto.events import (
    CdiSpec,
    CdiSpecsRead,
    Event,
    GrpcCall,
    ProcessExited,
    ProcessStarted,
    RegistrationFailed,
    ReportReceived,
    SignalSent,
    SlicesListed,
    SocketsListed,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.health_apis import V1
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.observed_health import OURS
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.unit.driver_checks.evidence_of import evidence_at
from drahealth.suites.unit.driver_checks.fault_run import BROKEN, CLEARED
from drahealth.suites.unit.driver_checks.healthy_run import (
    DEVICES,
    DRIVER,
    INFO,
    allocated,
    cdi,
    prepare,
    resource_slice,
    unprepare,
)

FAIL, PASS, NOT_TESTED = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED
BOTH, CLAIMS = "two-instances-serve-side-by-side", "newer-instance-has-the-claims"
LEFT, HEALTH = "older-instance-leaves-what-the-newer-one-needs", "newer-instance-keeps-its-health"
ALL = (BOTH, CLAIMS, LEFT, HEALTH)
OLDER, NEWER = "/plugins/dra-1.sock", "/plugins/dra-2.sock"


def call(path: str, socket: str, **response: object) -> GrpcCall:
    return GrpcCall(DRIVER, socket, path.removeprefix("/"), {}, response, 0.01)


def report(stream: str, broken: bool, *names: str) -> ReportReceived:
    health = {name: Health.UNHEALTHY if broken and name == "gpu-1" else Health.HEALTHY for name in names or DEVICES}
    devices = tuple(DeviceHealth("node-a", name, one) for name, one in health.items())
    return ReportReceived(DRIVER, NEWER, stream, 90, devices)


RUN: dict[float, Event] = {
    0.1: ProcessStarted("updated", 1, ("./driver",)),
    0.2: call(GET_INFO.path, "reg-1.sock", **{**INFO, "endpoint": OLDER}),
    0.3: call(NOTIFY_REGISTRATION.path, "reg-1.sock"),
    0.4: allocated("a", "gpu-1"),
    0.5: prepare({"a": "gpu-1"}),
    0.6: StreamOpened(DRIVER, "", "old", V1.name, OLDER),
    0.7: report("old", False),
    1.0: ProcessStarted("updated", 2, ("./driver",)),
    2.0: call(GET_INFO.path, "reg-2.sock", **{**INFO, "endpoint": NEWER}),
    2.1: call(NOTIFY_REGISTRATION.path, "reg-2.sock"),
    2.2: call(PREPARE["v1.DRAPlugin"].path, OLDER),
    2.3: StreamOpened(DRIVER, "", "new", V1.name, NEWER),
    2.4: report("new", False),
    3.0: prepare({"a": "gpu-1"}),
    4.0: replace(BROKEN, process="updated"),
    4.2: report("new", True),
    5.0: SlicesListed((resource_slice(),)),
    6.0: SignalSent("updated", "SIGTERM"),
    6.1: StreamClosed(DRIVER, "", "old", "UNAVAILABLE", OLDER, "UNAVAILABLE"),
    6.5: ProcessExited("updated", 1, 0, 0, ()),
    6.6: SocketsListed("updated", "ended", ("reg-2.sock",), (NEWER,)),
    6.7: CdiSpecsRead((CdiSpec("gpu.json", "", tuple(map(cdi, DEVICES))),)),
    9.0: report("new", True),
    9.1: SlicesListed((resource_slice(),)),
    9.2: prepare({"a": "gpu-1"}),
    9.3: unprepare("a"),
    10.0: replace(CLEARED, process="updated"),
    10.2: report("new", False),
    20.0: report("new", False),
    21.0: StreamClosed(DRIVER, "", "new", OURS, NEWER, "CANCELLED"),
}
"""Two right instances: the second one registers at 2 s, a device breaks at 4 s, and the first one ends at 6.5 s."""

QUIET: dict[float, Event | None] = {4.0: None, 4.2: None, 9.0: report("new", False), 10.0: None}
"""The changes of a run without a fault."""


def verdicts(changes: Mapping[float, Event | None], *, until: float = 99) -> dict[str, Verdict]:
    run = {at: event for at, event in {**RUN, **changes}.items() if event is not None and at <= until}
    evidence = evidence_at(*((at, "rolling-update", event) for at, event in run.items()))
    return {name: CHECKS[name].judge(evidence).verdict for name in ALL}


def test_two_right_instances_pass() -> None:
    assert verdicts({}) == dict.fromkeys(ALL, PASS)


def test_run_that_ends_early_is_not_tested() -> None:
    assert verdicts({}, until=0.7) == dict.fromkeys(ALL, NOT_TESTED)
    assert verdicts({}, until=2.4) == dict.fromkeys(ALL, NOT_TESTED)


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        (BOTH, {2.0: call(GET_INFO.path, "reg-1.sock", **{**INFO, "endpoint": NEWER}), 6.6: None}),
        (BOTH, {2.0: call(GET_INFO.path, "reg-2.sock", **{**INFO, "endpoint": OLDER})}),
        (BOTH, {2.0: call(GET_INFO.path, "reg-2.sock", **{**INFO, "endpoint": NEWER, "name": "other"})}),
        (BOTH, {2.1: replace(call(NOTIFY_REGISTRATION.path, "reg-2.sock"), code="INTERNAL", response=None)}),
        (BOTH, {2.2: replace(call(PREPARE["v1.DRAPlugin"].path, OLDER), code="UNAVAILABLE", response=None)}),
        (BOTH, {2.15: ProcessExited("updated", 1, 7, 0, ("bye",)), 6.0: None, 6.5: None}),
        (BOTH, {6.3: SignalSent("updated", "SIGKILL")}),
        (CLAIMS, {3.0: prepare({"a": None})}),
        (CLAIMS, {3.0: prepare({"a": "gpu-2"})}),
        (CLAIMS, {9.2: prepare({"a": None})}),
        (CLAIMS, {9.3: replace(unprepare("a"), response={"claims": {"a": {"error": "unknown claim"}}})}),
        (LEFT, {6.6: SocketsListed("updated", "ended", (), (NEWER,))}),
        (LEFT, {6.7: CdiSpecsRead(())}),
        (LEFT, {9.1: SlicesListed(())}),
        (HEALTH, {2.4: report("new", False, "gpu-0", "gpu-1")}),
        (HEALTH, {4.2: report("new", False), 9.0: report("new", False)}),
        (HEALTH, {9.0: report("new", False)}),
        (HEALTH, {7.0: StreamClosed(DRIVER, "", "new", "ended by the driver", NEWER, "OK")}),
    ],
)
def test_wrong_instance_is_found_by_its_check_alone(check: str, changes: Mapping[float, Event | None]) -> None:
    found = verdicts(changes)
    assert found[check] is FAIL
    assert FAIL not in {verdict for name, verdict in found.items() if name != check}


@pytest.mark.parametrize(
    "event", [ProcessExited("updated", 2, 1, 0, ()), RegistrationFailed("reg-2.sock", "no socket")]
)
def test_second_instance_that_cannot_be_registered_is_a_failure(event: Event) -> None:
    found = verdicts({2.0: event}, until=2.0)
    assert (found.pop(BOTH), set(found.values())) == (FAIL, {NOT_TESTED})


def test_cdi_specs_before_the_end_do_not_count() -> None:
    assert verdicts({5.5: CdiSpecsRead(())})[LEFT] is PASS


def test_driver_without_a_fault_is_judged_by_its_reports_alone() -> None:
    assert verdicts(QUIET)[HEALTH] is PASS
    assert verdicts({**QUIET, 9.0: None, 10.2: None, 20.0: None})[HEALTH] is NOT_TESTED


def second_stream(end: float, *reports: float) -> dict[float, Event]:
    """Another stream of the second instance, with reports at these times."""
    return {
        2.31: StreamOpened(DRIVER, "", "two", V1.name, NEWER),
        **{at: report("two", 4.2 < at < 10.2) for at in reports},
        end: StreamClosed(DRIVER, "", "two", OURS, NEWER, "CANCELLED"),
    }


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        (second_stream(21.1, 2.41, 4.21, 9.01, 10.21), PASS),
        (second_stream(60.0, 2.41, 4.21, 10.21), FAIL),
        (second_stream(60.0, 2.41, 4.21), FAIL),
        (second_stream(21.1), FAIL),
        (second_stream(21.1, 2.41, 4.21), NOT_TESTED),
        ({**QUIET, **second_stream(21.1, 2.41)}, NOT_TESTED),
        ({**QUIET, **second_stream(60.0, 2.41)}, FAIL),
    ],
    ids=[
        "reports",
        "silent later",
        "silent",
        "no report",
        "ends early",
        "ends early without a fault",
        "silent without a fault",
    ],
)
def test_each_stream_must_report_after_the_end_of_the_first_instance(
    changes: Mapping[float, Event | None], verdict: Verdict
) -> None:
    assert verdicts(changes)[HEALTH] is verdict
