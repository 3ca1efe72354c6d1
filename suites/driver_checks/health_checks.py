"""Checks of health streams: which APIs stream, and what reports say and list."""

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from drahealth.manager.releases import NEWEST
from drahealth.manager.stream import pick_health_api
from drahealth.proto.events import ClaimReadHeld, FaultInjected
from drahealth.proto.health_apis import HEALTH_APIS, HEALTH_NUMBERS, NODE_HEALTH, NODE_HEALTH_DRAFT
from drahealth.proto.values import MESSAGE_LIMIT, DeviceHealth, Health
from drahealth.suites.driver_checks.check import check, everywhere, health_check
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed import (
    ClaimCall,
    Device,
    Published,
    advertised,
    at,
    cause_of_end,
    claim_calls,
    crashes,
    described,
    experiments_of,
    named,
    process_of,
    published,
    text,
)
from drahealth.suites.driver_checks.observed_health import (
    FIRST_REPORT,
    FIRST_REPORT_WAIT,
    WATCHED,
    Stream,
    absence,
    arrivals,
    device_of,
    is_served,
    listed,
    served_apis,
    streams,
)
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.verdicts import (
    Finding,
    failed,
    not_applicable,
    not_tested,
    passed,
    requirements,
    static,
)

# Checks of the fields of reports: names, health and messages.

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DEVICE = re.compile(_LABEL)
_POOL = re.compile(rf"{_LABEL}(\.{_LABEL})*(/{_LABEL}(\.{_LABEL})*)*")
_DEVICE_LIMIT, _POOL_LIMIT = 63, 253
"""Characters, from the API validation of ResourceSlices."""
_CHANGES = 2
"""Changes of a message at the same health which may have a reason: a second fault, and its end."""


def _reported(found: list[Stream]) -> Iterator[tuple[Stream, int, int, DeviceHealth]]:
    """Each reported device: stream, record, index, content."""
    for stream in found:
        for report in stream.reports:
            for index, one in enumerate(report.what.devices):
                yield stream, report.number, index, one


@health_check(
    "HEALTH-04",
    "watch",
    fix="For each device, set the pool name, the device name and the health. Use only names from the ResourceSlices.",
    reads=("slices",),
)
def required_fields_are_valid(evidence: Evidence, found: list[Stream]) -> Finding:
    """Names are present, valid and stable; health is one of the three values."""
    records, all_ = [], everywhere(evidence, found, "HEALTH-04")
    for stream in all_:
        for bad in stream.malformed:
            return failed(
                "a message of the health API", f"{stream}: {bad.what.size} bytes of another message type", bad.number
            )
        for report in stream.reports:
            for extra in report.what.undecoded:
                if extra.device >= 0 and (bad_health := _wrong_health(stream, extra.fields)):
                    seen = f"device {extra.device} in {stream}: {bad_health}"
                    return failed("Healthy, Unhealthy or Unknown", seen, report.number)
    for stream, number, index, one in _reported(all_):
        if wrong := _wrong_name(one):
            return failed(wrong[0], f"device {index} in {stream}: {wrong[1]}", number)
        records += [number] if stream in found else []
    if wrong_name := _new_name(evidence, all_):
        return wrong_name
    if not records:
        return not_tested("no report listed a device")
    return passed("all names and health values are valid", *dict.fromkeys(records))


def _wrong_health(stream: Stream, fields: dict[str, object]) -> str:
    """The invalid health of a device; "" if it is valid."""
    if stream.api is NODE_HEALTH or stream.api is NODE_HEALTH_DRAFT:
        word = text(fields, "health_status" if stream.api is NODE_HEALTH else "health")
        return "" if word in set(Health) else f"health {word!r}"
    number = at(fields, "health")
    return "" if number in (None, *HEALTH_NUMBERS.values()) else f"health number {number}"


def _wrong_name(one: DeviceHealth) -> tuple[str, str] | None:
    if not one.device or not one.pool:
        return "a pool name and a device name", f"pool {one.pool!r}, device {one.device!r}"
    if len(one.device) > _DEVICE_LIMIT or not _DEVICE.fullmatch(one.device):
        return f"a DNS label of at most {_DEVICE_LIMIT} characters as device name", f"{one.device!r}"
    if len(one.pool) > _POOL_LIMIT or not _POOL.fullmatch(one.pool):
        return f"DNS subdomains of at most {_POOL_LIMIT} characters as pool name", f"{one.pool!r}"
    return None


