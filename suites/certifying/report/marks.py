"""Marks: what drahealth did to the driver over time, and how its processes and streams ended. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from drahealth.proto.events import (
    ApiServerSwitched,
    BackendSwitched,
    Event,
    FaultCleared,
    FaultInjected,
    GrpcCall,
    KubeletSwitched,
    MalformedReceived,
    PodRequested,
    ProcessExited,
    ProcessStarted,
    SignalSent,
    StreamClosed,
)
from drahealth.proto.services import GET_INFO, PREPARE, UNPREPARE
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.streams import OURS

Kind = Literal["fault", "cleared", "process", "server", "call", "problem", "step"]
_LIMIT = 200
"""The most marks of one process."""
_CALLS = {one.path.removeprefix("/") for one in (GET_INFO, *PREPARE.values(), *UNPREPARE.values())}


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that was done, or that ended unexpectedly."""

    at: float
    kind: Kind
    text: str


def marks(evidence: Evidence, process_of: Mapping[str, str]) -> dict[str, tuple[Mark, ...]]:
    """The marks of each process of the driver, in order. `process_of` has the process of each experiment."""
    found: dict[str, list[Mark]] = {}
    for record in evidence.records:
        if kind_and_text := _mark(record.what):
            process = getattr(record.what, "process", "") or process_of.get(record.experiment, "")
            found.setdefault(process, []).append(Mark(record.at, *kind_and_text))
    return {process: tuple(each[:_LIMIT]) for process, each in found.items()}


def _mark(event: Event) -> tuple[Kind, str] | None:
    match event:
        case ProcessStarted():
            return "process", f"process {event.pid} started"
        case ProcessExited():
            return "process", f"process {event.pid} ended, exit code {event.exit_code}"
        case SignalSent():
            return "process", f"{event.signal} sent"
        case ApiServerSwitched():
            return "server", f"API server {'reachable' if event.reachable else 'unreachable'}"
        case BackendSwitched():
            return "server", f"backend {event.script} {'started' if event.running else 'killed'}"
        case FaultInjected() | FaultCleared() if event.outcome != "done":
            return "problem", f"fault {event.fault}, {event.action}: {event.outcome}: {event.problem}"
        case FaultInjected():
            step = "injected" if event.step == "break" else "cause changed"
            return "fault", f"fault {event.fault} {step} on {event.device}: {event.action}"
        case FaultCleared():
            return "cleared", f"fault {event.fault} cleared on {event.device}: {event.action}"
        case KubeletSwitched():
            return "server", f"kubelet {'started' if event.running else 'stopped'}"
        case PodRequested():
            return "call", f"Pod {event.pod} {event.change}"
        case GrpcCall():
            return call_mark(event)
        case StreamClosed(why=why) if why != OURS and event.code not in ("UNIMPLEMENTED", "UNAVAILABLE"):
            return "problem", f"stream {event.stream} ended: {why}"
        case MalformedReceived():
            return "problem", f"malformed report on stream {event.stream}"
        case _:
            return None


def call_mark(call: GrpcCall) -> tuple[Kind, str] | None:
    """A call that registers a driver or prepares claims; a problem if it failed."""
    if call.method not in _CALLS:
        return None
    name = call.method.rpartition("/")[2]
    return ("call", name) if call.code == "OK" else ("problem", f"{name}: {call.code} {call.details}")
