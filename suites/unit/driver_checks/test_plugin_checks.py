"""The checks of the plugin contract: their verdicts on a healthy driver and on wrong drivers."""

from dataclasses import replace
from typing import Any

import pytest

from drahealth.proto.events import (
    CdiSpec,
    CdiSpecsRead,
    ChildrenEnded,
    Event,
    GrpcCall,
    OutputMeasured,
    ProcessExited,
    RegistrationFailed,
    ReportReceived,
    SignalSent,
    SliceChanged,
    SlicesListed,
    SocketsListed,
    StreamOpened,
)
from drahealth.suites.driver_checks.evidence import Observation
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.unit.driver_checks.edits import (
    INFOS,
    NOTIFIES,
    PREPARES,
    UNPREPARES,
    answering,
    calls,
    failing,
    finding,
    of_allocations,
    of_claim,
    of_device,
    slices,
)
from drahealth.suites.unit.driver_checks.evidence_of import HEADER, evidence_at
from drahealth.suites.unit.driver_checks.healthy_run import (
    DEVICES,
    INFO,
    RECORDS,
    Edit,
    cdi,
    healthy_run,
    resource_slice,
    unserved,
    without,
)

REFUSED = "refused-registration"
UNPREPARED_DOWN = "claims-are-unprepared-while-the-api-server-is-down"
CHILDREN, OUTPUT = "children-end-with-the-driver", "output-is-at-most-10-mib-per-minute"
MIB = 2**20
EXIT = ProcessExited("refused", 7, 1, 0, ())
FAIL, PASS, NOT_TESTED = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED
NOT_APPLICABLE, STATIC = Verdict.NOT_APPLICABLE, Verdict.STATIC


def told(**info: object) -> Edit:
    return calls(INFOS, answering(INFO | info), "registration")


def both(*edits: Edit) -> Edit:
    def edit(experiment: str, event: Event) -> Event | None:
        for one in edits:
            changed = one(experiment, event)
            if changed is None:
                return None
            event = changed
        return event

    return edit


def specs(*found: CdiSpec) -> Edit:
    return lambda _, event: CdiSpecsRead(found) if isinstance(event, CdiSpecsRead) else event


def in_place_of(kind: type[Event], event: Event, *experiments: str) -> Edit:
    return lambda where, old: event if isinstance(old, kind) and where in experiments else old


def no_socket(experiment: str, event: Event) -> Event | None:
    if experiment != "registration" or not isinstance(event, GrpcCall):
        return event
    return RegistrationFailed("/run", "no registration socket within 30 s") if event.method in INFOS else None


def no_socket_after_a_restart(experiment: str, event: Event) -> Event | None:
    if experiment != "driver-restart" or not isinstance(event, GrpcCall):
        return event
    return RegistrationFailed("/run", "no registration socket within 30 s") if event.method in INFOS else None


OTHER_NAME = calls(INFOS, answering(INFO | {"name": "other.example.com"}), "driver-restart")


def changed_slice(**device: object) -> dict[str, Any]:
    found = resource_slice()
    found["spec"]["devices"] = [found["spec"]["devices"][0] | device, *found["spec"]["devices"][1:]]
    return found


def rewritten(found: dict[str, Any]) -> Edit:
    """The driver writes a ResourceSlice again at the end of `watch`."""
    lists = [event for _, where, event in RECORDS if where == "slices" and isinstance(event, SlicesListed)]
    return lambda _, event: SliceChanged("MODIFIED", found) if event is lists[-1] else event


def killed(experiment: str, event: Event) -> Event | None:
    return SignalSent("main", "SIGKILL") if experiment == "end" and isinstance(event, ProcessExited) else event


def wrote(size: int, seconds: float, process: str = "main") -> Edit:
    return in_place_of(OutputMeasured, OutputMeasured(process, 1, size, seconds), "end")


def without_devices(call: GrpcCall) -> GrpcCall:
    """The answer has no device for any claim."""
    claims = (call.response or {}).get("claims", {})
    return replace(call, response={"claims": {uid: one | {"devices": []} for uid, one in claims.items()}})


NO_DEVICES = calls(PREPARES, without_devices, "claims")
UNADVERTISED = told(supported_versions=["v1.DRAPlugin"])


