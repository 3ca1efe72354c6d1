"""What is made of an inventory: drivers, and device plugins.

    gpus = load_inventory(Path("devices.yaml"))
    driver_options(gpus, name="gpu.example.com", node="node-a", registry_dir=..., data_dir=...)
    plugin_options(gpus, "example.com/gpu", plugins_dir=...)
    drivers_of(Path("devices.yaml"), node="node-a", registry_dir=..., plugins_dir=...)

Divided devices are not given away themselves, their partitions are.
"""

from pathlib import Path
from typing import Any

from drahealth.fakes.hardware.control import DriverOptions
from drahealth.fakes.hardware.plugin_control import PluginOptions
from drahealth.fakes.inventory import Device, Inventory
from drahealth.fakes.inventory_file import load_drivers
from drahealth.fakes.user_files import FileError, Problem

DRIVER = "gpu.example.com"
"""The driver of a file that names none."""


def driver_options(inventory: Inventory, **options: Any) -> DriverOptions:
    """A driver of these devices; `options` are the other fields of DriverOptions. ValueError for what makes none."""
    return DriverOptions(devices=inventory.leaves, inventory=inventory.devices, **options)


def plugin_options(inventory: Inventory, resource: str, **options: Any) -> PluginOptions:
    """A device plugin of the same; `options` are the other fields of PluginOptions. ValueError for what makes none."""
    ids = tuple(inventory[path].name for path in inventory.leaves)
    return PluginOptions(resource=resource, devices=ids, inventory=inventory.devices, **options)


def drivers_of(
    path: Path, *, node: str, registry_dir: Path, plugins_dir: Path, driver: str = DRIVER, **options: Any
) -> list[DriverOptions]:
    """The drivers of an inventory file, in its order, each with a folder of its own in `plugins_dir`.

    `driver` is what the one of a file with devices alone is called, `options` are for all of them, where the file does
    not say something else. Raises FileError for what makes none, OSError for what cannot be read.
    """
    made, problems = list[DriverOptions](), list[Problem]()
    for found in load_drivers(path):
        name = found.name or driver
        where = {"node": node, "registry_dir": str(registry_dir), "data_dir": str(plugins_dir / name)}
        try:
            made.append(driver_options(found.inventory, **{**options, **found.options, "name": name, **where}))
        except ValueError as error:
            problems += found.error(str(error)).problems
    if problems:
        raise FileError(str(path), problems)
    return made


def inventory_of(options: DriverOptions) -> Inventory:
    """A driver's devices, and those that they are parts of."""
    known = {device.path: device for device in options.inventory}
    link = "linked" if options.linked else ""
    wholes = dict.fromkeys(path.partition("/")[0] for path in options.devices)
    parts = [Device(path) for path in options.devices if "/" in path and path not in known]
    return Inventory([*known.values(), *(Device(path, link=link) for path in wholes if path not in known), *parts])
