"""The faults of a driver profile: how each is caused, how it heals, and what the driver must report."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    StrictStr,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from drahealth.fakes.cluster.api import KINDS, OTHER_KINDS
from drahealth.fakes.cluster.object_rules import label_key_errors, label_value_errors
from drahealth.fakes.hints import near
from drahealth.proto.values import MESSAGE_LIMIT, Health
from drahealth.suites.driver_checks.profile.values import FilePath, Seconds, Section, Text, Variables
from drahealth.suites.driver_checks.verdicts import Grade

MARGIN = 5.0
"""Seconds by which this machine may delay a report: they are added to the settle time of a fault."""
BACKEND_LIMIT = 60.0
"""Seconds in which a driver must use a restarted backend again."""
FAULTS_LIMIT = 60.0
"""Seconds that one experiment at a bad moment spends on faults: later faults of the driver profile are left out."""


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
_ASKS = (RunCommand, PatchObject, CallHttp)
"""Actions that usually ask the driver itself to report a fault."""


_MORE = {
    "create": {"text"},
    "remove": set[str](),
    "write": {"text"},
    "run": set[str](),
    "patch": {"merge", "api_version"},
    "annotate": {"annotations", "remove_annotations", "api_version"},
    "http": {"method", "body", "headers"},
    "backend": {"arguments", "tell"},
    "environment": set[str](),
}
"""The kinds of actions, each with the keys that it may have, too."""


def _merge(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError("must be a table, or a JSON object as text") from None
    if not isinstance(value, dict):
        raise ValueError("must be a table, or a JSON object as text")
    return value


_KINDS = {one.kind: one for one in (*OTHER_KINDS, *KINDS)}


def _object(value: Any) -> str:
    kind, *names = str(value).split("/")
    namespaced = _KINDS[kind].namespaced if kind in _KINDS else len(names) == _BOTH
    if not kind or len(names) != 1 + namespaced or not all(names):
        raise ValueError(f"must be KIND/NAME such as Node/{{node_name}}, or KIND/NAMESPACE/NAME, got {value!r}")
    return str(value)


_BOTH = 2  # namespace and name


ObjectName = Annotated[StrictStr, BeforeValidator(_object)]
Merge = Annotated[
    dict[str, Any],
    BeforeValidator(_merge),
    WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "string"}]}),
]


class ActionSection(Section):
    """What a fault adapter does: one of create, remove, write, run, patch, annotate, http, backend and environment."""

    create: Text | None = None
    """Create this file, which must not exist."""
    remove: Text | None = None
    """Remove this file."""
    write: Text | None = None
    """Replace the content of this file."""
    text: StrictStr = ""
    """Content of the file."""
    run: tuple[Text, ...] | None = None
    """Run this program with its arguments, without a shell."""
    patch: ObjectName | None = None
    """Merge fields into this object of the API server: KIND/NAME or KIND/NAMESPACE/NAME."""
    merge: Merge = Field(default_factory=dict)
    """The fields, as a JSON merge patch: a table, or JSON text, in which null removes a field."""
    api_version: StrictStr = ""
    """The apiVersion of the object if it is a custom resource."""
    annotate: ObjectName | None = None
    """Set annotations of this object."""
    annotations: dict[Text, StrictStr] = Field(default_factory=dict)
    """The annotations."""
    remove_annotations: tuple[Text, ...] = ()
    """The annotations to remove."""
    http: Text | None = None
    """Send a request to this URL."""
    method: Text = "POST"
    """Method of the request."""
    body: StrictStr = ""
    """Body of the request."""
    headers: dict[Text, StrictStr] = Field(default_factory=dict)
    """Headers of the request."""
    backend: FilePath | None = None
    """Send a line to this scripted backend: a Python file that replaces hardware or a daemon. The path is relative to
    the profile."""
    arguments: tuple[StrictStr, ...] = ()
    """Arguments of the backend."""
    tell: Text | None = None
    """The line that the backend receives; `break DEVICE`, `change DEVICE` or `heal DEVICE` by default."""
    environment: Variables | None = None
    """Start the driver again with these variables."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> "ActionSection":
        kinds = [name for name in _MORE if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise ValueError(f"set exactly one of {', '.join(_MORE)}")
        if more := self.model_fields_set - {kinds[0], *_MORE[kinds[0]]}:
            names = ", ".join(sorted(name.replace("_", "-") for name in more))
            raise ValueError(f"{kinds[0]} cannot have {names}")
        kind = (self.patch or self.annotate or "").partition("/")[0]
        if kind and kind not in _KINDS and not self.api_version:
            raise ValueError(f"unknown kind {kind!r}; a custom resource needs api-version; {near(kind, _KINDS)}")
        if self.run is not None and not self.run:
            raise ValueError("run needs a program")
        return self

    def action(self, verb: str) -> Action:
        """The action. A backend receives `verb` and the device by default."""
        for path, file in ((self.create, CreateFile), (self.write, WriteFile)):
            if path:
                made: Action = file(path, self.text)
                return made
        if self.remove:
            return RemoveFile(self.remove)
        if self.run:
            return RunCommand(self.run)
        if self.http:
            return CallHttp(self.http, self.method, self.body, self.headers)
        if self.backend:
            return TellBackend(self.backend, self.arguments, self.tell or f"{verb} {{device}}")
        if self.environment:
            return SetEnvironment(self.environment)
        kind, *names = (self.patch or self.annotate or "").split("/")
        merge = self.merge
        if self.annotate:
            removed: dict[str, str | None] = dict.fromkeys(self.remove_annotations)
            merge = {"metadata": {"annotations": {**self.annotations, **removed}}}
        return PatchObject(kind, names[-1], "".join(names[:-1]), merge, self.api_version)


class _AsSection:
    """Reads an action from the keys of its section. The name of the field is the verb for a backend."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Of the section, whose value becomes the action."""
        return core_schema.with_info_after_validator_function(_action, handler.generate_schema(ActionSection))


def _action(section: ActionSection, info: ValidationInfo) -> Action:
    return section.action((info.field_name or "break").strip("_"))


_Action = Annotated[Action, _AsSection()]


def _heal(value: Any) -> Any:
    if isinstance(value, str) and value not in ("restart", "none"):
        raise ValueError(f'must be "restart", "none" or a table such as {{ remove = "FILE" }}, got {value!r}')
    return value


def _broken(value: Any) -> Health:
    if value not in _BROKEN_VALUES:
        raise ValueError(f"must be 'Unhealthy' or 'Unknown', got {value!r}")
    return Health(value)


_BROKEN_VALUES = (Health.UNHEALTHY.value, Health.UNKNOWN.value)
_BROKEN = WithJsonSchema({"enum": [*_BROKEN_VALUES], "title": "Health", "type": "string"})


def _label_key(value: Any) -> Any:
    if isinstance(value, str) and (error := next(label_key_errors(value), "")):
        raise ValueError(f"must be the key of a label such as gpu.example.com/unhealthy, got {value!r}: {error}")
    return value


def _label_value(value: Any) -> Any:
    if isinstance(value, str) and (error := next(label_value_errors(value), "")):
        raise ValueError(f"must be the value of a label such as hot, got {value!r}: {error}")
    return value


class TaintSection(Section):
    """A taint of a device (KEP-5055)."""

    key: Annotated[StrictStr, BeforeValidator(_label_key)] = Field(examples=["gpu.example.com/unhealthy"])
    """Key of the taint: the key of a label, with a domain."""
    value: Annotated[StrictStr, BeforeValidator(_label_value)] = ""
    """Value of the taint. Default: any value."""
    effect: Literal["NoSchedule", "NoExecute", "None"]
    """Effect of the taint. NoSchedule: new Pods do not get the device. NoExecute: Kubernetes also evicts the Pods that
    use it. None: the taint has no effect."""

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


class Fault(Section):
    """[[fault]]: how drahealth breaks and heals a device, and what the driver must report."""

    name: Text = Field(examples=["unplugged"])
    """Name of the fault in the report."""
    device: StrictStr = ""
    """Name of the device, or POOL/NAME. Default: a device that is first neither in the ResourceSlices nor in the
    report, if there is one."""
    break_: _Action = Field(examples=[{"write": "{driver_dir}/health/{device}", "text": "broken"}])
    """What breaks the device. All texts can have {device} and the placeholders of the driver."""
    change: _Action | None = Field(
        default=None, examples=[{"write": "{driver_dir}/health/{device}", "text": "another cause"}]
    )
    """What changes the cause while the device is broken. The driver must then report another message or health."""
    heal: Annotated[_Action | Literal["restart", "none"], BeforeValidator(_heal)] = Field(
        examples=[{"remove": "{driver_dir}/health/{device}"}]
    )
    """What heals the device. restart: drahealth starts the driver again. none: the device stays broken."""
    health: Annotated[Health, BeforeValidator(_broken), _BROKEN] = Health.UNHEALTHY
    """The health that the driver must report for the broken device."""
    message: StrictStr = Field(default="", max_length=MESSAGE_LIMIT, examples=["lost its link"])
    """Text that the driver's message for the broken device has, as a part or as the whole. It can have {device}.
    Default: none is judged."""
    changed_message: StrictStr = Field(default="", max_length=MESSAGE_LIMIT, examples=["another cause"])
    """The same after `change`."""
    taint: TaintSection | None = Field(
        default=None, examples=[{"key": "gpu.example.com/unhealthy", "effect": "NoSchedule"}]
    )
    """The taint that the driver must publish for the device while the fault lasts; default: none is judged."""
    settle: Seconds = Field(default=5.0, examples=["5s"])
    """Time within which the driver must report the effect of an action, from the end of the action."""
    limit: Seconds = Field(default=10.0, examples=["10s"])
    """Longest time of an action."""
    grade: Literal["asked", "forced"] | None = Field(default=None, examples=["forced"])
    """asked: drahealth asks the driver to report a fault; forced: the action works outside the driver; default: depends
    on the action."""
    on_error: Literal["NOT_TESTED", "FAIL"] = "NOT_TESTED"
    """Verdict if an action fails or takes too long."""
    on_no_effect: Literal["NOT_TESTED", "FAIL"] = "FAIL"
    """Verdict if the driver does not report the break."""

    @property
    def capability(self) -> Grade:
        """Whether drahealth asks the driver for the fault, or causes it outside the driver."""
        return self.grade or ("asked" if isinstance(self.break_, _ASKS) else "forced")

    @property
    def restarts(self) -> bool:
        """Whether drahealth starts the driver again to break or to heal the device."""
        return self.heal == "restart" or any(isinstance(one, SetEnvironment) for one in self.actions)

    @property
    def lasts(self) -> bool:
        """Whether drahealth causes and clears it while the driver runs."""
        return not self.restarts and self.heal != "none"

    @property
    def actions(self) -> tuple[Action, ...]:
        """All its actions."""
        found = (self.break_, self.change, self.heal if not isinstance(self.heal, str) else None)
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
    """Neighbours that can break the same device: if only the second one names it, the first one gets it."""
    return [
        (one if one.device else one.model_copy(update={"device": other.device}), other)
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
