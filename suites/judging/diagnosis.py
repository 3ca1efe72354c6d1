"""The diagnosis of a failure: where the health of a device was lost on its way to the Pod status. Pure.

The way has these steps: the kubelet registers the driver, prepares the device, opens a health stream, receives a
report, and writes the status. A diagnosis names the first step that is missing in the history, or wrong.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from drahealth.manager.profile import Profile
from drahealth.proto.clock import format_seconds
from drahealth.proto.events import (
    DevicesHeld,
    Event,
    GateSet,
    ListReceived,
    PluginDeregistered,
    PluginRegistered,
    Prepared,
    Record,
    Registered,
    ReportReceived,
    ReportSent,
    Restarted,
    StatusSeen,
    Stopped,
    StreamClosed,
    StreamOpened,
    TimePassed,
    Unregistered,
)
from drahealth.proto.values import DEFAULT_TIMEOUT, DeviceHealth, Health
from drahealth.suites.judging import invariants
from drahealth.suites.judging.histories import as_read, is_of_kubelet
from drahealth.suites.judging.invariants import without_cause
from drahealth.suites.judging.status_content import (
    Device,
    DevicesByName,
    Sought,
    difference,
    fits,
    has_field,
    lists,
    reading,
    shows,
)

Cause = Literal[
    "",
    "no pod",
    "not registered",
    "not prepared",
    "no stream",
    "stream ended",
    "no report",
    "not received",
    "no status",
    "late",
    "other content",
    "rejected status",
    "needless write",
    "two streams",
    "elsewhere",
]
"""The failed step as a word. `elsewhere`: the history has all steps, so the failed check is about something else."""

DEVICE_PLUGIN = "ListAndWatch"
"""The API of device plugins, in `Setting.health_apis`."""

_GATE = "ResourceHealthStatus"
_OF_INVARIANTS: Mapping[str, Cause] = {
    "STATUS-18": "rejected status",
    "STATUS-19": "needless write",
    "STREAM-03": "two streams",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a check failed, in one line."""

    cause: Cause
    text: str
    """Empty if the scenario has no driver."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a diagnosis needs to know about a scenario, besides its history."""

    profile: Profile
    devices: DevicesByName
    health_apis: Mapping[str, str]
    """The API with which the kubelet must watch each driver; empty for none."""


def diagnose(records: Sequence[Record], sought: Sought | None, setting: Setting) -> Diagnosis:
    """The step that failed: for the device that the check looked for, otherwise for the devices that pods hold."""
    story, sought = _Story(records, setting), sought or Sought()
    if sought.is_absent:
        return _of_status(story, sought)
    if sought.device:
        return _of_device(story, sought)
    if sought.entries is not None and any(has_field(status) for _, status in story.statuses(sought.pod)):
        return _of_status(story, sought)
    found = [*_of_pod(story, sought), *_of_driver(story, sought)]
    if not found and not story.disabled_gate():
        each = (_of_device(story, one) for one in _held(story, sought.pod))
        found = [one for one in each if one.cause != "elsewhere"]
    return found[0] if found else _elsewhere(story)


def first_violation(records: Sequence[Record], requirement: str, setting: Setting) -> Diagnosis:
    """When a history first violated an invariant, and how."""
    read = as_read(records, setting.profile)

    def found(number: int) -> list[str]:
        return invariants.violations(read[: number + 1], setting.devices)[requirement]

    number = min(bisect_left(range(len(read)), True, key=lambda number: bool(found(number))), len(read) - 1)
    words = (found(number) or found(len(read) - 1))[0]
    at = format_seconds(read[number].at - records[0].at)
    return Diagnosis(_OF_INVARIANTS.get(requirement, "other content"), f"first at {at}: {words}")


