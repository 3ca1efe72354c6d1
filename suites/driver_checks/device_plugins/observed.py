"""What evidence shows of a device plugin: registrations, calls, lists and Pods. Pure."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from drahealth.proto.events import (
    Event,
    FaultCleared,
    FaultInjected,
    FaultStage,
    GrpcCall,
    ListReceived,
    MalformedReceived,
    PodRequested,
    ProcessExited,
    SocketRemoved,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.quoting import one_line
from drahealth.proto.services import ALLOCATE, DEVICE_PLUGIN, GET_INFO, GET_OPTIONS, REGISTER, VERSION, Unary
from drahealth.proto.values import Health, health_of, is_extended_resource
from drahealth.suites.driver_checks.evidence import CANCELLED_BY_US, Evidence, Observation
from drahealth.suites.driver_checks.fault_plan import KUBELET_RESTARTS
from drahealth.suites.driver_checks.observed import (
    Call,
    Device,
    crashes,
    get_info,
    mapping,
    notified,
    sequence,
    text,
    texts,
)
from drahealth.suites.driver_checks.observed_health import BY_MANAGER, OWN_DELAY
from drahealth.suites.driver_checks.observed_pods import PodRun, Reports, Shown, pod_run

# What evidence shows of a device plugin: registrations, calls and ListAndWatch streams. Pure.

FIRST_LIST_LIMIT = 10.0
"""Seconds until a stream must have its first list."""
FIRST_LIST_WAIT = FIRST_LIST_LIMIT + OWN_DELAY
"""Seconds for which experiments wait for the first list of a stream, and after which checks take it as late."""


def registration_problem(resource: str, *versions: str) -> str:
    """Why a kubelet refuses these fields of a registration (D-11); empty if it accepts them."""
    if VERSION not in versions:
        return f"version must be {VERSION}, got {one_line(', '.join(map(repr, versions)) or 'none')}"
    if not is_extended_resource(resource):
        return f"{one_line(repr(resource))} is not the name of an extended resource, such as example.com/gpu"
    return ""


def plugin_crashes(evidence: Evidence, *processes: str) -> Iterator[Observation[ProcessExited]]:
    """The exits of these processes without a signal. After a restart of the kubelet a plugin may exit."""
    for one in crashes(evidence, *processes):
        stages = [stage for stage in evidence.of(FaultStage, one.experiment) if stage.number < one.number]
        if one.experiment != "plugin-kubelet-restart" and not (stages and stages[-1].what.moment in KUBELET_RESTARTS):
            yield one


def calls(evidence: Evidence, method: Unary[Any, Any], *experiments: str) -> list[Call]:
    """The calls of a method."""
    return [one for one in evidence.of(GrpcCall, *experiments) if f"/{one.what.method}" == method.path]


def of_resource(evidence: Evidence, resource: str, others: Collection[str]) -> Evidence:
    """The evidence without the records of other resources."""
    return replace(evidence, records=tuple(one for one in evidence.records if _resource(one.what) not in others))


def _resource(event: Event) -> str:
    """The resource of an event; empty if it belongs to the whole process."""
    match event:
        case GrpcCall() if f"/{event.method}" == GET_INFO.path:
            return text(event.response, "name")
        case FaultInjected() | FaultCleared():
            return event.pool
        case SocketRemoved():
            return event.resource
        case GrpcCall() | StreamOpened() | ListReceived() | MalformedReceived() | StreamClosed():
            return event.driver
        case _:
            return ""


def resources_of(evidence: Evidence) -> tuple[str, ...]:
    """The resources that registered, in order."""
    return tuple(dict.fromkeys(one.resource for one in registrations(evidence)))


@dataclass(frozen=True, slots=True)
class Registration:
    """A registration: a call of Register, or a registration socket."""

    number: int
    resource: str
    versions: tuple[str, ...]
    endpoint: str
    problem: str
    """Why the kubelet refused it; empty if it accepted it."""
    options: dict[str, Any] | None
    """The options in Register; None for a registration socket."""


def registrations(evidence: Evidence, *experiments: str) -> list[Registration]:
    """The registrations that a kubelet answered, in order."""
    found = [
        Registration(
            one.number,
            text(one.what.request, "resource_name"),
            (text(one.what.request, "version"),),
            text(one.what.request, "endpoint"),
            one.what.details if one.what.code != "OK" else "",
            mapping(one.what.request, "options"),
        )
        for one in calls(evidence, REGISTER, *experiments)
    ]
    infos = {
        one.what.endpoint: one
        for one in get_info(evidence, *experiments)
        if text(one.what.response, "type") == DEVICE_PLUGIN
    }
    for one in notified(evidence, *experiments):
        if info := infos.get(one.what.endpoint):
            response = info.what.response
            versions = texts(response, "supported_versions")
            problem = text(one.what.request, "error")
            endpoint = text(response, "endpoint")
            found.append(Registration(one.number, text(response, "name"), versions, endpoint, problem, None))
    return sorted(found, key=lambda one: one.number)


def options_calls(evidence: Evidence, resource: str, *experiments: str) -> list[Call]:
    """The calls of GetDevicePluginOptions of a resource."""
    return [one for one in calls(evidence, GET_OPTIONS, *experiments) if one.what.driver == resource]


@dataclass
class ListStreamSeen:
    """A ListAndWatch stream."""

    opened: Observation[StreamOpened]
    lists: list[Observation[ListReceived]] = field(default_factory=list)
    malformed: Observation[MalformedReceived] | None = None
    closed: Observation[StreamClosed] | None = None

    @property
    def ended_early(self) -> bool:
        """Whether it ended, and neither drahealth nor the reference ended it."""
        return self.closed is not None and not self.closed.what.why.startswith((CANCELLED_BY_US, BY_MANAGER))


def list_streams(evidence: Evidence, *experiments: str) -> list[ListStreamSeen]:
    """The streams in the order in which they were opened."""
    found: dict[tuple[str, str], ListStreamSeen] = {}
    for record in evidence.records:
        if experiments and record.experiment not in experiments:
            continue
        match record.what:
            case StreamOpened():
                observation = Observation(record.number, record.at, record.experiment, record.what)
                found[record.experiment, record.what.stream] = ListStreamSeen(observation)
            case ListReceived() if seen := found.get((record.experiment, record.what.stream)):
                seen.lists.append(Observation(record.number, record.at, record.experiment, record.what))
            case MalformedReceived() if seen := found.get((record.experiment, record.what.stream)):
                seen.malformed = Observation(record.number, record.at, record.experiment, record.what)
            case StreamClosed() if seen := found.get((record.experiment, record.what.stream)):
                seen.closed = Observation(record.number, record.at, record.experiment, record.what)
            case _:
                continue
    return list(found.values())


def all_lists(evidence: Evidence) -> Iterator[Observation[ListReceived]]:
    """All lists of all experiments."""
    return evidence.of(ListReceived)


def ids(listed: Observation[ListReceived]) -> frozenset[str]:
    """The IDs of a list."""
    return frozenset(one.id for one in listed.what.devices)


@dataclass(frozen=True, slots=True)
class AllocateCall:
    """A call of Allocate."""

    call: Call
    containers: tuple[tuple[str, ...], ...]
    """The device IDs of each container request."""
    responses: tuple[dict[str, Any], ...]

    @property
    def number(self) -> int:
        """The record of the call."""
        return self.call.number

    @property
    def cdi_names(self) -> tuple[str, ...]:
        """The CDI devices of all responses, in their field and in annotations, each once."""
        found = (name for response in self.responses for name in _cdi_names(response))
        return tuple(dict.fromkeys(found))

    @property
    def succeeded(self) -> bool:
        """Whether the call succeeded, with any response."""
        return self.call.what.code == "OK"


_CDI_ANNOTATION = "cdi.k8s.io/"
"""Prefix of annotations with CDI devices. Source: the Go package `cdi`, `AnnotationPrefix`."""


def _cdi_names(response: dict[str, Any]) -> Iterator[str]:
    for device in sequence(response, "cdi_devices"):
        yield text(device, "name")
    for key, value in mapping(response, "annotations").items():
        if key.startswith(_CDI_ANNOTATION):
            yield from str(value).split(",")


def allocations(evidence: Evidence, *experiments: str) -> list[AllocateCall]:
    """The calls of Allocate, in order."""
    return [
        AllocateCall(
            one,
            tuple(texts(request, "devices_ids") for request in sequence(one.what.request, "container_requests")),
            tuple(
                response
                for response in sequence(one.what.response, "container_responses")
                if isinstance(response, dict)
            ),
        )
        for one in calls(evidence, ALLOCATE, *experiments)
    ]


def lacks_option(evidence: Evidence, option: str) -> Call | None:
    """The answer of GetDevicePluginOptions that does not advertise the option; None if there is none."""
    answered = [one for one in calls(evidence, GET_OPTIONS) if one.what.code == "OK"]
    return next((one for one in answered if not mapping(one.what.response).get(option)), None)


def without_healthy_device(evidence: Evidence) -> Observation[ListReceived] | None:
    """The first list, if it has no healthy device; None otherwise."""
    first = next(all_lists(evidence), None)
    if first is None or any(health_of(one.health) is Health.HEALTHY for one in first.what.devices):
        return None
    return first


# The Pods with devices of a device plugin: what was allocated, listed and shown in the status. Pure.


def plugin_pod_runs(evidence: Evidence, experiment: str) -> list[PodRun]:
    """The Pods of this experiment, in order. The pool of each device is its resource, and its reports are the lists."""
    created = [one for one in evidence.of(PodRequested, experiment) if one.what.change == "created"]
    ends = [*(one.number for one in created), evidence.records[-1].number + 1 if evidence.records else 0][1:]
    reports = _reports(evidence, experiment)
    return [
        replace(pod_run(evidence, one), allocated=_allocated(evidence, one, end), reports=reports, by_resource=True)
        for one, end in zip(created, ends, strict=True)
    ]


def _allocated(evidence: Evidence, created: Observation[PodRequested], end: int) -> tuple[tuple[str, Device], ...]:
    """What the kubelet allocated after the creation of the Pod."""
    found = [
        (call.call.what.driver, Device(call.call.what.driver, device))
        for call in allocations(evidence, created.experiment)
        if call.succeeded and created.number < call.number < end
        for devices in call.containers
        for device in devices
    ]
    return tuple(dict.fromkeys(found))


def _reports(evidence: Evidence, experiment: str) -> dict[Device, Reports]:
    found: dict[Device, Reports] = {}
    for listed in evidence.of(ListReceived, experiment):
        for one in listed.what.devices:
            shown = Shown(health_of(one.health))
            found.setdefault(Device(listed.what.driver, one.id), []).append((listed.at, listed.number, shown))
    return found