def failing_prepare(nth: int) -> Edit:
    return calls(PREPARES, failing(), "claims", nth)


ERROR = {"error": "one claim per call only"}
AGAIN = {"request_names": ["gpu"], "pool_name": "node-a", "device_name": "gpu-1"}


def with_two_cdi_devices(*order: str) -> Edit:
    """The first and the second NodePrepareResources return two CDI devices, in another order."""
    first, second = ({"claims": {"a": {"devices": [AGAIN | {"cdi_device_ids": [*ids]}]}}} for ids in ("xy", order))
    return both(
        calls(PREPARES, answering(first), "claims", 0),
        calls(PREPARES, answering(second), "claims", 1),
    )


ROWS: list[tuple[str, str, Edit, Verdict]] = [
    ("get-info-describes-a-dra-driver", "another type", told(type="CSIPlugin"), FAIL),
    ("get-info-describes-a-dra-driver", "no type", told(type=None), FAIL),
    ("get-info-describes-a-dra-driver", "upper case name", told(name="GPU"), FAIL),
    ("get-info-describes-a-dra-driver", "long name", told(name="a" * 64), FAIL),
    ("get-info-describes-a-dra-driver", "name that is no text", told(name=7), FAIL),
    ("get-info-describes-a-dra-driver", "relative endpoint", told(endpoint="dra.sock"), FAIL),
    ("get-info-describes-a-dra-driver", "no endpoint", told(endpoint=None), PASS),
    ("get-info-describes-a-dra-driver", "redacted endpoint", told(endpoint="{run_dir}/dra.sock"), PASS),
    ("get-info-describes-a-dra-driver", "unknown version", told(supported_versions=["1.0.0"]), FAIL),
    ("get-info-describes-a-dra-driver", "GetInfo fails", calls(INFOS, failing(), "registration"), FAIL),
    ("driver-has-a-registration-socket", "none", no_socket, FAIL),
    ("driver-has-a-registration-socket", "none-after-a-restart", no_socket_after_a_restart, FAIL),
    ("get-info-describes-a-dra-driver", "other-name-after-a-restart", OTHER_NAME, FAIL),
    ("accepted-registration-is-acknowledged", "error", calls(NOTIFIES, failing(), "registration"), FAIL),
    ("accepted-registration-is-acknowledged", "error-later", calls(NOTIFIES, failing(), "reregistration"), FAIL),
    ("accepted-registration-is-acknowledged", "gone", calls(NOTIFIES, failing("UNAVAILABLE"), "reregistration"), PASS),
    ("accepted-registration-is-acknowledged", "no call", calls(NOTIFIES, lambda _: None), NOT_TESTED),
    (
        "advertised-services-are-served",
        "first unserved",
        calls(PREPARES, failing("UNIMPLEMENTED"), "services", 0),
        FAIL,
    ),
    (
        "advertised-services-are-served",
        "second unserved",
        calls(PREPARES, failing("UNIMPLEMENTED"), "services", 1),
        FAIL,
    ),
    ("advertised-services-are-served", "an error is an answer", calls(PREPARES, failing("UNKNOWN"), "services"), PASS),
    ("advertised-services-are-served", "not called", calls(PREPARES, lambda _: None, "services"), NOT_TESTED),
    ("refused-driver-can-be-registered-again", "refusal answered with an error", calls(NOTIFIES, failing()), PASS),
    ("refused-driver-can-be-registered-again", "no answer", calls(INFOS, lambda _: None, REFUSED, 1), FAIL),
    ("refused-driver-can-be-registered-again", "failing", calls(INFOS, failing(), REFUSED, 1), FAIL),
    ("refused-driver-can-be-registered-again", "exit", calls(INFOS, lambda _: EXIT, REFUSED, 1), PASS),
    ("refused-driver-can-be-registered-again", "not refused", calls(NOTIFIES, lambda _: None), NOT_TESTED),
    ("driver-registers-again-at-the-same-socket", "GetInfo fails", calls(INFOS, failing(), "reregistration"), FAIL),
    ("driver-registers-again-at-the-same-socket", "Notify fails", calls(NOTIFIES, failing(), "reregistration"), FAIL),
    (
        "driver-registers-again-at-the-same-socket",
        "Prepare is not answered",
        calls(PREPARES, failing("UNAVAILABLE"), "reregistration"),
        FAIL,
    ),
    (
        "driver-registers-again-at-the-same-socket",
        "an error is an answer to no claims",
        calls(PREPARES, failing("INVALID_ARGUMENT"), "reregistration"),
        PASS,
    ),
    (
        "driver-registers-again-at-the-same-socket",
        "another name",
        calls(INFOS, answering(INFO | {"name": "other"}), "reregistration"),
        FAIL,
    ),
    ("driver-registers-again-at-the-same-socket", "not called", calls(PREPARES, lambda _: None), NOT_TESTED),
    ("second-prepare-returns-the-same-devices", "error", calls(PREPARES, failing(), "claims", 1), FAIL),
    (
        "second-prepare-returns-the-same-devices",
        "nothing",
        calls(PREPARES, answering({"claims": {"a": {}}}), "claims", 1),
        FAIL,
    ),
    ("second-prepare-returns-the-same-devices", "other order of CDI IDs", with_two_cdi_devices("y", "x"), PASS),
    ("second-prepare-returns-the-same-devices", "a CDI ID less", with_two_cdi_devices("x"), FAIL),
    ("second-prepare-returns-the-same-devices", "first fails", calls(PREPARES, failing(), "claims"), NOT_TESTED),
    ("restarted-driver-returns-the-same-devices", "error", calls(PREPARES, failing(), "driver-restart", 1), FAIL),
    (
        "restarted-driver-returns-the-same-devices",
        "first fails",
        calls(PREPARES, failing(), "driver-restart", 0),
        NOT_TESTED,
    ),
    ("second-unprepare-succeeds", "error", calls(UNPREPARES, failing(), "claims", 1), FAIL),
    ("second-unprepare-succeeds", "first fails", calls(UNPREPARES, failing(), "claims", 0), FAIL),
    ("second-unprepare-succeeds", "no result", calls(UNPREPARES, answering({}), "claims", 1), FAIL),
    ("unknown-claim-is-unprepared", "error", calls(UNPREPARES, failing("NOT_FOUND"), "claims", 2), FAIL),
    ("unknown-claim-is-unprepared", "not called", calls(UNPREPARES, lambda _: None), NOT_TESTED),
    ("restarted-driver-unprepares-its-claims", "error", calls(UNPREPARES, failing(), "driver-restart"), FAIL),
    ("each-claim-of-a-call-has-a-result", "no result for one", of_claim("y", PREPARES, lambda _: None), FAIL),
    (
        "each-claim-of-a-call-has-a-result",
        "error for both",
        calls(
            PREPARES, lambda c: replace(c, response={"claims": {"a": {"error": "x"}, "y": {"error": "x"}}}), "claims", 2
        ),
        FAIL,
    ),
    ("each-claim-of-a-call-has-a-result", "error for a call with a bad claim", failing_prepare(2), STATIC),
    ("each-claim-of-a-call-has-a-result", "error for a call with good claims", failing_prepare(4), FAIL),
    ("each-claim-of-a-call-has-a-result", "error for all calls", both(failing_prepare(2), failing_prepare(4)), FAIL),
    ("each-claim-of-a-call-has-a-result", "only the first claim", of_claim("b", PREPARES, lambda _: ERROR), FAIL),
    ("each-claim-of-a-call-has-a-result", "no error", of_claim("y", PREPARES, lambda _: {"devices": []}), STATIC),
    ("each-claim-of-a-call-has-a-result", "none of unprepare", of_claim("b", UNPREPARES, lambda _: None), FAIL),
    ("each-claim-of-a-call-has-a-result", "no prepare", calls(PREPARES, lambda _: None, "claims"), NOT_TESTED),
    ("error-of-a-claim-is-in-its-result", "error for the call", calls(PREPARES, failing(), "claims", 2), FAIL),
    ("error-of-a-claim-is-in-its-result", "none refused", of_claim("y", PREPARES, lambda _: {}), STATIC),
    ("answers-name-allocated-devices", "another device", of_claim("a", PREPARES, of_device(device_name="gpu-0")), FAIL),
    ("answers-name-allocated-devices", "another pool", of_claim("a", PREPARES, of_device(pool_name="x")), FAIL),
    ("answers-name-allocated-devices", "no device name", of_claim("a", PREPARES, of_device(device_name="")), FAIL),
    (
        "answers-name-allocated-devices",
        "another request",
        of_claim("a", PREPARES, of_device(request_names=["x"])),
        FAIL,
    ),
    ("answers-name-allocated-devices", "all requests", of_claim("a", PREPARES, of_device(request_names=[])), PASS),
    ("answers-name-allocated-devices", "request of a subrequest", of_allocations(request="gpu/big"), PASS),
    ("answers-name-allocated-devices", "no devices", NO_DEVICES, NOT_APPLICABLE),
    ("answers-name-allocated-devices", "error", calls(PREPARES, failing()), NOT_TESTED),
    ("all-allocated-devices-are-returned", "none", of_claim("a", PREPARES, lambda _: {"devices": []}), FAIL),
    (
        "all-allocated-devices-are-returned",
        "none, without health",
        both(NO_DEVICES, unserved, UNADVERTISED),
        NOT_APPLICABLE,
    ),
    ("all-allocated-devices-are-returned", "none, advertised health is not served", both(NO_DEVICES, unserved), FAIL),
    ("cdi-device-ids-are-in-a-valid-spec", "no spec", specs(), FAIL),
    (
        "cdi-device-ids-are-in-a-valid-spec",
        "invalid",
        specs(CdiSpec("a", "no kind", ("gpu.example.com/gpu=gpu-1",))),
        FAIL,
    ),
    ("cdi-device-ids-are-in-a-valid-spec", "other devices", specs(CdiSpec("a", "", ("gpu.example.com/gpu=x",))), FAIL),
    ("cdi-device-ids-are-in-a-valid-spec", "not read", without(CdiSpecsRead, "claims"), NOT_TESTED),
    ("published-device-can-be-prepared", "error", calls(PREPARES, failing(), "claims", 0), FAIL),
    ("driver-publishes-its-devices", "another driver", slices(lambda _: resource_slice(driver="x"), "slices"), FAIL),
    ("driver-publishes-its-devices", "none", slices(lambda _: None, "slices"), NOT_APPLICABLE),
    ("slices-do-not-change", "same content", rewritten(resource_slice(pool={"name": "node-a", "generation": 9})), FAIL),
    ("slices-do-not-change", "other attribute", rewritten(changed_slice(attributes={"t": {"int": 7}})), FAIL),
    ("slices-do-not-change", "another device", rewritten(changed_slice(name="gpu-9")), PASS),
    ("slices-do-not-change", "a taint", rewritten(changed_slice(taints=[{"key": "x"}])), PASS),
    ("slices-do-not-change", "not listed", without(SlicesListed, "slices"), NOT_TESTED),
    ("deleted-slice-returns", "never", slices(lambda _: None, "slice-deletion"), FAIL),
    ("deleted-slice-returns", "in part", slices(lambda _: resource_slice("gpu-0"), "slice-deletion"), FAIL),
    ("deleted-slice-returns", "not deleted", without(SliceChanged, "slice-deletion"), NOT_TESTED),
    ("slices-are-published-when-the-api-server-is-up", "never", without(SlicesListed, "api-server-down"), FAIL),
    (
        "slices-are-published-when-the-api-server-is-up",
        "exit",
        in_place_of(SlicesListed, ProcessExited("cut-off", 4, 1, 0, ("no API server",)), "api-server-down"),
        FAIL,
    ),
    (
        "driver-answers-while-the-api-server-is-down",
        "GetInfo fails",
        calls(INFOS, failing(), "api-server-down", 1),
        FAIL,
    ),
    (
        "driver-answers-while-the-api-server-is-down",
        "Prepare is not answered",
        calls(PREPARES, failing("UNAVAILABLE"), "api-server-down"),
        FAIL,
    ),
    (
        "driver-answers-while-the-api-server-is-down",
        "an error is an answer to no claims",
        calls(PREPARES, failing("INVALID_ARGUMENT"), "api-server-down"),
        PASS,
    ),
    ("driver-answers-while-the-api-server-is-down", "no health", without(ReportReceived, "api-server-down"), FAIL),
    (
        "driver-answers-while-the-api-server-is-down",
        "no result",
        calls(UNPREPARES, answering({"claims": {}}), "api-server-down", 0),
        FAIL,
    ),
    (
        "driver-answers-while-the-api-server-is-down",
        "no registration socket",
        calls(NOTIFIES, lambda _: RegistrationFailed("/run", "no socket"), "api-server-down", 1),
        FAIL,
    ),
    (UNPREPARED_DOWN, "unprepare fails", calls(UNPREPARES, failing(), "api-server-down", 0), FAIL),
    (UNPREPARED_DOWN, "unprepare fails later", calls(UNPREPARES, failing(), "api-server-down", 1), PASS),
    (UNPREPARED_DOWN, "no claim", calls(UNPREPARES, lambda _: None, "api-server-down"), NOT_TESTED),
    (
        "published-device-can-be-prepared",
        "the device stays prepared",
        calls(PREPARES, failing(), "api-server-down", 2),
        FAIL,
    ),
    (
        "driver-registers-again-at-the-same-socket",
        "not while a claim is prepared",
        calls(NOTIFIES, failing(), "slow-prepare"),
        FAIL,
    ),
    (
        "driver-ends-without-sockets",
        "killed without an API server",
        in_place_of(ProcessExited, SignalSent("cut-off", "SIGKILL"), "api-server-down"),
        FAIL,
    ),
    (
        "driver-ends-without-sockets",
        "not ended without an API server",
        without(SignalSent, "api-server-down"),
        PASS,
    ),
    (
        "driver-answers-while-the-api-server-is-down",
        "exit",
        in_place_of(StreamOpened, ProcessExited("cut-off", 4, 1, 0, ()), "api-server-down"),
        FAIL,
    ),
    (
        "driver-ends-without-sockets",
        "plugin socket",
        in_place_of(SocketsListed, SocketsListed("main", "ended", (), ("dra.sock",)), "end"),
        FAIL,
    ),
    ("driver-ends-without-sockets", "killed", killed, FAIL),
    ("driver-ends-without-sockets", "no exit", without(ProcessExited, "end"), NOT_TESTED),
    (CHILDREN, "a child remains", in_place_of(ChildrenEnded, ChildrenEnded("main", 1, 1), "end"), FAIL),
    (CHILDREN, "killed", both(killed, without(ChildrenEnded, "end")), NOT_TESTED),
    (OUTPUT, "not measured", without(OutputMeasured, "end"), NOT_TESTED),
    (OUTPUT, "10 MiB", wrote(10 * MIB, 1.0), PASS),
    (OUTPUT, "more than 10 MiB", wrote(10 * MIB + 1, 59.0), FAIL),
    (OUTPUT, "less in each minute", wrote(29 * MIB, 180.0), PASS),
    (OUTPUT, "a flood in another process", wrote(11 * MIB, 8.0, "refused"), FAIL),
    ("device-of-another-claim-is-refused", "no error", of_claim("t", PREPARES, lambda _: {}), FAIL),
    (
        "device-of-another-claim-is-refused",
        "admin access",
        both(of_allocations(adminAccess=True), of_claim("t", PREPARES, lambda _: {})),
        NOT_APPLICABLE,
    ),
    ("device-of-another-claim-is-refused", "refused, whatever the access", of_allocations(adminAccess=False), PASS),
]


