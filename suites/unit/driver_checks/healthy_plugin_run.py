"""The evidence of a run with a healthy device plugin, written by hand. Tests edit it to break one thing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drahealth.proto.events import (
    CdiSpec,
    CdiSpecsRead,
    ChildrenEnded,
    ContainerSeen,
    Event,
    ExperimentEnded,
    ExperimentStarted,
    FaultCleared,
    FaultInjected,
    FaultStage,
    GrpcCall,
    KubeletSwitched,
    ListReceived,
    PodDeleted,
    PodRequested,
    ProcessExited,
    ProcessStarted,
    SignalSent,
    SocketRemoved,
    SocketsListed,
    StatusSeen,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.services import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    PRE_START_CONTAINER,
    REGISTER,
    Unary,
)
from drahealth.proto.values import Health, PluginDevice, ResourceHealth, ResourceStatus
from drahealth.suites.driver_checks.evidence import CANCELLED_BY_US, Evidence
from drahealth.suites.driver_checks.experiments import DEVICE_PLUGIN_EXPERIMENTS, UNKNOWN_DEVICE
from drahealth.suites.unit.driver_checks.evidence_of import HEADER, evidence_at

Edit = Callable[[str, Event], Event | None]
"""Gets an experiment and an event; returns the event that takes its place, or None to leave it out."""

RESOURCE, SOCKET, PATH = "example.com/gpu", "gpu.sock", "{run_dir}/device-plugins/gpu.sock"
A, B = PluginDevice("gpu-0"), PluginDevice("gpu-1")
OPTIONS = {"pre_start_required": True, "get_preferred_allocation_available": True}
REGISTRATION = {"version": "v1beta1", "endpoint": SOCKET, "resource_name": RESOURCE, "options": OPTIONS}
FIRST, AGAIN, AFTER_RESTART = "kubelet#1", "kubelet#2", "kubelet#3"
BROKEN = "kubelet#4"
PLUGIN_HEADER = replace(HEADER, subject="device-plugin", level="full")
POD_EXPERIMENTS = ("plugin-pod-status", "plugin-pod-faults", "plugin-kubelet-pod")


def called(method: Unary[Any, Any], request: Mapping[str, Any], response: Mapping[str, Any] | None) -> GrpcCall:
    """A call; with None as response it failed."""
    path = method.path.removeprefix("/")
    by: Any = {"caller": "plugin"} if method is REGISTER else {}
    code, answer = ("NOT_FOUND", None) if response is None else ("OK", {**response})
    return GrpcCall(RESOURCE, PATH, path, {**request}, answer, 0.01, code, "" if response is not None else "no", **by)


def allocated(*containers: str) -> GrpcCall:
    """A call of Allocate for containers with one device each."""
    requests = [{"devices_ids": [device]} for device in containers]
    names = {device: [{"name": f"{RESOURCE}={device}"}] for device in containers}
    responses = [{"envs": {"DEVICES": device}, "cdi_devices": names[device]} for device in containers]
    known = UNKNOWN_DEVICE not in containers
    answer = {"container_responses": responses} if known else None
    return called(ALLOCATE, {"container_requests": requests}, answer)


def preferred(available: list[str], included: list[str], chosen: list[str]) -> GrpcCall:
    """A call of GetPreferredAllocation."""
    wanted = {"available_deviceIDs": available, "must_include_deviceIDs": included, "allocation_size": len(chosen)}
    response = {"container_responses": [{"deviceIDs": chosen}]}
    return called(GET_PREFERRED_ALLOCATION, {"container_requests": [wanted]}, response)


def listing(stream: str, *lists: tuple[PluginDevice, ...]) -> list[Event]:
    """A stream with these lists, which drahealth cancelled."""
    received = (ListReceived(RESOURCE, PATH, stream, 20, devices) for devices in lists)
    opened = StreamOpened(RESOURCE, "", stream, "v1beta1.DevicePlugin", PATH)
    return [opened, *received, StreamClosed(RESOURCE, "", stream, CANCELLED_BY_US, PATH, "CANCELLED")]


def sockets(process: str, moment: Any, *device_plugins: str) -> SocketsListed:
    """The sockets of device plugins."""
    return SocketsListed(process, moment, (), (), device_plugins)


ASKED = called(GET_OPTIONS, {}, OPTIONS)
REGISTERED = called(REGISTER, REGISTRATION, {})
REFUSED = replace(REGISTERED, code="INVALID_ARGUMENT", response=None, details="refused by drahealth")
UP, DOWN = KubeletSwitched("main", running=True), KubeletSwitched("main", running=False)
STARTED, SICK = ProcessStarted("main", 7, ("./plugin",)), PluginDevice("gpu-1", "Unhealthy")
STAGE = FaultStage("planned", "idle", (f"{RESOURCE}/gpu-1",), ("recover",), (), ("before",))
CDI_SPECS = CdiSpecsRead((CdiSpec("gpu.json", "", (f"{RESOURCE}=gpu-0", f"{RESOURCE}=gpu-1")),))


def pod_status(
    uid: str, health: Health = Health.HEALTHY, device: str = "gpu-1", resource: str = RESOURCE
) -> StatusSeen:
    """The status of a running Pod with a device."""
    shown = (ResourceStatus(resource, (ResourceHealth(device, health),)),)
    return StatusSeen("pod", uid, "Running", (ContainerSeen("main", "running", 0, shown),))


def pod(stream: str, uid: str, profile: str, *more: Event | float) -> list[Event | float]:
    """A Pod with a device, from its creation to its end. A number is a time in which nothing happens."""
    created = PodRequested("created", "pod", uid, (), profile)
    listed = ListReceived(RESOURCE, PATH, stream, 20, (A, B))
    ends: list[Event | float] = [replace(created, change="deleted"), PodDeleted("pod", uid, "default")]
    return [created, allocated("gpu-1"), listed, pod_status(uid), 12.0, *more, *ends]


def pod_fault(stream: str, uid: str) -> list[Event | float]:
    """A fault of the device of a Pod."""
    what: Any = ("pod-broken", "hot", "break", RESOURCE, "gpu-1", "write health/gpu-1", "forced", "Unhealthy", 1.0)
    done: Any = ("done", 0.01)
    cleared: Any = ("pod-broken", "hot", RESOURCE, "gpu-1", "remove health/gpu-1", 1.0)
    return [
        FaultInjected(*(*what, *done)),
        ListReceived(RESOURCE, PATH, stream, 20, (A, SICK)),
        pod_status(uid, Health.UNHEALTHY),
        FaultCleared(*(*cleared, *done)),
        ListReceived(RESOURCE, PATH, stream, 20, (A, B)),
        pod_status(uid),
    ]


EVENTS: dict[str, Sequence[Event | float]] = {
    "plugin-registration": [UP, STARTED, ASKED, REGISTERED, sockets("main", "registered", PATH)],
    "list-and-watch": [*listing(FIRST, (A, B), (A, SICK)), *listing(AGAIN, (A, SICK))],
    "allocation": [
        *(allocated("gpu-1"), allocated("gpu-1"), allocated("gpu-0"), allocated("gpu-1", "gpu-0")),
        *(CDI_SPECS, allocated(UNKNOWN_DEVICE)),
    ],
    "preferred-allocation": [
        preferred(["gpu-0", "gpu-1"], [], ["gpu-0"]),
        preferred(["gpu-0", "gpu-1"], ["gpu-1"], ["gpu-1"]),
    ],
    "container-start": [allocated("gpu-1"), called(PRE_START_CONTAINER, {"devices_ids": ["gpu-1"]}, {})],
    "plugin-kubelet-restart": [DOWN, UP, ASKED, REGISTERED, *listing(AFTER_RESTART, (A, B)), allocated("gpu-1")],
    "plugin-end": [
        SignalSent("main", "SIGTERM"),
        ProcessExited("main", 7, 0, 0, ()),
        ChildrenEnded("main", 7, 0),
        sockets("main", "ended"),
    ],
    "refused-plugin": [UP, ASKED, REFUSED, DOWN, UP, ASKED, REGISTERED],
    "removed-socket": [UP, ASKED, REGISTERED, SocketRemoved("restarted", PATH), ASKED, REGISTERED],
    "plugin-fault-plan": [
        *listing(BROKEN, (A, B))[:2],
        STAGE,
        FaultInjected(
            *("planned", "hot", "break", RESOURCE, "gpu-1", "write health/gpu-1", "forced", "Unhealthy", 1.0),
            *("done", 0.01),
        ),
        *(ListReceived(RESOURCE, PATH, BROKEN, 20, (A, SICK)),) * 2,
        STAGE,
        FaultCleared("planned", "hot", RESOURCE, "gpu-1", "remove health/gpu-1", 1.0, "done", 0.01),
        ListReceived(RESOURCE, PATH, BROKEN, 20, (A, B)),
        listing(BROKEN)[-1],
    ],
    "plugin-pod-status": [
        *listing("kubelet#5", (A, B))[:2],
        *pod("kubelet#5", "u1", "kep"),
        *pod("kubelet#5", "u2", "kep"),
        listing("kubelet#5")[-1],
    ],
    "plugin-pod-faults": [
        *listing("kubelet#6", (A, B))[:2],
        *pod("kubelet#6", "u3", "kep", *pod_fault("kubelet#6", "u3")),
        listing("kubelet#6")[-1],
    ],
    "plugin-kubelet-pod": [
        *listing("kubelet#7", (A, B))[:2],
        *pod("kubelet#7", "u4", "v1.37", *pod_fault("kubelet#7", "u4"), 12.0),
        listing("kubelet#7")[-1],
    ],
}
"""What happens in each experiment."""


def plugin_run(edit: Edit = lambda _, event: event, *, ends: Mapping[str, ExperimentEnded] | None = None) -> Evidence:
    """The evidence after an edit of each event. `ends` replaces the ends of experiments."""
    records: list[tuple[float, str, Event]] = []
    at = 0.0
    for name, happened in EVENTS.items():
        process = next(one.process for one in DEVICE_PLUGIN_EXPERIMENTS if one.name == name)
        end = (ends or {}).get(name, ExperimentEnded("done"))
        for event in (ExperimentStarted(process), *happened, end):
            at += event if isinstance(event, float) else 0.5
            if isinstance(event, float):
                continue
            if kept := edit(name, event):
                records.append((at, name, kept))
    return evidence_at(*records, header=PLUGIN_HEADER)
