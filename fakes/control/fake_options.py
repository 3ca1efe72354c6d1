"""The options of fake drivers and device plugins, and their control surfaces."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from drahealth.fakes.control.commands import DevicePluginLife, DriverDevices, DriverLife, StreamControl
from drahealth.fakes.control.taint import Taint
from drahealth.fakes.control.without_subcommand import (
    DevicePluginQuestions,
    DriverClaims,
    DriverQuestions,
    DriverRegistration,
    DriverReports,
    ListedDevices,
)
from drahealth.fakes.faults.catalogue import catalogue, policy
from drahealth.fakes.inventory.devices import SHARED, Device, Inventory, cdi_id, check_kind
from drahealth.proto.health_apis import (
    HEALTH_APIS,
    SERVED_BY_FAKES,
    HealthApi,
    check_advertised,
    check_served,
    full_name,
)
from drahealth.proto.services import KUBELET_SOCKET, PREPARE
from drahealth.proto.values import is_extended_resource

# The options of a fake driver, and its control surface.
#
# The surface is the same for a driver in this process (`hardware.driver.FakeDriver`), in another process or in a Pod
# (`remote.RemoteDriver`).

_INSTANCE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def only_health_api(api: HealthApi) -> dict[str, tuple[str, ...]]:
    """The fields of `DriverOptions` of a driver with this health API and no other."""
    return {"health_apis": (api.advertised,), "served_health_apis": (api.name,)}


def check_instance(instance: str) -> None:
    """Raises ValueError for an invalid instance ID. The ID is part of file names and of annotations.

    An empty ID is valid: the driver, or device plugin, then has a single instance.
    """
    if instance and not _INSTANCE.fullmatch(instance):
        raise ValueError(
            f"instance must be letters, digits, and -_. (not at its ends), such as a Pod's UID, got {instance!r}"
        )


@dataclass(frozen=True, slots=True)
class Returned:
    """A device that NodePrepareResources returns instead of the allocated one.

    `requests`: None for the request of the allocation; an empty tuple for all requests of the claim. `cdi_ids`: None
    for those that the driver's options give the device.
    """

    pool: str
    device: str
    requests: tuple[str, ...] | None = None
    cdi_ids: tuple[str, ...] | None = ()
    share_id: str = ""


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """Options of a fake driver. Paths are as the kubelet and the driver see them.

    Raises ValueError for wrong options.
    """

    name: str
    """The driver's name, a DNS name such as gpu.example.com."""
    node: str
    devices: tuple[str, ...]
    """Paths of the devices: `gpu-0`, or `gpu-0/mig-1` for a partition. Its name in the API is `gpu-0-mig-1`."""
    registry_dir: str
    """Directory in which the kubelet looks for registration sockets."""
    data_dir: str
    """Directory of the driver's own socket."""
    instance: str = ""
    """Instance ID, needed for rolling updates, such as the Pod's UID. It is part of the socket names."""
    pool: str = ""
    """Pool of the devices; empty: the node's name."""
    dra_versions: tuple[str, ...] = tuple(PREPARE)
    """Advertised versions of the node service. The driver serves those that exist."""
    health_apis: tuple[str, ...] = SERVED_BY_FAKES
    """Advertised services of health APIs, such as v1alpha1.NodeHealth."""
    served_health_apis: tuple[str, ...] | None = None
    """Served health APIs, by their names in `HEALTH_APIS`; None: all of the advertised services."""
    cdi_ids: bool = True
    """Whether each prepared device has a CDI id."""
    shared_cdi_id: bool = False
    """Whether all prepared devices have the same CDI id, as in drivers with one CDI id for each claim."""
    cdi_dir: str = ""
    """Directory for CDI specifications of prepared devices, for a real container runtime; empty: none are written."""
    heartbeat: float = 10.0
    """Seconds between reports while nothing changes; 0 for none."""
    timeout: int = 0
    """Timeout of the devices in whole seconds; 0: the kubelet's default."""
    catalogue: str = "nvidia"
    """Catalogue of the faults that the devices can have (`faults.catalogue`)."""
    policy: str = "nvidia-catalogue"
    """Policy that maps these faults to health."""
    seed: int = 0
    """Seed of random values: the messages that a stream fault hits, and the times of recoveries."""
    linked: bool = False
    """Whether the devices that are not in `inventory` share links with each other. Partitions have no links."""
    inventory: tuple[Device, ...] = ()
    """Details of the devices and of their parents. Other devices have only a path."""
    plugin_type: str = "DRAPlugin"
    """Type of the plugin in its registration. A kubelet rejects an unknown one."""
    one_socket: bool = False
    """Whether the driver registers without an endpoint, and the kubelet calls it at the registration socket."""
    unhealthy_taint: str = ""
    """Taint of each device that is Unhealthy, KEY[=VALUE][:EFFECT] (KEP-5055); empty: none."""
    returns: Mapping[str, tuple[Returned, ...]] = field(default_factory=dict)
    """Devices that prepare returns in place of an allocated one, by its name: a deliberately wrong driver."""

    def __post_init__(self) -> None:
        if not self.name or not self.node:
            raise ValueError("name must not be empty" if not self.name else "node must not be empty")
        check_instance(self.instance)
        if not 0 <= self.heartbeat < math.inf:
            raise ValueError(f"heartbeat must be a finite number of seconds, 0 for none, got {self.heartbeat}")
        if twice := sorted(name for name, count in Counter(self.device_names).items() if count > 1):
            raise ValueError(f"duplicate device name: {', '.join(twice)}")
        if self.unhealthy_taint:
            Taint.parse(self.unhealthy_taint)
        Inventory(self.inventory)
        policy(self.policy)
        catalogue(self.catalogue)
        for api in self.health_apis:
            check_advertised(api)
        if strange := sorted(self.returns.keys() - set(self.devices)):
            raise ValueError(f"returns has unknown devices: {', '.join(strange)}")
        for api in self.served_health_apis or ():
            check_served(api)

    @property
    def pool_name(self) -> str:
        return self.pool or self.node

    @property
    def device_names(self) -> tuple[str, ...]:
        """Names of the devices in the API."""
        return tuple(path.replace("/", "-") for path in self.devices)

    @property
    def answered_apis(self) -> tuple[HealthApi, ...]:
        """The served health APIs."""
        served = self.served_health_apis
        return tuple(
            health_api
            for health_api in HEALTH_APIS.values()
            if (health_api.advertised in self.health_apis if served is None else health_api.name in served)
        )

    def offering(self, apis: Sequence[str]) -> "DriverOptions":
        """These options with other health APIs: names of `HEALTH_APIS`, or v1 and v1alpha1. None change nothing.

        Raises ValueError for an unknown name.
        """
        names = tuple(dict.fromkeys(map(full_name, apis)))
        for name in names:
            check_served(name)
        if not names:
            return self
        advertised = tuple(dict.fromkeys(HEALTH_APIS[name].advertised for name in names))
        return replace(self, health_apis=advertised, served_health_apis=names)

    def cdi_id(self, device: str) -> str:
        """CDI id of the device, if its driver returns CDI ids."""
        return cdi_id(self.name, SHARED if self.shared_cdi_id else device)


