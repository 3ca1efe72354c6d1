"""Checks of which devices reports list: all published ones at first, all prepared ones, all in each report."""

from dataclasses import dataclass

from drahealth.proto.health_apis import NODE_HEALTH_DRAFT
from drahealth.suites.checking.checks.registry import health_check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.claims import ClaimCall, claim_calls
from drahealth.suites.checking.observed.devices import Device, named, published
from drahealth.suites.checking.observed.streams import Stream, listed, streams
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed, static

_AGAIN = "slice-deletion"
"""The experiment with a stream after the second registration of another process, with its own ResourceSlices."""


@health_check(
    "HEALTH-02",
    "slices",
    "watch",
    fix="In the first report of each stream, list all devices of the ResourceSlices, including devices that are "
    "Healthy or Unknown.",
    reads=("subscribers", "slow-prepare", _AGAIN),
)
def first_report_lists_published_devices(evidence: Evidence, found: list[Stream]) -> Finding:
    """The first report of each stream lists each device of the ResourceSlices, and maybe others."""
    main, again, records, more = published(evidence), published(evidence, _AGAIN), [], set[Device]()
    for stream in (*found, *streams(evidence, "subscribers", "slow-prepare", _AGAIN)):
        slices = again if stream.experiment == _AGAIN else main
        if stream.api is NODE_HEALTH_DRAFT or not stream.reports:
            continue
        first = stream.reports[0]
        expected = (slices.at(stream.opened.at) or frozenset()) & (slices.at(first.at) or frozenset())
        if missing := expected - listed(first):
            seen = f"{stream}: without {named(missing)}" if first.what.devices else f"{stream}: an empty report"
            return failed(f"published devices: {named(expected)}", seen, *slices.record, first.number)
        more |= listed(first) - slices.ever
        records += [first.number] if expected or (slices.always and listed(first) >= slices.always) else []
    if not records or not main.ever:
        return not_tested("no stream reported after devices were published")
    others = f"; also unpublished devices: {named(more)}" if more else ""
    return passed(f"the first reports list all {len(main.ever)} published devices{others}", *main.record, *records)


@health_check(
    "HEALTH-03",
    "watch",
    "claims",
    fix="List all prepared devices in each report over WatchDevicesStatus, not only the changed devices.",
)
def draft_reports_list_prepared_devices(evidence: Evidence, found: list[Stream]) -> Finding:
    """Each report that was made while devices were prepared lists them all.

    A report on the way can be older than its arrival. It is surely younger than the start of its stream, and than the
    call that prepared a device that it lists, or that an earlier report of the stream lists.
    """
    periods = _prepared_periods(claim_calls(evidence, "claims"))
    records = []
    for stream in found:
        made = stream.opened.at
        for report in stream.reports:
            prepared = [one for one in periods if one.ended < report.at < one.until]
            made = max([made, *(one.began for one in prepared if one.device in listed(report))])
            expected = {one.device for one in prepared if one.ended < made}
            if missing := expected - listed(report):
                seen = f"{stream}: without {named(missing)}"
                return failed(f"prepared devices: {named(expected)}", seen, report.number)
            records += [report.number] if expected else []
    if records:
        return passed("each report lists all prepared devices", *records)
    if not periods:
        return not_tested("no claim was prepared")
    return static("no report arrived while a claim was prepared", *(one.opened.number for one in found))


@dataclass(frozen=True, slots=True)
class _Period:
    """The time in which a device surely is prepared."""

    device: Device
    began: float
    """When NodePrepareResources was called. A report with this device was made later."""
    ended: float
    """When it was answered. Reports that were made later list the device."""
    until: float
    """When NodeUnprepareResources was called."""


def _prepared_periods(calls: list[ClaimCall]) -> list[_Period]:
    """The periods that have an end. Others are of no use: their end may be missing in the evidence."""
    periods, since = [], dict[str, ClaimCall]()
    for call in calls:
        for uid in dict.fromkeys(call.claims):
            if call.kind == "unprepare" and uid in since:
                first = since.pop(uid)
                devices = {one.device for one in first.devices(uid)}
                periods += [_Period(device, first.began, first.ended, call.began) for device in devices]
            elif call.kind == "prepare" and not call.problem(uid):
                since.setdefault(uid, call)
    return periods


@health_check(
    "HEALTH-17",
    "watch",
    fix="List all devices in each report over WatchResources, not only the changed devices.",
    reads=("slices",),
)
def node_health_reports_list_all_devices(evidence: Evidence, found: list[Stream]) -> Finding:
    """Each report lists the devices of the first one that are still published."""
    always, records = published(evidence).always, []
    for stream in found:
        for report in stream.reports[1:]:
            expected = listed(stream.reports[0]) & always if always else listed(stream.reports[0])
            if missing := expected - listed(report):
                seen = f"{stream}: without {named(missing)}"
                return failed(f"all devices: {named(expected)}", seen, stream.reports[0].number, report.number)
            records += [report.number] if expected else []
    return (
        passed(f"{len(records)} reports list all devices", *records)
        if records
        else static("no second report with devices")
    )
