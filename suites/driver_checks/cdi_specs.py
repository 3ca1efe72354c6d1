"""Reads CDI specs as container runtimes do. Source: Container Device Interface, SPEC.md, and its Go package `cdi`."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from drahealth.fakes.inventory.devices import KIND
from drahealth.proto.events import CdiSpec, CdiSpecsRead
from drahealth.proto.quoting import one_line

SUFFIXES = (".json", ".yaml")
"""Endings of the files that are CDI specs."""
_SIZE_LIMIT = 4 * 2**20
_DEVICES_LIMIT = 20_000
_VERSION = r"v?(0\.[1-8]\.0|1\.\d+\.\d+)"
_DEVICE = r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?"

Text = Annotated[str, StringConstraints(min_length=1)]


class _Part(BaseModel):
    """Runtimes reject unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class _DeviceNode(_Part):
    path: Text
    host_path: str = ""
    type: Literal["", "b", "c", "u", "p"] = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: Annotated[str, StringConstraints(pattern=r"^[rwm]*$")] = ""
    uid: int | None = None
    gid: int | None = None


class _Mount(_Part):
    host_path: Text
    container_path: Text
    options: list[str] | None = None
    type: str = ""


class _Hook(_Part):
    hook_name: Literal["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]
    path: Text
    args: list[str] | None = None
    env: list[str] | None = None
    timeout: int | None = None


class _NetDevice(_Part):
    host_interface_name: Text
    name: Text


class _ContainerEdits(_Part):
    env: list[Annotated[str, StringConstraints(pattern=r"^[^=]+=")]] | None = None
    device_nodes: list[_DeviceNode] | None = None
    net_devices: list[_NetDevice] | None = None
    hooks: list[_Hook] | None = None
    mounts: list[_Mount] | None = None
    intel_rdt: dict[str, Any] | None = None
    additional_gids: list[int] | None = None


class _Device(_Part):
    name: Annotated[str, StringConstraints(pattern=f"^{_DEVICE}$")]
    annotations: dict[str, str] | None = None
    container_edits: _ContainerEdits

    @model_validator(mode="after")
    def _has_edits(self) -> "_Device":
        if not any(self.container_edits.model_dump().values()):
            raise ValueError("containerEdits must not be empty")
        return self


class _Spec(_Part):
    cdi_version: Annotated[str, StringConstraints(pattern=f"^{_VERSION}$")]
    kind: Annotated[str, StringConstraints(pattern=f"^{KIND}$")]
    annotations: dict[str, str] | None = None
    devices: list[_Device] = Field(max_length=_DEVICES_LIMIT)
    container_edits: _ContainerEdits | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> "_Spec":
        if twice := [name for name, count in Counter(device.name for device in self.devices).items() if count > 1]:
            raise ValueError(f"duplicate device name {twice[0]}")
        return self


def is_qualified(name: str) -> bool:
    """Whether it is the name of a CDI device with vendor and class, such as example.com/gpu=gpu-0."""
    return re.fullmatch(f"{KIND}={_DEVICE}", name) is not None


def read_specs(*directories: Path) -> tuple[CdiSpec, ...]:
    """All CDI specs of directories, by file name.

    A device can be in two directories: the later one wins. Source: SPEC.md, "Defaults".
    """
    return tuple(spec for directory in directories for spec in _specs_in(directory))


def defined_in(read: CdiSpecsRead) -> frozenset[str]:
    """The qualified names of the devices in valid specs."""
    return frozenset(device for spec in read.specs if not spec.problem for device in spec.devices)


def files_text(read: CdiSpecsRead) -> str:
    """What each file defines, or why it is invalid."""
    if not read.specs:
        return "no CDI spec in the CDI directory"
    return "; ".join(
        f"{one.file} is invalid: {one.problem}" if one.problem else f"{one.file} defines {', '.join(one.devices)}"
        for one in read.specs
    )


def _specs_in(directory: Path) -> tuple[CdiSpec, ...]:
    """The CDI specs of a directory; empty if it does not exist."""
    try:
        files = sorted(path for path in directory.iterdir() if path.suffix in SUFFIXES)
    except OSError:
        return ()
    return tuple(_without_conflicts([read_spec(path) for path in files]))


def read_spec(path: Path) -> CdiSpec:
    """One file, with the reason if it is invalid."""
    try:
        with path.open("rb") as file:
            data = file.read(_SIZE_LIMIT + 1)
    except OSError as error:
        return CdiSpec(path.name, f"cannot be read: {error.strerror}", ())
    if len(data) > _SIZE_LIMIT:
        return CdiSpec(path.name, f"has more than {_SIZE_LIMIT} bytes", ())
    try:
        spec = _Spec.model_validate(_parsed(data))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return CdiSpec(path.name, one_line(f"{where}: {first['msg']}" if where else first["msg"]), ())
    except ValueError as error:
        return CdiSpec(path.name, one_line(str(error)), ())
    return CdiSpec(path.name, "", tuple(f"{spec.kind}={device.name}" for device in spec.devices))


def _parsed(data: bytes) -> Any:
    """JSON or YAML. Raises ValueError."""
    with suppress(ValueError, RecursionError):
        return json.loads(data)
    from ruamel.yaml import YAML  # heavy
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(data)
    except (YAMLError, RecursionError, UnicodeError) as error:
        raise ValueError(f"neither JSON nor YAML: {' '.join(str(error).split())}") from None


def _without_conflicts(specs: Iterable[CdiSpec]) -> Iterator[CdiSpec]:
    """A device that two files define is in neither: runtimes cannot resolve it."""
    specs = list(specs)
    counts = Counter(name for spec in specs for name in spec.devices)
    for spec in specs:
        twice = [name for name in spec.devices if counts[name] > 1]
        yield replace(spec, problem=f"device {twice[0]} is also defined in another file") if twice else spec