class DriverControl(
    DriverLife, DriverDevices, StreamControl, DriverClaims, DriverRegistration, DriverReports, DriverQuestions
):
    """Interface with one method for each command of a fake driver, as in docs/reference/commands.md."""


# The options of a fake device plugin, and its control surface.

KEPT = 100
"""Number of recorded calls of each kind. Later calls replace the oldest; all are counted."""
Registration = Literal["kubelet.sock", "plugins_registry"]


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """Options of a fake device plugin. Paths are as the kubelet and the plugin see them.

    Raises ValueError for wrong options.
    """

    resource: str
    """The extended resource, such as example.com/gpu."""
    devices: tuple[str, ...]
    """IDs of the devices."""
    plugins_dir: str
    """Directory of the device plugins and of the kubelet's socket."""
    registry_dir: str = ""
    """Directory in which the kubelet looks for registration sockets."""
    data_dir: str = ""
    """Directory of the plugin's own socket, if it registers through `registry_dir`."""
    registration: Registration = "kubelet.sock"
    """`kubelet.sock`: the plugin calls the kubelet. `plugins_registry`: the kubelet finds the plugin's socket."""
    instance: str = ""
    """Instance ID, needed if two plugins have the same resource. It is part of the socket names."""
    preferred: tuple[str, ...] = ()
    """Devices for GetPreferredAllocation, best first; empty: the plugin does not offer the call."""
    pre_start: bool = False
    """Whether the kubelet calls PreStartContainer."""
    cdi_kind: str = ""
    """Kind of the CDI names of allocated devices; empty: none."""
    cdi_dir: str = ""
    """Directory for a CDI specification of that kind, for a real container runtime; empty: none is written."""
    catalogue: str = "nvidia"
    """Catalogue of the faults that the devices can have (`faults.catalogue`)."""
    policy: str = "nvidia-catalogue"
    """Policy that maps these faults to health."""
    seed: int = 0
    """Seed of the times of recoveries."""
    inventory: tuple[Device, ...] = ()
    """Details of the devices and of their parents; the names are the device IDs. Other devices have only a path."""

    def __post_init__(self) -> None:
        if not is_extended_resource(self.resource):
            raise ValueError(f"{self.resource!r} is not the name of an extended resource, such as example.com/gpu")
        check_instance(self.instance)
        if self.registration == "plugins_registry" and not (self.registry_dir and self.data_dir):
            raise ValueError("registration in plugins_registry needs registry_dir and data_dir; set both")
        if self.socket_name == KUBELET_SOCKET:
            raise ValueError(f"socket must not be {KUBELET_SOCKET}")
        if self.cdi_dir and self.cdi_kind:
            check_kind(self.cdi_kind)
        catalogue(self.catalogue)
        policy(self.policy)
        self.all_devices  # noqa: B018  ValueError where two have one name

    @property
    def socket_name(self) -> str:
        """File name of its sockets."""
        instance = f"-{self.instance}" if self.instance else ""
        return f"{self.resource.replace('/', '_')}{instance}.sock"

    @property
    def sockets(self) -> tuple[Path, ...]:
        """Paths of its sockets: its own, and the registration socket if it registers through `plugins_registry`."""
        if self.registration == "kubelet.sock":
            return (Path(self.plugins_dir) / self.socket_name,)
        return Path(self.data_dir) / self.socket_name, Path(self.registry_dir) / self.socket_name

    @property
    def ids(self) -> dict[str, str]:
        """IDs of its devices by path, for faults. A device that is not in `inventory` is a whole device."""
        known = {device.name: device.path for device in self.inventory}
        return {known.get(id_, _path(id_)): id_ for id_ in self.devices}

    @property
    def all_devices(self) -> Inventory:
        """Its devices and their parents."""
        return Inventory((*self.inventory, *self._unknown()))

    def _unknown(self) -> tuple[Device, ...]:
        known = {device.name for device in self.inventory}
        return tuple(Device(_path(id_)) for id_ in dict.fromkeys(self.devices) if id_ not in known)


def _path(id_: str) -> str:
    """The path of a whole device with this ID, which can be any text."""
    return id_.replace("/", "-")


class PluginControl(DevicePluginLife, ListedDevices, DevicePluginQuestions):
    """Interface with one method for each command of a fake device plugin, as in docs/reference/commands.md."""
