"""Checks of a driver whose API server is down."""

from drahealth.proto.events import ApiServerSwitched, GrpcCall, ProcessExited, ProcessStarted, SlicesListed
from drahealth.proto.services import PREPARE
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.devices import Device, devices_of, is_of, named, published
from drahealth.suites.checking.observed.processes import crashes, is_done
from drahealth.suites.checking.observed.registrations import driver_name, is_served, outcome
from drahealth.suites.checking.observed.streams import served_apis, streams
from drahealth.suites.checking.output_text import exit_text
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed

_NAME = "api-server-down"
_PREPARES = frozenset(method.path for method in PREPARE.values())


def _exit(evidence: Evidence, start: float, end: float) -> Observation[ProcessExited] | None:
    """An exit of the driver between two records."""
    exits = (one for one in evidence.of(ProcessExited, _NAME) if start < one.number < end)
    return next(exits, None)


@check(
    "PLUGIN-16",
    _NAME,
    fix="Do not exit if the API server is down at the start. Try again until the ResourceSlices are published.",
    reads=("slices",),
)
def slices_are_published_when_the_api_server_is_up(evidence: Evidence) -> Finding:
    """A driver that was started without an API server publishes its devices once there is one."""
    switches = list(evidence.of(ApiServerSwitched, _NAME))
    started = next(evidence.of(ProcessStarted, _NAME), None)
    down = next((one for one in switches if not one.what.reachable), None)
    if down is None or started is None or started.number < down.number:
        return not_tested("the driver was not started while its API server was down")
    up = next((one for one in switches if one.what.reachable and one.number > down.number), None)
    driver = driver_name(evidence)
    for one in evidence.of(SlicesListed, _NAME):
        devices: set[Device] = {
            device for found in one.what.slices if is_of(found, driver) for device in devices_of(found)
        }
        if up and one.number > up.number and devices:
            return passed(
                f"published {one.at - up.at:.0f} s after the API server was up: {named(devices)}", up.number, one.number
            )
    again = next((one for one in switches if up and not one.what.reachable and one.number > up.number), None)
    if ended := _exit(evidence, started.number, again.number if again else float("inf")):
        if any(crashes(evidence, "main")):
            return not_tested("the driver exits by itself, even while its API server is up", ended.number)
        return failed("the driver keeps running", exit_text(ended.what), down.number, ended.number)
    if up is None or not is_done(evidence, _NAME):
        return not_tested("the API server was not up long enough", down.number)
    if not published(evidence).ever:
        return not_tested("the driver publishes no device, even while its API server is up", up.number)
    return failed("ResourceSlices within 60 s after the API server is up", "no ResourceSlices", down.number, up.number)


@check(
    "PLUGIN-17",
    _NAME,
    fix="Do not exit when the API server goes down. Answer the kubelet with the data that the driver has.",
    reads=("services",),
)
def driver_answers_while_the_api_server_is_down(evidence: Evidence) -> Finding:
    """GetInfo, prepare without claims and health work after the API server went down."""
    switches = list(evidence.of(ApiServerSwitched, _NAME))
    up = next((one for one in switches if one.what.reachable), None)
    down = next((one for one in switches if up and not one.what.reachable and one.number > up.number), None)
    if up is None or down is None:
        return not_tested("the API server did not go down after it was up")
    end = next((one.number for one in switches if one.what.reachable and one.number > down.number), float("inf"))
    if ended := _exit(evidence, down.number, end):
        return failed("the driver keeps running", exit_text(ended.what), down.number, ended.number)
    calls = [one for one in evidence.of(GrpcCall, _NAME) if down.number < one.number < end]
    for call in calls:
        if call.what.code != "OK" and not (f"/{call.what.method}" in _PREPARES and is_served(call.what)):
            expected = f"{call.what.method} succeeds while the API server is down"
            return failed(expected, outcome(call.what), down.number, call.number)
    served = served_apis(evidence)
    opened = [
        one for one in streams(evidence, _NAME) if one.api.name in served and down.number < one.opened.number < end
    ]
    for one in opened:
        if not one.reports and one.end and is_done(evidence, _NAME):
            expected = "a health report while the API server is down"
            return failed(expected, f"{one} ended without a report", down.number, one.opened.number, one.end.number)
    if not calls:
        return not_tested("the driver was not called while its API server was down", down.number)
    records = [*(call.number for call in calls), *(one.reports[0].number for one in opened if one.reports)]
    return passed("the driver answered while its API server was down", down.number, *records)
