"""The third file of the manager: which devices of device plugins the containers hold, and the resources there were.

As the other two (`checkpoint`) it is JSON that is replaced as a whole, and what is wrong in it costs itself alone. The
kubelet's own file, kubelet_internal_checkpoint, has another shape and place and is not read.
"""

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter, ValidationError

from drahealth.manager.allocations import Allocation
from drahealth.proto.extended_resources import is_extended_resource

ALLOCATIONS_FILE = "device_plugin_allocations"

log = logging.getLogger(__name__)

_ALLOCATION = TypeAdapter(Allocation)


def dump_allocations(allocations: Iterable[Allocation], resources: Iterable[str]) -> dict[str, Any]:
    """The allocations, and the names of the resources that plugins are or were registered for."""
    return {"allocations": [asdict(allocation) for allocation in allocations], "resources": sorted(resources)}


def load_allocations(data: dict[str, Any]) -> Iterator[Allocation]:
    """The allocations of the file. A wrong one is left out, with a line in the log."""
    for number, entry in enumerate(_list(data, "allocations")):
        try:
            allocation = _ALLOCATION.validate_python(entry)
            json.dumps(entry, ensure_ascii=False).encode()  # JSON can spell half a character, which no status could
        except ValidationError as error:
            wrong = error.errors()[0]
            where = ".".join(map(str, wrong["loc"])) or "entry"
            log.error("checkpoint: allocation %d was left out: %s: %s", number, where, wrong["msg"])
        except UnicodeError:
            log.error("checkpoint: allocation %d was left out: a text in it is none", number)
        else:
            yield allocation


def load_resources(data: dict[str, Any]) -> list[str]:
    """The names of the resources of the file; what is none is left out."""
    return [name for name in _list(data, "resources") if isinstance(name, str) and is_extended_resource(name)]


def _list(data: dict[str, Any], key: str) -> list[Any]:
    found = data.get(key, None if data else [])
    if isinstance(found, list):
        return found
    log.error("checkpoint: no list of %s in it, starting with none", key)
    return []
