"""What evidence shows of a driver: processes, registrations, devices and claims. Pure."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, Literal, NamedTuple

from drahealth.proto.events import (
    ClaimAllocated,
    ExperimentEnded,
    ExperimentStarted,
    GrpcCall,
    ListReceived,
    PluginRegistered,
    ProcessExited,
    ProcessStarted,
    ReportReceived,
    SignalSent,
    SliceChanged,
    SlicesListed,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, REGISTER, UNPREPARE
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.experiments import EXPERIMENTS

# Read plain data whose shape is unknown: a value of another type counts as missing.


def at(data: Any, *path: str) -> Any:
    """The value at the path of keys; None if there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def text(data: Any, *path: str) -> str:
    """The string at the path, or ""."""
    value = at(data, *path)
    return value if isinstance(value, str) else ""


def mapping(data: Any, *path: str) -> dict[str, Any]:
    """The object at the path, or an empty one."""
    value = at(data, *path)
    return value if isinstance(value, dict) else {}


def sequence(data: Any, *path: str) -> list[Any]:
    """The list at the path, or an empty one."""
    value = at(data, *path)
    return list(value) if isinstance(value, list | tuple) else []


def texts(data: Any, *path: str) -> tuple[str, ...]:
    """The strings of the list at the path."""
    return tuple(one for one in sequence(data, *path) if isinstance(one, str))


# Experiments that ended, and processes that ended by themselves.

_REGISTRATION = (GET_INFO.path, REGISTER.path)
"""The calls that a registration begins with: of a kubelet, or of a device plugin."""


def is_done(evidence: Evidence, *experiments: str) -> bool:
    """Whether these experiments reached their end. Only then absence of an event proves something."""
    done = {one.experiment for one in evidence.of(ExperimentEnded) if one.what.outcome == "done"}
    return done.issuperset(experiments)


def crashes(evidence: Evidence, *processes: str) -> Iterator[Observation[ProcessExited]]:
    """The exits of these processes without a signal, while an experiment used the process."""
    for exit_ in evidence.of(ProcessExited):
        process = exit_.what.process
        if process in processes and not _signalled(evidence, exit_) and _in_use(evidence, exit_):
            yield exit_


def cause_of_end(
    evidence: Evidence, opened: Observation[StreamOpened], closed: Observation[StreamClosed]
) -> Observation[SignalSent] | Observation[ProcessExited] | None:
    """What ended a stream that drahealth did not cancel; None for the driver itself, while it ran.

    The cause is a signal of drahealth that the process got before, or the exit of the process. A process that got a
    signal still accepts streams for a moment. An exit is recorded after the end of the streams. It is the cause only
    if the process did nothing in between. It is also the cause for streams that a kubelet opens later, before the
    driver is registered again.
    """
    if opened.experiment not in EXPERIMENTS:
        return None
    process = EXPERIMENTS[opened.experiment].process
    starts = (one.number for one in evidence.of(ProcessStarted) if one.what.process == process)
    since = max((number for number in starts if number < opened.number), default=0)
    for sent in evidence.of(SignalSent):
        if sent.what.process == process and since < sent.number < closed.number and _ends(sent.what):
            return sent
    exits = [one for one in evidence.of(ProcessExited) if one.what.process == process]
    before = next((one for one in reversed(exits) if one.number < opened.number), None)
    if before and not _registers(evidence, process, before.number, opened.number):
        return before
    exit_ = next((one for one in exits if one.number > closed.number), None)
    if exit_ is None or _signalled(evidence, exit_) or _works(evidence, process, closed, exit_.number):
        return None
    return exit_


def _registers(evidence: Evidence, process: str, since: int, until: int) -> bool:
    """Whether a driver, or a device plugin, registered between two records."""
    for record in evidence.records:
        if not since < record.number < until or EXPERIMENTS[record.experiment].process != process:
            continue
        match record.what:
            case PluginRegistered():
                return True
            case GrpcCall() as call if call.code == "OK" and f"/{call.method}" in _REGISTRATION:
                return True
    return False


