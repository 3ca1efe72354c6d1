"""Checks of health streams: which APIs stream, what the first reports say, and how streams end."""

from drahealth.proto.events import ClaimReadHeld
from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH_DRAFT
from drahealth.suites.checking.checks.registry import check, health_check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.claims import claim_calls
from drahealth.suites.checking.observed.processes import cause_of_end, crashes
from drahealth.suites.checking.observed.registrations import advertised, described
from drahealth.suites.checking.observed.streams import (
    FIRST_REPORT_WAIT,
    Stream,
    absence,
    is_served,
    served_apis,
    streams,
)
from drahealth.suites.checking.observed.timeouts import WATCHED
from drahealth.suites.checking.output_text import exit_text
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed


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
    records, seen = [info.number], []
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
            return not_tested(f"the end of the stream of {stream.api.name} was not seen", stream.opened.number)
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
    for stream in (*streams(evidence, "services"), *found, *streams(evidence, "slice-deletion")):
        if stream.api is NODE_HEALTH_DRAFT:
            continue  # it lists prepared devices only; there may be none
        took = (stream.reports[0].at if stream.reports else stream.opened.at + stream.open_seconds) - stream.opened.at
        if stream.first_is_late:
            seen = f"{stream}: {f'after {took:.1f} s' if stream.reports else f'no report in {took:.1f} s'}"
            return failed("the first report within 5 s", seen, stream.opened.number)
        if stream.reports:
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
    during = [one for one in found if held.number < one.opened.number < freed.number]
    for stream in during:
        for report in stream.reports:
            if report.number < freed.number:
                seen = f"a report {report.at - stream.opened.at:.1f} s after the stream was opened"
                return passed(seen, held.number, report.number, freed.number)
    for stream in during:
        waited = freed.at - stream.opened.at
        if waited >= FIRST_REPORT_WAIT - 0.1:
            seen = f"no report in {waited:.1f} s"
            return failed("a report while NodePrepareResources is pending", seen, held.number, stream.opened.number)
    return not_tested("no health stream was open long enough while NodePrepareResources was pending", held.number)


@health_check(
    "HEALTH-13",
    "watch",
    fix="Keep the stream open until its context is cancelled. Do not end it after a report or an error.",
    reads=("subscribers",),
)
def streams_stay_open(evidence: Evidence, found: list[Stream]) -> Finding:
    """No stream of any experiment ends before its process; those of `watch` are open for longer than 35 s."""
    others = [one for one in streams(evidence) if one.experiment != "watch"]
    served = {one.api for one in (*found, *others) if is_served(one)}
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


@check(
    "HEALTH-15",
    "registration",
    "services",
    fix="Add the health API to the supported versions of GetInfo.",
)
def served_health_is_advertised(evidence: Evidence) -> Finding:
    """Each health API that streams is in the supported versions of GetInfo."""
    info, served = described(evidence), served_apis(evidence)
    if absent := absence(evidence):
        return not_applicable(absent[0], *absent[1])
    if info is None or not served:
        return not_tested("no health API streams")
    records = (info.number, *(one.opened.number for one in served.values()))
    if hidden := [name for name in served if HEALTH_APIS[name].advertised not in advertised(evidence)]:
        seen = f"the driver serves {', '.join(hidden)}, and GetInfo does not list it: kubelets from 1.37 do not call it"
        return failed("served health APIs in the supported versions of GetInfo", seen, *records)
    return passed(f"advertised: {', '.join(served)}", *records)