@pytest.mark.parametrize(
    ("check", "edit", "verdict"), [(c, e, v) for c, _, e, v in ROWS], ids=[f"{c}: {s}" for c, s, _, _ in ROWS]
)
def test_plugin_contract_check_gives_the_expected_verdict(check: str, edit: Edit, verdict: Verdict) -> None:
    assert finding(check, edit).verdict is verdict


def test_device_that_allows_multiple_allocations_may_be_shared() -> None:
    shared = [{"name": name, "allowMultipleAllocations": True} for name in ("gpu-0", "gpu-1", "gpu-2")]
    edit = both(
        slices(lambda _: resource_slice(devices=shared), "slices"),
        of_claim("t", PREPARES, lambda _: {}),
    )
    assert finding("device-of-another-claim-is-refused", edit).verdict is NOT_APPLICABLE


@pytest.mark.parametrize(("kept", "verdict"), [("gpu-1", FAIL), ("gpu-2", FAIL), (None, PASS)])
def test_cdi_devices_of_all_prepared_claims_are_defined(kept: str | None, verdict: Verdict) -> None:
    """The CDI directory is read again while claims a and b are prepared."""
    names = tuple(map(cdi, DEVICES)) if kept is None else (cdi(kept),)
    read = (10.6, "claims", CdiSpecsRead((CdiSpec("gpu.json", "", names),)))
    evidence = evidence_at(*RECORDS, read, header=HEADER)
    assert finding("cdi-device-ids-are-in-a-valid-spec", evidence).verdict is verdict