def _works(evidence: Evidence, process: str, since: Observation[StreamClosed], until: int) -> bool:
    """Whether a process answered a call, or reported on a stream, that began after a record."""
    opened = set[str]()
    for record in evidence.records:
        if not since.number < record.number < until or EXPERIMENTS[record.experiment].process != process:
            continue
        match record.what:
            case StreamOpened(stream=stream):
                opened.add(stream)
            case ReportReceived(stream=stream) | ListReceived(stream=stream) if stream in opened:
                return True
            case GrpcCall() as call if call.code == "OK" and record.at - call.seconds > since.at:
                return True
    return False


def children_text(number: int) -> str:
    """How many child processes outlived a process for 10 s."""
    many = f"{number} child processes" if number > 1 else "a child process"
    return f"{many} still ran 10 s after the exit"


def _signalled(evidence: Evidence, exit_: Observation[ProcessExited]) -> bool:
    process = exit_.what.process
    starts = [one.number for one in evidence.of(ProcessStarted) if one.what.process == process]
    start = max((number for number in starts if number < exit_.number), default=0)
    ending = (one for one in evidence.of(SignalSent) if _ends(one.what))
    sent = [one.number for one in ending if one.what.process == process]
    return any(start < number < exit_.number for number in sent)


def _ends(sent: SignalSent) -> bool:
    return sent.signal not in ("SIGSTOP", "SIGCONT")


def _in_use(evidence: Evidence, exit_: Observation[ProcessExited]) -> bool:
    """drahealth kills a process at the end of its last experiment; such an exit comes after all of them ended."""
    process = exit_.what.process
    using = {one.experiment: one.number for one in evidence.of(ExperimentStarted) if one.what.process == process}
    ended = {one.experiment: one.number for one in evidence.of(ExperimentEnded)}
    return any(began < exit_.number and exit_.number < ended.get(name, inf) for name, began in using.items())


# The registration calls: GetInfo, NotifyRegistrationStatus, and what the driver advertises.

Call = Observation[GrpcCall]
_NOT_SERVED = {"UNIMPLEMENTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", ""}
"""gRPC codes that a served method does not answer to a valid call; "" is a message of another type."""


def get_info(evidence: Evidence, *experiments: str) -> Iterator[Call]:
    """The calls of GetInfo."""
    return _calls(evidence, GET_INFO.path, experiments)


def notified(evidence: Evidence, *experiments: str) -> Iterator[Call]:
    """The calls of NotifyRegistrationStatus."""
    return _calls(evidence, NOTIFY_REGISTRATION.path, experiments)


def descriptions(evidence: Evidence) -> list[Call]:
    """The last GetInfo of the socket that was registered in the main process; without one, that of each socket.

    Other sockets may be of other plugins, and the first attempts may fail.
    """
    last = {one.what.endpoint: one for one in get_info(evidence, "registration")}
    registered = next(notified(evidence, "registration"), None)
    return [one for one in last.values() if registered is None or one.what.endpoint == registered.what.endpoint]


def described(evidence: Evidence) -> Call | None:
    """The successful GetInfo of the driver."""
    return next((one for one in descriptions(evidence) if one.what.code == "OK"), None)


def driver_name(evidence: Evidence) -> str:
    """The name that the driver gave in GetInfo, or ""."""
    found = described(evidence)
    return text(found.what.response, "name") if found else ""


def advertised(evidence: Evidence) -> frozenset[str]:
    """The services that the driver advertises."""
    found = described(evidence)
    return frozenset(texts(found.what.response, "supported_versions")) if found else frozenset()


def is_served(call: GrpcCall) -> bool:
    """Whether the method is served. A NodePrepareResources without claims may have an error: kubelets never call it."""
    return call.code not in _NOT_SERVED


def outcome(call: GrpcCall) -> str:
    """How a call ended, such as `UNAVAILABLE: no connection`."""
    code = call.code or "no message of the method"
    return f"{code}: {call.details}" if call.details else code


def _calls(evidence: Evidence, path: str, experiments: tuple[str, ...]) -> Iterator[Call]:
    return (one for one in evidence.of(GrpcCall, *experiments) if f"/{one.what.method}" == path)


# The devices that a driver publishes, and when.

