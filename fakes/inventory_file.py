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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from drahealth.fakes.faults.catalogue import UnknownName, catalogue, policy
from drahealth.fakes.inventory import Device, Inventory
from drahealth.fakes.user_files import Document, FileError, Place, Problem, documents, read, validated

MOST = 100_000
"""Devices that a file may describe."""
_NAME_LIMIT = 63
"""Letters of a device's name in the resource.k8s.io API."""
_ATTRIBUTES = 30
"""Attributes and capacities of a device in that API are 32; model and memory are there anyhow."""

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
        yield from [self.name] if self.count == 1 else (f"{self.name}-{number}" for number in range(self.count))


class Whole(Group):
    """Equal whole devices."""

    partitions: tuple[Group, ...] = ()
    linked: bool = True
    """Each shares a link with all others of the group."""

    @property
    def size(self) -> int:
        """Devices, with their partitions."""
        return self.count * (1 + sum(part.count for part in self.partitions))


class Driven(_Part):
    """The devices of one driver. What is not said here of the driver itself is as `DriverOptions` has it."""

    name: _DriverName
    devices: tuple[Whole, ...] = Field(min_length=1)
    pool: _PoolName | Literal[""] = ""
    heartbeat: float = 10.0
    timeout: int = Field(default=0, ge=-(2**63), lt=2**63)
    catalogue: str = "nvidia"
    policy: str = "nvidia-catalogue"
    dra_versions: tuple[str, ...] = ()
    health_apis: tuple[str, ...] = ()
    served_health_apis: tuple[str, ...] | None = None
    cdi_ids: bool = True
    shared_cdi_id: bool = False


class InventoryFile(_Part):
    """What such a file says."""

    format: Literal["inventory/v1"]
    devices: tuple[Whole, ...] = Field(default=(), min_length=1)
    drivers: tuple[Driven, ...] = Field(default=(), min_length=1)

    @model_validator(mode="after")
    def _one_of_both(self) -> "InventoryFile":
        if bool(self.devices) == bool(self.drivers):
            raise ValueError("an inventory has either devices or drivers")
        return self


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

    def unknown(self) -> Iterator[tuple[Place, str]]:
        """Names that it says and nothing is called by."""
        for key, known in (("catalogue", catalogue), ("policy", policy)):
            try:
                if key in self.options:
                    known(self.options[key])
            except UnknownName as error:
                yield (*self.place, key), str(error)

    def error(self, what: str) -> FileError:
        """This is wrong with it."""
        return self.document.error([(self.place, what)])


def inventory_of(groups: Iterable[Whole]) -> Inventory:
    """The devices of these groups. Raises ValueError where two have one name, or one has too long a name."""
    found = Inventory(device for group in groups for device in _devices(group))
    if long := next((d.name for d in found.devices if len(d.name) > _NAME_LIMIT), None):
        raise ValueError(f"a device has a name of at most {_NAME_LIMIT} letters, not {long}")
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
    described = validated(InventoryFile, document)
    return _one(described.devices, document) if described.devices else _several(described.drivers, document)


def _one(groups: Sequence[Whole], document: Document) -> list[FoundDriver]:
    _check_size(groups, document, ("devices",))
    return [FoundDriver("", _inventory(groups, document, ("devices",)), {}, document, ("devices",))]


def _several(drivers: Sequence[Driven], document: Document) -> list[FoundDriver]:
    _check_size([group for driven in drivers for group in driven.devices], document, ("drivers",))
    found, names, wrong = list[FoundDriver](), set[str](), list[tuple[Place, str]]()
    for number, driven in enumerate(drivers):
        place = ("drivers", number)
        if driven.name in names:
            wrong.append((place, f"two drivers are called {driven.name}"))
        names.add(driven.name)
        try:
            inventory = inventory_of(driven.devices)
        except ValueError as error:
            wrong.append(((*place, "devices"), str(error)))
            continue
        said = driven.model_dump(include=driven.model_fields_set - {"name", "devices"})
        found.append(FoundDriver(driven.name, inventory, said, document, place))
    if wrong:
        raise document.error([*wrong, *(one for driver in found for one in driver.unknown())])
    return found


def _check_size(groups: Iterable[Whole], document: Document, place: Place) -> None:
    if sum(group.size for group in groups) > MOST:
        raise document.error([(place, f"these are more than {MOST} devices")])


def _inventory(groups: Sequence[Whole], document: Document, place: Place) -> Inventory:
    try:
        return inventory_of(groups)
    except ValueError as error:
        raise document.error([(place, str(error))]) from None


def _devices(group: Whole) -> Iterator[Device]:
    link = group.name if group.linked and group.count > 1 else ""
    for name in group.names():
        yield _device(group, name, link, group.pool)
        for part in group.partitions:
            for partition in part.names():
                yield _device(part, f"{name}/{partition}", "", part.pool or group.pool)


def _device(group: Group, path: str, link: str, pool: str) -> Device:
    return Device(path, group.model, group.memory, group.attributes, link, pool, group.environment)