GONE = RegistrationFailed("/var/lib/kubelet/plugins_registry/gpu.sock", "the registration socket no longer exists")
LISTED = SlicesListed((resource_slice(),))


@pytest.mark.parametrize(
    ("check", "events", "verdict"),
    [
        ("driver-registers-again-at-the-same-socket", (GONE,), FAIL),
        ("slices-do-not-change", (LISTED, SlicesListed(())), FAIL),
        ("slices-do-not-change", (LISTED, LISTED), PASS),
    ],
)
def test_driver_without_a_subscriber_keeps_its_socket_and_its_slices(
    check: str, events: tuple[Event, ...], verdict: Verdict
) -> None:
    evidence = evidence_at(*RECORDS, *((60.0, "idle", event) for event in events), header=HEADER)
    assert finding(check, evidence).verdict is verdict


def whole(record: Observation[GrpcCall]) -> Observation[Event]:
    return Observation(record.number, record.at, record.experiment, record.what)


def test_other_plugins_in_the_registration_directory_are_not_judged() -> None:
    evidence = healthy_run()
    described = next(evidence.of(GrpcCall, "registration"))
    other = replace(
        described, number=999, what=replace(described.what, endpoint="/run/other", response={"type": "CSIPlugin"})
    )
    found = finding("get-info-describes-a-dra-driver", replace(evidence, records=(whole(other), *evidence.records)))
    assert (found.verdict, found.records) == (PASS, (described.number,))


