"""Create options of drivers and device plugins from an inventory.

    gpus = load_inventory(Path("devices.yaml"))
    driver_options(gpus, name="gpu.example.com", node="node-a", registry_dir=..., data_dir=...)
    plugin_options(gpus, "example.com/gpu", plugins_dir=...)
    fakes_of(Path("devices.yaml"), node="node-a", registry_dir=..., plugins_dir=..., device_plugins_dir=...)

A divided device is not allocatable; its partitions are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drahealth.fakes.control.device_plugin import PluginOptions
from drahealth.fakes.control.driver import DriverOptions
from drahealth.fakes.inventory import cdi
from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.fakes.inventory.file import FoundPart, load_file
from drahealth.fakes.program.user_files import FileError, Problem

DRIVER = "gpu.example.com"
"""Default driver name for a file with `devices` only."""


def driver_options(inventory: Inventory, **options: Any) -> DriverOptions:
    """Options of a driver with these devices and other fields of DriverOptions. Raises ValueError if invalid."""
    return DriverOptions(devices=inventory.leaves, inventory=inventory.devices, **options)


def plugin_options(inventory: Inventory, resource: str, **options: Any) -> PluginOptions:
    """Options of a device plugin with these devices and other fields of PluginOptions. Raises ValueError if invalid."""
    ids = tuple(inventory[path].name for path in inventory.leaves)
    return PluginOptions(resource=resource, devices=ids, inventory=inventory.devices, **options)


@dataclass(frozen=True, slots=True)
class Fakes:
    """The drivers and device plugins of a file."""

    drivers: tuple[DriverOptions, ...]
    plugins: tuple[PluginOptions, ...]


def fakes_of(
    path: Path,
    *,
    node: str,
    registry_dir: Path,
    plugins_dir: Path,
    device_plugins_dir: Path,
    driver: str = DRIVER,
    **options: Any,
) -> Fakes:
    """The drivers and device plugins of a file, in order, each with its own folder in `plugins_dir`.

    `driver` is the driver name for a file with `devices` only. `options` are defaults of DriverOptions and, as far as
    they exist, of PluginOptions. Raises FileError for an invalid file, OSError for an unreadable one.
    """
    file, problems = load_file(path), list[Problem]()
    drivers, plugins, kinds = list[DriverOptions](), list[PluginOptions](), dict[str, str]()
    for found in file.drivers:
        name = found.name or driver
        where = {"node": node, "registry_dir": str(registry_dir), "data_dir": str(plugins_dir / name)}
        kinds[cdi.file_name(cdi.kind_of(name))] = f"driver {name}"
        try:
            drivers.append(driver_options(found.inventory, **{**options, **found.options, "name": name, **where}))
        except ValueError as error:
            problems += found.error(str(error)).problems
    shared = {key: value for key, value in options.items() if key in PluginOptions.__slots__}
    for found in file.plugins:
        data_dir = plugins_dir / found.name.replace("/", "_")
        where = {"plugins_dir": str(device_plugins_dir), "registry_dir": str(registry_dir), "data_dir": str(data_dir)}
        try:
            _record_kind(found, kinds)
            plugins.append(_plugin(found, {**shared, **where}))
        except FileError as error:
            problems += error.problems
        except ValueError as error:
            problems += found.error(str(error)).problems
    if problems:
        raise FileError(str(path), problems)
    return Fakes(tuple(drivers), tuple(plugins))


def _plugin(found: FoundPart, options: Mapping[str, Any]) -> PluginOptions:
    fields = dict(found.options)
    if "preferred" in fields:
        fields["preferred"] = tuple(name.replace("/", "-") for name in fields["preferred"])
    return plugin_options(found.inventory, found.name, **{**options, **fields})


def _record_kind(plugin: FoundPart, kinds: dict[str, str]) -> None:
    """Records the CDI kind of a plugin. Raises FileError if it is already used."""
    if kind := plugin.options.get("cdi_kind"):
        file = cdi.file_name(kind)
        if file in kinds:
            raise plugin.error(f"CDI kind {kind} is already used by {kinds[file]}", "cdi_kind")
        kinds[file] = f"device plugin {plugin.name}"


def inventory_of(options: DriverOptions) -> Inventory:
    """The inventory of a driver: its devices, and the devices that its partitions belong to."""
    known = {device.path: device for device in options.inventory}
    link = "linked" if options.linked else ""
    wholes = dict.fromkeys(path.partition("/")[0] for path in options.devices)
    parts = [Device(path) for path in options.devices if "/" in path and path not in known]
    return Inventory([*known.values(), *(Device(path, link=link) for path in wholes if path not in known), *parts])
