"""The event vocabulary: one type for each kind of event, one registry, one JSON form.

Fakes, manager, histories, logs, metrics, live views and `drahealth ctl watch` use these types:

- `plugin`: what a driver or device plugin does.
- `kubelet`: what a kubelet receives from plugins, and what it does.
- `summary`: summaries of reports.
- `pods`: Pods as clients of the API server receive them, and actions of a scenario on the node.
- `programs`: events of long-running commands about themselves.
- `timelines`: the steps of a timeline.
- `checks`: what `drahealth check` does to a driver, and what it observes outside gRPC.
- `faults`: what fault adapters do to devices and backends.

Code that emits events gets a callable `observe(event)`. The callable must not block, and must not raise.
docs/reference/events.md lists all events. It is generated from these types.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from drahealth.proto.events.checks import (
    ApiServerSwitched,
    BackendSwitched,
    CdiSpec,
    CdiSpecsRead,
    ChildrenEnded,
    ClaimAllocated,
    ClaimReadHeld,
    ExperimentEnded,
    ExperimentStarted,
    FaultCleared,
    FaultGap,
    FaultInjected,
    FaultStage,
    KubeletSwitched,
    OutputMeasured,
    PodRequested,
    PreparedClaim,
    PreparedClaimsRead,
    ProcessExited,
    ProcessStarted,
    SignalSent,
    SliceChanged,
    SlicesListed,
    SocketRemoved,
    SocketsListed,
)
from drahealth.proto.events.kubelet import (
    CheckpointWritten,
    GrpcCall,
    HealthRestored,
    ListReceived,
    MalformedReceived,
    Plain,
    PluginDeregistered,
    PluginRegistered,
    PodsNotified,
    RegistrationFailed,
    ReportReceived,
    Undecoded,
)
from drahealth.proto.events.plugin import (
    CANCELLED,
    DeviceChanged,
    DevicesListed,
    DeviceUnlisted,
    Prepared,
    Registered,
    RegistrationCallFailed,
    ReportSent,
    ReportSummary,
    StreamClosed,
    StreamOpened,
    Unprepared,
    Unregistered,
)
from drahealth.proto.events.pods import (
    ContainerRun,
    ContainerSeen,
    DevicesHeld,
    EventSeen,
    GateSet,
    HeldDevice,
    HeldResource,
    PodDeleted,
    PodRewritten,
    PodStateSeen,
    Restarted,
    StatusSeen,
    StatusWritten,
    Step,
    Stopped,
    TimePassed,
    TimeSkipped,
)
from drahealth.proto.events.programs import (
    CommandDone,
    DriverEnding,
    DriverRetired,
    DriverServed,
    DriverStarted,
    ExpectationFailed,
    ExpectationMet,
    ManagerStarted,
    ManagerStopped,
    ManifestRejected,
    StepDone,
    StepFailed,
    StepStarted,
    TimelineEnded,
    TimelineStarted,
)

DriverEvent = (
    Registered
    | RegistrationCallFailed
    | Unregistered
    | StreamOpened
    | StreamClosed
    | ReportSent
    | DevicesListed
    | Prepared
    | Unprepared
    | ReportSummary
    | DeviceChanged
    | DeviceUnlisted
    | PluginRegistered
    | PluginDeregistered
    | GrpcCall
    | ReportReceived
    | ListReceived
    | HealthRestored
    | MalformedReceived
    | DriverStarted
    | DriverServed
    | DriverEnding
    | DriverRetired
    | CommandDone
    | TimelineStarted
    | TimelineEnded
    | StepStarted
    | StepDone
    | StepFailed
    | ExpectationMet
    | ExpectationFailed
)
"""Events about one driver or device plugin, with its name as `driver`."""

Event = (
    DriverEvent
    | RegistrationFailed
    | PodsNotified
    | CheckpointWritten
    | StatusSeen
    | StatusWritten
    | PodStateSeen
    | PodRewritten
    | DevicesHeld
    | PodDeleted
    | EventSeen
    | GateSet
    | Restarted
    | Stopped
    | TimePassed
    | TimeSkipped
    | Step
    | ManagerStarted
    | ManagerStopped
    | ManifestRejected
    | ApiServerSwitched
    | BackendSwitched
    | KubeletSwitched
    | SocketRemoved
    | CdiSpecsRead
    | ChildrenEnded
    | ClaimAllocated
    | ClaimReadHeld
    | ExperimentEnded
    | ExperimentStarted
    | FaultCleared
    | FaultGap
    | FaultInjected
    | FaultStage
    | PodRequested
    | OutputMeasured
    | PreparedClaimsRead
    | ProcessExited
    | ProcessStarted
    | SignalSent
    | SliceChanged
    | SlicesListed
    | SocketsListed
)

EVENTS: Mapping[str, type[Event]] = {kind.event: kind for kind in get_args(Event)}
"""Every type of event, by its `event` name."""

IN_FULL = (GrpcCall, HealthRestored, ReportReceived, ListReceived, MalformedReceived, ReportSent, DevicesListed)
"""Complete messages of kubelets and drivers, for histories. Logs and live views show summaries."""

IN_SHORT = (ReportSummary, DeviceChanged, DeviceUnlisted)
"""Summaries of reports, for logs, metrics and live views."""

Observe = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Record:
    """An event with its time, in seconds on the monotonic clock of the machine that recorded it."""

    at: float
    what: Event


def ignore(event: Event) -> None:
    """An observer that drops events. Code whose events are expensive does not create them for this observer."""


def to_json(event: Event) -> dict[str, Any]:
    """The event as plain data. The first key is `event`, with the name of the event. `from_json` reads the data."""
    return {"event": event.event, **_adapter(event.event).dump_python(event, mode="json")}


def to_json_text(event: Event) -> str:
    """The same data as JSON text. For a report of thousands of devices, this is several times faster than `to_json`."""
    from pydantic_core import PydanticSerializationError

    try:
        fields = _adapter(event.event).dump_json(event).decode()
    except PydanticSerializationError:  # a text that is no Unicode, of which JSON has escapes
        return json.dumps(to_json(event))
    return f'{{"event":"{event.event}"{"," if fields != "{}" else ""}{fields[1:]}'


def from_json(data: Any) -> Event:
    """The event from plain data. Fields of later versions are ignored. Raises ValueError, which names the field."""
    from pydantic import ValidationError

    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    word = data.get("event")
    kind = EVENTS.get(word) if isinstance(word, str) else None
    if kind is None:
        raise ValueError(f"unknown event {word!r}")
    try:
        fields = {key: value for key, value in data.items() if key != "event"}
        event: Event = _adapter(kind.event).validate_python(fields)
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, (word, *e['loc'])))}: {e['msg']}" for e in error.errors())
        raise ValueError("; ".join(wrong)) from None
    return event


@cache
def _adapter(word: str) -> Any:
    from pydantic import TypeAdapter  # heavy, and only code that writes or reads events needs it

    return TypeAdapter(EVENTS[word])


__all__ = [
    "CANCELLED",
    "EVENTS",
    "IN_FULL",
    "IN_SHORT",
    "ApiServerSwitched",
    "BackendSwitched",
    "CdiSpec",
    "CdiSpecsRead",
    "CheckpointWritten",
    "ChildrenEnded",
    "ClaimAllocated",
    "ClaimReadHeld",
    "CommandDone",
    "ContainerRun",
    "ContainerSeen",
    "DeviceChanged",
    "DeviceUnlisted",
    "DevicesHeld",
    "DevicesListed",
    "DriverEnding",
    "DriverEvent",
    "DriverRetired",
    "DriverServed",
    "DriverStarted",
    "Event",
    "EventSeen",
    "ExpectationFailed",
    "ExpectationMet",
    "ExperimentEnded",
    "ExperimentStarted",
    "FaultCleared",
    "FaultGap",
    "FaultInjected",
    "FaultStage",
    "GateSet",
    "GrpcCall",
    "HealthRestored",
    "HeldDevice",
    "HeldResource",
    "KubeletSwitched",
    "ListReceived",
    "MalformedReceived",
    "ManagerStarted",
    "ManagerStopped",
    "ManifestRejected",
    "Observe",
    "OutputMeasured",
    "Plain",
    "PluginDeregistered",
    "PluginRegistered",
    "PodDeleted",
    "PodRequested",
    "PodRewritten",
    "PodStateSeen",
    "PodsNotified",
    "Prepared",
    "PreparedClaim",
    "PreparedClaimsRead",
    "ProcessExited",
    "ProcessStarted",
    "Record",
    "Registered",
    "RegistrationCallFailed",
    "RegistrationFailed",
    "ReportReceived",
    "ReportSent",
    "ReportSummary",
    "Restarted",
    "SignalSent",
    "SliceChanged",
    "SlicesListed",
    "SocketRemoved",
    "SocketsListed",
    "StatusSeen",
    "StatusWritten",
    "Step",
    "StepDone",
    "StepFailed",
    "StepStarted",
    "Stopped",
    "StreamClosed",
    "StreamOpened",
    "TimePassed",
    "TimeSkipped",
    "TimelineEnded",
    "TimelineStarted",
    "Undecoded",
    "Unprepared",
    "Unregistered",
    "from_json",
    "ignore",
    "to_json",
    "to_json_text",
]
