"""Inventories from YAML files: groups of equal devices, divided into partitions, of one driver or of several.

    format: inventory/v1
    devices:
      - {name: gpu, count: 8, model: H100, memory: 80Gi, partitions: [{name: mig, count: 7, memory: 10Gi}]}
      - {name: spare, linked: false, attributes: {generation: 3}, environment: {SPARE: "yes"}, pool: shelf}

    format: inventory/v1
    drivers:
      - {name: gpu.example.com, policy: strict, devices: [{name: gpu, count: 8}]}
      - {name: nic.example.com, pool: fabric, devices: [{name: nic, count: 2, pool: fabric-1}]}

Devices of a group are called `gpu-0` and so on, one alone as it is named; those of a group share links with each other.
Within a driver no two devices have one name, in whatever pool they are, so that a name alone says which one is meant.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from drahealth.fakes.faults.catalogue import catalogue, policy
from drahealth.fakes.inventory import Device, Inventory
from drahealth.fakes.inventory_names import LONGEST, MOST, Named, misnamed, names_of, too_many
from drahealth.fakes.user_files import (
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

_ATTRIBUTES = 30
"""Attributes and capacities of a device in the resource.k8s.io API are 32; model and memory are there anyhow."""

Label = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$")]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?([KMGTP]i?)?$")]
_Attribute = Annotated[str, Field(pattern=r"^([a-z0-9][-a-z0-9.]{0,62}/)?[A-Za-z_][A-Za-z0-9_]{0,31}$")]
_Text = Annotated[StrictStr, Field(max_length=64)]
_Subdomain = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_DriverName = Annotated[str, Field(pattern=rf"^{_Subdomain}$", max_length=63)]
_PoolName = Annotated[str, Field(pattern=rf"^{_Subdomain}(/{_Subdomain})*$", max_length=253)]


def _fits(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise ValueError("a number has 64 bits at most")
    return number


def _catalogue(name: str) -> str:
    catalogue(name)
    return name


def _policy(name: str) -> str:
    policy(name)
    return name


def _advertised(api: str) -> str:
    from drahealth.proto.flavours import check_advertised  # brings gRPC's messages, and few files name one

    check_advertised(api)
    return api


def _served(api: str) -> str:
    from drahealth.proto.flavours import check_served

    check_served(api)
    return api


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Group(_Part):
    """Equal devices."""

    name: Label
    count: int = Field(default=1, ge=1, le=MOST)
    model: _Text = "fake"
    memory: Quantity = "80Gi"
    attributes: dict[_Attribute, _Text | StrictBool | Annotated[StrictInt, AfterValidator(_fits)]] = Field(
        default={}, max_length=_ATTRIBUTES
    )
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], StrictStr] = {}
    """What a container that gets one has in its environment, by CDI."""
    pool: _PoolName | Literal[""] = ""
    """The pool that they are published in; empty: the driver's, or that of the device which they are parts of."""

    def names(self) -> Iterator[str]:
        """What its devices are called."""
        return names_of(self.name, self.count)


class Whole(Group):
    """Equal whole devices."""

    partitions: tuple[Group, ...] = ()
    linked: bool = True
    """Each shares a link with all others of the group."""


class Driven(_Part):
    """The devices of one driver. What is not said here of the driver itself is as `DriverOptions` has it."""

    name: _DriverName
    devices: tuple[Whole, ...] = Field(min_length=1)
    pool: _PoolName | Literal[""] = ""
    heartbeat: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    timeout: int = Field(default=0, ge=-(2**63), lt=2**63)
    catalogue: Annotated[str, AfterValidator(_catalogue)] = "nvidia"
    policy: Annotated[str, AfterValidator(_policy)] = "nvidia-catalogue"
    dra_versions: tuple[str, ...] = ()
    health_apis: tuple[Annotated[str, AfterValidator(_advertised)], ...] = ()
    served_health_apis: tuple[Annotated[str, AfterValidator(_served)], ...] | None = None
    cdi_ids: bool = True
    shared_cdi_id: bool = False


class InventoryFile(_Part):
    """What such a file says."""

    format: Literal["inventory/v1"]
    devices: tuple[Whole, ...] = Field(default=(), min_length=1)
    drivers: tuple[Driven, ...] = Field(default=(), min_length=1)


@dataclass(frozen=True, slots=True)
class FoundDriver:
    """What a file says of one driver."""

    name: str
    """Empty where a file has devices alone."""
    inventory: Inventory
    options: dict[str, Any]
    """What is said of the driver itself: fields of `DriverOptions`."""
    document: Document
    place: Place

    def error(self, what: str) -> FileError:
        """This is wrong with it."""
        return self.document.error([(self.place, what)])


def inventory_of(groups: Iterable[Whole]) -> Inventory:
    """The devices of these groups. Raises ValueError where two have one name, or one has too long a name."""
    found = Inventory(device for group in groups for device in _devices(group))
    if long := next((d.name for d in found.devices if len(d.name) > LONGEST), None):
        raise ValueError(f"a device has a name of at most {LONGEST} letters, not {long}")
    return found


def load_inventory(path: Path) -> Inventory:
    """The devices of a file of one driver. Raises FileError for what is none, OSError for what cannot be read."""
    found = load_drivers(path)
    if len(found) > 1:
        raise found[1].error("these are devices of several drivers; here they are those of one")
    return found[0].inventory


def load_drivers(path: Path) -> list[FoundDriver]:
    """The drivers of a file. Raises FileError for what is no inventory, OSError for what cannot be read."""
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
    if described.devices:
        return [FoundDriver("", inventory_of(described.devices), {}, document, ("devices",))]
    return [
        FoundDriver(
            driven.name,
            inventory_of(driven.devices),
            driven.model_dump(include=driven.model_fields_set - {"name", "devices"}),
            document,
            ("drivers", number),
        )
        for number, driven in enumerate(described.drivers)
    ]


def check_driver_name(name: str) -> None:
    """Raises ValueError for what no driver can be called."""
    if not sound(Driven, {"name": name}, ["name"]):
        raise ValueError(f"{name!r} is no name of a driver, which is a DNS name such as gpu.example.com")


def groups_amiss(data: Any, place: Place) -> Iterator[Finding]:
    """What is wrong with the groups of one driver taken together, so far as each can be read."""
    groups = _named(data, place)
    yield from too_many(groups, place)
    yield from misnamed(groups)


def _amiss(data: Any) -> Iterator[Finding]:
    """What is wrong with the parts of a file taken together, so far as each can be read."""
    if not isinstance(data, dict):
        return
    both = "devices" in data and "drivers" in data
    if both or not data.keys() - {"format"}:  # of another name than these it is told by itself
        yield (), "an inventory has either devices or drivers"
    yield from groups_amiss(data.get("devices"), ("devices",))
    names, groups = set[str](), list[Named]()
    for place, driven in _elements(data.get("drivers"), ("drivers",)):
        name = sound(Driven, driven, ["name"]).get("name")
        if name in names:
            yield place, f"two drivers are called {name}"
        names |= {name} if name else set()
        own = _named(driven.get("devices") if isinstance(driven, dict) else None, (*place, "devices"))
        yield from misnamed(own)
        groups += own
    yield from too_many(groups, ("drivers",))


def _named(data: Any, place: Place, model: type[Group] = Whole) -> list[Named]:
    """What the groups of a list are called, but for those of which that is ill-formed."""
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
