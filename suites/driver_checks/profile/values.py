"""The values in driver profiles, and the base of their sections."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, ValidationInfo, WithJsonSchema

from drahealth.fakes.durations import Duration
from drahealth.fakes.inventory.file import check_driver_name
from drahealth.suites.driver_checks.subject.sandbox import check_private
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.versions import parse_version

_VARIABLE, _RELEASE = r"[-._A-Za-z][-._A-Za-z0-9]*", r"\d+\.\d+(\.\d+)?"
"""Source of the first one: Kubernetes API, EnvVar."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a text that is not empty, got {value!r}")
    return value


def _path(value: Any, info: ValidationInfo) -> Path:
    """The path. A relative one is in the folder of the file, which is the context of the validation."""
    return Path(info.context or "", Path(_text(str(value) if isinstance(value, Path) else value)).expanduser())


def _driver_name(value: Any) -> str:
    if value:
        check_driver_name(value)
    return str(value)


def _variable(value: Any) -> str:
    if not re.fullmatch(_VARIABLE, str(value)):
        raise ValueError(f"must be the name of a variable such as LOG_LEVEL, got {value!r}")
    return str(value)


def _release(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(_RELEASE, value):
        raise ValueError(f"must be a release such as 1.37 or 1.37.2, got {value!r}")
    try:
        return parse_version(value)
    except ConfigurationError as error:
        raise ValueError(f"must be a known release: {error}") from None


def _seconds(value: Any) -> float:
    try:
        duration = Duration.parse(value) if isinstance(value, str) else None
    except ValueError:  # its hint has random durations, too
        duration = None
    if duration is None or duration.kind != "fixed":
        raise ValueError(f"must be a duration such as 500ms, 90s or 1m30s, got {value!r}")
    return duration.low


def _count(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 32:
        return value
    if value == "all":
        return "all"
    raise ValueError(f'must be "all" or between 1 and 32, got {value!r}')


def _private_directory(value: Any) -> str:
    check_private(path := _text(value))
    return path


Text = Annotated[str, BeforeValidator(_text), Field(min_length=1)]
FilePath = Annotated[Path, BeforeValidator(_path), WithJsonSchema({"type": "string", "minLength": 1})]
"""A path of this machine. A relative one is relative to the file."""
PrivateDirectory = Annotated[str, BeforeValidator(_private_directory)]
DriverName = Annotated[str, BeforeValidator(_driver_name)]
Variables = dict[Annotated[str, BeforeValidator(_variable)], StrictStr]
Release = Annotated[str, BeforeValidator(_release), WithJsonSchema({"type": "string", "pattern": f"^{_RELEASE}$"})]
Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "pattern": r"^ *\d", "examples": ["500ms", "90s", "1m30s"]}),
]
"""A fixed duration, in seconds."""
DeviceCount = Annotated[
    int | Literal["all"],
    BeforeValidator(_count),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 32}, {"const": "all"}]}),
]


class Section(BaseModel):
    """A part of a driver profile; keys have hyphens in place of underscores."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        alias_generator=lambda name: name.strip("_").replace("_", "-"),
    )
