"""The invariants of all histories. Pure functions from records to violations."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from drahealth.proto.events import (
    GateSet,
    Record,
    ReportSent,
    Restarted,
    StatusSeen,
    Stopped,
    StreamClosed,
    StreamOpened,
    TimePassed,
)
from drahealth.proto.values import DEFAULT_TIMEOUT, MESSAGE_LIMIT, DeviceHealth, Health, ResourceHealth
from drahealth.suites.judging import holdings, pod_states, status_content, status_writes
from drahealth.suites.judging.holdings import Device, DevicesByName
from drahealth.suites.judging.stream_ends import without_cause

OVERLAP = 1.0
"""Seconds by which a driver may notice the end of a stream late."""

ARRIVAL = 1.0
"""Seconds after which a report that was sent counts as received, unless a pod has shown it before."""

_NEVER = float("-inf")

_WHOLE = MESSAGE_LIMIT - 24
"""Bytes. A shorter message is certainly not truncated."""


def violations(records: Sequence[Record], devices: DevicesByName) -> dict[str, list[str]]:
    """The violations in the history, by requirement."""
    return {
        "STATUS-06": list(duplicates(records)),
        "STATUS-07": list(unreported(records, devices)),
        "STATUS-18": list(status_writes.refused(records)),
        "STATUS-19": [*status_writes.unchanged(records), *pod_states.only_times(records)],
        "STATUS-20": list(holdings.not_held(records, devices)),
        "STATUS-21": list(status_writes.unknown_keys(records)),
        "STATUS-22": list(status_writes.empty(records)),
        "STATUS-24": list(pod_states.not_from_containers(records)),
        "STREAM-03": list(overlaps(records)),
    }


def duplicates(records: Iterable[Record]) -> Iterator[str]:
    """Duplicate entry names in a container or in the pod's own field, and duplicate IDs in an entry."""
    for record in records:
        if not isinstance(status := record.what, StatusSeen):
            continue
        for place, entries in status.entries():
            for name in _twice(entry.name for entry in entries):
                container = f"container {place} of " if place else ""
                yield f"{container}pod {status.pod} has entry {name} twice"
            for entry in entries:
                for name in _twice(resource.resource_id for resource in entry.resources):
                    yield f"pod {status.pod} has {name} twice in entry {entry.name}"


def unreported(records: Sequence[Record], devices: DevicesByName) -> Iterator[str]:
    """Healths and messages that a pod showed and no driver reported, and Unknown without a cause.

    If several devices have the name, the status must be right for one of them. Which one is for STATUS-12 to judge.
    """
    reported: dict[Device, set[tuple[Health, str]]] = {}
    shown: dict[tuple[str, Device], float] = {}  # time of the last report before the last known health
    arrived: dict[Device, float] = {}  # time of the last report that a pod has shown: the kubelet has received it
    before: dict[str, Mapping[Device, float]] = {}  # by pod: time of the last report that arrived before the pod
    causes = _Causes(records)
    for record in records:
        causes.take(record)
        match record.what:
            case ReportSent() as report:
                for health in report.devices:
                    device = (report.driver, health.pool, health.device)
                    reported.setdefault(device, set()).add((health.health, _cut(health.message)))
            case StatusSeen() as status:
                arrived_before = before.setdefault(status.uid, {**causes.latest_until(record.at - ARRIVAL), **arrived})
                for name, resource in _resources(status):
                    named = devices.get(name, (("", "", name),))
                    right = [device for device in named if _is_reported(resource, reported.get(device, ()), causes)]
                    if resource.health is not Health.UNKNOWN:
                        arrived.update({device: causes.last_report(device) for device in right})
                        shown.update({(status.uid, device): arrived[device] for device in right})
                    elif not resource.message:
                        since = {d: shown.get((status.uid, d), arrived_before.get(d)) for d in named if d[0]}
                        right += [d for d, at in since.items() if at is None or causes.since(at, d, record.at)]
                    if not right:
                        yield f"pod {status.pod} showed {_words(resource)}, and no driver reported it"


def _is_reported(resource: ResourceHealth, reported: Collection[tuple[Health, str]], causes: "_Causes") -> bool:
    """Whether one of the reports has the health and the message. A message can be missing if they are dropped."""
    if causes.drops_messages and not resource.message:
        return any(health is resource.health for health, _ in reported)
    return (resource.health, _cut(resource.message)) in reported


