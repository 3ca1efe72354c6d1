"""The invariants of all histories. Pure functions from records to violations."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from drahealth.proto.events import (
    CANCELLED,
    ContainerRun,
    GateSet,
    PluginDeregistered,
    PluginRegistered,
    PodRewritten,
    PodStateSeen,
    Record,
    Registered,
    ReportSent,
    Restarted,
    StatusSeen,
    StatusWritten,
    Stopped,
    StreamClosed,
    StreamOpened,
    TimePassed,
    Unregistered,
)
from drahealth.proto.values import DEFAULT_TIMEOUT, MESSAGE_LIMIT, DeviceHealth, Health, ResourceHealth
from drahealth.suites.judging import status_content
from drahealth.suites.judging import status_content as holdings
from drahealth.suites.judging.status_content import Device, DevicesByName

# Health streams that the kubelet ended without a cause. Pure.
#
# A kubelet ends the stream of an instance that deregisters or ends, or that a newer instance replaces. It also ends
# all streams when it stops itself. The driver may see the end of the stream shortly before the cause.

LATE = 5.0
"""Seconds from the end of a stream until its cause is recorded, at most."""

_BY_KUBELET = (CANCELLED, "ended by the manager")


def without_cause(records: Sequence[Record]) -> set[tuple[str, str]]:
    """The streams that the kubelet ended without a cause, by driver and stream."""
    opened: dict[tuple[str, str], float] = {}
    found: set[tuple[str, str]] = set()
    for record in records:
        match record.what:
            case StreamOpened(driver=driver, stream=stream):
                opened[driver, stream] = record.at
            case StreamClosed() as closed if closed.why in _BY_KUBELET:
                since = opened.get((closed.driver, closed.stream), record.at)
                if not any(since < at <= record.at + LATE for at in _causes(records, closed)):
                    found.add((closed.driver, closed.stream))
    return found


def _causes(records: Sequence[Record], closed: StreamClosed) -> Iterator[float]:
    """The times of the causes for a kubelet to end this stream."""
    for record in records:
        match record.what:
            case Registered(driver=driver, instance=name) | PluginRegistered(driver=driver, endpoint=name):
                if driver == closed.driver and name != closed.instance:
                    yield record.at
            case Unregistered(driver=driver) | PluginDeregistered(driver=driver):
                if driver == closed.driver:
                    yield record.at
            case Stopped("kubelet") | Restarted("kubelet") | GateSet():
                yield record.at


# Invariants on the writes of Pod statuses, as the API server saw them. Pure functions from records to violations.


def refused(records: Iterable[Record]) -> Iterator[str]:
    """Statuses that the API server rejected, each error once."""
    errors = dict.fromkeys(
        (record.what.pod, record.what.error)
        for record in records
        if isinstance(record.what, StatusWritten) and record.what.error
    )
    yield from (f"the status of pod {pod} was rejected: {error}" for pod, error in errors)


def unchanged(records: Iterable[Record]) -> Iterator[str]:
    """Pods whose status was written although it had not changed."""
    writes = (record.what for record in records if isinstance(record.what, StatusWritten))
    pods = dict.fromkeys(write.pod for write in writes if not write.changed and not write.error)
    yield from (f"an unchanged status of pod {pod} was written" for pod in pods)


def empty(records: Iterable[Record]) -> Iterator[str]:
    """Parts of statuses with an allocatedResourcesStatus without entries."""
    found = dict.fromkeys(
        (seen.pod, name)
        for seen in (record.what for record in records if isinstance(record.what, StatusSeen))
        for name, entries in (("", seen.resources), *((c.name, c.resources) for c in seen.all_containers))
        if entries == ()
    )
    for pod, name in found:
        yield f"{f'container {name} of ' if name else ''}pod {pod} had an empty allocatedResourcesStatus"


def unknown_keys(records: Iterable[Record]) -> Iterator[str]:
    """Keys in an allocatedResourcesStatus that the KEP does not have."""
    keys = dict.fromkeys(
        (record.what.pod, key)
        for record in records
        if isinstance(record.what, StatusSeen)
        for key in record.what.unknown_keys
    )
    yield from (f"pod {pod} showed {key}" for pod, key in keys)


# Invariants on what health must not change in a Pod. Pure functions from records to violations.
#
# The Pod API says how the phase, the conditions and the restart counts follow from the runs of the containers, and in
# which order containers start. If health changed one of them, it would no longer follow. Deleted Pods are not judged,
# because kubelets end them in different orders.


def not_from_containers(records: Iterable[Record]) -> Iterator[str]:
    """Phases, conditions, texts and restart counts that do not follow from the runs of the containers, each once.

    Also regular containers that start before the init containers have ended.
    """
    before: dict[str, PodStateSeen] = {}
    initialized: set[tuple[str, str]] = set()
    was_stopped, reported = False, set()
    for record in records:
        match record.what:
            case Stopped("kubelet"):
                was_stopped = True
            case PodStateSeen() as seen if not seen.is_deleting:
                initialized.update((seen.uid, run.name) for run in seen.runs if run.kind == "init" and run.ready)
                found = [
                    *_contradictions(seen, was_stopped),
                    *_restarts(before.get(seen.uid), seen),
                    *_other_texts(before.get(seen.uid), seen),
                    *_too_early(seen, initialized),
                ]
                before[seen.uid] = seen
                for words in (f"pod {seen.pod} {one}" for one in found):
                    if words not in reported:
                        reported.add(words)
                        yield words


def only_times(records: Iterable[Record]) -> Iterator[str]:
    """Pods of which a write changed nothing but times.

    After a change of the gate, a write can remove values that clients did not see.
    """
    reported = set()
    for record in records:
        match record.what:
            case GateSet():
                return
            case PodRewritten(pod=pod, uid=uid) if uid not in reported:
                reported.add(uid)
                yield f"pod {pod} was written, and only its times changed"


def _contradictions(seen: PodStateSeen, was_stopped: bool) -> Iterator[str]:
    for run in seen.runs:
        yield from (f"has container {run.name} {words}" for words in _of_run(run))
    if seen.phase not in ("Pending", "Running"):
        return  # a Pod can be rejected or evicted while its containers run
    yield from _wrong_phase(seen)
    kept = [run for run in seen.runs if run.kind != "init"]
    is_ready = bool(kept) and all(run.ready for run in kept)
    runs = any(run.state == "running" for run in seen.runs)
    expected = {"ContainersReady": is_ready, **_initialized(seen)}
    if not was_stopped:
        expected["Ready"] = is_ready  # the node controller changes it while a kubelet is away
    if runs:
        expected["PodReadyToStartContainers"] = True
    for kind, status in seen.conditions:
        if kind in expected and status != str(expected[kind]):
            yield f"has condition {kind}={status} with {_state_words(seen)}"
    if runs and not seen.has_address:
        yield f"has no address with {_state_words(seen)}"


def _of_run(run: ContainerRun) -> Iterator[str]:
    """The contradictions in one container."""
    runs = run.state == "running"
    if run.ready != (run.exit_code == 0 if run.kind == "init" else runs):
        yield f"{run.state} and {'ready' if run.ready else 'not ready'}"
    if (run.started and not runs) or (runs and not run.started and run.kind != "init"):
        yield f"{run.state} and {'started' if run.started else 'not started'}"
    if run.state != "waiting" and run.id and run.previous == run.id:
        yield f"{run.state} as {run.id}, and the same run as its previous one"
    if run.reason == "CrashLoopBackOff" and run.previous != run.id:
        yield "in CrashLoopBackOff, and its last run is not the one that ended"


def _wrong_phase(seen: PodStateSeen) -> Iterator[str]:
    regular = [run for run in seen.runs if run.kind == "regular"]
    waits = any(run.state == "waiting" and not run.previous for run in regular)
    if regular and seen.phase != ("Pending" if waits else "Running"):
        yield f"has phase {seen.phase} with {_state_words(seen)}"


def _initialized(seen: PodStateSeen) -> dict[str, bool]:
    """What Initialized must be, as far as it is certain."""
    if any(run.kind == "regular" and run.state == "running" for run in seen.runs):
        return {"Initialized": True}
    has_begun = any(run.kind == "regular" and (run.id or run.previous) for run in seen.runs)
    if any(run.kind == "init" and not run.ready for run in seen.runs) and not has_begun:
        return {"Initialized": False}
    return {"Initialized": True} if all(run.kind == "regular" or run.ready for run in seen.runs) else {}


def _restarts(before: PodStateSeen | None, after: PodStateSeen) -> Iterator[str]:
    """Restart counts that fall, or that change without another run."""
    old = {run.name: run for run in before.runs} if before else {}
    for run in after.runs:
        known = old.get(run.name)
        if known and run.restarts < known.restarts:
            yield f"has {run.restarts} restarts of container {run.name} after {known.restarts}"
        elif known and known.id and run.id and (run.id == known.id) != (run.restarts == known.restarts):
            runs = "another run" if run.id != known.id else "the same run"
            yield f"has {run.restarts} restarts of container {run.name} after {known.restarts}, with {runs}"
        elif known and known.id and run.restarts == known.restarts + 1 and run.previous != known.id:
            yield f"has {run.restarts} restarts of container {run.name}, and its last state is not the run before"


def _other_texts(before: PodStateSeen | None, after: PodStateSeen) -> Iterator[str]:
    """Reasons and messages that change although the containers, the phase and the conditions do not."""
    if before and after.phase == "Running" and replace(before, texts=after.texts) == after:
        for kind, text in sorted(set(after.texts) - set(before.texts)):
            where = f"condition {kind}" if kind else "a status"
            yield f"has {where} with the new text {text!r}, and nothing else changed"


def _too_early(seen: PodStateSeen, initialized: Collection[tuple[str, str]]) -> Iterator[str]:
    """Init containers that have not ended yet, although a regular container runs."""
    if any(run.kind == "regular" and run.state == "running" for run in seen.runs):
        for run in seen.runs:
            if run.kind == "init" and (seen.uid, run.name) not in initialized:
                yield f"has init container {run.name} {run.state} with {_state_words(seen)}"


def _state_words(seen: PodStateSeen) -> str:
    return ", ".join(f"{run.name} {run.state}" for run in seen.runs)


# The invariants of all histories. Pure functions from records to violations.

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
        "STATUS-18": list(refused(records)),
        "STATUS-19": [*unchanged(records), *only_times(records)],
        "STATUS-20": list(holdings.not_held(records, devices)),
        "STATUS-21": list(unknown_keys(records)),
        "STATUS-22": list(empty(records)),
        "STATUS-24": list(not_from_containers(records)),
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
