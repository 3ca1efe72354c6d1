"""Inventories from YAML files: groups of equal devices, divided into partitions.

    format: inventory/v1
    devices:
      - {name: gpu, count: 8, model: H100, memory: 80Gi, partitions: [{name: mig, count: 7, memory: 10Gi}]}
      - {name: spare, linked: false, attributes: {generation: 3}}

Devices of a group are called `gpu-0` and so on, one alone as it is named; those of a group share links with each other.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from drahealth.fakes.inventory import Device, Inventory
from drahealth.fakes.user_files import FileError, Problem, documents, read, validated

MOST = 100_000
"""Devices that a file may describe."""

Label = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$")]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?([KMGTP]i?)?$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Group(_Part):
    """Equal devices."""

    name: Label
    count: int = Field(default=1, ge=1, le=MOST)
    model: str = "fake"
    memory: Quantity = "80Gi"
    attributes: dict[str, StrictStr | StrictBool | StrictInt] = {}

    def names(self) -> Iterator[str]:
        """What its devices are called."""
        yield from [self.name] if self.count == 1 else (f"{self.name}-{number}" for number in range(self.count))


class Whole(Group):
    """Equal whole devices."""

    partitions: tuple[Group, ...] = ()
    linked: bool = True
    """Each shares a link with all others of the group."""


class InventoryFile(_Part):
    """What such a file says."""

    format: Literal["inventory/v1"]
    devices: tuple[Whole, ...] = Field(min_length=1)

    def inventory(self) -> Inventory:
        """The devices. Raises ValueError where two have one name."""
        return inventory_of(self.devices)


def inventory_of(groups: Iterable[Whole]) -> Inventory:
    """The devices of these groups. Raises ValueError where two have one name."""
    return Inventory(device for group in groups for device in _devices(group))


def load_inventory(path: Path) -> Inventory:
    """The inventory of a file. Raises FileError for what is none, OSError for what cannot be read."""
    found = list(documents(read(path), str(path)))
    if len(found) != 1:
        what = "it begins with `format: inventory/v1`" if not found else "there is one to a file"
        raise FileError(str(path), [Problem(1, "", f"not an inventory: {what}")])
    described = validated(InventoryFile, found[0])
    if sum(g.count * (1 + sum(p.count for p in g.partitions)) for g in described.devices) > MOST:
        raise found[0].error([(("devices",), f"these are more than {MOST} devices")])
    try:
        return described.inventory()
    except ValueError as error:
        raise found[0].error([(("devices",), str(error))]) from None


def _devices(group: Whole) -> Iterator[Device]:
    wholes = list(group.names())
    peers = frozenset(wholes) if group.linked and group.count > 1 else frozenset[str]()
    for name in wholes:
        yield Device(name, group.model, group.memory, group.attributes, tuple(sorted(peers - {name})))
        for part in group.partitions:
            for partition in part.names():
                yield Device(f"{name}/{partition}", part.model, part.memory, part.attributes)