class _Story:
    """A history, by the steps of the way."""

    def __init__(self, records: Sequence[Record], setting: Setting) -> None:
        self.setting = setting
        self.raw = records
        self.records = as_read(records, setting.profile)
        self._sees_receipts = any(is_of_kubelet(record.what) for record in records)
        self._jumps = [(record.at, record.what.seconds) for record in records if isinstance(record.what, TimePassed)]

    def at(self, time: float) -> str:
        """A time as the printed history has it."""
        return format_seconds(time - self.raw[0].at)

    def on_the_node(self, time: float) -> float:
        """A time on the clock of the node."""
        return time + sum(seconds for at, seconds in self._jumps if at <= time)

    def reports(self, device: Device) -> list[tuple[float, DeviceHealth]]:
        """The reports of the device, each with its time."""
        sent = ((record.at, record.what) for record in self.records if isinstance(record.what, ReportSent))
        return [
            (at, one)
            for at, report in sent
            for one in report.devices
            if (report.driver, one.pool, one.device) == device
        ]

    def is_received(self, driver: str, since: float) -> bool:
        """Whether the kubelet has received a report since then. A real kubelet does not record what it receives."""
        return not self._sees_receipts or any(
            isinstance(record.what, ReportReceived | ListReceived) and record.what.driver == driver
            for record in self.raw
            if record.at >= since
        )

    def statuses(self, pod: str) -> list[tuple[float, StatusSeen]]:
        """The statuses of the pod, each with its time; of all pods without one."""
        return [(r.at, r.what) for r in self.raw if isinstance(r.what, StatusSeen) and pod in ("", r.what.uid)]

    def of(self, kind: type[Event], driver: str) -> list[Event]:
        """The events of a kind that concern this driver."""
        return [r.what for r in self.raw if isinstance(r.what, kind) and getattr(r.what, "driver", "") == driver]

    def ends(self, driver: str) -> list[tuple[float, StreamClosed]]:
        """The ends of the streams of this driver, each with its time."""
        return [(r.at, r.what) for r in self.records if isinstance(r.what, StreamClosed) and r.what.driver == driver]

    def open_streams(self, driver: str) -> set[str]:
        """The streams that are open at the end of the history."""
        opened = {r.what.stream for r in self.records if isinstance(r.what, StreamOpened) and r.what.driver == driver}
        return opened - {r.what.stream for r in self.records if isinstance(r.what, StreamClosed)}

    def deadline(self, sought: Sought) -> float:
        """When the check stopped waiting, on the clock of the node; never without a limit."""
        return float("inf") if sought.limit is None else self.on_the_node(sought.since) + sought.limit

    def kind(self, driver: str) -> str:
        """What the driver is, with its name."""
        is_plugin = self.setting.health_apis.get(driver) == DEVICE_PLUGIN
        return f"{'device plugin' if is_plugin else 'driver'} {driver}"

    def disabled_gate(self) -> str:
        """The component in which the scenario has disabled the feature gate; empty for none."""
        gates = [r.what for r in self.raw if isinstance(r.what, GateSet) and r.what.gate == _GATE]
        if not gates or gates[-1].on:
            return ""
        return "kubelet" if gates[-1].kubelet is not True else "API server"


def _of_pod(story: _Story, sought: Sought) -> Iterator[Diagnosis]:
    """Pods without a status, and pods that wait, with the reason."""
    statuses = story.statuses(sought.pod) if sought.pod else []
    if sought.pod and not statuses:
        yield Diagnosis("no pod", "the API server had no status of the pod")
    if not statuses or statuses[-1][1].phase != "Pending":
        return
    pending = statuses[-1][1].pending
    why = f": {pending}" if pending else ""
    waiting = [device for device in _devices_of(story, sought.pod) if not _is_prepared(story, device)]
    unregistered = [words for device in waiting if (words := _not_registered(story, device[0]))]
    if unregistered:
        yield Diagnosis("not registered", unregistered[0])
    elif waiting:
        driver, _, device = waiting[0]
        yield Diagnosis("not prepared", f"the kubelet did not prepare {device} with {story.kind(driver)}{why}")
    elif pending:
        yield Diagnosis("no pod", f"pod {statuses[-1][1].pod} did not start{why}")


def _of_driver(story: _Story, sought: Sought) -> Iterator[Diagnosis]:
    """A driver that is not registered, or not watched."""
    if not sought.driver:
        return
    if words := _not_registered(story, sought.driver, sought.since if sought.is_registration else 0.0):
        yield Diagnosis("not registered", words)
    elif missing := _missing_stream(story, sought.driver, sought.instance):
        yield missing


def _of_device(story: _Story, sought: Sought) -> Diagnosis:
    """The step that failed for one device."""
    device = sought.device
    assert device
    driver, reports = device[0], story.reports(device)
    if sought.health is None:
        last = invariants.latest(story.records).get(device)
        if last is None:
            return _lost_stream(story, driver) or _elsewhere(story)
        sought = replace(sought, health=last.health, message=last.message)
    wanted = {number for number, (_, one) in enumerate(reports) if _is_wanted(one, sought)}
    if not wanted and sought.health is Health.UNKNOWN:
        at, sign = _last_sign(story, device, reports)
        return _of_status(story, sought, at, sign)
    if not wanted:
        return _without_report(story, sought, reports)
    first = max(wanted)
    while first - 1 in wanted:
        first -= 1
    at, words = reports[first][0], f"{story.kind(driver)} reported {_sought(sought, reports[first][1])}"
    if not story.is_received(driver, at):
        return Diagnosis("not received", f"{words} at {story.at(at)}, and the kubelet did not receive the report")
    found = _of_status(story, sought, at, words)
    is_lost = sought.health is not Health.UNKNOWN and found.cause in ("other content", "no status")
    return (is_lost and _abandoned(story, driver)) or found


