"""The columns of custom resources: `additionalPrinterColumns` of a CustomResourceDefinition, with their JSONPath. Pure.

Source: k8s.io/apiextensions-apiserver, `pkg/registry/customresource/tableconvertor`.
"""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server.printed_columns import AGE, NAME, Column, age_since

_STEP = re.compile(
    r"\.(?P<name>(?:\\.|[^.\[\]\\])+)|\['(?P<quoted>[^']*)'\]|\[(?P<index>-?\d+)\]|(?P<all>\[\*\]|\.\*)"
    r"|\[\?\(@\.(?P<key>[^=!<> ]+)\s*==\s*[\"'](?P<value>[^\"']*)[\"']\)\]"
)


def custom_columns(kind: Kind, definitions: Sequence[Object]) -> Sequence[Column] | None:
    """The columns of a custom resource; None if no definition has the kind."""
    group, _, version = kind.api_version.rpartition("/")
    for spec in (one["spec"] for one in definitions):
        if (spec["group"], spec["names"]["kind"]) == (group, kind.kind):
            listed: Object = next((one for one in spec["versions"] if one["name"] == version), {})
            return (NAME, *map(_column, listed.get("additionalPrinterColumns") or ())) if _has(listed) else (NAME, AGE)
    return None


def values_at(value: Any, path: str) -> list[Any]:
    """The values at a simple JSONPath, such as `.status.conditions[?(@.type=="Ready")].status`."""
    at, found = 0, [value]
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return []
        found, at = [inner for one in found for inner in _inside(one, step)], step.end()
    return found


def _has(version: Object) -> bool:
    return bool(version.get("additionalPrinterColumns"))


def _column(definition: Object) -> Column:
    type_, path = definition["type"], definition["jsonPath"]

    def cell(obj: Object, now: datetime) -> Any:
        found = values_at(obj, path)
        return _shown(type_, found[0], now) if found else None

    return Column(definition["name"], cell, type_, definition.get("priority", 0), definition.get("format", ""))


def _shown(type_: str, value: Any, now: datetime) -> Any:
    if type_ == "date":
        return age_since(value, now) if isinstance(value, str) else None
    if type_ == "string":
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if type_ == "integer" else float(value)


def _inside(value: Any, step: re.Match[str]) -> list[Any]:
    """The values that one step of a path reaches."""
    if step["all"]:
        return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if step["index"]:
        index = int(step["index"])
        return value[index : index + 1 or None] if isinstance(value, list) else []
    if step["key"]:
        listed = value if isinstance(value, list) else []
        return [one for one in listed if values_at(one, f".{step['key']}") == [step["value"]]]
    name = step["quoted"] if step["quoted"] is not None else re.sub(r"\\(.)", r"\1", step["name"])
    return [value[name]] if isinstance(value, dict) and name in value else []