def test_get_info_may_fail_until_the_server_is_ready() -> None:
    evidence = healthy_run()
    described = next(evidence.of(GrpcCall, "registration"))
    failed = replace(described, number=999, what=replace(described.what, code="UNAVAILABLE", response=None))
    edited = replace(evidence, records=(whole(failed), *evidence.records))
    assert finding("get-info-describes-a-dra-driver", edited).verdict is PASS


def test_missing_socket_of_a_running_driver_is_not_tested() -> None:
    running = healthy_run(no_socket, started=False)
    assert finding("driver-has-a-registration-socket", running).verdict is NOT_TESTED


def test_driver_without_cdi_devices_needs_no_spec() -> None:
    edit = calls(PREPARES, without_cdi, "claims")
    assert finding("cdi-device-ids-are-in-a-valid-spec", edit).verdict is NOT_APPLICABLE


def without_cdi(call: GrpcCall) -> GrpcCall:
    answers = (call.response or {}).get("claims", {})
    bare = {
        uid: result | {"devices": [one | {"cdi_device_ids": []} for one in result.get("devices", [])]}
        for uid, result in answers.items()
    }
    return replace(call, response={"claims": bare})


@pytest.mark.parametrize("experiment", ["watch", "claims", "driver-restart"])
def test_exit_without_a_signal_is_a_failure(experiment: str) -> None:
    process = "restarted" if experiment == "driver-restart" else "main"
    crash = ProcessExited(process, 1, 2, 0, ("panic: no device",))
    kind = GrpcCall if experiment != "watch" else StreamOpened
    edit = in_place_of(kind, crash, experiment)
    assert finding("driver-runs-until-it-is-stopped", edit).verdict is FAIL


def test_kill_at_the_end_of_a_run_is_no_failure() -> None:
    evidence = healthy_run()
    last = replace(evidence.records[-1], what=ProcessExited("main", 1, -9, 0, ()), number=999)
    found = finding("driver-runs-until-it-is-stopped", replace(evidence, records=(*evidence.records, last)))
    assert found.verdict is PASS


def test_finding_of_a_failure_has_expected_and_seen_devices() -> None:
    found = finding("answers-name-allocated-devices", of_claim("a", PREPARES, of_device(device_name="gpu-0")))
    assert (found.expected, found.seen) == ("devices of the allocation: node-a/gpu-1", "device node-a/gpu-0")
