"""docs/reference/inventory.md: the keys of inventories, from their JSON Schema."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from drahealth.fakes.timelines.load import inventory_schema

TITLES = {
    "PartitionGroup": "Devices and partitions",
    "DeviceGroup": "Devices only",
    "DriverPart": "Drivers",
    "PluginPart": "Device plugins",
}
INTRODUCTION = """\
[fakes.md](../fakes.md#inventories) has an example, and `drahealth init inventory` writes a file with comments. In
commands and timelines, use the path of a device: for example `gpu-0`, or `mig/slice-3` for a partition.

"""


def inventory_page(note: str) -> str:
    """The page; `note` names its source."""
    return "".join(_parts(note)).rstrip() + "\n"


def _parts(note: str) -> Iterator[str]:
    schema = inventory_schema()
    yield f"# Keys of an inventory\n\n{note}{INTRODUCTION}"
    yield from _table("The file", schema, schema.get("required", ()))
    known: set[str] = set()
    for name, title in TITLES.items():
        part = schema["$defs"][name]
        keys = {key: about for key, about in part["properties"].items() if name != "DeviceGroup" or key not in known}
        yield from _table(title, {"properties": keys}, part.get("required", ()))
        known.update(part["properties"])


def _table(title: str, part: dict[str, Any], required: Sequence[str]) -> Iterator[str]:
    yield f"## {title}\n\n| key | meaning | default |\n|---|---|---|\n"
    for key, about in part["properties"].items():
        default = "required" if key in required else _default(about.get("default"))
        yield f"| `{key}` | {' '.join(about['description'].split())} | {default} |\n"
    yield "\n"


def _default(value: object) -> str:
    return "" if value in (None, "", [], {}) else f"`{json.dumps(value)}`"