def _new_name(evidence: Evidence, found: list[Stream]) -> Finding | None:
    """A failure if a stream reports a new name that no ResourceSlice of its process has."""
    ever: dict[str, frozenset[Device]] = {}
    for stream in found:
        process = process_of(stream.experiment)
        if process not in ever:
            ever[process] = published(evidence, *experiments_of(process)).ever
        if not ever[process] or not stream.reports or stream.api is NODE_HEALTH_DRAFT:
            continue
        first = stream.reports[0]
        for report in stream.reports[1:]:
            if new := listed(report) - listed(first) - ever[process]:
                expected = f"only names from ResourceSlices, or from the first report: {named(listed(first))}"
                return failed(expected, f"{stream}: {named(new)} in a later report", first.number, report.number)
    return None


@health_check(
    "HEALTH-09",
    "watch",
    fix="Cut a longer message to at most 1024 bytes of UTF-8. Cut it between two characters.",
    reads=("faults",),
)
def messages_have_at_most_1024_bytes(evidence: Evidence, found: list[Stream]) -> Finding:
    """The longest message of all reports of all processes is within the limit."""
    apis = requirements()["HEALTH-09"].apis
    found = [one for one in streams(evidence) if one.api.name in apis]
    longest, records = 0, []
    for stream, number, _, one in _reported(found):
        size = len(one.message.encode(errors="surrogatepass"))
        if size > MESSAGE_LIMIT:
            return failed(f"at most {MESSAGE_LIMIT} bytes", f"{device_of(one)} in {stream}: {size} bytes", number)
        if size:
            records.append(number)
        longest = max(longest, size)
    if not any(stream.reports for stream in found):
        return not_tested("no report arrived")
    if not longest:
        return static("no report had a message", *(one.reports[0].number for one in found if one.reports))
    return passed(f"the longest message has {longest} bytes", *dict.fromkeys(records))


@health_check(
    "HEALTH-14",
    "watch",
    fix="Put no times, counters or measured values into the message: kubelets write a Pod status for each new message. "
    "A new cause can have a new message.",
)
def messages_are_stable(evidence: Evidence, found: list[Stream]) -> Finding:
    """The message of a device changes at most twice while its health stays the same."""
    repeated = []
    broken = {
        (process_of(one.experiment), Device(one.what.pool, one.what.device)) for one in evidence.of(FaultInjected)
    }
    for stream in everywhere(evidence, found, "HEALTH-14"):
        for device, times in arrivals(stream).items():
            if (process_of(stream.experiment), device) in broken:
                continue  # the message tells of a fault, of its change and of its end
            pairs = list(itertools.pairwise(times))
            changes = [
                (before, after)
                for before, after in pairs
                if before[2].health == after[2].health and before[2].message != after[2].message
            ]
            if len(changes) > _CHANGES:
                before, after = changes[0]
                seen = f"{device} in {stream}: {len(changes)} changes in {stream.open_seconds:.0f} s while "
                seen += f"{after[2].health}, such as from {_short(before[2].message)} to {_short(after[2].message)}"
                return failed("the same message while the health is the same", seen, before[1], after[1])
            repeated += [after[1] for _, after in pairs[:1]] if stream in found else []
    if not repeated:
        return (
            static("no device was reported twice", *_firsts(found)) if any(_firsts(found)) else not_tested("no report")
        )
    return passed("the messages are stable", *repeated)


def _short(message: str) -> str:
    return repr(message if len(message) <= 60 else f"{message[:57]}...")


def _firsts(found: list[Stream]) -> list[int]:
    return [one.reports[0].number for one in found if one.reports]


# Checks of which devices reports list: all published ones at first, all prepared ones, all in each report.

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
    main, records, more = published(evidence), [], set[Device]()
    known: dict[str, Published] = {process_of("watch"): main}
    counted = [*found, *streams(evidence, "subscribers", "slow-prepare", _AGAIN)]
    for stream in everywhere(evidence, counted, "HEALTH-02"):
        process = process_of(stream.experiment)
        if process not in known:
            known[process] = published(evidence, *experiments_of(process))
        slices = known[process]
        if stream.api is NODE_HEALTH_DRAFT or not stream.reports:
            continue
        first = stream.reports[0]
        expected = (slices.at(stream.opened.at) or frozenset()) & (slices.at(first.at) or frozenset())
        if missing := expected - listed(first):
            seen = f"{stream}: without {named(missing)}" if first.what.devices else f"{stream}: an empty report"
            return failed(f"published devices: {named(expected)}", seen, *slices.record, first.number)
        if stream in counted:
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
    records = list[int]()
    for stream in everywhere(evidence, found, "HEALTH-17"):
        always = published(evidence, *experiments_of(process_of(stream.experiment))).always
        for report in stream.reports[1:]:
            expected = listed(stream.reports[0]) & always if always else listed(stream.reports[0])
            if missing := expected - listed(report):
                seen = f"{stream}: without {named(missing)}"
                return failed(f"all devices: {named(expected)}", seen, stream.reports[0].number, report.number)
            records += [report.number] if expected and stream in found else []
    return (
        passed(f"{len(records)} reports list all devices", *records)
        if records
        else static("no second report with devices")
    )


