"""The checks of health: their verdicts on a healthy driver and on wrong drivers."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from drahealth.proto.events import (
    ClaimReadHeld,
    Event,
    GrpcCall,
    MalformedReceived,
    ProcessExited,
    ProcessStarted,
    ReportReceived,
    SignalSent,
    SlicesListed,
    StreamClosed,
    StreamOpened,
    Undecoded,
)
from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH, HealthApi
from drahealth.proto.services import GET_INFO, PREPARE
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.observed_health import OURS
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.unit.driver_checks.edits import (
    INFOS,
    PREPARES,
    answering,
    calls,
    device,
    devices,
    finding,
    of_claim,
    of_device,
    reports,
)
from drahealth.suites.unit.driver_checks.evidence_of import evidence_at
from drahealth.suites.unit.driver_checks.healthy_run import (
    INFO,
    RECORDS,
    Edit,
    healthy_run,
    prepare,
    unprepare,
    unserved,
    without,
)

FAIL, PASS, NOT_TESTED = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED
NOT_APPLICABLE, STATIC = Verdict.NOT_APPLICABLE, Verdict.STATIC
V1, ALPHA, NODE, DRAFT = "w0", "w1", "w2", "w3"
"""The streams of `watch`."""
AGAIN = "again"
"""The stream after the second registration of another process."""
WATCHED = {
    id_: [event for _, _, event in RECORDS if isinstance(event, ReportReceived) and event.stream == id_]
    for id_ in (V1, ALPHA, NODE, DRAFT, "one", "two", AGAIN)
}


def later(id_: str, change: Callable[[ReportReceived], ReportReceived | None], first: int = 1) -> Edit:
    """Changes the reports of a stream from the second one on."""
    return lambda _, event: change(event) if any(event is one for one in WATCHED[id_][first:]) else event  # type: ignore[arg-type]


def nth(id_: str, number: int, change: Callable[[ReportReceived], ReportReceived | None]) -> Edit:
    """Changes one report of a stream."""
    return lambda _, event: change(event) if event is WATCHED[id_][number] else event


def drop(_: object) -> None:
    return None


def empty(report: ReportReceived) -> ReportReceived:
    return replace(report, devices=())


def partial(report: ReportReceived) -> ReportReceived:
    return replace(report, devices=report.devices[:1])


def saying(**fields: object) -> Callable[[DeviceHealth], DeviceHealth]:
    return lambda one: replace(one, **fields)  # type: ignore[arg-type]


def closing(id_: str, code: str, why: str = "", at_open: bool = False) -> Edit:
    """A stream ends by itself: with another code, or without any report."""

    def edit(_: str, event: Event) -> Event | None:
        if isinstance(event, StreamClosed) and event.stream == id_:
            return replace(event, code=code, why=why)
        return None if at_open and isinstance(event, ReportReceived) and event.stream == id_ else event

    return edit


def malformed(id_: str) -> Edit:
    return lambda _, event: (
        MalformedReceived("gpu.example.com", "", id_, 9, "ff")
        if isinstance(event, ReportReceived) and event.stream == id_
        else event
    )


def undecoded(**fields: object) -> Callable[[ReportReceived], ReportReceived]:
    return lambda report: replace(report, undecoded=(Undecoded(0, fields),))


def beating(report: ReportReceived) -> ReportReceived:
    """Each report has another message."""
    return replace(report, devices=tuple(replace(one, message=f"at {one.updated}") for one in report.devices))


def not_advertised(_: str, event: Event) -> Event:
    bare = answering(INFO | {"supported_versions": [*PREPARE]})
    return bare(event) if isinstance(event, GrpcCall) and event.method in INFOS else event


def both(one: Edit, other: Edit) -> Edit:
    def edit(experiment: str, event: Event) -> Event | None:
        changed = one(experiment, event)
        return other(experiment, changed) if changed else None

    return edit


def missing(id_: str, *numbers: int) -> Edit:
    """Some reports of a stream are lost."""
    return lambda _, event: None if any(event is WATCHED[id_][number] for number in numbers) else event


def unheld(_: str, event: Event) -> Event | None:
    return None if isinstance(event, ReportReceived) and event.stream == "slow" else event


ROWS: list[tuple[str, str, Edit, Verdict]] = [
    ("advertised-health-streams-or-is-unimplemented", "Unimplemented", unserved, PASS),
    ("advertised-health-streams-or-is-unimplemented", "ends", closing("s0", "INTERNAL", at_open=True), FAIL),
    ("advertised-health-streams-or-is-unimplemented", "malformed", malformed("s0"), FAIL),
    ("advertised-health-streams-or-is-unimplemented", "not called", without(StreamOpened, "services"), NOT_TESTED),
    (
        "newest-kubelet-gets-the-health",
        "only the older API is served",
        closing("s0", "UNIMPLEMENTED", at_open=True),
        FAIL,
    ),
    ("newest-kubelet-gets-the-health", "none is advertised", not_advertised, FAIL),
    ("newest-kubelet-gets-the-health", "not called", without(StreamOpened, "services"), NOT_TESTED),
    ("first-report-is-prompt", "none", reports(drop, V1), FAIL),
    ("first-report-is-prompt", "late", nth(V1, 0, drop), FAIL),
    ("first-report-lists-published-devices", "empty", nth(V1, 0, empty), FAIL),
    ("first-report-lists-published-devices", "partial", nth(ALPHA, 0, partial), FAIL),
    ("first-report-lists-published-devices", "later partial", later(V1, partial), PASS),
    ("first-report-lists-published-devices", "no slices", without(SlicesListed, "slices"), NOT_TESTED),
    ("draft-reports-list-prepared-devices", "partial", reports(partial, "prepared"), FAIL),
    ("draft-reports-list-prepared-devices", "no claims", calls(PREPARES, drop, "claims"), NOT_TESTED),
    ("draft-reports-list-prepared-devices", "silent", reports(drop, DRAFT, "prepared"), STATIC),
    ("required-fields-are-valid", "no device name", device("gpu-0", saying(device="")), FAIL),
    ("required-fields-are-valid", "no pool", device("gpu-0", saying(pool="")), FAIL),
    ("required-fields-are-valid", "upper case", device("gpu-0", saying(device="GPU-0")), FAIL),
    ("required-fields-are-valid", "long name", device("gpu-0", saying(device="a" * 64)), FAIL),
    ("required-fields-are-valid", "pool with slashes", devices(saying(pool="rack-1/node-a")), PASS),
    ("required-fields-are-valid", "pool with spaces", devices(saying(pool="node a")), FAIL),
    ("required-fields-are-valid", "health 7", later(V1, undecoded(health=7)), FAIL),
    ("required-fields-are-valid", "unknown field", later(V1, undecoded(health=1, unknown=[[9, 0, 1]])), PASS),
    ("required-fields-are-valid", "health in lower case", later(NODE, undecoded(health_status="healthy")), FAIL),
    ("required-fields-are-valid", "no health", later(DRAFT, undecoded(device_name="gpu-0")), FAIL),
    ("required-fields-are-valid", "health that is a list", later(NODE, undecoded(health_status=["x"])), FAIL),
    ("required-fields-are-valid", "malformed", malformed(V1), FAIL),
    (
        "required-fields-are-valid",
        "a new name",
        later(V1, lambda r: replace(r, devices=(replace(r.devices[0], device="gpu-0-b"),))),
        FAIL,
    ),
    (
        "timestamps-are-plausible",
        "milliseconds",
        devices(lambda one: replace(one, updated=one.updated * 1000), V1),
        FAIL,
    ),
    ("timestamps-are-plausible", "future", devices(lambda one: replace(one, updated=one.updated + 60), V1), FAIL),
    (
        "timestamps-are-plausible",
        "an hour ago",
        devices(lambda one: replace(one, updated=one.updated - 3600), V1),
        PASS,
    ),
    ("timestamps-are-plausible", "seconds since the start of the machine", devices(saying(updated=5000), V1), FAIL),
    (
        "timestamps-are-plausible",
        "backwards",
        later(V1, lambda r: replace(r, devices=tuple(replace(one, updated=one.updated - 30) for one in r.devices))),
        FAIL,
    ),
    ("timestamps-are-plausible", "negative", devices(saying(updated=-1), V1), FAIL),
    ("timestamps-are-plausible", "unknown in the released APIs", devices(saying(updated=0), V1, ALPHA), PASS),
    ("timestamps-are-plausible", "required in the KEP", devices(saying(updated=0), NODE), FAIL),
    ("devices-are-refreshed-within-their-timeout", "never again", later(V1, drop), FAIL),
    ("devices-are-refreshed-within-their-timeout", "one of them", later(V1, partial), FAIL),
    ("devices-are-refreshed-within-their-timeout", "shorter timeout", devices(saying(timeout=4)), FAIL),
    ("devices-are-refreshed-within-their-timeout", "default timeout", devices(saying(timeout=0)), PASS),
    ("devices-are-refreshed-within-their-timeout", "last one missing", later(V1, drop, 1), FAIL),
    (
        "devices-are-refreshed-within-their-timeout",
        "long timeout",
        both(later(V1, drop), devices(saying(timeout=600))),
        NOT_TESTED,
    ),
    ("devices-are-refreshed-within-their-timeout", "silent later", later(V1, drop, 2), NOT_TESTED),
    ("devices-are-refreshed-within-their-timeout", "one of them silent later", later(NODE, partial, 2), NOT_TESTED),
    ("devices-are-refreshed-within-their-timeout", "silent for a subscriber", later("two", drop), FAIL),
    ("devices-are-refreshed-within-their-timeout", "silent for one later", later("two", drop, 2), NOT_TESTED),
    ("devices-are-refreshed-within-their-timeout", "silent after registration", later(AGAIN, drop), FAIL),
    ("devices-are-refreshed-within-their-timeout", "one silent after registration", later(AGAIN, partial), FAIL),
    ("first-report-is-prompt", "no report after registration", later(AGAIN, drop, 0), FAIL),
    ("first-report-lists-published-devices", "part after registration", nth(AGAIN, 0, partial), FAIL),
    ("devices-are-refreshed-within-their-timeout", "prepared devices only", later(DRAFT, drop), PASS),
    ("devices-are-refreshed-within-their-timeout", "negative timeout", devices(saying(timeout=-1)), PASS),
    (
        "devices-are-refreshed-within-their-timeout",
        "a timeout that becomes shorter",
        nth(V1, 5, lambda r: replace(r, devices=tuple(replace(one, timeout=1) for one in r.devices))),
        FAIL,
    ),
    (
        "devices-are-refreshed-within-their-timeout",
        "ended by the driver before the timeout",
        both(later(V1, drop, 3), closing(V1, "OK")),
        NOT_TESTED,
    ),
    ("devices-are-refreshed-within-half-their-timeout", "every 6 s", devices(saying(timeout=8)), FAIL),
    ("health-apis-agree", "always Unhealthy", devices(saying(health=Health.UNHEALTHY), ALPHA), FAIL),
    ("health-apis-agree", "change is not seen", devices(saying(health=Health.HEALTHY), ALPHA), FAIL),
    ("health-apis-agree", "another message", devices(saying(message="x"), ALPHA), FAIL),
    ("health-apis-agree", "no message in the KEP's API", devices(saying(message=""), NODE), PASS),
    ("health-apis-agree", "a device less", device("gpu-2", drop, ALPHA), FAIL),
    ("health-apis-agree", "nothing compared", reports(drop, ALPHA, NODE, DRAFT), NOT_TESTED),
    ("messages-have-at-most-1024-bytes", "1025 bytes", device("gpu-1", saying(message="x" * 1025)), FAIL),
    (
        "messages-have-at-most-1024-bytes",
        "1026 bytes of 513 characters",
        device("gpu-1", saying(message="é" * 513)),
        FAIL,
    ),
    ("messages-have-at-most-1024-bytes", "1024 bytes", device("gpu-1", saying(message="é" * 512)), PASS),
    ("messages-have-at-most-1024-bytes", "none", devices(saying(message="")), STATIC),
    ("all-subscribers-receive-all-reports", "one is starved", later("two", drop, 1), FAIL),
    (
        "all-subscribers-receive-all-reports",
        "one misses a change",
        both(nth("two", 3, drop), nth("two", 4, drop)),
        FAIL,
    ),
    (
        "all-subscribers-receive-all-reports",
        "one lists some devices once, and the other never",
        lambda _, event: (
            partial(event) if isinstance(event, ReportReceived) and event is not WATCHED["two"][0] else event
        ),
        PASS,
    ),
    ("all-subscribers-receive-all-reports", "one misses half of the reports", missing("two", 2, 4, 5, 7), FAIL),
    ("all-subscribers-receive-all-reports", "one misses two reports", missing("two", 2, 6), PASS),
    ("all-subscribers-receive-all-reports", "one is stale", devices(saying(health=Health.HEALTHY), "two"), FAIL),
    ("all-subscribers-receive-all-reports", "no change", devices(saying(health=Health.HEALTHY, message="")), STATIC),
    (
        "all-subscribers-receive-all-reports",
        "one ended",
        both(closing("two", "OK"), both(closing("one", "OK"), closing(V1, "OK"))),
        NOT_TESTED,
    ),
    ("new-stream-starts-with-all-devices", "partial", reports(partial, "four"), FAIL),
    ("new-stream-starts-with-all-devices", "empty", reports(empty, "four"), FAIL),
    ("new-stream-starts-with-all-devices", "ends", closing("four", "UNAVAILABLE", at_open=True), FAIL),
    ("new-stream-starts-with-all-devices", "no devices", reports(empty), NOT_TESTED),
    ("all-subscribers-receive-all-reports", "no devices", reports(empty), NOT_TESTED),
    ("new-stream-starts-with-all-devices", "not opened again", without(StreamOpened, "subscribers"), NOT_TESTED),
    ("health-is-reported-while-prepare-is-pending", "not held", without(ClaimReadHeld, "slow-prepare"), NOT_TESTED),
    ("health-is-reported-while-prepare-is-pending", "cancelled early", unheld, NOT_TESTED),
    (
        "health-is-reported-while-prepare-is-pending",
        "not pending",
        calls(PREPARES, lambda c: replace(c, seconds=0.01), "slow-prepare"),
        NOT_TESTED,
    ),
    ("streams-stay-open", "ends with OK", closing(V1, "OK"), FAIL),
    ("streams-stay-open", "a subscriber ends", closing("one", "INTERNAL", "panic"), FAIL),
    ("streams-stay-open", "not closed", without(StreamClosed, "watch"), NOT_TESTED),
    ("messages-are-stable", "another one in each report", reports(beating, V1), FAIL),
    (
        "messages-are-stable",
        "a second cause",
        nth(V1, 3, lambda r: replace(r, devices=tuple(replace(one, message="XID 48") for one in r.devices))),
        PASS,
    ),
    (
        "messages-are-stable",
        "one report",
        reports(lambda r: r if any(r is one for id_ in WATCHED for one in WATCHED[id_][:1]) else None),
        STATIC,
    ),
    ("served-health-is-advertised", "not advertised", not_advertised, FAIL),
    ("first-cdi-device-id-is-unique", "shared", calls(PREPARES, lambda c: c), PASS),
    ("first-cdi-device-id-is-unique", "not prepared", calls(PREPARES, drop, "claims"), NOT_TESTED),
    ("node-health-reports-list-all-devices", "partial", later(NODE, partial), FAIL),
    ("node-health-reports-list-all-devices", "no devices", reports(empty), STATIC),
    ("node-health-reports-list-all-devices", "one report", later(NODE, drop), STATIC),
]


@pytest.mark.parametrize(
    ("check", "edit", "verdict"), [(c, e, v) for c, _, e, v in ROWS], ids=[f"{c}: {s}" for c, s, _, _ in ROWS]
)
def test_health_check_gives_the_expected_verdict(check: str, edit: Edit, verdict: Verdict) -> None:
    assert finding(check, edit).verdict is verdict


HEALTH_CHECKS = [name for name, check in CHECKS.items() if check.requirement.startswith("HEALTH-")]


@pytest.mark.parametrize("check", HEALTH_CHECKS)
def test_health_is_not_applicable_to_a_driver_without_it(check: str) -> None:
    found = finding(check, both(unserved, not_advertised))
    assert (found.verdict, len(found.records)) == (NOT_APPLICABLE, 1 + len(HEALTH_APIS))


@pytest.mark.parametrize("check", [name for name in HEALTH_CHECKS if "unimplemented" not in name])
def test_health_that_is_advertised_and_unimplemented_is_not_applicable(check: str) -> None:
    assert finding(check, unserved).verdict is NOT_APPLICABLE


def test_first_report_may_list_unpublished_devices() -> None:
    more = DeviceHealth("node-a", "gpu-9", Health.HEALTHY)
    found = finding("first-report-lists-published-devices", reports(lambda r: replace(r, devices=(*r.devices, more))))
    assert (found.verdict, "node-a/gpu-9" in found.seen) == (PASS, True)


def test_driver_with_one_health_api_cannot_disagree() -> None:
    def only_v1(_: str, event: Event) -> Event | None:
        opened = isinstance(event, StreamOpened) and event.health_api != "v1.DRAResourceHealth"
        return None if opened else event

    assert finding("health-apis-agree", only_v1).verdict is NOT_APPLICABLE


def test_device_that_is_no_longer_published_needs_no_refresh() -> None:
    def fewer(experiment: str, event: Event) -> Event | None:
        if isinstance(event, SlicesListed) and experiment == "slices":
            two = [one for one in event.slices[0]["spec"]["devices"] if one["name"] != "gpu-2"]
            return SlicesListed(({**event.slices[0], "spec": event.slices[0]["spec"] | {"devices": two}},))
        return event

    gone = later(V1, lambda r: replace(r, devices=tuple(one for one in r.devices if one.device != "gpu-2")))
    assert finding("devices-are-refreshed-within-their-timeout", both(gone, fewer)).verdict is PASS


def test_finding_names_the_device_hidden_by_a_shared_cdi_id() -> None:
    edit = of_claim("b", PREPARES, of_device(cdi_device_ids=["gpu.example.com/gpu=gpu-1"]))
    found = finding("first-cdi-device-id-is-unique", edit)
    assert (found.verdict, found.seen.partition(": ")[2]) == (
        FAIL,
        "kubelets up to 1.37 show only node-a/gpu-1, and not node-a/gpu-2",
    )


@pytest.mark.parametrize(
    ("names", "verdict"), [(("gpu-1", "gpu-2"), PASS), (("gpu-2",), FAIL), (("gpu-1",), STATIC), ((), STATIC)]
)
def test_draft_report_with_a_new_device_lists_those_prepared_before(names: tuple[str, ...], verdict: Verdict) -> None:
    """A report with only the older device, or none, may have been made before the second call."""
    api = HEALTH_APIS["v1alpha1.NodeHealth/WatchDevicesStatus"]
    listed = tuple(DeviceHealth("node-a", name, Health.HEALTHY) for name in names)
    events: list[tuple[float, str, Event]] = [
        (1.0, "services", StreamOpened("gpu.example.com", "", "s", api.name)),
        (1.1, "services", StreamClosed("gpu.example.com", "", "s", OURS, "", "CANCELLED")),
        (4.0, "watch", StreamOpened("gpu.example.com", "", "w", api.name)),
        (5.98, "claims", prepare({"a": "gpu-1"})),
        (6.0, "claims", prepare({"b": "gpu-2"})),
        (6.05, "watch", ReportReceived("gpu.example.com", "", "w", 9, listed)),
        (6.1, "claims", unprepare("a", "b")),
    ]
    assert finding("draft-reports-list-prepared-devices", evidence_at(*events)).verdict is verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(5.5, PASS), (6.5, FAIL)])
def test_first_report_has_a_second_for_our_own_delay(seconds: float, verdict: Verdict) -> None:
    opened = next(one.at for one in healthy_run().records if getattr(one.what, "stream", "") == "four")
    records = [
        replace(one, at=opened + seconds) if getattr(one.what, "stream", "") == "four" and one.at > opened else one
        for one in healthy_run().records
    ]
    evidence = replace(healthy_run(), records=tuple(records))
    assert finding("new-stream-starts-with-all-devices", evidence).verdict is verdict


def test_stream_that_waits_for_prepare_is_a_failure() -> None:
    """The stream stays without a report for 6 s, until the claim is released."""
    times = {13.0: 7.0, 13.1: 7.1, 13.3: 7.3}
    records = healthy_run(unheld).records
    moved = [replace(one, at=times.get(one.at, one.at)) if one.experiment == "slow-prepare" else one for one in records]
    slow = [
        replace(one, what=replace(one.what, seconds=6.0)) if isinstance(one.what, GrpcCall) and one.at == 14.1 else one
        for one in moved
    ]
    evidence = replace(healthy_run(), records=tuple(slow))
    assert finding("health-is-reported-while-prepare-is-pending", evidence).verdict is FAIL


def test_health_apis_that_report_seconds_apart_agree() -> None:
    """A driver that polls shows a change on one stream seconds later."""
    late = reports(lambda r: None if any(r is one for one in (WATCHED[ALPHA][3], WATCHED["two"][3])) else r)
    assert finding("health-apis-agree", late).verdict is PASS


@pytest.mark.parametrize(("until", "verdict"), [(11.9, PASS), (20.0, FAIL)])
def test_draft_stream_counts_while_it_lists_the_device(until: float, verdict: Verdict) -> None:
    """A device becomes healthy at 12 s; the stream of prepared devices does not say so until it lists it no longer."""
    v1, *_, draft = HEALTH_APIS.values()
    was, now = (DeviceHealth("node-a", "gpu-1", health, updated=1) for health in (Health.UNHEALTHY, Health.HEALTHY))
    events: list[tuple[float, str, Event]] = [
        (1.0, "watch", StreamOpened("gpu.example.com", "", "v", v1.name)),
        (1.0, "watch", StreamOpened("gpu.example.com", "", "d", draft.name)),
    ]
    for at in (1.1, 11.8, 11.82, 12.0, 14.0, 16.0, 18.0):
        prepared = (was,) if 11.5 < at < until else ()
        events.append((at, "watch", ReportReceived("gpu.example.com", "", "v", 9, (was if at < 12 else now,))))
        events.append((at, "watch", ReportReceived("gpu.example.com", "", "d", 9, prepared)))
    assert finding("health-apis-agree", evidence_at(*events)).verdict is verdict


_TENTHS = (12.1, 14.1, 16.1, 18.1, 20.1, 22.1)


@pytest.mark.parametrize(("told", "verdict"), [(12.1, PASS), (20.0, FAIL)])
def test_device_may_break_while_a_claim_with_it_is_prepared(told: float, verdict: Verdict) -> None:
    """The stream of prepared devices lists it at 12.0005 s with the health of just before, and corrects it."""
    v1, *_, draft = HEALTH_APIS.values()
    was, now = (DeviceHealth("node-a", "gpu-1", health, updated=1) for health in (Health.HEALTHY, Health.UNHEALTHY))
    events: list[tuple[float, str, Event]] = [
        (1.0, "watch", StreamOpened("gpu.example.com", "", "v", v1.name)),
        (1.0, "watch", StreamOpened("gpu.example.com", "", "d", draft.name)),
    ]
    for stream, times, changed in (("v", (1.1, *range(12, 23, 2)), 12), ("d", (12.0005, *_TENTHS), told)):
        said = ((at, ReportReceived("gpu.example.com", "", stream, 9, (was if at < changed else now,))) for at in times)
        events += [(at, "watch", report) for at, report in said]
    assert finding("health-apis-agree", evidence_at(*sorted(events, key=lambda one: one[0]))).verdict is verdict


SIGTERM = SignalSent("main", "SIGTERM")
CRASH = ProcessExited("main", 1, 3, 0, ("panic",))
STOP = SignalSent("main", "SIGSTOP")
OF_OTHERS = SignalSent("restarted", "SIGKILL")
ANSWER = GrpcCall("gpu.example.com", "/run/dra.sock", "v1.DRAPlugin/NodePrepareResources", {}, {}, 0.01)


@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        (((39.1, SIGTERM),), FAIL),
        (((38.95, SIGTERM),), PASS),
        (((38.95, STOP),), FAIL),
        (((38.95, OF_OTHERS),), FAIL),
        (((39.1, CRASH),), PASS),
        (((39.1, ANSWER), (39.2, CRASH)), FAIL),
        (((39.1, SIGTERM), (39.2, CRASH)), FAIL),
    ],
    ids=["before SIGTERM", "after SIGTERM", "stopped", "other process", "exit", "answer and exit", "SIGTERM and exit"],
)
def test_only_a_signal_before_or_an_exit_excuses_the_end_of_a_stream(
    events: tuple[tuple[float, Event], ...], verdict: Verdict
) -> None:
    """The stream ends at 39 s, while three others stay open; no time is too short between an end and its excuse."""
    whole = [one for one in RECORDS if one[1] != "end"]
    ended = [(at, name, edited) for at, name, one in whole if (edited := closing(V1, "UNAVAILABLE")(name, one))]
    evidence = evidence_at(*ended, *((at, "end", event) for at, event in events))
    assert finding("streams-stay-open", evidence).verdict is verdict


def test_stream_of_another_experiment_must_stay_open_too() -> None:
    found = finding("streams-stay-open", closing("slow", "OK", "ended by the driver"))
    assert (found.verdict, "slow-prepare" in found.seen) == (FAIL, True)


def ended(experiment: str, api: HealthApi, code: str, *before: Event) -> Verdict:
    """The verdict if a stream of another experiment ends without a report, after other events."""
    stream: list[Event] = [
        StreamOpened("gpu.example.com", "", "more", api.name),
        StreamClosed("gpu.example.com", "", "more", code, code=code),
    ]
    return finding(
        "streams-stay-open",
        evidence_at(*RECORDS, *((39.5 + n / 100, experiment, one) for n, one in enumerate((*before, *stream)))),
    ).verdict


REGISTERS = GrpcCall("gpu.example.com", "/run/dra.sock", GET_INFO.path.removeprefix("/"), {}, INFO, 0.01)
EXITED = ProcessExited("restarted", 2, -9, 0, ())
STARTED = ProcessStarted("restarted", 5, ("./driver",))


def test_stream_that_ends_without_a_report_is_a_failure_in_every_experiment() -> None:
    v1 = next(iter(HEALTH_APIS.values()))
    assert ended("claims", v1, "OK") is FAIL
    assert ended("driver-restart", v1, "UNIMPLEMENTED") is FAIL
    assert ended("driver-restart", v1, "UNAVAILABLE", SignalSent("restarted", "SIGKILL"), EXITED) is PASS
    assert ended("driver-restart", v1, "UNAVAILABLE", SignalSent("restarted", "SIGTERM")) is PASS
    assert ended("driver-restart", v1, "UNAVAILABLE", SignalSent("restarted", "SIGTERM"), STARTED) is FAIL
    assert ended("driver-restart", v1, "UNAVAILABLE", EXITED, STARTED) is PASS
    assert ended("driver-restart", v1, "UNAVAILABLE", EXITED, REGISTERS) is FAIL


@pytest.mark.parametrize(("seconds", "verdict"), [(0.2, PASS), (6.0, FAIL)])
def test_health_api_is_served_if_its_stream_stayed_open_until_an_answer_was_due(
    seconds: float, verdict: Verdict
) -> None:
    """A stream without a report is cancelled after these seconds; another one ends with Unimplemented."""

    def lacks(_: str, event: Event) -> Event | None:
        draft = isinstance(event, StreamOpened) and event.health_api == NODE_HEALTH.name
        return None if draft else event

    events = [(at, name, kept) for at, name, one in RECORDS if (kept := lacks(name, one))]
    more: list[tuple[float, str, Event]] = [
        (30.0, "claims", StreamOpened("gpu.example.com", "", "short", NODE_HEALTH.name)),
        (30.0, "claims", StreamOpened("gpu.example.com", "", "refused", NODE_HEALTH.name)),
        (30.1, "claims", StreamClosed("gpu.example.com", "", "refused", "no such service", code="UNIMPLEMENTED")),
        (30.0 + seconds, "claims", StreamClosed("gpu.example.com", "", "short", OURS, code="CANCELLED")),
    ]
    assert (
        finding("streams-stay-open", evidence_at(*sorted([*events, *more], key=lambda one: one[0]))).verdict is verdict
    )


def test_stream_of_a_health_api_that_the_driver_lacks_may_end() -> None:
    def lacks(_: str, event: Event) -> Event | None:
        draft = isinstance(event, StreamOpened) and event.health_api == NODE_HEALTH.name
        return None if draft else event

    events = [(at, name, kept) for at, name, one in RECORDS if (kept := lacks(name, one))]
    more: list[Event] = [
        StreamOpened("gpu.example.com", "", "more", NODE_HEALTH.name),
        StreamClosed("gpu.example.com", "", "more", "no such service", code="UNIMPLEMENTED"),
    ]
    evidence = evidence_at(*events, *((39.5, "claims", one) for one in more))
    assert finding("streams-stay-open", evidence).verdict is PASS


def test_failed_stream_names_its_code() -> None:
    found = finding("streams-stay-open", closing(V1, "INTERNAL", "panic"))
    assert (found.verdict, found.seen.rpartition("with ")[2]) == (FAIL, "INTERNAL: panic")