def _of_status(story: _Story, sought: Sought, since: float = 0.0, cause: str = "") -> Diagnosis:
    """What the statuses of the pod have shown since the cause, which is in words such as `driver D reported gpu-0`."""
    statuses = story.statuses(sought.pod)
    if not statuses:
        return Diagnosis("no pod", "the API server had no status of the pod")
    end = story.deadline(sought)
    in_time = [one for one in statuses if story.on_the_node(one[0]) <= end] or statuses[:1]
    right = [at for at, status in statuses if at >= since and shows(status, sought)]
    at, last = in_time[-1]
    if shows(last, sought):
        return _elsewhere(story)
    if right and right[0] > at:
        late = format_seconds(story.on_the_node(right[0]) - end)
        limit = format_seconds(sought.limit or 0.0)
        return Diagnosis("late", f"the status of pod {last.pod} showed {sought} {late} late: the limit is {limit}")
    if cause and at < since and lists(last, sought):
        until = next((time for time, _ in statuses if time >= since), story.raw[-1].at)
        waited = format_seconds(story.on_the_node(until) - story.on_the_node(since))
        words = f"{cause} at {story.at(since)}, and the kubelet wrote no status of pod {last.pod} in the next {waited}"
        return Diagnosis("no status", words)
    words = f"the status of pod {last.pod}, written at {story.at(at)}, {difference(last, sought)}"
    if right and sought.device:
        words += f"; it showed {sought} before"
    if cause:
        words += f", after {cause} at {story.at(since)}"
    return Diagnosis("other content", words + _gate_hint(story, sought))


def _without_report(story: _Story, sought: Sought, reports: Sequence[tuple[float, DeviceHealth]]) -> Diagnosis:
    """Why the driver has not reported the sought health."""
    assert sought.device
    driver, _, name = sought.device
    if words := _not_registered(story, driver):
        return Diagnosis("not registered", words)
    if missing := _missing_stream(story, driver, sought.instance):
        return missing
    words = f"the kubelet opened a stream to {story.kind(driver)}, and received no report of {sought}"
    if reports:
        at, last = reports[-1]
        words += f"; the last report, at {story.at(at)}, was {reading(name, last.health, last.message)}"
    return Diagnosis("no report", words)


def _last_sign(story: _Story, device: Device, reports: Sequence[tuple[float, DeviceHealth]]) -> tuple[float, str]:
    """The time and the sign after which a device becomes Unknown: the end of its stream, or its last report."""
    driver, _, name = device
    if (ends := story.ends(driver)) and not story.open_streams(driver):
        return ends[-1][0], f"the last stream of {story.kind(driver)} ended"
    if not reports:
        return 0.0, ""
    at, last = reports[-1]
    for record in story.records:
        if record.at > at and isinstance(one := record.what, ReportSent) and one.driver == driver and one.complete:
            return record.at, f"{story.kind(driver)} omitted {name} from a report"
    timeout = max(last.timeout, 0) or DEFAULT_TIMEOUT
    return at, f"{story.kind(driver)} last reported {reading(name, last.health, last.message)} (timeout {timeout} s)"


def _missing_stream(story: _Story, driver: str, instance: str = "") -> Diagnosis | None:
    """A stream that the kubelet has not opened, or that it has not opened again."""
    api = story.setting.health_apis.get(driver, "")
    if not api:
        return None
    opened = [one for one in story.of(StreamOpened, driver) if isinstance(one, StreamOpened)]
    if not opened or (instance and not any(one.instance == instance for one in opened if not one.endpoint)):
        what = f"no stream {api}" if api == DEVICE_PLUGIN else "no health stream"
        of = f"{story.kind(driver)}{f' ({instance})' if instance else ''}"
        served = "" if api == DEVICE_PLUGIN else f", which serves {api}"
        return Diagnosis("no stream", f"the kubelet opened {what} to {of}{served}{_stream_hint(story, api)}")
    if story.open_streams(driver):
        return None
    at, end = story.ends(driver)[-1]
    words = f"the stream of {story.kind(driver)} ended at {story.at(at)} ({end.why}), and the kubelet opened no new one"
    return Diagnosis("stream ended", words)


def _lost_stream(story: _Story, driver: str) -> Diagnosis | None:
    """A driver whose streams the kubelet never opened, or ended without a cause."""
    missing = _missing_stream(story, driver)
    ended = any(name == driver for name, _ in without_cause(story.records))
    return missing if missing and (missing.cause == "no stream" or ended) else None


