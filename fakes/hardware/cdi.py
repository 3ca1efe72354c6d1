"""The CDI side of a fake driver: what its devices are called for container runtimes, and their specification.

A real runtime starts a container only if each CDI id is in a specification in one of its folders (Container Device
Interface, SPEC.md); a fake one does not look.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from drahealth.fakes.inventory import Device

_VERSION = "0.6.0"
"""The oldest version with annotations."""
_INSTANCE = "drahealth.instance"

SHARED = "all"
"""The device of a specification that stands for all of a driver's."""


def cdi_id(driver: str, device: str) -> str:
    """The CDI id that the fake gives a device; the name in the API may differ, this one is for container runtimes."""
    return f"{driver}/gpu={device}"


def write(folder: Path, driver: str, instance: str, devices: Mapping[str, Device | None]) -> None:
    """Writes the driver's specification, whole or not at all: a container that gets one of these devices, by name, sees
    it in an environment variable, and what is known of it in others. An older instance's is replaced."""
    specification = {
        "cdiVersion": _VERSION,
        "kind": f"{driver}/gpu",
        "annotations": {_INSTANCE: instance},
        "devices": [
            {"name": name, "containerEdits": {"env": [f"{key}={value}" for key, value in seen.items()]}}
            for name, known in devices.items()
            for seen in [_environment(driver, name, known)]
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = _path(folder, driver)
    draft = path.with_name(f".{path.name}.{instance}.draft")
    draft.write_text(json.dumps(specification))
    draft.replace(path)


def remove(folder: Path, driver: str, instance: str) -> None:
    """Removes it, unless another instance has made it its own since."""
    path = _path(folder, driver)
    try:
        owner = json.loads(path.read_text())["annotations"][_INSTANCE]
    except (OSError, ValueError, KeyError):
        return
    if owner == instance:
        path.unlink(missing_ok=True)


def _path(folder: Path, driver: str) -> Path:
    return folder / f"{driver.replace(os.sep, '_')}-gpu.json"


def _environment(driver: str, name: str, known: Device | None) -> dict[str, str]:
    seen = {_variable(name): driver}
    if known and known.parent:
        seen[f"{_variable(name)}_PARENT"] = known.parent
    return {**seen, **(known.environment if known else {})}


def _variable(device: str) -> str:
    return "DRAHEALTH_" + "".join(c if c.isalnum() else "_" for c in device).upper()
