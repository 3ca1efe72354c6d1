"""The schema of inventory files, part by part; `file` checks the parts together."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from drahealth.fakes.faults.catalogue import catalogue, policy
from drahealth.fakes.inventory.cdi import KIND
from drahealth.fakes.inventory.form import Form
from drahealth.fakes.inventory.names import MAX_DEVICES, names_of
from drahealth.proto.extended_resources import is_extended_resource

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
    count: int = Field(default=1, ge=1, le=MAX_DEVICES)
    model: _Text = "fake"
    memory: Quantity = "80Gi"
    attributes: dict[_Attribute, _Text | StrictBool | Annotated[StrictInt, AfterValidator(_fits)]] = Field(
        default={}, max_length=_ATTRIBUTES
    )
    environment: dict[_Variable, StrictStr] = {}
    """Environment variables of a container with one of these devices, by CDI."""
    pool: _PoolName = ""
    """The pool of the devices; empty: the driver's pool, or the pool of the partitioned device."""

    def names(self) -> Iterator[str]:
        """The names of its devices."""
        return names_of(self.name, self.count)


class DeviceGroup(PartitionGroup):
    """A group of equal whole devices."""

    partitions: tuple[PartitionGroup, ...] = ()
    linked: bool = True
    """Whether all devices of the group are linked with each other."""


class DriverPart(_Part):
    """The devices of one driver. Missing driver fields have the defaults of `DriverOptions`."""

    name: _DriverName
    devices: tuple[DeviceGroup, ...] = Field(min_length=1)
    pool: _PoolName = ""
    heartbeat: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    timeout: int = Field(default=0, ge=-(2**63), lt=2**63)
    catalogue: Annotated[str, AfterValidator(_catalogue)] = "nvidia"
    policy: Annotated[str, AfterValidator(_policy)] = "nvidia-catalogue"
    dra_versions: tuple[str, ...] = ()
    health_apis: tuple[Annotated[str, AfterValidator(_advertised)], ...] = ()
    served_health_apis: tuple[Annotated[str, AfterValidator(_served)], ...] | None = None
    cdi_ids: bool = True
    shared_cdi_id: bool = False


class PluginPart(_Part):
    """The devices of one device plugin. Missing plugin fields have the defaults of `PluginOptions`."""

    resource: Annotated[str, AfterValidator(_resource)]
    """The extended resource, such as example.com/gpu."""
    devices: tuple[DeviceGroup, ...] = Field(min_length=1)
    """A device plugin publishes only names: no models, memory, attributes or pools."""
    registration: Literal["kubelet.sock", "plugins_registry"] = "kubelet.sock"
    preferred: tuple[str, ...] = ()
    """Preferred devices for GetPreferredAllocation, in order."""
    pre_start: bool = False
    cdi_kind: Annotated[str, Form(rf"^({KIND})?$", "must be a CDI kind, such as example.com/gpu")] = ""
    """Kind of the CDI devices that containers get; the plugin writes its specification. Empty: no CDI."""
    catalogue: Annotated[str, AfterValidator(_catalogue)] = "nvidia"
    policy: Annotated[str, AfterValidator(_policy)] = "nvidia-catalogue"


class InventoryFile(_Part):
    """The content of an inventory file."""

    format: Literal["inventory/v1"]
    devices: tuple[DeviceGroup, ...] = Field(default=(), min_length=1)
    drivers: tuple[DriverPart, ...] = Field(default=(), min_length=1)
    plugins: tuple[PluginPart, ...] = Field(default=(), min_length=1)
