"""Inventories from YAML files: their schema, and the checks of all groups of devices together."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    StrictStr,
)
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from drahealth.fakes.faults.catalogue import catalogue, policy
from drahealth.fakes.hints import near
from drahealth.fakes.inventory.devices import KIND, Device, Inventory
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
from drahealth.proto.values import is_extended_resource

# A string of a certain form, with an error that says the form in words.


@dataclass(frozen=True, slots=True)
class Form:
    """An annotation of a `str`: it must match `pattern`; otherwise the error is `sentence`, and the value."""

    pattern: str
    sentence: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "pattern": self.pattern}

    def _checked(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"{self.sentence}, got {text[:80]!r}")
        return text


# Errors across groups of devices: their number and their names. Pure.
#
# Only the names of a group count here, so that other errors in it do not hide these.

MAX_DEVICES = 100_000
"""Maximum number of devices in a file."""
MAX_NAME = 63
"""Maximum length of a device name in the resource.k8s.io API."""
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """A group of devices, by name."""

    place: Place
    name: str
    count: int = 1
    parts: tuple["NamedGroup", ...] = ()

    @property
    def size(self) -> int:
        """The number of devices with their partitions."""
        return self.count * (1 + sum(part.count for part in self.parts))

    def names(self) -> Iterator[str]:
        """The names of its whole devices."""
        return names_of(self.name, self.count)

    def all_names(self) -> Iterator[str]:
        """The names of its devices and partitions in the API."""
        for name in self.names():
            yield name
            yield from (f"{name}-{part}" for group in self.parts for part in group.names())


def names_of(name: str, count: int) -> Iterator[str]:
    """The names of this many devices."""
    yield from [name] if count == 1 else (f"{name}-{number}" for number in range(count))


def count_errors(groups: Iterable[NamedGroup], place: Place) -> Iterator[Finding]:
    """The error for more devices than a file may have."""
    if sum(group.size for group in groups) > MAX_DEVICES:
        yield place, f"at most {MAX_DEVICES} devices are allowed"


def allocatable_names(groups: Sequence[NamedGroup]) -> list[str]:
    """The names of allocatable devices: whole ones, or the partitions of divided ones."""
    return [
        name
        for group in _checkable(groups)
        for whole in group.names()
        for name in ([f"{whole}-{part}" for parts in group.parts for part in parts.names()] or [whole])
    ]


def name_errors(groups: Sequence[NamedGroup]) -> Iterator[Finding]:
    """Duplicate names in a driver and names that are too long, with the place of each group."""
    seen = set[str]()
    for group in _checkable(groups):
        names = Counter(group.all_names())
        if twice := [name for name, count in names.items() if count > 1 or name in seen]:
            yield (
                group.place,
                f"duplicate device name: {', '.join(twice[:_SHOWN])}{', ...' * (len(twice) > _SHOWN)}",
            )
        if long := next((name for name in names if len(name) > MAX_NAME), None):
            yield group.place, f"a device name must have at most {MAX_NAME} characters, got {long}"
        seen.update(names)


def _checkable(groups: Sequence[NamedGroup]) -> list[NamedGroup]:
    """The groups to check: for too many devices only the smallest groups, to limit memory."""
    left, chosen = MAX_DEVICES, set[int]()
    for number in sorted(range(len(groups)), key=lambda number: groups[number].size):
        left -= groups[number].size
        if left < 0:
            break
        chosen.add(number)
    return [group for number, group in enumerate(groups) if number in chosen]


# The schema of inventory files, part by part; `file` checks the parts together.

_ATTRIBUTES = 30
"""A device in the resource.k8s.io API has at most 32 attributes and capacities; model and memory use two."""

Label = Annotated[
    str,
    Form(
        r"^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$",
        "must have only lower-case letters, digits and inner hyphens, and at most 42 characters",
    ),
]
Quantity = Annotated[str, Form(r"^[0-9]+(\.[0-9]+)?([KMGTP]i?)?$", "must be a quantity, such as 80Gi")]
_Attribute = Annotated[
    str,
    Form(
        r"^([a-z0-9][-a-z0-9.]{0,62}/)?[A-Za-z_][A-Za-z0-9_]{0,31}$",
        "an attribute must look like speed or example.com/speed, with at most 32 letters, digits and underscores",
    ),
]
_Text = Annotated[StrictStr, Field(max_length=64)]
_Variable = Annotated[
    str, Form(r"^[A-Za-z_][A-Za-z0-9_]*$", "an environment variable must have only letters, digits and underscores")
]
_Subdomain = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_DriverName = Annotated[
    str, Form(rf"^{_Subdomain}$", "must be a DNS subdomain, such as gpu.example.com"), Field(max_length=63)
]
_PoolName = Annotated[
    str,
    Form(rf"^({_Subdomain}(/{_Subdomain})*)?$", "must be DNS subdomains separated by slashes, such as rack-1/node-a"),
    Field(max_length=253),
]


def _fits(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"a number must fit into 64 bits, got {number}")
    return number


def _catalogue(name: str) -> str:
    catalogue(name)
    return name


def _policy(name: str) -> str:
    policy(name)
    return name


def _resource(name: str) -> str:
    if not is_extended_resource(name):
        raise ValueError(f"must be the name of an extended resource such as example.com/gpu, got {name[:80]!r}")
    return name


def _advertised(api: str) -> str:
    from drahealth.proto.health_apis import check_advertised  # imports gRPC messages, and few files need them

    check_advertised(api)
    return api


def _served(api: str) -> str:
    from drahealth.proto.health_apis import check_served

    check_served(api)
    return api


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PartitionGroup(_Part):
    """A group of equal devices."""

    name: Label
    """Name of the device. If `count` is above 1, the names are NAME-0, NAME-1, ..."""
    count: int = Field(default=1, ge=1, le=MAX_DEVICES)
    """Number of equal devices."""
    model: _Text = "fake"
    """Attribute `model` of the published device."""
    memory: Quantity = "80Gi"
    """Capacity `memory` of the published device."""
    attributes: dict[_Attribute, _Text | StrictBool | Annotated[StrictInt, AfterValidator(_fits)]] = Field(
        default={}, max_length=_ATTRIBUTES
    )
    """Other attributes of the published device: strings, integers, booleans."""
    environment: dict[_Variable, StrictStr] = {}
    """Environment variables of a container with one of these devices, by CDI, or by the answer to Allocate."""
    pool: _PoolName = ""
    """Pool of the devices. Default: the pool of the driver, or that of the partitioned device."""

    def names(self) -> Iterator[str]:
        """The names of its devices."""
        return names_of(self.name, self.count)


class DeviceGroup(PartitionGroup):
    """A group of equal whole devices."""

    partitions: tuple[PartitionGroup, ...] = ()
    """Partitions, which Kubernetes allocates in place of the device. Each one has the attribute `parent`."""
    linked: bool = True
    """Whether a fault with the scope `peers` affects all devices of the group."""


class DriverPart(_Part):
    """The devices of one driver. Missing driver fields have the defaults of `DriverOptions`."""

    name: _DriverName
    """Name of the driver, a DNS subdomain."""
    devices: tuple[DeviceGroup, ...] = Field(min_length=1)
    """Its devices."""
    pool: _PoolName = ""
    """Pool of the devices. Default: the name of the node."""
    heartbeat: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    """Seconds between two heartbeats; 0: none."""
    timeout: int = Field(default=0, ge=-(2**63), lt=2**63)
    """Timeout of the devices in seconds. With 0, the kubelet uses its own default."""
    catalogue: Annotated[str, AfterValidator(_catalogue)] = "nvidia"
    """Catalogue of faults."""
    policy: Annotated[str, AfterValidator(_policy)] = "nvidia-catalogue"
    """Policy that maps faults to health."""
    dra_versions: tuple[str, ...] = ()
    """Advertised versions of the DRA service. Default: all."""
    health_apis: tuple[Annotated[str, AfterValidator(_advertised)], ...] = ()
    """Advertised services of health APIs, such as v1alpha1.NodeHealth. Default: all."""
    served_health_apis: tuple[Annotated[str, AfterValidator(_served)], ...] | None = None
    """Served health APIs, such as v1.DRAResourceHealth. Default: all of the advertised services."""
    cdi_ids: bool = True
    """Whether each prepared device has a CDI device ID."""
    shared_cdi_id: bool = False
    """Whether all prepared devices have the same CDI device ID."""
    unhealthy_taint: str = ""
    """Taint of each Unhealthy device until its recovery, such as example.com/unhealthy:NoSchedule."""


class PluginPart(_Part):
    """The devices of one device plugin. Missing plugin fields have the defaults of `PluginOptions`."""

    resource: Annotated[str, AfterValidator(_resource)]
    """Extended resource that Pods request in `resources.limits`, and the name for `drahealth ctl --driver`."""
    devices: tuple[DeviceGroup, ...] = Field(min_length=1)
    """Its devices. A device plugin publishes only their names: no models, memory, attributes or pools."""
    registration: Literal["kubelet.sock", "plugins_registry"] = "kubelet.sock"
    """kubelet.sock: the device plugin calls the kubelet. plugins_registry: the kubelet finds its socket there."""
    preferred: tuple[str, ...] = ()
    """Devices that the kubelet allocates first, in this order."""
    pre_start: bool = False
    """Whether the kubelet calls PreStartContainer before a container starts."""
    cdi_kind: Annotated[str, Form(rf"^({KIND})?$", "must be a CDI kind, such as example.com/gpu")] = ""
    """CDI kind (vendor and class) of the devices, such as example.com/tpu. Default: no CDI."""
    catalogue: Annotated[str, AfterValidator(_catalogue)] = "nvidia"
    """Catalogue of faults."""
    policy: Annotated[str, AfterValidator(_policy)] = "nvidia-catalogue"
    """Policy that maps faults to health."""


class InventoryFile(_Part):
    """The content of an inventory file."""

    format: Literal["inventory/v1"]
    """Format of the file."""
    devices: tuple[DeviceGroup, ...] = Field(default=(), min_length=1)
    """The devices of one driver, in place of `drivers`."""
    drivers: tuple[DriverPart, ...] = Field(default=(), min_length=1)
    """Drivers, each with its devices."""
    plugins: tuple[PluginPart, ...] = Field(default=(), min_length=1)
    """Device plugins, each with its devices."""


# Inventories from YAML files: groups of equal devices, divided into partitions, of drivers and of device plugins.
#
#     format: inventory/v1
#     devices:
#       - {name: gpu, count: 8, model: H100, memory: 80Gi, partitions: [{name: mig, count: 7, memory: 10Gi}]}
#       - {name: spare, linked: false, attributes: {generation: 3}, environment: {SPARE: "yes"}, pool: shelf}
#
#     format: inventory/v1
#     drivers:
#       - {name: gpu.example.com, policy: strict, devices: [{name: gpu, count: 8}]}
#       - {name: nic.example.com, pool: fabric, devices: [{name: nic, count: 2, pool: fabric-1}]}
#     plugins:
#       - {resource: example.com/tpu, devices: [{name: tpu, count: 4}], preferred: [tpu-3], pre_start: true}
#
# The devices of a group are named `gpu-0`, `gpu-1` and so on; a single device has the name of the group. The devices
# of a group are linked with each other. Device names are unique in a driver or device plugin, over all pools, so that
# a name alone identifies a device.


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
