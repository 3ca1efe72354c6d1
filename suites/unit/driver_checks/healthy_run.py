"""The evidence of a whole run with a healthy driver, written by hand. Tests edit it to break one thing."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from drahealth.proto.events import (
    ApiServerSwitched,
    CdiSpec,
    CdiSpecsRead,
    ChildrenEnded,
    ClaimAllocated,
    ClaimReadHeld,
    ContainerSeen,
    Event,
    ExperimentEnded,
    ExperimentStarted,
    FaultCleared,
    FaultInjected,
    GrpcCall,
    OutputMeasured,
    PluginRegistered,
    PodDeleted,
    PodRequested,
    PreparedClaim,
    PreparedClaimsRead,
    ProcessExited,
    ProcessStarted,
    ReportReceived,
    SignalSent,
    SliceChanged,
    SlicesListed,
    SocketsListed,
    StatusSeen,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH_DRAFT, V1, HealthApi
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, UNPREPARE
from drahealth.proto.values import DeviceHealth, Health, ResourceHealth, ResourceStatus
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.observed_health import OURS
from drahealth.suites.unit.driver_checks.evidence_of import HEADER, evidence_at

Record = tuple[float, str, Event]
Edit = Callable[[str, Event], Event | None]
"""Gets an experiment and an event; returns the event that takes its place, or None to leave it out."""

DRIVER, POOL, SOCKET = "gpu.example.com", "node-a", "/run/dra.sock"
DEVICES = ("gpu-0", "gpu-1", "gpu-2")
CHANGE, RECOVERY, END = 18.0, 30.0, 40.0
"""When gpu-0 becomes unhealthy, when it recovers, and when the watch ends."""
_STARTED = int(datetime.fromisoformat(HEADER.started).timestamp())
INFO = {
    "type": "DRAPlugin",
    "name": DRIVER,
    "endpoint": SOCKET,
    "supported_versions": [*PREPARE, *dict.fromkeys(api.advertised for api in HEALTH_APIS.values())],
}
EMPTY: Mapping[str, object] = {}


def healthy_run(
    edit: Edit = lambda _, event: event, *, started: bool = True, ends: Mapping[str, ExperimentEnded] | None = None
) -> Evidence:
    """The evidence after an edit of each event. `ends` replaces the ends of experiments."""
    header = HEADER if started else replace(HEADER, command=())
    records = []
    for at, experiment, event in RECORDS:
        if started or ("start" not in EXPERIMENTS[experiment].needs and not isinstance(event, ProcessStarted)):
            kept = edit(experiment, event)
            records += [] if kept is None else [(at, experiment, kept)]
    records += [(99.0, name, end) for name, end in (ends or {}).items()]
    return evidence_at(*records, header=header)


def without(kind: type[Event], *experiments: str) -> Edit:
    """Leaves out the events of one type."""
    return lambda experiment, event: None if isinstance(event, kind) and experiment in experiments else event


def unserved(_: str, event: Event) -> Event | None:
    """The driver answers Unimplemented to all health APIs."""
    if isinstance(event, StreamClosed):
        return replace(event, code="UNIMPLEMENTED", why="unknown service")
    return None if isinstance(event, ReportReceived) else event


def resource_slice(*names: str, **changes: object) -> dict[str, Any]:
    """The ResourceSlice of the driver."""
    devices = [{"name": name, "attributes": {"index": {"int": index}}} for index, name in enumerate(names or DEVICES)]
    pool = {"name": POOL, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "node-a", "pool": pool, "devices": devices}
    return {"metadata": {"name": "node-a-gpu"}, "spec": spec | changes}


def reported(name: str, at: float, api: HealthApi = V1) -> DeviceHealth:
    """What the driver reports of a device at a time."""
    broken = name == "gpu-0" and CHANGE <= at < RECOVERY
    health = Health.UNHEALTHY if broken else Health.HEALTHY
    return api.as_carried(DeviceHealth(POOL, name, health, "XID 79" if broken else "", 30, _STARTED + int(at)))


def _call(path: str, request: Mapping[str, object] = EMPTY, response: Mapping[str, object] = EMPTY) -> GrpcCall:
    return GrpcCall(DRIVER, SOCKET, path.removeprefix("/"), {**request}, {**response}, 0.01)


def _registration(ok: bool = True) -> tuple[GrpcCall, GrpcCall]:
    request: dict[str, object] = {"plugin_registered": True} if ok else {"error": "refused"}
    return _call(GET_INFO.path, {}, INFO), _call(NOTIFY_REGISTRATION.path, request)


def allocated(uid: str, device: str, **more: object) -> ClaimAllocated:
    """A claim for one device."""
    result = {"driver": DRIVER, "pool": POOL, "device": device, "request": "gpu", **more}
    return ClaimAllocated(uid, f"claim-{uid}", "default", (result,))


def prepare(claims: Mapping[str, str | None], **errors: str) -> GrpcCall:
    """NodePrepareResources of claims with their devices; those with an error have None."""
    answers = {
        uid: {"devices": [_prepared(name)]} if name else {"error": errors.get(uid, "not possible")}
        for uid, name in claims.items()
    }
    return _call(PREPARE["v1.DRAPlugin"].path, {"claims": [{"uid": uid} for uid in claims]}, {"claims": answers})


def _prepared(name: str) -> dict[str, Any]:
    return {"request_names": ["gpu"], "pool_name": POOL, "device_name": name, "cdi_device_ids": [cdi(name)]}


def unprepare(*uids: str) -> GrpcCall:
    """NodeUnprepareResources of claims."""
    answers: dict[str, object] = {uid: {} for uid in uids}
    return _call(UNPREPARE["v1.DRAPlugin"].path, {"claims": [{"uid": uid} for uid in uids]}, {"claims": answers})


def cdi(name: str) -> str:
    """The CDI device ID of a device."""
    return f"{DRIVER}/gpu={name}"


def _prepare_nothing(version: str = "v1.DRAPlugin") -> GrpcCall:
    return _call(PREPARE[version].path)


def stream(experiment: str, id_: str, api: HealthApi, start: float, times: list[float], end: float) -> Iterator[Record]:
    """A health stream with a report of all devices at each time; of prepared devices in the first draft."""
    yield start, experiment, StreamOpened(DRIVER, "", id_, api.name, SOCKET)
    for at in times:
        names = _prepared_at(at) if api is NODE_HEALTH_DRAFT else DEVICES
        devices = tuple(reported(name, at, api) for name in names)
        yield at, experiment, ReportReceived(DRIVER, SOCKET, id_, 90, devices)
    yield end, experiment, StreamClosed(DRIVER, "", id_, OURS, SOCKET, "CANCELLED")


_PREPARED = ((5.0, 7.0, ("gpu-1",)), (8.5, 10.0, ("gpu-1",)), (10.5, 12.0, ("gpu-1", "gpu-2")))


def _prepared_at(at: float) -> tuple[str, ...]:
    return next((names for start, end, names in _PREPARED if start < at < end), ())


def _claims() -> Iterator[Event]:
    """Half a second apart, from 4.5 s on; `_PREPARED` has the result."""
    yield allocated("a", "gpu-1")
    yield prepare({"a": "gpu-1"})
    yield CdiSpecsRead((CdiSpec("gpu.json", "", tuple(map(cdi, DEVICES))),))
    yield prepare({"a": "gpu-1"})
    yield ClaimReadHeld("none", False)
    yield unprepare("a")
    yield unprepare("a")
    yield unprepare("never")
    yield prepare({"a": "gpu-1", "y": None})
    yield allocated("t", "gpu-1")
    yield prepare({"t": None})
    yield unprepare("a", "t")
    yield prepare({"a": "gpu-1", "b": "gpu-2"})
    yield allocated("b", "gpu-2")
    yield ClaimReadHeld("none", False)
    yield unprepare("a", "b")


def _records() -> Iterator[Record]:
    yield from _main()
    yield from _slow_prepare()
    yield from _others()
    yield from _pod()
    yield from _kubelet_pod()
    yield from _broken_pod("pod-faults", "kep", f"{DRIVER}/{POOL}/")
    yield from _broken_pod("kubelet-pod-faults", "v1.37", cdi(""))
    for name, experiment in EXPERIMENTS.items():
        yield (END if name == "end" else 0.0), name, ExperimentStarted(experiment.process)


def _main() -> Iterator[Record]:
    yield 0.1, "registration", ProcessStarted("main", 1, ("./driver",))
    for call in _registration():
        yield 0.5, "registration", call
    yield 0.7, "registration", SocketsListed("main", "registered", ("gpu-reg.sock",), ("dra.sock",))
    for version in PREPARE:
        yield 1.0, "services", _prepare_nothing(version)
    yield 1.5, "slices", SlicesListed((resource_slice(),))
    regular, changes = [9.1, 15.1, 21.1, 27.1, 33.1, 38.5], [CHANGE, RECOVERY]
    for number, api in enumerate(HEALTH_APIS.values()):
        yield from stream("services", f"s{number}", api, 1.1, [1.2], 1.3)
        beats = [at + 0.05 for _, at, _ in _PREPARED] if api is NODE_HEALTH_DRAFT else []
        prepared = [5.5, 9.0, 11.0, *beats] if api is NODE_HEALTH_DRAFT else []
        yield from stream("watch", f"w{number}", api, 3, sorted([3.1, *prepared, *regular, *changes]), END - 1)
    for id_ in ("one", "two"):
        yield from stream("subscribers", id_, V1, 3, sorted([3.1, *regular, *changes]), END - 1)
    yield from stream("subscribers", "three", V1, 4, [4.1], 4.2)
    yield from stream("subscribers", "four", V1, 4.3, [4.4], 4.5)
    for number, event in enumerate(_claims()):
        yield 4.5 + number / 2, "claims", event
    yield from stream("claims", "prepared", NODE_HEALTH_DRAFT, 11.0, [11.05, 11.4], 11.5)
    for call in (*_registration(), _prepare_nothing()):
        yield 16.0, "reregistration", call
    yield END - 1, "slices", SlicesListed((resource_slice(),))
    yield END + 0.1, "end", SignalSent("main", "SIGTERM")
    yield END + 0.3, "end", ProcessExited("main", 1, 0, 0, ("bye",))
    yield END + 0.3, "end", ChildrenEnded("main", 1, 0)
    yield END + 0.4, "end", SocketsListed("main", "ended", (), ())
    yield END + 0.4, "end", OutputMeasured("main", 1, 4096, END)


def _slow_prepare() -> Iterator[Record]:
    yield 13.0, "slow-prepare", allocated("slow", "gpu-2")
    yield 13.1, "slow-prepare", ClaimReadHeld("slow", True)
    yield from stream("slow-prepare", "slow", V1, 13.3, [13.4], 13.5)
    for call in _registration():
        yield 13.6, "slow-prepare", call
    yield 14.0, "slow-prepare", ClaimReadHeld("slow", False)
    yield 14.1, "slow-prepare", replace(prepare({"slow": "gpu-2"}), seconds=1.0)


def _others() -> Iterator[Record]:
    for call in (*_registration(ok=False), _registration()[0]):
        yield 1.0, "refused-registration", call
    restarted: list[Event] = [
        *(ProcessStarted("restarted", 2, ("./driver",)), *_registration(), allocated("r", "gpu-1")),
        *(prepare({"r": "gpu-1"}), SignalSent("restarted", "SIGKILL"), ProcessExited("restarted", 2, -9, 0, ())),
        *(ProcessStarted("restarted", 3, ("./driver",)), *_registration(), prepare({"r": "gpu-1"}), unprepare("r")),
    ]
    for number, event in enumerate(restarted):
        yield 1 + number / 10, "driver-restart", event
    yield 2.0, "slice-deletion", SlicesListed((resource_slice(),))
    yield from stream("slice-deletion", "again", V1, 2.5, [2.6, 9.1, 15.1, CHANGE, 24.0, RECOVERY, 33.0, 38.5], 38.6)
    yield 3.0, "slice-deletion", SliceChanged("DELETED", resource_slice(), "check")
    yield 33.0, "slice-deletion", SliceChanged("ADDED", resource_slice())
    yield 33.1, "slice-deletion", SlicesListed((resource_slice(),))
    cut_off: list[Event] = [
        *(ApiServerSwitched("cut-off", False), ProcessStarted("cut-off", 4, ("./driver",)), *_registration()),
        *(ApiServerSwitched("cut-off", True), SlicesListed((resource_slice(),)), allocated("d", "gpu-1")),
        *(prepare({"d": "gpu-1"}), ApiServerSwitched("cut-off", False), *_registration(), _prepare_nothing()),
        *(unprepare("d"), ApiServerSwitched("cut-off", True), allocated("u", "gpu-1"), prepare({"u": "gpu-1"})),
        *(unprepare("u"), ApiServerSwitched("cut-off", False), SignalSent("cut-off", "SIGTERM")),
        *(ProcessExited("cut-off", 4, 0, 0, ()), SocketsListed("cut-off", "ended", (), ())),
        ApiServerSwitched("cut-off", True),
    ]
    for number, event in enumerate(cut_off):
        yield 1 + number, "api-server-down", event
    yield from stream("api-server-down", "cut", V1, 12.1, [12.2], 12.3)


def status(
    at: float, *names: str, phase: str = "Running", state: str = "running", prefix: str = f"{DRIVER}/{POOL}/"
) -> StatusSeen:
    """The status of a Pod with these devices, as the driver reported them at that time."""
    shown = [reported(name, at) for name in names]
    found = tuple(ResourceHealth(f"{prefix}{one.device}", one.health, one.message) for one in shown)
    main = ContainerSeen("main", state, 0, (ResourceStatus("claim:claim-0/gpu", found),))
    return StatusSeen("job", "pod", phase, (main,), namespace="default")


def _pod() -> Iterator[Record]:
    """A Pod with gpu-0, which becomes unhealthy and recovers, and gpu-1."""
    yield 0.4, "pod-status", _registration()[0]
    yield 0.5, "pod-status", PluginRegistered(DRIVER, SOCKET, V1.advertised)
    yield from stream("pod-status", "pod", V1, 0.6, [0.7, 9.0, CHANGE, 24.0, RECOVERY, 36.0], END)
    yield 1.0, "pod-status", allocated("p", "gpu-0")
    yield 1.0, "pod-status", allocated("q", "gpu-1")
    yield 1.1, "pod-status", PodRequested("created", "job", "pod", ("p", "q"), "kep")
    yield 1.2, "pod-status", status(0, phase="Pending", state="ContainerCreating")
    yield 1.3, "pod-status", prepare({"p": "gpu-0"})
    yield 1.4, "pod-status", prepare({"q": "gpu-1"})
    for at in (1.5, CHANGE, RECOVERY):
        yield at + 0.1, "pod-status", status(at, "gpu-0", "gpu-1")
    yield 1.7, "pod-status", CdiSpecsRead((CdiSpec("gpu.json", "", tuple(map(cdi, DEVICES))),))
    yield 38.0, "pod-status", CdiSpecsRead((CdiSpec("gpu.json", "", tuple(map(cdi, DEVICES))),))
    yield 38.1, "pod-status", PodRequested("deleted", "job", "pod", ("p", "q"), "kep")
    yield 38.2, "pod-status", unprepare("p")
    yield 38.3, "pod-status", unprepare("q")
    yield 38.4, "pod-status", PodDeleted("job", "pod", "default")


def _kubelet_pod() -> Iterator[Record]:
    """The same Pod on a real kubelet, whose calls are not seen."""
    run = "kubelet-pod-status"
    yield 0.6, run, _registration()[0]
    yield from stream(run, "beside", V1, 0.6, [0.7, 9.0, CHANGE, 24.0, RECOVERY, 36.0], END + 5)
    yield 1.0, run, allocated("p", "gpu-0")
    yield 1.0, run, allocated("q", "gpu-1")
    yield 1.1, run, PodRequested("created", "job", "pod", ("p", "q"), "v1.37")
    for at in (1.5, CHANGE, RECOVERY):
        yield at + 0.1, run, status(at, "gpu-0", "gpu-1", prefix=cdi(""))
    devices = {"p": _prepared("gpu-0"), "q": _prepared("gpu-1")}
    yield 42.0, run, PreparedClaimsRead(tuple(PreparedClaim(uid, DRIVER, (one,)) for uid, one in devices.items()))
    yield 42.1, run, PodRequested("deleted", "job", "pod", ("p", "q"), "v1.37")
    yield 43.0, run, PodDeleted("job", "pod", "default")


def _broken_pod(run: str, profile: str, prefix: str) -> Iterator[Record]:
    """A Pod whose gpu-1 breaks and heals."""
    yield 0.6, run, _registration()[0]
    yield 1.0, run, allocated("p", "gpu-1")
    yield 1.1, run, PodRequested("created", "job", "pod", ("p",), profile)
    yield 1.2, run, PreparedClaimsRead((PreparedClaim("p", DRIVER, (_prepared("gpu-1"),)),))
    step, device = (EXPERIMENTS[run].process, "hot"), (POOL, "gpu-1")
    yield 5.0, run, FaultInjected(*step, "break", *device, "write health", "forced", "Unhealthy", 1.0, "done", 0.1)
    yield 9.0, run, FaultCleared(*step, *device, "remove health", 1.0, "done", 0.1)
    yield 1.3, run, StreamOpened(DRIVER, "", "pod", V1.name, SOCKET)
    for at, health in ((1.5, Health.HEALTHY), (5.5, Health.UNHEALTHY), (9.5, Health.HEALTHY)):
        report = (replace(reported("gpu-1", at - 0.1, V1), health=health),)
        yield at - 0.1, run, ReportReceived(DRIVER, SOCKET, "pod", 90, report)
        shown = ResourceStatus("claim:claim-0", (ResourceHealth(f"{prefix}gpu-1", health),))
        yield at, run, StatusSeen("job", "pod", "Running", (ContainerSeen("main", "running", 0, (shown,)),))
    yield 12.0, run, PodRequested("deleted", "job", "pod", ("p",), profile)
    yield 13.0, run, PodDeleted("job", "pod", "default")


RECORDS = tuple(_records())
"""The records before any edit, not in order of time."""
