"""Inventories from YAML files: groups of equal devices, divided into partitions, of drivers and of device plugins.

    format: inventory/v1
    devices:
      - {name: gpu, count: 8, model: H100, memory: 80Gi, partitions: [{name: mig, count: 7, memory: 10Gi}]}
      - {name: spare, linked: false, attributes: {generation: 3}, environment: {SPARE: "yes"}, pool: shelf}

    format: inventory/v1
    drivers:
      - {name: gpu.example.com, policy: strict, devices: [{name: gpu, count: 8}]}
      - {name: nic.example.com, pool: fabric, devices: [{name: nic, count: 2, pool: fabric-1}]}
    plugins:
      - {resource: example.com/tpu, devices: [{name: tpu, count: 4}], preferred: [tpu-3], pre_start: true}

The devices of a group are named `gpu-0`, `gpu-1` and so on; a single device has the name of the group. The devices of a
group are linked with each other. Device names are unique in a driver or device plugin, over all pools, so that a name
alone identifies a device.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drahealth.fakes.hints import near
from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.fakes.inventory.model import DeviceGroup, DriverPart, InventoryFile, PartitionGroup, PluginPart
from drahealth.fakes.inventory.names import MAX_NAME, NamedGroup, allocatable_names, count_errors, name_errors
from drahealth.fakes.program.user_files import (
    Document,
    FileError,
    Finding,
    Place,
    Problem,
    documents,
    read,
    valid_fields,
    validated,
)


@dataclass(frozen=True, slots=True)
class FoundPart:
    """The part of a file that describes one driver or device plugin."""

    name: str
    """Driver name, or the resource of a device plugin; empty for a file with `devices` only."""
    inventory: Inventory
    options: dict[str, Any]
    """Fields of `DriverOptions` or `PluginOptions` that the file sets."""
    document: Document
    place: Place

    def error(self, what: str, *place: str) -> FileError:
        """An error in this part."""
        return self.document.error([((*self.place, *place), what)])


@dataclass(frozen=True, slots=True)
class FoundFile:
    """The content of a file."""

    drivers: list[FoundPart]
    plugins: list[FoundPart]


def inventory_of(groups: Iterable[DeviceGroup]) -> Inventory:
    """The devices of these groups. Raises ValueError for duplicate names and for names that are too long."""
    found = Inventory(device for group in groups for device in _devices(group))
    if long := next((d.name for d in found.devices if len(d.name) > MAX_NAME), None):
        raise ValueError(f"a device name must have at most {MAX_NAME} characters, got {long}")
    return found


def load_inventory(path: Path) -> Inventory:
    """Read an inventory file that has exactly one driver.

    Raises FileError if it is invalid, OSError if it is unreadable.
    """
    found = load_file(path)
    if len(found.drivers) > 1:
        raise found.drivers[1].error("the file has several drivers; use a file with one driver")
    if not found.drivers:
        raise found.plugins[0].error("the file has device plugins only; use a file with one driver")
    return found.drivers[0].inventory


def load_file(path: Path) -> FoundFile:
    """The content of a file. Raises FileError for an invalid inventory, OSError if it cannot be read."""
    found = list(documents(read(path), str(path)))
    if len(found) != 1:
        what = "start it with `format: inventory/v1`" if not found else "a file must have one YAML document"
        raise FileError(str(path), [Problem(1, "", f"invalid inventory: {what}")])
    document = found[0]
    errors = document.problems(_file_errors(document.data))
    try:
        described = validated(InventoryFile, document)
    except FileError as error:
        raise FileError(str(path), [*error.problems, *errors]) from None
    if errors:
        raise FileError(str(path), errors)
    drivers = [_found(drivers.name, drivers, document, "drivers", n) for n, drivers in enumerate(described.drivers)]
    if described.devices:
        drivers = [FoundPart("", inventory_of(described.devices), {}, document, ("devices",))]
    plugins = [_found(plugins.resource, plugins, document, "plugins", n) for n, plugins in enumerate(described.plugins)]
    return FoundFile(drivers, plugins)


def _found(name: str, described: DriverPart | PluginPart, document: Document, *place: str | int) -> FoundPart:
    fields = described.model_dump(include=described.model_fields_set - {"name", "resource", "devices"})
    return FoundPart(name, inventory_of(described.devices), fields, document, place)


def check_driver_name(name: str) -> None:
    """Raises ValueError for an invalid driver name."""
    if not valid_fields(DriverPart, {"name": name}, ["name"]):
        raise ValueError(f"a driver name must be a DNS name such as gpu.example.com, got {name!r}")


def group_errors(data: Any, place: Place) -> Iterator[Finding]:
    """Errors across the groups of one driver, as far as each is readable."""
    groups = _named_groups(data, place)
    yield from count_errors(groups, place)
    yield from name_errors(groups)


def _file_errors(data: Any) -> Iterator[Finding]:
    """Errors across the parts of a file, as far as each is readable."""
    if not isinstance(data, dict):
        return
    if "devices" in data and "drivers" in data:
        yield (), "set devices or drivers, not both"
    if not data.keys() - {"format"}:  # an unknown key has an error of its own
        yield (), "set devices, drivers or plugins"
    yield from group_errors(data.get("devices"), ("devices",))
    drivers, plugins = _owners(data, "drivers", DriverPart, "name"), _owners(data, "plugins", PluginPart, "resource")
    for owners, key, word in ((drivers, "drivers", "driver name"), (plugins, "plugins", "resource")):
        yield from _duplicates(owners, word)
        for owner in owners:
            yield from name_errors(owner.groups)
        yield from count_errors([group for owner in owners for group in owner.groups], (key,))
    for owner in plugins:
        yield from _unknown_preferred(owner)


@dataclass(frozen=True, slots=True)
class _Owner:
    """A driver or device plugin of a file, as far as it is readable."""

    place: Place
    data: Any
    name: str | None
    groups: list[NamedGroup]


def _owners(data: Any, key: str, model: type[DriverPart | PluginPart], named: str) -> list[_Owner]:
    return [
        _Owner(
            place,
            owner,
            valid_fields(model, owner, [named]).get(named),
            _named_groups(owner.get("devices") if isinstance(owner, dict) else None, (*place, "devices")),
        )
        for place, owner in _elements(data.get(key), (key,))
    ]


def _duplicates(owners: list[_Owner], word: str) -> Iterator[Finding]:
    names = set[str]()
    for owner in owners:
        if owner.name in names:
            yield owner.place, f"duplicate {word} {owner.name}"
        names |= {owner.name} if owner.name else set()


def _unknown_preferred(plugin: _Owner) -> Iterator[Finding]:
    """Preferred devices that the plugin does not have; checked if all its devices are readable."""
    preferred = valid_fields(PluginPart, plugin.data, ["preferred"]).get("preferred", ())
    if not preferred or len(plugin.groups) != len(_elements(plugin.data.get("devices"), ())):
        return
    names = allocatable_names(plugin.groups)
    for number, name in enumerate(preferred):
        if name.replace("/", "-") not in names:
            yield (*plugin.place, "preferred", number), f"unknown device {name[:80]!r}; {near(name, names)}"


def _named_groups(data: Any, place: Place, model: type[PartitionGroup] = DeviceGroup) -> list[NamedGroup]:
    """The names of a list's groups, without ill-formed ones."""
    found = list[NamedGroup]()
    for where, group in _elements(data, place):
        fields = valid_fields(model, group, ["name", "count"])
        if "name" in fields and ("count" in fields or "count" not in group):
            parts = (
                _named_groups(group.get("partitions"), (*where, "partitions"), PartitionGroup)
                if model is DeviceGroup
                else []
            )
            found.append(NamedGroup(where, **fields, parts=tuple(parts)))
    return found


def _elements(data: Any, place: Place) -> list[tuple[Place, Any]]:
    return [((*place, number), part) for number, part in enumerate(data)] if isinstance(data, list) else []


def _devices(group: DeviceGroup) -> Iterator[Device]:
    link = group.name if group.linked and group.count > 1 else ""
    for name in group.names():
        yield _device(group, name, link, group.pool)
        for part in group.partitions:
            for partition in part.names():
                yield _device(part, f"{name}/{partition}", "", part.pool or group.pool)


def _device(group: PartitionGroup, path: str, link: str, pool: str) -> Device:
    return Device(
        path,
        model=group.model,
        memory=group.memory,
        attributes=group.attributes,
        link=link,
        pool=pool,
        environment=group.environment,
    )