PUBLISH_LIMIT = 30.0
"""Seconds until a registered driver must have published its devices."""
SLICES_LIMIT = 90.0
"""Seconds until the slices must be back after a restart of the kubelet. Some drivers need more than 50 s."""


class Device(NamedTuple):
    """A device of the driver under test."""

    pool: str
    name: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.name}"


def named(devices: Collection[Device], limit: int = 5) -> str:
    """Some devices as text: the first few by name, and the number of the others."""
    names = sorted(map(str, devices))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more if names else "none"


def devices_of(resource_slice: Any) -> dict[Device, dict[str, Any]]:
    """The devices of a ResourceSlice, with their definitions."""
    pool = text(resource_slice, "spec", "pool", "name")
    return {
        Device(pool, text(one, "name")): one
        for one in sequence(resource_slice, "spec", "devices")
        if isinstance(one, dict)
    }


def slice_name(resource_slice: Any) -> str:
    """The name of the object."""
    return text(resource_slice, "metadata", "name")


def is_of(resource_slice: Any, driver: str) -> bool:
    """Whether the driver published it; True if the driver's name is unknown."""
    return not driver or text(resource_slice, "spec", "driver") == driver


@dataclass(frozen=True)
class Published:
    """The published devices over time."""

    states: tuple[tuple[float, int, dict[Device, dict[str, Any]]], ...]
    """Time, record and devices after each change."""

    def at(self, time: float) -> frozenset[Device] | None:
        """The devices at a time; None if they were not known yet."""
        before = [devices for at, _, devices in self.states if at <= time]
        return frozenset(before[-1]) if before else None

    @cached_property
    def ever(self) -> frozenset[Device]:
        """All devices that were published at any time."""
        return frozenset(device for _, _, devices in self.states for device in devices)

    @cached_property
    def always(self) -> frozenset[Device]:
        """The devices that were published at all times from the first list on."""
        sets = [frozenset(devices) for _, _, devices in self.states]
        return frozenset.intersection(*sets) if sets else frozenset()

    @property
    def record(self) -> tuple[int, ...]:
        """The record of the first list, if there is one."""
        return tuple(number for _, number, _ in self.states[:1])

    def allows_multiple_allocations(self, device: Device) -> bool:
        """Whether its definition says so."""
        found = (devices[device] for _, _, devices in self.states if device in devices)
        return any(at(one, "allowMultipleAllocations") is True for one in found)


def process_of(experiment: str) -> str:
    """The process of the driver that an experiment uses; "" for one of another release."""
    return EXPERIMENTS[experiment].process if experiment in EXPERIMENTS else ""


def experiments_of(process: str) -> tuple[str, ...]:
    """The experiments that use a process of the driver; for the main one only `slices`, which sees all its slices."""
    return tuple(one.name for one in EXPERIMENTS.values() if one.process == process != "main") or ("slices",)


def published(evidence: Evidence, *experiments: str) -> Published:
    """What the driver published; of the main process by default. A deletion by drahealth changes nothing."""
    driver = driver_name(evidence)
    slices: dict[str, dict[Device, dict[str, Any]]] = {}
    states = []
    for record in evidence.records:
        if record.experiment not in (experiments or ("slices",)):
            continue
        match record.what:
            case SlicesListed(found):
                slices = {slice_name(one): devices_of(one) for one in found if is_of(one, driver)}
            case SliceChanged(change, one, "driver") if is_of(one, driver):
                if change == "DELETED":
                    slices.pop(slice_name(one), None)
                else:
                    slices[slice_name(one)] = devices_of(one)
            case _:
                continue
        merged = {device: spec for devices in slices.values() for device, spec in devices.items()}
        states.append((record.at, record.number, merged))
    return Published(tuple(states))


def content(resource_slice: Any) -> dict[str, Any]:
    """What a ResourceSlice says of its devices: its spec without the numbers of the pool's generation."""
    spec = mapping(resource_slice, "spec")
    return {**spec, "pool": text(spec, "pool", "name")}


# The prepare and unprepare calls, claim by claim, with what was prepared before each.

