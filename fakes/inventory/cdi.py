"""The CDI side of fakes: names of devices for container runtimes, and their specification.

A real runtime starts a container only if each CDI id is in a specification in one of its directories (Container Device
Interface, SPEC.md). The fake runtime does not check this.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from drahealth.fakes.inventory.devices import Device

_VERSION = "0.6.0"
"""The oldest version with annotations."""
_INSTANCE = "drahealth.instance"

_PART = r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
KIND = rf"{_PART}/{_PART}"
"""A vendor and a class (SPEC.md, "Kind"), such as example.com/gpu."""

SHARED = "all"
"""The device of a specification that represents all devices of a driver."""


def cdi_id(driver: str, device: str) -> str:
    """The CDI id of a device. The device's name in the API may differ."""
    return f"{kind_of(driver)}={device}"


def kind_of(driver: str) -> str:
    """The CDI kind of a driver's devices."""
    return f"{driver}/gpu"


def check_kind(kind: str) -> None:
    """Raises ValueError for an invalid CDI kind."""
    if not re.fullmatch(KIND, kind):
        raise ValueError(f"CDI kind must be like example.com/gpu, got {kind[:80]!r}")


def file_name(kind: str) -> str:
    """The file name of a kind's specification."""
    vendor, _, class_ = kind.rpartition("/")
    return f"{vendor.replace(os.sep, '_')}-{class_}.json"


def write(folder: Path, kind: str, owner: str, instance: str, devices: Mapping[str, Device | None]) -> None:
    """Writes the specification of a kind, in one step. Replaces that of an older instance.

    A container with one of these devices gets environment variables: one for the device and its owner, others from the
    inventory.
    """
    specification = {
        "cdiVersion": _VERSION,
        "kind": kind,
        "annotations": {_INSTANCE: instance},
        "devices": [
            {"name": name, "containerEdits": {"env": [f"{key}={value}" for key, value in seen.items()]}}
            for name, known in devices.items()
            for seen in [_environment(owner, name, known)]
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(kind)
    draft = path.with_name(f".{path.name}.{instance}.draft")
    draft.write_text(json.dumps(specification))
    draft.replace(path)


def remove(folder: Path, kind: str, instance: str) -> None:
    """Removes the specification, unless another instance has replaced it since."""
    path = folder / file_name(kind)
    try:
        owner = json.loads(path.read_text())["annotations"][_INSTANCE]
    except (OSError, ValueError, KeyError):
        return
    if owner == instance:
        path.unlink(missing_ok=True)


def _environment(owner: str, name: str, known: Device | None) -> dict[str, str]:
    seen = {_variable(name): owner}
    if known and known.parent:
        seen[f"{_variable(name)}_PARENT"] = known.parent
    return {**seen, **(known.environment if known else {})}


def _variable(device: str) -> str:
    return "DRAHEALTH_" + "".join(c if c.isalnum() else "_" for c in device).upper()