# Checks of health streams: which APIs stream, what the first reports say, and how streams end.


@check(
    "HEALTH-01",
    "registration",
    "services",
    fix="Serve each health API that GetInfo lists, answer Unimplemented, or remove the health API from the list.",
)
def advertised_health_streams_or_is_unimplemented(evidence: Evidence) -> Finding:
    """Each advertised health service streams, or answers Unimplemented."""
    info, called = described(evidence), streams(evidence, "services")
    if info is None or not called:
        return not_tested("the health APIs were not called")
    names = [api.name for api in HEALTH_APIS.values() if api.advertised in advertised(evidence)]
    if not names:
        if absent := absence(evidence):
            return not_applicable(absent[0], *absent[1])
        return not_applicable("GetInfo lists no health API", info.number)
    records, seen, unseen = [info.number], [], ""
    for stream in called:
        if stream.api.name not in names:
            continue
        records += [stream.opened.number, *(one.number for one in stream.closed)]
        if stream.malformed:
            expected = f"reports of {stream.api.name}"
            return failed(expected, "a message of another type", info.number, stream.malformed[0].number)
        if is_served(stream):
            seen.append(f"{stream.api.name} streams")
        elif stream.end and stream.end.what.code == "UNIMPLEMENTED":
            seen.append(f"{stream.api.name} answers Unimplemented")
        elif stream.end:
            expected = f"{stream.api.name} streams or answers Unimplemented, because GetInfo lists it"
            return failed(expected, f"{stream.end.what.code}: {stream.end.what.why}", info.number, stream.end.number)
        else:
            unseen = f"the end of the stream of {stream.api.name} was not seen"
    if unseen:
        return not_tested(unseen, *records)
    if missing := set(names) - {one.api.name for one in called}:
        return not_tested(f"{', '.join(sorted(missing))} was not called", info.number)
    return passed("; ".join(seen), *records)


@health_check(
    "HEALTH-02",
    "watch",
    fix="As soon as a stream opens, send the health of all devices. Do not wait for a change.",
    reads=("slice-deletion",),
)
def first_report_is_prompt(evidence: Evidence, found: list[Stream]) -> Finding:
    """Each watched stream has its first report within 5 s."""
    seconds, records = [], []
    served = {one.api for one in streams(evidence) if one.reports}
    counted = [*streams(evidence, "services"), *found, *streams(evidence, "slice-deletion")]
    for stream in everywhere(evidence, counted, "HEALTH-02"):
        if stream.api not in served and stream not in counted:
            continue
        if stream.api is NODE_HEALTH_DRAFT:
            continue  # it lists prepared devices only; there may be none
        took = (stream.reports[0].at if stream.reports else stream.opened.at + stream.open_seconds) - stream.opened.at
        if stream.first_is_late:
            seen = f"{stream}: {f'after {took:.1f} s' if stream.reports else f'no report in {took:.1f} s'}"
            return failed("the first report within 5 s", seen, stream.opened.number)
        if stream.reports and stream in counted:
            seconds.append(took)
            records.append(stream.reports[0].number)
    if not seconds:
        return _no_report(found)
    return passed(f"the first reports arrived within {max(seconds):.1f} s", *records)


def _no_report(found: list[Stream]) -> Finding:
    if found and all(one.api is NODE_HEALTH_DRAFT for one in found):
        reason = f"the driver serves only {NODE_HEALTH_DRAFT.name}, which lists only prepared devices"
        return not_applicable(reason, *(one.opened.number for one in found))
    return not_tested("no stream reported before it ended", *(one.opened.number for one in found))


@health_check(
    "HEALTH-12",
    "slow-prepare",
    fix="Send health reports from a separate goroutine or thread. It must not wait for the lock that "
    "NodePrepareResources holds.",
)
def health_is_reported_while_prepare_is_pending(evidence: Evidence, found: list[Stream]) -> Finding:
    """A stream that opens while a claim is being prepared has its first report before the claim is released."""
    holds = list(evidence.of(ClaimReadHeld, "slow-prepare"))
    held = next((one for one in holds if one.what.held), None)
    freed = next((one for one in holds if held and not one.what.held and one.number > held.number), None)
    if held is None or freed is None:
        return not_tested("drahealth did not delay the driver's read of the claim")
    calls = [one for one in claim_calls(evidence, "slow-prepare") if one.kind == "prepare"]
    if not any(one.began < freed.at <= one.ended for one in calls):
        return not_tested("NodePrepareResources was not pending", held.number, freed.number)
    good = None
    for stream in (one for one in found if held.number < one.opened.number < freed.number):
        if stream.reports and stream.reports[0].number < freed.number:
            report = stream.reports[0]
            seen = f"a report {report.at - stream.opened.at:.1f} s after the stream was opened"
            good = good or passed(seen, held.number, report.number, freed.number)
            continue
        waited = freed.at - stream.opened.at
        if waited >= FIRST_REPORT_WAIT - 0.1:
            seen = f"no report in {waited:.1f} s"
            return failed("a report while NodePrepareResources is pending", seen, held.number, stream.opened.number)
    unseen = "no health stream was open long enough while NodePrepareResources was pending"
    return good or not_tested(unseen, held.number)


