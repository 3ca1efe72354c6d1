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

Devices of a group are called `gpu-0` and so on, one alone as it is named; those of a group share links with each other.
Within a driver or a device plugin no two devices have one name, in whatever pool they are, so that a name alone says
which one is meant.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drahealth.fakes.files.user_files import (
    Document,
    FileError,
    Finding,
    Place,
    Problem,
    documents,
    read,
    sound,
    validated,
)
from drahealth.fakes.hints import near
from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.fakes.inventory.model import Driven, Group, InventoryFile, Plugged, Whole
from drahealth.fakes.inventory.names import LONGEST, Named, given_away, misnamed, too_many


@dataclass(frozen=True, slots=True)
class Found:
    """The part of a file that describes one driver or device plugin."""

    name: str
    """A plugin's is its resource; a driver's is empty where a file has devices alone."""
    inventory: Inventory
    options: dict[str, Any]
    """What is said of it itself: fields of `DriverOptions`, or of `PluginOptions`."""
    document: Document
    place: Place

    def error(self, what: str, *place: str) -> FileError:
        """An error in this part."""
        return self.document.error([((*self.place, *place), what)])


@dataclass(frozen=True, slots=True)
class FoundFile:
    """The content of a file."""

    drivers: list[Found]
    plugins: list[Found]


def inventory_of(groups: Iterable[Whole]) -> Inventory:
    """The devices of these groups. Raises ValueError for duplicate names and for names that are too long."""
    found = Inventory(device for group in groups for device in _devices(group))
    if long := next((d.name for d in found.devices if len(d.name) > LONGEST), None):
        raise ValueError(f"a device has a name of at most {LONGEST} letters, not {long}")
    return found


def load_inventory(path: Path) -> Inventory:
    """The devices of a file with one driver. Raises FileError for an invalid file, OSError if it cannot be read."""
    found = load_file(path)
    if len(found.drivers) > 1:
        raise found.drivers[1].error("these are devices of several drivers; here they are those of one")
    if not found.drivers:
        raise found.plugins[0].error("these are devices of a device plugin; here they are those of a driver")
    return found.drivers[0].inventory


def load_file(path: Path) -> FoundFile:
    """The content of a file. Raises FileError for an invalid inventory, OSError if it cannot be read."""
    found = list(documents(read(path), str(path)))
    if len(found) != 1:
        what = "it begins with `format: inventory/v1`" if not found else "there is one to a file"
        raise FileError(str(path), [Problem(1, "", f"not an inventory: {what}")])
    document = found[0]
    amiss = document.problems(_amiss(document.data))
    try:
        described = validated(InventoryFile, document)
    except FileError as error:
        raise FileError(str(path), [*error.problems, *amiss]) from None
    if amiss:
        raise FileError(str(path), amiss)
    drivers = [_found(driven.name, driven, document, "drivers", n) for n, driven in enumerate(described.drivers)]
    if described.devices:
        drivers = [Found("", inventory_of(described.devices), {}, document, ("devices",))]
    plugins = [_found(plugged.resource, plugged, document, "plugins", n) for n, plugged in enumerate(described.plugins)]
    return FoundFile(drivers, plugins)


def _found(name: str, described: Driven | Plugged, document: Document, *place: str | int) -> Found:
    said = described.model_dump(include=described.model_fields_set - {"name", "resource", "devices"})
    return Found(name, inventory_of(described.devices), said, document, place)


def check_driver_name(name: str) -> None:
    """Raises ValueError for an invalid driver name."""
    if not sound(Driven, {"name": name}, ["name"]):
        raise ValueError(f"{name!r} is no name of a driver, which is a DNS name such as gpu.example.com")


def groups_amiss(data: Any, place: Place) -> Iterator[Finding]:
    """Errors across the groups of one driver, as far as each is readable."""
    groups = _named(data, place)
    yield from too_many(groups, place)
    yield from misnamed(groups)


def _amiss(data: Any) -> Iterator[Finding]:
    """Errors across the parts of a file, as far as each is readable."""
    if not isinstance(data, dict):
        return
    if "devices" in data and "drivers" in data:
        yield (), "an inventory has either devices or drivers"
    if not data.keys() - {"format"}:  # of another name than these it is told by itself
        yield (), "an inventory has devices, drivers or plugins"
    yield from groups_amiss(data.get("devices"), ("devices",))
    driven, plugged = _owners(data, "drivers", Driven, "name"), _owners(data, "plugins", Plugged, "resource")
    for owners, key, word in ((driven, "drivers", "drivers are called"), (plugged, "plugins", "device plugins are of")):
        yield from _twice(owners, word)
        for owner in owners:
            yield from misnamed(owner.groups)
        yield from too_many([group for owner in owners for group in owner.groups], (key,))
    for owner in plugged:
        yield from _not_given(owner)


@dataclass(frozen=True, slots=True)
class _Owner:
    """A driver or device plugin of a file, as far as it is readable."""

    place: Place
    data: Any
    name: str | None
    groups: list[Named]


def _owners(data: Any, key: str, model: type[Driven | Plugged], named: str) -> list[_Owner]:
    return [
        _Owner(
            place,
            owner,
            sound(model, owner, [named]).get(named),
            _named(owner.get("devices") if isinstance(owner, dict) else None, (*place, "devices")),
        )
        for place, owner in _elements(data.get(key), (key,))
    ]


def _twice(owners: list[_Owner], word: str) -> Iterator[Finding]:
    names = set[str]()
    for owner in owners:
        if owner.name in names:
            yield owner.place, f"two {word} {owner.name}"
        names |= {owner.name} if owner.name else set()


def _not_given(plugin: _Owner) -> Iterator[Finding]:
    """Preferred devices that the plugin does not have; checked if all its devices are readable."""
    preferred = sound(Plugged, plugin.data, ["preferred"]).get("preferred", ())
    if not preferred or len(plugin.groups) != len(_elements(plugin.data.get("devices"), ())):
        return
    names = given_away(plugin.groups)
    for number, name in enumerate(preferred):
        if name.replace("/", "-") not in names:
            yield (*plugin.place, "preferred", number), f"there is no device {name[:80]!r} to give; {near(name, names)}"


def _named(data: Any, place: Place, model: type[Group] = Whole) -> list[Named]:
    """The names of a list's groups, without ill-formed ones."""
    found = list[Named]()
    for where, group in _elements(data, place):
        said = sound(model, group, ["name", "count"])
        if "name" in said and ("count" in said or "count" not in group):
            parts = _named(group.get("partitions"), (*where, "partitions"), Group) if model is Whole else []
            found.append(Named(where, **said, parts=tuple(parts)))
    return found


def _elements(data: Any, place: Place) -> list[tuple[Place, Any]]:
    return [((*place, number), part) for number, part in enumerate(data)] if isinstance(data, list) else []


def _devices(group: Whole) -> Iterator[Device]:
    link = group.name if group.linked and group.count > 1 else ""
    for name in group.names():
        yield _device(group, name, link, group.pool)
        for part in group.partitions:
            for partition in part.names():
                yield _device(part, f"{name}/{partition}", "", part.pool or group.pool)


def _device(group: Group, path: str, link: str, pool: str) -> Device:
    return Device(path, group.model, group.memory, group.attributes, link, pool, group.environment)
