"""The options of a fake driver, and its control surface.

The surface is the same for a driver in this process (`hardware.driver.FakeDriver`), in another process or in a Pod
(`remote.RemoteDriver`).
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from drahealth.fakes.control.commands.claims import DriverClaims
from drahealth.fakes.control.commands.devices import DriverDevices
from drahealth.fakes.control.commands.life import DriverLife
from drahealth.fakes.control.commands.questions import DriverQuestions
from drahealth.fakes.control.commands.registration import DriverRegistration
from drahealth.fakes.control.commands.reports import DriverReports
from drahealth.fakes.control.commands.streams import StreamControl
from drahealth.fakes.faults.catalogue import catalogue, policy
from drahealth.fakes.inventory.cdi import SHARED, cdi_id
from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.proto.health_apis import (
    HEALTH_APIS,
    SERVED_BY_FAKES,
    HealthApi,
    check_advertised,
    check_served,
    full_name,
)
from drahealth.proto.services import PREPARE

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
    """Interface with one method for each command of a fake driver, as in docs/commands.md."""
