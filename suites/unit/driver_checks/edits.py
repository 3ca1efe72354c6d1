"""Edits of the healthy run: what one wrong driver would have shown."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from drahealth.proto.events import ClaimAllocated, Event, GrpcCall, ReportReceived, SliceChanged, SlicesListed
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, UNPREPARE
from drahealth.proto.values import DeviceHealth
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.verdicts import Finding
from drahealth.suites.unit.driver_checks.healthy_run import RECORDS, Edit, healthy_run

PREPARES = frozenset(method.path.removeprefix("/") for method in PREPARE.values())
UNPREPARES = frozenset(method.path.removeprefix("/") for method in UNPREPARE.values())
INFOS = frozenset({GET_INFO.path.removeprefix("/")})
NOTIFIES = frozenset({NOTIFY_REGISTRATION.path.removeprefix("/")})


def finding(check: str, edit: Edit | Evidence | None = None) -> Finding:
    """What a check finds in the healthy run after an edit, or in other evidence."""
    evidence = edit if isinstance(edit, Evidence) else healthy_run(edit) if edit else healthy_run()
    return CHECKS[check].judge(evidence)


def calls(
    methods: Iterable[str], change: Callable[[GrpcCall], Event | None], experiment: str = "", nth: int = -1
) -> Edit:
    """Changes the calls of these methods; only one of them if `nth` is its index."""
    found = [
        event
        for _, where, event in RECORDS
        if isinstance(event, GrpcCall) and event.method in methods and experiment in ("", where)
    ]
    wanted = found if nth == -1 else [found[nth]]

    def edit(_: str, event: Event) -> Event | None:
        return change(event) if isinstance(event, GrpcCall) and any(event is one for one in wanted) else event

    return edit


def failing(code: str = "INTERNAL") -> Callable[[GrpcCall], GrpcCall]:
    """The call fails."""
    return lambda call: replace(call, code=code, response=None, details="no")


def answering(response: dict[str, Any]) -> Callable[[GrpcCall], GrpcCall]:
    """The call has another answer."""
    return lambda call: replace(call, response=response)


def of_claim(uid: str, methods: Iterable[str], change: Callable[[dict[str, Any]], object]) -> Edit:
    """Changes the result of a claim in the answers."""

    def apply(call: GrpcCall) -> GrpcCall:
        answers = dict((call.response or {}).get("claims", {}))
        if uid not in answers:
            return call
        changed = change(answers.pop(uid))
        return replace(call, response={"claims": answers | ({} if changed is None else {uid: changed})})

    return calls(methods, apply, "claims")


def of_device(**fields: object) -> Callable[[dict[str, Any]], object]:
    """Changes the first device of a result."""

    def apply(result: dict[str, Any]) -> object:
        devices = result.get("devices") or [{}]
        return {**result, "devices": [devices[0] | fields, *devices[1:]]}

    return apply


def of_allocations(**fields: object) -> Edit:
    """Changes the results of all allocations."""

    def edit(_: str, event: Event) -> Event:
        if isinstance(event, ClaimAllocated):
            return replace(event, results=tuple({**one, **fields} for one in event.results))
        return event

    return edit


def slices(change: Callable[[dict[str, Any]], dict[str, Any] | None], *experiments: str) -> Edit:
    """Changes the listed and written ResourceSlices; None leaves one out."""

    def edit(where: str, event: Event) -> Event | None:
        if experiments and where not in experiments:
            return event
        if isinstance(event, SlicesListed):
            return SlicesListed(tuple(one for one in map(change, event.slices) if one))
        if isinstance(event, SliceChanged) and event.by == "driver":
            changed = change(event.slice)
            return replace(event, slice=changed) if changed else None
        return event

    return edit


def reports(change: Callable[[ReportReceived], ReportReceived | None], *streams: str) -> Edit:
    """Changes the reports of these streams, or of all."""

    def edit(_: str, event: Event) -> Event | None:
        if isinstance(event, ReportReceived) and (not streams or event.stream in streams):
            return change(event)
        return event

    return edit


def devices(change: Callable[[DeviceHealth], DeviceHealth | None], *streams: str) -> Edit:
    """Changes each reported device in these streams, or in all."""

    def apply(report: ReportReceived) -> ReportReceived:
        return replace(report, devices=tuple(one for one in map(change, report.devices) if one))

    return reports(apply, *streams)


def device(name: str, change: Callable[[DeviceHealth], DeviceHealth | None], *streams: str) -> Edit:
    """Changes one device in these streams, or in all."""
    return devices(lambda one: change(one) if one.device == name else one, *streams)