def _abandoned(story: _Story, driver: str) -> Diagnosis | None:
    """A driver that is still there, and whose stream the kubelet did not open again."""
    missing = _missing_stream(story, driver)
    if missing is None or missing.cause != "stream ended":
        return None
    ended = story.ends(driver)[-1][0]
    for record in story.raw:
        match record.what:
            case Unregistered(driver=name) | PluginDeregistered(driver=name) if name == driver and record.at >= ended:
                return None
            case Stopped("kubelet") | Restarted("kubelet") if record.at >= ended:
                return None
    return missing


def _stream_hint(story: _Story, api: str) -> str:
    """Why a kubelet may open no health stream."""
    if api == DEVICE_PLUGIN:
        return ""
    if gate := story.disabled_gate():
        return f"; the scenario has disabled the feature gate {_GATE} in the {gate}"
    watched = (driver for driver, known in story.setting.health_apis.items() if known != DEVICE_PLUGIN)
    if any(story.of(StreamOpened, driver) for driver in watched):
        return ""
    return f"; does the kubelet have the feature gate {_GATE}?"


def _gate_hint(story: _Story, sought: Sought) -> str:
    """Why no status may have the field."""
    if sought.is_absent or any(has_field(status) for _, status in story.statuses("")):
        return ""
    if gate := story.disabled_gate():
        return f"; the scenario has disabled the feature gate {_GATE} in the {gate}"
    return f"; do the kubelet and the API server have the feature gate {_GATE}?"


def _not_registered(story: _Story, driver: str, since: float = 0.0) -> str:
    """Why the driver has not been registered since then, in a clause; empty if it has."""
    answers = [r for r in story.raw if isinstance(r.what, Registered) and r.what.driver == driver]
    late = [r.what for r in answers if r.at >= since and isinstance(r.what, Registered)]
    signs = () if since else (story.of(kind, driver) for kind in (PluginRegistered, Prepared, StreamOpened))
    if any(one.ok for one in late) or any(signs):
        return ""
    if late:
        return f"the kubelet rejected {story.kind(driver)}: {late[-1].error}"
    return f"the kubelet did not register {story.kind(driver)}{' again' if answers else ''}"


def _held(story: _Story, pod: str) -> Iterator[Sought]:
    """The devices that the pods hold and that a Pod status can name, with the health of the last report."""
    ids: dict[Device, list[str]] = {}
    for name, devices in story.setting.devices.items():
        for device in devices:
            ids.setdefault(device, []).append(name)
    shown = {
        one.resource_id
        for _, status in story.statuses(pod)
        for _, entries in status.entries()
        for entry in entries
        for one in entry.resources
    }
    for uid, status in {status.uid: status for _, status in story.statuses(pod)}.items():
        regular = {container.name for container in status.containers}
        for device in _devices_of(story, uid) if status.phase == "Running" else ():
            known = ids.get(device, ["/".join(device)])
            id_ = next((one for one in known if one in shown), known[0])
            users = tuple(name for name in _users(story, uid, device) if name in regular)
            yield Sought(pod=uid, driver=device[0], device=device, id=id_, places=users or None)


def _users(story: _Story, pod: str, device: Device) -> list[str]:
    """The containers of the pod that hold the device; "" for none."""
    held = (r.what for r in story.raw if isinstance(r.what, DevicesHeld) and r.what.uid == pod)
    return [one.container for each in held for one in each.devices if (one.driver, one.pool, one.device) == device]


def _devices_of(story: _Story, pod: str) -> list[Device]:
    """The devices of the claims of a pod."""
    held = (r.what for r in story.raw if isinstance(r.what, DevicesHeld) and r.what.uid == pod)
    return list(dict.fromkeys((one.driver, one.pool, one.device) for each in held for one in each.devices))


def _is_prepared(story: _Story, device: Device) -> bool:
    return any(isinstance(one, Prepared) and device[2] in one.devices for one in story.of(Prepared, device[0]))


def _is_wanted(report: DeviceHealth, sought: Sought) -> bool:
    """Whether a report has the sought health. A status can show a part of its message, or none."""
    is_part = sought.message is not None and sought.message in report.message
    return report.health is sought.health and (is_part or fits(report.message, sought))


def _sought(sought: Sought, report: DeviceHealth) -> str:
    return str(sought) if sought.message is not None else reading(report.device, report.health, report.message)


def _elsewhere(story: _Story) -> Diagnosis:
    if not story.setting.health_apis:
        return Diagnosis("elsewhere", "")
    words = (
        "the history has each step from the registration to the Pod status; the failed check is about something else"
    )
    return Diagnosis("elsewhere", words)