Kind = Literal["prepare", "unprepare"]
_KINDS: dict[str, Kind] = {
    **{method.path: "prepare" for method in PREPARE.values()},
    **{method.path: "unprepare" for method in UNPREPARE.values()},
}


@dataclass(frozen=True, slots=True)
class Answered:
    """One device of an answer to NodePrepareResources."""

    device: Device
    requests: tuple[str, ...]
    cdi_ids: tuple[str, ...]


def answered(device: Any) -> Answered:
    """A device as plain data."""
    name = Device(text(device, "pool_name"), text(device, "device_name"))
    return Answered(name, texts(device, "request_names"), texts(device, "cdi_device_ids"))


@dataclass(frozen=True, slots=True)
class ClaimCall:
    """A prepare or unprepare call."""

    number: int
    began: float
    ended: float
    kind: Kind
    call: GrpcCall
    claims: tuple[str, ...]
    """UIDs of the request."""

    def has_result(self, uid: str) -> bool:
        """Whether the answer has a result for the claim."""
        return uid in mapping(self.call.response, "claims")

    def problem(self, uid: str) -> str:
        """Why the call did nothing for the claim; "" if it succeeded."""
        if self.call.code != "OK" or self.call.response is None:
            return outcome(self.call)
        if not self.has_result(uid):
            return "the answer has no result for the claim"
        return text(self.call.response, "claims", uid, "error")

    def devices(self, uid: str) -> tuple[Answered, ...]:
        """The devices that the answer has for the claim."""
        return tuple(map(answered, sequence(self.call.response, "claims", uid, "devices")))


@dataclass(frozen=True, slots=True)
class Step:
    """What one call did for one claim."""

    call: ClaimCall
    uid: str
    problem: str
    """"" if it succeeded."""
    devices: tuple[Answered, ...]
    held: tuple[Answered, ...] | None
    """The devices that were prepared for the claim before; None if it was not prepared."""
    known: bool
    """Whether the claim was prepared at any time before."""
    others: dict[str, tuple[Answered, ...]] = field(default_factory=dict)
    """The other claims that were prepared before, with their devices."""

    @property
    def number(self) -> int:
        """The record of the call."""
        return self.call.number


def claim_calls(evidence: Evidence, *experiments: str) -> list[ClaimCall]:
    """The calls of these experiments that name a claim, in order."""
    found = []
    for one in evidence.of(GrpcCall, *experiments):
        if kind := _KINDS.get(f"/{one.what.method}"):
            uids = tuple(text(claim, "uid") for claim in sequence(one.what.request, "claims"))
            if uids:
                found.append(ClaimCall(one.number, one.at - one.what.seconds, one.at, kind, one.what, uids))
    return found


def steps(evidence: Evidence, *experiments: str) -> Iterator[Step]:
    """Each claim of each call, in order."""
    held: dict[str, tuple[Answered, ...]] = {}
    known: set[str] = set()
    for call in claim_calls(evidence, *experiments):
        for uid in dict.fromkeys(call.claims):
            problem, devices = call.problem(uid), call.devices(uid)
            others = {other: found for other, found in held.items() if other != uid}
            yield Step(call, uid, problem, devices, held.get(uid), uid in known, others)
            if not problem and call.kind == "prepare":
                held[uid] = devices
                known.add(uid)
            elif not problem:
                held.pop(uid, None)


def allocations(evidence: Evidence, *experiments: str) -> dict[str, Observation[ClaimAllocated]]:
    """The allocated claims by UID."""
    return {one.what.claim_uid: one for one in evidence.of(ClaimAllocated, *experiments)}


def allocated(claim: ClaimAllocated, driver: str) -> dict[Device, list[dict[str, object]]]:
    """The allocation results of this driver by device; of all drivers if its name is unknown."""
    found: dict[Device, list[dict[str, object]]] = {}
    for result in claim.results:
        if not driver or text(result, "driver") == driver:
            found.setdefault(Device(text(result, "pool"), text(result, "device")), []).append(result)
    return found


def is_admin_access(result: dict[str, object]) -> bool:
    """Whether the request has admin access: it may use devices of other claims."""
    return at(result, "adminAccess") is True
