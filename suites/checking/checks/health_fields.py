"""Checks of the fields of reports: names, health and messages."""

import itertools
import re
from collections.abc import Iterator

from drahealth.proto.health_apis import HEALTH_NUMBERS, NODE_HEALTH, NODE_HEALTH_DRAFT
from drahealth.proto.values import MESSAGE_LIMIT, DeviceHealth, Health
from drahealth.suites.checking.checks.registry import health_check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.ledger import requirements
from drahealth.suites.checking.observed.devices import named, published
from drahealth.suites.checking.observed.plain import at, text
from drahealth.suites.checking.observed.streams import Stream, arrivals, device_of, listed, streams
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed, static

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
    records = []
    for stream in found:
        for bad in stream.malformed:
            return failed(
                "a message of the health API", f"{stream}: {bad.what.size} bytes of another message type", bad.number
            )
        for report in stream.reports:
            for extra in report.what.undecoded:
                if extra.device >= 0 and (bad_health := _wrong_health(stream, extra.fields)):
                    seen = f"device {extra.device} in {stream}: {bad_health}"
                    return failed("Healthy, Unhealthy or Unknown", seen, report.number)
    for stream, number, index, one in _reported(found):
        if wrong := _wrong_name(one):
            return failed(wrong[0], f"device {index} in {stream}: {wrong[1]}", number)
        records.append(number)
    if not records:
        return not_tested("no report listed a device")
    return _new_name(evidence, found) or passed("all names and health values are valid", *dict.fromkeys(records))


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
    """A failure if a stream reports a new name that no ResourceSlice has."""
    ever = published(evidence).ever
    for stream in found:
        if not ever or not stream.reports or stream.api is NODE_HEALTH_DRAFT:
            continue
        first = stream.reports[0]
        for report in stream.reports[1:]:
            if new := listed(report) - listed(first) - ever:
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
    for stream in found:
        for device, times in arrivals(stream).items():
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
            repeated += [after[1] for _, after in pairs[:1]]
    if not repeated:
        return (
            static("no device was reported twice", *_firsts(found)) if any(_firsts(found)) else not_tested("no report")
        )
    return passed("the messages are stable", *repeated)


def _short(message: str) -> str:
    return repr(message if len(message) <= 60 else f"{message[:57]}...")


def _firsts(found: list[Stream]) -> list[int]:
    return [one.reports[0].number for one in found if one.reports]