class _Causes:
    """Valid causes for Unknown and for a missing message.

    A device reads Unknown after the end of its stream, a kubelet restart, a complete report without it, or its
    timeout. An API server with the gate off drops messages, even if it keeps the health (A-05, A-06). If the kubelet
    ends a stream without a cause, its end is no cause either.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._drops_messages = False
        self._ends: dict[str, list[float]] = {}
        baseless = without_cause(records)
        for record in records:
            if isinstance(end := record.what, StreamClosed) and (end.driver, end.stream) not in baseless:
                self._ends.setdefault(end.driver, []).append(record.at)
        self._everything = _NEVER
        self._reports: dict[Device, float] = {}
        self._deadlines: dict[Device, float] = {}
        self._expired: dict[Device, float] = {}
        self._jumped = 0.0

    def take(self, record: Record) -> None:
        match record.what:
            case Restarted("kubelet") | Stopped("kubelet"):
                self._everything = record.at
            case GateSet(gate="ResourceHealthStatusMessage", on=on):
                self._drops_messages = not on
            case GateSet(on=on, api_server=keeps):
                self._everything = record.at
                self._drops_messages = not (on if keeps is None else keeps)
            case TimePassed(seconds=seconds):
                self._jumped += seconds
            case ReportSent() as report:
                self._expired.update(dict.fromkeys(_left_out(report, self._reports), record.at))
                for health in report.devices:
                    device = (report.driver, health.pool, health.device)
                    self._note_expiry(device, record.at)
                    self._reports[device] = record.at
                    self._deadlines[device] = record.at + self._jumped + (max(health.timeout, 0) or DEFAULT_TIMEOUT)

    @property
    def drops_messages(self) -> bool:
        """Whether messages may be missing now."""
        return self._drops_messages

    def latest_until(self, time: float) -> Mapping[Device, float]:
        """The time of the last report of each device that was not reported after this time."""
        return {device: at for device, at in self._reports.items() if at <= time}

    def last_report(self, device: Device) -> float:
        """The time of the last report of the device."""
        return self._reports.get(device, _NEVER)

    def since(self, time: float, device: Device, at: float) -> bool:
        """Whether a cause for Unknown happened after this time."""
        self._note_expiry(device, at)
        if max(self._everything, self._expired.get(device, _NEVER)) > time:
            return True
        return any(time < end <= at + OVERLAP for end in self._ends.get(device[0], ()))

    def _note_expiry(self, device: Device, at: float) -> None:
        if at + self._jumped > self._deadlines.get(device, float("inf")):
            self._expired[device] = at


def overlaps(records: Sequence[Record]) -> Iterator[str]:
    """Instances with two open streams for longer than OVERLAP."""
    open_: _Streams = {}
    for record in records:
        yield from _follow(open_, record)
    for (driver, _), streams in open_.items():
        for name in list(streams):
            yield from _ends(driver, streams, name, records[-1].at)


def has_two_streams(records: Iterable[Record]) -> bool:
    """Whether an instance has two open streams at the end of the history."""
    open_: _Streams = {}
    for record in records:
        list(_follow(open_, record))
    return any(len(streams) > 1 for streams in open_.values())


_Streams = dict[tuple[str, str], dict[str, float]]
"""Start time of each open stream, by driver and instance."""


def _follow(open_: _Streams, record: Record) -> Iterator[str]:
    match record.what:
        case StreamOpened() as stream:
            open_.setdefault((stream.driver, stream.instance), {})[stream.stream] = record.at
        case StreamClosed() as stream:
            yield from _ends(stream.driver, open_.get((stream.driver, stream.instance), {}), stream.stream, record.at)


def _ends(driver: str, streams: dict[str, float], name: str, at: float) -> Iterator[str]:
    """The streams that were open for too long at the same time as this one, which ends."""
    opened = streams.pop(name, at)
    for other, begun in streams.items():
        if (long := at - max(opened, begun)) > OVERLAP:
            yield f"driver {driver} had streams {name} and {other} open at the same time for {long:.2f} s"


def not_converged(
    records: Sequence[Record], statuses: Collection[StatusSeen], devices: DevicesByName, gates_on: bool
) -> list[str]:
    """Running pods whose status is not the last report on a stream that is still open.

    Excluded are unwatched devices, devices that two instances report, and devices that may have expired.
    """
    reports = latest(records)
    found = list(_lost(records, statuses, devices, reports)) if gates_on else []
    found += holdings.missing(records, statuses, devices, reports) if gates_on else []
    for status in statuses if gates_on else ():
        for name, resource in _resources(status) if status.phase == "Running" else ():
            last = [reports.get(device) for device in devices.get(name, ())]
            if last and not any(report is None or _shows(resource, report) for report in last):
                latest_ = " or ".join(
                    status_content.reading(one.device, one.health, one.message) if one else "none" for one in last
                )
                found.append(f"pod {status.pod} shows {_words(resource)}, and the last report was {latest_}")
    return found


def _words(resource: ResourceHealth) -> str:
    return status_content.reading(resource.resource_id, resource.health, resource.message)


def _shows(resource: ResourceHealth, report: DeviceHealth) -> bool:
    return (resource.health, resource.message) == (report.health, report.message)


def _lost(
    records: Sequence[Record],
    statuses: Iterable[StatusSeen],
    devices: DevicesByName,
    reports: Mapping[Device, DeviceHealth],
) -> Iterator[str]:
    """Reported devices that were in a part of a running pod's status before, and are not in it now."""
    now = {status.uid: status for status in statuses if status.phase == "Running"}
    once: dict[str, set[tuple[str, str]]] = {}
    for record in records:
        if isinstance(record.what, StatusSeen) and record.what.uid in now:
            once.setdefault(record.what.uid, set()).update(_places(record.what))
    for uid, places in once.items():
        for place, name in sorted(places - set(_places(now[uid]))):
            if any(device in reports for device in devices.get(name, ())):
                yield f"{f'container {place} of ' if place else ''}pod {now[uid].pod} no longer shows {name}"


