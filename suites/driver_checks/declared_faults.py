"""The faults of a driver profile as data: how each is caused, how it heals, and what the driver must report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from drahealth.proto.values import Health
from drahealth.suites.driver_checks.verdicts import Grade

MARGIN = 5.0
"""Seconds by which this machine may delay a report: they are added to the settle time of a fault."""
BACKEND_LIMIT = 60.0
"""Seconds in which a driver must use a restarted backend again."""
FAULTS_LIMIT = 60.0
"""Seconds that one experiment at a bad moment spends on faults: later faults of the driver profile are left out."""
ACTION_LIMIT = 10.0
"""Seconds in which an adapter must be done by default."""


@dataclass(frozen=True, slots=True)
class CreateFile:
    """Creates a file in an existing folder. Fails if the file exists."""

    path: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """Removes a file. Fails if it does not exist."""

    path: str


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Replaces the content of a file in one step. Creates the file if it does not exist, but not its folder."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Runs a program without a shell. Fails if it exits with another code than 0."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PatchObject:
    """Merges fields into an object of the driver's API server, as a JSON merge patch (RFC 7396)."""

    kind: str
    name: str
    namespace: str
    """Empty for kinds without namespaces."""
    merge: Mapping[str, Any]
    api_version: str = ""
    """Of a custom resource; empty for a kind of Kubernetes."""


@dataclass(frozen=True, slots=True)
class CallHttp:
    """Sends an HTTP request. Fails if the status of the answer is 400 or more."""

    url: str
    method: str = "POST"
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TellBackend:
    """Writes a line to a scripted backend, and waits for its answer. See `fault_adapters`."""

    script: Path
    arguments: tuple[str, ...]
    line: str


@dataclass(frozen=True, slots=True)
class SetEnvironment:
    """Starts the driver again with these variables."""

    variables: Mapping[str, str]


Action = CreateFile | RemoveFile | WriteFile | RunCommand | PatchObject | CallHttp | TellBackend | SetEnvironment
Heals = Action | Literal["restart", "none"]
"""`restart`: drahealth starts the driver again. `none`: the fault stays until the end of the driver."""
Penalty = Literal["NOT_TESTED", "FAIL"]
"""A verdict on a fault that shows nothing. It is never PASS."""

_ASKS = (RunCommand, PatchObject, CallHttp)
"""Actions that usually ask the driver itself to report a fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, which drahealth can cause in one device."""

    name: str
    breaks: Action
    heals: Heals
    device: str = ""
    """Name of the device; empty for one that is neither the first of the ResourceSlices nor the first of the report."""
    changes: Action | None = None
    """Changes the cause while the device is broken, so that the driver reports another message or health."""
    health: Health = Health.UNHEALTHY
    """What the driver must report after the break."""
    settle: float = 5.0
    """Seconds from the end of an action until the driver must have reported its effect."""
    limit: float = ACTION_LIMIT
    """Seconds in which each action must be done."""
    grade: Grade = ""
    """`asked` if the actions ask the driver to report a fault, `forced` if they act outside the driver.

    Empty: it depends on the action (`capability`).
    """
    on_error: Penalty = "NOT_TESTED"
    """Verdict if an action fails or does not end."""
    on_no_effect: Penalty = "FAIL"
    """Verdict if the driver does not report the break. A late report is a FAIL."""

    @property
    def capability(self) -> Grade:
        """Whether drahealth asks the driver for the fault, or causes it outside the driver."""
        return self.grade or ("asked" if isinstance(self.breaks, _ASKS) else "forced")

    @property
    def restarts(self) -> bool:
        """Whether drahealth starts the driver again to break or to heal the device."""
        return self.heals == "restart" or any(isinstance(one, SetEnvironment) for one in self.actions)

    @property
    def lasts(self) -> bool:
        """Whether drahealth causes and clears it while the driver runs."""
        return not self.restarts and self.heals != "none"

    @property
    def actions(self) -> tuple[Action, ...]:
        """All its actions."""
        found = (self.breaks, self.changes, self.heals if not isinstance(self.heals, str) else None)
        return tuple(one for one in found if one is not None)

    @property
    def seconds(self) -> float:
        """The usual seconds of a break, a change and a heal, of a driver that needs all of its settle time."""
        return self.settle * len(self.actions)


def lasting(faults: Sequence[Fault], each: float) -> tuple[Fault, ...]:
    """The faults that are caused and cleared while the driver runs, as many as fit into the limit of an experiment.

    `each` are the seconds that the experiment needs for a fault, besides those of the fault. The first one always fits.
    """
    found: list[Fault] = []
    seconds = 0.0
    for one in faults:
        seconds += one.seconds + each if one.lasts else 0.0
        if one.lasts and (not found or seconds <= FAULTS_LIMIT):
            found.append(one)
    return tuple(found)


def pairs(faults: Sequence[Fault]) -> list[tuple[Fault, Fault]]:
    """Neighbours that can break the same device."""
    return [
        (one, other)
        for one, other in pairwise(faults)
        if "" in (one.device, other.device) or one.device == other.device
    ]


def overlap(one: Fault, other: Fault) -> bool:
    """Whether the second fault replaces the first one, because both write to one place: only one can be cleared."""
    return any(_place(mine) == _place(theirs) is not None for mine in one.actions for theirs in other.actions)


def _place(action: Action) -> tuple[str, ...] | None:
    """What an action writes to, if two actions of one place cannot both have an effect."""
    match action:
        case CreateFile(path) | RemoveFile(path) | WriteFile(path):
            return ("file", path)
        case PatchObject(kind, name, namespace):
            return ("object", kind, namespace, name)
        case TellBackend(script, _, line):
            return ("backend", str(script), line)
        case _:
            return None


def strings(value: Any) -> Iterator[str]:
    """All strings of an action, which may have placeholders."""
    match value:
        case str():
            yield value
        case Mapping():
            for one in value.values():
                yield from strings(one)
        case tuple() | list():
            for one in value:
                yield from strings(one)
        case CreateFile(path, text) | WriteFile(path, text):
            yield from (path, text)
        case RemoveFile(path):
            yield path
        case RunCommand(command):
            yield from command
        case PatchObject(_, name, namespace, merge, _):
            yield from strings((name, namespace, merge))
        case CallHttp(url, _, body, headers):
            yield from strings((url, body, headers))
        case TellBackend(_, arguments, line):
            yield from strings((arguments, line))
        case SetEnvironment(variables):
            yield from strings(variables)


def described(action: Action | str) -> str:
    """An action in short, without its texts."""
    match action:
        case CreateFile(path):
            return f"create {path}"
        case RemoveFile(path):
            return f"remove {path}"
        case WriteFile(path):
            return f"write {path}"
        case RunCommand(command):
            return f"run {' '.join(command)}"
        case PatchObject(kind, name):
            return f"patch {kind} {name}"
        case CallHttp(url, method):
            return f"{method} {url}"
        case TellBackend(script, _, line):
            return f"tell {script.name}: {line}"
        case SetEnvironment(variables):
            return f"restart with {', '.join(variables)}"
        case text:
            return text
