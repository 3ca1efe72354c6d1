"""What a history is made of: one small record for each thing that happened, and its JSON Lines form.

Whoever makes events takes an `observe(event)` callable and knows nothing of histories. Times are monotonic seconds of
the machine that saw the event. The first line of a file is the header `{"history": "drahealth/v1"}`.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Any, Literal

from drahealth.proto.extended_resources import PluginDevice
from drahealth.proto.values import DeviceHealth, ResourceStatus

VERSION = "drahealth/v1"


@dataclass(frozen=True, slots=True)
class Registered:
    """A plugin instance was told the outcome of its registration."""

    driver: str
    instance: str
    ok: bool
    error: str = ""
    event: Literal["registered"] = "registered"


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """A kubelet opened a health stream; `stream` is unique in the history."""

    driver: str
    instance: str
    stream: str
    health_api: str
    event: Literal["stream-opened"] = "stream-opened"


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """That stream ended; `why` in a word or two."""

    driver: str
    instance: str
    stream: str
    why: str
    event: Literal["stream-closed"] = "stream-closed"


@dataclass(frozen=True, slots=True)
class ReportSent:
    """The driver wrote one message to a stream. `complete`: it listed all its devices."""

    driver: str
    instance: str
    stream: str
    devices: tuple[DeviceHealth, ...]
    complete: bool = True
    event: Literal["report-sent"] = "report-sent"


@dataclass(frozen=True, slots=True)
class DevicesListed:
    """A device plugin wrote its list to a stream, in its own words; `driver` is the resource."""

    driver: str
    instance: str
    stream: str
    devices: tuple[PluginDevice, ...]
    event: Literal["devices-listed"] = "devices-listed"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The driver prepared a claim for the kubelet."""

    driver: str
    instance: str
    claim_uid: str
    devices: tuple[str, ...]
    event: Literal["prepared"] = "prepared"


@dataclass(frozen=True, slots=True)
class Unprepared:
    """The driver was asked to undo the preparation of a claim."""

    driver: str
    instance: str
    claim_uid: str
    event: Literal["unprepared"] = "unprepared"


@dataclass(frozen=True, slots=True)
class ContainerSeen:
    """One container of a seen status. `state`: running, terminated, or the reason it waits for."""

    name: str
    state: str
    restarts: int
    resources: tuple[ResourceStatus, ...] | None
    """None: the field was not there."""


@dataclass(frozen=True, slots=True)
class StatusSeen:
    """A Pod status as a client of the API saw it."""

    pod: str
    uid: str
    phase: str
    containers: tuple[ContainerSeen, ...]
    init_containers: tuple[ContainerSeen, ...] = ()
    resources: tuple[ResourceStatus, ...] | None = None
    """The pod's own, of what no container uses. None: the field was not there."""
    event: Literal["status-seen"] = "status-seen"

    def entries(self) -> Iterator[tuple[str, tuple[ResourceStatus, ...]]]:
        """Each `allocatedResourcesStatus` with the name of its container, "" for the pod's own; () where it is not."""
        for container in (*self.init_containers, *self.containers):
            yield container.name, container.resources or ()
        yield "", self.resources or ()


@dataclass(frozen=True, slots=True)
class EventSeen:
    """An event (core/v1) on a pod, as a client of the API saw it; seen again when its count has grown."""

    pod: str
    uid: str
    """Of the pod."""
    type: str
    reason: str
    message: str
    count: int = 1
    event: Literal["event-seen"] = "event-seen"


@dataclass(frozen=True, slots=True)
class GateSet:
    """The feature gate was set, by a restart of the API server and the kubelet."""

    gate: str
    on: bool
    """On both sides."""
    api_server: bool | None = None
    """On that side; None: nobody has noted it, as in older histories."""
    kubelet: bool | None = None
    """Likewise."""
    event: Literal["gate-set"] = "gate-set"


@dataclass(frozen=True, slots=True)
class Restarted:
    """A component was restarted or its process ended and began again."""

    component: str
    event: Literal["restarted"] = "restarted"


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The node's clock jumped over so many seconds, which the times of the records do not show."""

    seconds: float
    event: Literal["time-passed"] = "time-passed"


@dataclass(frozen=True, slots=True)
class Step:
    """The story goes on: a line of the scenario, in words."""

    text: str
    event: Literal["step"] = "step"


Event = (
    Registered
    | StreamOpened
    | StreamClosed
    | ReportSent
    | DevicesListed
    | Prepared
    | Unprepared
    | StatusSeen
    | EventSeen
    | GateSet
    | Restarted
    | TimePassed
    | Step
)
Observe = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Record:
    """An event with its time."""

    at: float
    what: Event


def ignore(event: Event) -> None:
    """The observer for those who do not care."""


def to_json(event: Event) -> dict[str, Any]:
    """The event as plain data; `from_json` reads it back."""
    return asdict(event)


@cache
def _reader() -> Any:
    from pydantic import Field, TypeAdapter  # heavy, and only who reads a history needs it

    return TypeAdapter(Annotated[Event, Field(discriminator="event")])


def from_json(data: Any) -> Event:
    """The event of plain data. Raises ValueError, which says what is wrong with which field, where it is none."""
    from pydantic import ValidationError

    try:
        event: Event = _reader().validate_python(data, strict=False)
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, e['loc'])) or 'event'}: {e['msg']}" for e in error.errors())
        raise ValueError("; ".join(wrong)) from None
    return event


def dump_lines(records: Iterable[Record]) -> Iterator[str]:
    """The records as JSON Lines, header first."""
    yield json.dumps({"history": VERSION})
    for record in records:
        yield json.dumps({"at": round(record.at, 6), **to_json(record.what)})


def load_lines(lines: Iterable[str]) -> list[Record]:
    """The records of JSON Lines. Raises ValueError with the number of the line that is not one."""
    records = []
    number = 0
    for number, line in enumerate(lines, start=1):
        try:
            data = _object(line)
            if number > 1:
                records.append(_record(data))
            elif data.get("history") != VERSION:
                raise ValueError(f"not a history of version {VERSION}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}: {error}") from error
    if not number:
        raise ValueError(f"line 1: it is empty, not a history of version {VERSION}")
    return records


def _object(line: str) -> dict[str, Any]:
    data = json.loads(line)
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    return data


def _record(data: dict[str, Any]) -> Record:
    at = data.pop("at", None)
    if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
        raise ValueError(f"its time is {at!r}, not a number of seconds")
    return Record(at, from_json(data))