def latest(records: Sequence[Record]) -> dict[Device, DeviceHealth]:
    """The last report of each device that pods must show now."""
    open_: dict[str, set[str]] = {}
    reported: dict[Device, tuple[str, float, DeviceHealth]] = {}
    jumped = 0.0
    for record in records:
        match record.what:
            case StreamOpened() as stream:
                open_.setdefault(stream.driver, set()).add(stream.stream)
            case StreamClosed() as stream:
                open_.get(stream.driver, set()).discard(stream.stream)
            case TimePassed(seconds=seconds):
                jumped += seconds
            case ReportSent() as report:
                for device in _left_out(report, reported):
                    del reported[device]
                for health in report.devices:
                    device = (report.driver, health.pool, health.device)
                    reported[device] = (report.stream, record.at + jumped, health)
    now = (records[-1].at if records else 0.0) + jumped
    return {
        device: health
        for device, (stream, at, health) in reported.items()
        if open_.get(device[0]) == {stream}
        and now - at < (max(health.timeout, 0) or DEFAULT_TIMEOUT)
        and len(health.message.encode()) <= MESSAGE_LIMIT
    }


def _left_out(report: ReportSent, known: Iterable[Device]) -> list[Device]:
    """The known devices of its driver that are missing from a complete report."""
    reported = {(report.driver, health.pool, health.device) for health in report.devices}
    return [device for device in known if report.complete and device[0] == report.driver and device not in reported]


def name_in(entry: str, resource_id: str) -> str:
    """The key of a device: its ID, with the resource name for devices of device plugins."""
    return resource_id if entry.startswith("claim:") else f"{entry}={resource_id}"


def _resources(status: StatusSeen) -> Iterator[tuple[str, ResourceHealth]]:
    for _, entries in status.entries():
        for entry in entries:
            for resource in entry.resources:
                yield name_in(entry.name, resource.resource_id), resource


def _places(status: StatusSeen) -> Iterator[tuple[str, str]]:
    """Each device with the container that shows it, "" for the pod itself."""
    for place, entries in status.entries():
        for entry in entries:
            for resource in entry.resources:
                yield place, name_in(entry.name, resource.resource_id)


def _twice(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]


def _cut(message: str) -> str:
    """The comparable part of a message: the beginning of one that a status truncates, else all of it."""
    return message if len(message.encode()) < _WHOLE else message[:200]
