"""The third file of the manager: the containers' devices of device plugins, and the known resources.

Like the other two files (`checkpoint`) it is JSON and replaced as a whole. A wrong part is ignored, the others are
kept. The kubelet's own file, kubelet_internal_checkpoint, has another format and place and is not read.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter, ValidationError

from drahealth.manager.allocations import Allocation
from drahealth.proto.extended_resources import is_extended_resource
from drahealth.proto.quoting import one_line

ALLOCATIONS_FILE = "device_plugin_allocations"

log = logging.getLogger(__name__)

_ALLOCATION = TypeAdapter(Allocation)


def dump_allocations(allocations: Iterable[Allocation], resources: Iterable[str]) -> dict[str, Any]:
    """The allocations, and the names of resources with a current or earlier plugin."""
    return {"allocations": [asdict(allocation) for allocation in allocations], "resources": sorted(resources)}


def load_allocations(data: dict[str, Any]) -> tuple[list[Allocation], list[str]]:
    """The allocations and the resources of the file. Wrong parts are ignored and logged in one line."""
    wrong: list[str] = []
    allocations = [_allocation(entry, where, wrong) for where, entry in _entries(data, "allocations", wrong)]
    resources = [_resource(name, where, wrong) for where, name in _entries(data, "resources", wrong)]
    if wrong:
        log.error(
            "checkpoint %s: ignoring %d invalid entries, the first: %s",
            ALLOCATIONS_FILE,
            len(wrong),
            one_line(wrong[0]),
        )
    return [held for held in allocations if held is not None], [name for name in resources if name is not None]


def _allocation(entry: Any, where: str, wrong: list[str]) -> Allocation | None:
    try:
        allocation = _ALLOCATION.validate_python(entry)
        json.dumps(entry, ensure_ascii=False).encode()  # JSON can spell half a character, which no status could
    except ValidationError as error:
        first = error.errors()[0]
        wrong.append(f"{where}: {'.'.join(map(str, first['loc'])) or 'entry'}: {first['msg']}")
    except UnicodeError:
        wrong.append(f"{where}: invalid Unicode text")
    else:
        return allocation
    return None


def _resource(name: Any, where: str, wrong: list[str]) -> str | None:
    if isinstance(name, str) and is_extended_resource(name):
        return name
    wrong.append(f"{where}: {name!r} is not the name of an extended resource")
    return None


def _entries(data: dict[str, Any], key: str, wrong: list[str]) -> list[tuple[str, Any]]:
    found = data.get(key, None if data else [])
    if not isinstance(found, list):
        wrong.append(f"{key} must be a list")
        return []
    return [(f"{key}[{number}]", entry) for number, entry in enumerate(found)]
