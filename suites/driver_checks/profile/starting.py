"""Starting driver profiles, and the JSON Schema of profiles."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from drahealth.fakes.timelines.load import DIALECT
from drahealth.suites.driver_checks.profile.model import FORMAT, DriverProfile
from drahealth.suites.driver_checks.subject.places import NAMES

# The JSON Schema of driver profiles, for editors: what a file may say, as far as a schema can tell.


def driver_profile_schema() -> dict[str, Any]:
    """Of a driver profile."""
    return {"$schema": DIALECT, **DriverProfile.model_json_schema(by_alias=True)}


# The starting driver profiles: for known drivers, written from their source code and not tested with them.

STARTING_PROFILES = ("dra-example-driver", "nvidia", "intel", "tpu", "cpu")
"""The drivers with a starting driver profile."""


def starting_profile(name: str) -> dict[str, str]:
    """The files of a starting driver profile: their names and contents, the driver profile first."""
    folder = resources.files("drahealth.suites.driver_checks.profile").joinpath("shipped")
    text = folder.joinpath(f"{name}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    named = [*data.get("api-server", {}).get("objects", ()), *data.get("claim", {}).get("manifests", ())]
    return {f"{name}.toml": text} | {other: folder.joinpath(other).read_text(encoding="utf-8") for other in named}


# Writes a commented driver profile, from the model. Pure.

Given = Mapping[str, Mapping[str, Any]]
"""The values of keys by section, such as `{"driver": {"command": [...]}}`."""

_HEAD = f"""\
# A driver profile: how `drahealth certify` starts a driver, and what the driver can do.
# Keys in comments show defaults and examples.
# Without a [[fault]], drahealth breaks no device: the certificate says "no faults", and requirements about faults and
# taints are not shown.
# Placeholders in texts: {" ".join(f"{{{name}}}" for name in NAMES)}.
format = {json.dumps(FORMAT)}
"""


def driver_profile(given: Given, note: str = "") -> str:
    """The text of a driver profile with these values; all other keys are comments. `note` is a comment at the start."""
    notes = "".join(f"# {line}\n" for line in note.splitlines())
    return f"{notes}{_HEAD}" + "".join(_sections(given))


def _sections(given: Given) -> Iterator[str]:
    for name, field in DriverProfile.model_fields.items():
        key = field.alias or name
        section = _model_of(field)
        if section is None:
            continue
        is_list = get_origin(field.annotation) is tuple
        values = given.get(key, {})
        comment = "" if values or field.annotation is section else "# "
        head = f"[[{key}]]" if is_list else f"[{key}]"
        meaning = (section.__doc__ or "").strip().partition("\n")[0].partition(": ")[2]
        yield f"\n# {meaning[:1].upper()}{meaning[1:]}\n{comment}{head}\n"
        yield "" if comment else "\n"
        for inner_name, inner in section.model_fields.items():
            yield from _key(inner.alias or inner_name, inner, values)


def _key(key: str, field: FieldInfo, values: Mapping[str, Any]) -> Iterator[str]:
    about = " ".join((field.description or "").split())
    yield f"# {'Required. ' if field.is_required() else ''}{about}\n"
    yield f"{key} = {_toml(values[key])}\n" if key in values else f"# {key} = {_example(field)}\n"


def _example(field: FieldInfo) -> str:
    """The default as TOML; an example if there is none."""
    if field.examples:
        return _toml(field.examples[0])
    default = field.get_default(call_default_factory=False)
    if default is PydanticUndefined or default is None:
        return "..."
    return _toml(default)


def _model_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a section, or of the elements of a list of sections."""
    for one in (field.annotation, *get_args(field.annotation)):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None


def _toml(value: Any) -> str:
    """A value as TOML on one line. JSON has the same texts, numbers and lists."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")