@health_check(
    "HEALTH-13",
    "watch",
    fix="Keep the stream open until its context is cancelled. Do not end it after a report or an error.",
    reads=("subscribers", "faults"),
)
def streams_stay_open(evidence: Evidence, found: list[Stream]) -> Finding:
    """No stream of any experiment ends before its process; those of `watch` are open for longer than 35 s."""
    others = [one for one in streams(evidence) if one.experiment != "watch"]
    # drahealth can cancel a stream before the driver's Unimplemented arrives: that shows nothing.
    answered = (one for one in (*found, *others) if one.reports or one.open_seconds >= FIRST_REPORT)
    served = {one.api for one in answered if is_served(one)}
    for stream in (*found, *(one for one in others if one.api in served)):
        end = stream.end
        if end is None or not stream.ended_by_driver or stream.malformed:
            continue
        if cause_of_end(evidence, stream.opened, end):
            continue
        where = "" if stream.experiment == "watch" else f" of experiment {stream.experiment}"
        seen = f"{stream}{where} ended after {stream.open_seconds:.1f} s with {end.what.code}: {end.what.why}"
        return failed("the stream stays open until drahealth cancels it", seen, stream.opened.number, end.number)
    long = [one for one in found if one.cancelled and one.open_seconds >= WATCHED]
    if not long:
        return not_tested(_why_short(evidence, found), *(one.opened.number for one in found))
    seconds = min(one.open_seconds for one in long)
    return passed(f"{len(long)} streams were open for {seconds:.0f} s", *(one.opened.number for one in long))


def _why_short(evidence: Evidence, found: list[Stream]) -> str:
    """Why no stream was watched long enough."""
    if ended := next(crashes(evidence, "main"), None):
        return exit_text(ended.what)
    early = next((one.end.what.why for one in found if one.end and not one.cancelled), "")
    return f"no stream was watched for {WATCHED:g} s" + (f": {early}" if early else "")


def _of_served_apis(
    judge: Callable[[Evidence, Mapping[str, Stream], Sequence[int]], Finding],
) -> Callable[[Evidence], Finding]:
    """Judges the health APIs that a driver serves, with the records of GetInfo and of their streams."""

    @functools.wraps(judge)
    def whole(evidence: Evidence) -> Finding:
        info, served = described(evidence), served_apis(evidence)
        if absent := absence(evidence):
            return not_applicable(absent[0], *absent[1])
        if info is None or not served:
            return not_tested("no health API streams")
        return judge(evidence, served, (info.number, *(one.opened.number for one in served.values())))

    return whole


@check(
    "HEALTH-15",
    "registration",
    "services",
    fix="Add the health API to the supported versions of GetInfo.",
)
@_of_served_apis
def served_health_is_advertised(evidence: Evidence, served: Mapping[str, Stream], records: Sequence[int]) -> Finding:
    """Each health API that streams is in the supported versions of GetInfo."""
    if hidden := [name for name in served if HEALTH_APIS[name].advertised not in advertised(evidence)]:
        seen = f"the driver serves {', '.join(hidden)}, and GetInfo does not list it: kubelets from 1.37 do not call it"
        return failed("served health APIs in the supported versions of GetInfo", seen, *records)
    return passed(f"advertised: {', '.join(served)}", *records)


@check(
    "HEALTH-21",
    "registration",
    "services",
    fix="Advertise each health API that the driver serves, and none that answers Unimplemented.",
)
@_of_served_apis
def newest_kubelet_gets_the_health(evidence: Evidence, served: Mapping[str, Stream], records: Sequence[int]) -> Finding:
    """The health API that the newest kubelet picks from GetInfo is one that the driver serves."""
    called = [api.name for api in pick_health_api(advertised(evidence), NEWEST)]
    if served.keys().isdisjoint(called):
        what = f"calls {', '.join(called)}, which is not served" if called else "calls no health API"
        expected = f"one of {', '.join(NEWEST.health_apis)} is advertised and served"
        return failed(expected, f"kubelet {NEWEST.name} {what}; the driver serves {', '.join(served)}", *records)
    return passed(f"kubelet {NEWEST.name} calls {', '.join(called)}", *records)
