"""[[fault]] of a driver profile: how drahealth breaks a device, and what the driver must report."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictStr, WithJsonSchema, model_validator

from drahealth.fakes.cluster.api import KINDS
from drahealth.fakes.cluster.other_kinds import OTHER_KINDS
from drahealth.fakes.hints import near
from drahealth.proto.values import Health
from drahealth.suites.certifying.profile.values import Seconds, Section, Text, Variable
from drahealth.suites.checking.faults import (
    ACTION_LIMIT,
    Action,
    CallHttp,
    CreateFile,
    Fault,
    Heals,
    PatchObject,
    RemoveFile,
    RunCommand,
    SetEnvironment,
    TellBackend,
    WriteFile,
)

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
    backend: Text | None = None
    """Send a line to this scripted backend: a Python file that replaces hardware or a daemon. The path is relative to
    the profile."""
    arguments: tuple[StrictStr, ...] = ()
    """Arguments of the backend."""
    tell: Text | None = None
    """The line that the backend receives; `break DEVICE`, `change DEVICE` or `heal DEVICE` by default."""
    environment: dict[Variable, StrictStr] | None = None
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

    def action(self, folder: Path, verb: str) -> Action:
        """The action. `folder` has the scripts; a backend receives `verb` and the device by default."""
        for name, file in (("create", CreateFile), ("write", WriteFile)):
            if path := getattr(self, name):
                made: Action = file(path, self.text)
                return made
        if self.remove:
            return RemoveFile(self.remove)
        if self.run:
            return RunCommand(self.run)
        if self.patch or self.annotate:
            return self._patch()
        if self.http:
            return CallHttp(self.http, self.method, self.body, self.headers)
        if self.backend:
            return TellBackend(folder / self.backend, self.arguments, self.tell or f"{verb} {{device}}")
        return SetEnvironment(self.environment or {})

    def _patch(self) -> Action:
        kind, *names = (self.patch or self.annotate or "").split("/")
        merge = self.merge
        if self.annotate:
            removed: dict[str, str | None] = dict.fromkeys(self.remove_annotations)
            merge = {"metadata": {"annotations": {**self.annotations, **removed}}}
        return PatchObject(kind, names[-1], "".join(names[:-1]), merge, self.api_version)


def _heal(value: Any) -> Any:
    if isinstance(value, str) and value not in ("restart", "none"):
        raise ValueError(f'must be "restart", "none" or a table such as {{ remove = "FILE" }}, got {value!r}')
    return value


class FaultSection(Section):
    """[[fault]]: how drahealth breaks and heals a device, and what the driver must report."""

    name: Text = Field(examples=["unplugged"])
    """Name of the fault in the report."""
    device: StrictStr = ""
    """Name of the device, or POOL/NAME. Default: a device that is first neither in the ResourceSlices nor in the
    report, if there is one."""
    break_: ActionSection = Field(alias="break", examples=[{"write": "{driver_dir}/health/{device}", "text": "broken"}])
    """What breaks the device. All texts can have {device} and the placeholders of the driver."""
    change: ActionSection | None = Field(
        default=None, examples=[{"write": "{driver_dir}/health/{device}", "text": "another cause"}]
    )
    """What changes the cause while the device is broken. The driver must then report another message or health."""
    heal: Annotated[ActionSection | Literal["restart", "none"], BeforeValidator(_heal)] = Field(
        examples=[{"remove": "{driver_dir}/health/{device}"}]
    )
    """What heals the device. restart: drahealth starts the driver again. none: the device stays broken."""
    health: Literal["Unhealthy", "Unknown"] = "Unhealthy"
    """The health that the driver must report for the broken device."""
    settle: Seconds = Field(default=5.0, examples=["5s"])
    """Time within which the driver must report the effect of an action, from the end of the action."""
    limit: Seconds = Field(default=ACTION_LIMIT, examples=["10s"])
    """Longest time of an action."""
    grade: Literal["asked", "forced"] | None = Field(default=None, examples=["forced"])
    """asked: drahealth asks the driver to report a fault; forced: the action works outside the driver; default: depends
    on the action."""
    on_error: Literal["NOT_TESTED", "FAIL"] = "NOT_TESTED"
    """Verdict if an action fails or takes too long."""
    on_no_effect: Literal["NOT_TESTED", "FAIL"] = "FAIL"
    """Verdict if the driver does not report the break."""

    @property
    def starts_the_driver(self) -> bool:
        """Whether drahealth starts the driver again to break or to heal the device."""
        actions = (self.break_, self.change, self.heal)
        return self.heal == "restart" or any(
            isinstance(one, ActionSection) and one.environment is not None for one in actions
        )

    @property
    def actions(self) -> dict[str, ActionSection]:
        """Its actions by their keys in the file."""
        found = {"break": self.break_, "change": self.change, "heal": self.heal}
        return {key: one for key, one in found.items() if isinstance(one, ActionSection)}

    def fault(self, folder: Path) -> Fault:
        """The fault. Paths of scripts are relative to the folder."""
        heals: Heals = self.heal if isinstance(self.heal, str) else self.heal.action(folder, "heal")
        return Fault(
            name=self.name,
            breaks=self.break_.action(folder, "break"),
            changes=self.change.action(folder, "change") if self.change else None,
            heals=heals,
            device=self.device,
            health=Health(self.health),
            settle=self.settle,
            limit=self.limit,
            grade=self.grade or "",
            on_error=self.on_error,
            on_no_effect=self.on_no_effect,
        )
