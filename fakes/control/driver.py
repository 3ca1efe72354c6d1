"""How a fake driver is made, and its control surface.

The surface is the same for a driver in this process (`hardware.driver.FakeDriver`), in another one or in a pod
(`remote.RemoteDriver`).
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from drahealth.fakes.control.commands.devices import DriverDevices
from drahealth.fakes.control.commands.life import DriverLife
from drahealth.fakes.control.commands.questions import DriverQuestions
from drahealth.fakes.control.commands.streams import StreamControl
from drahealth.fakes.faults.catalogue import catalogue, policy
from drahealth.fakes.inventory.cdi import SHARED, cdi_id
from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi, check_advertised, check_served, full_name

DRA_VERSIONS = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
_INSTANCE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
DEFAULT_HEALTH_APIS = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")


def only_health_api(api: HealthApi) -> dict[str, tuple[str, ...]]:
    """The fields of `DriverOptions` of a driver with this health API and no other."""
    return {"health_apis": (api.advertised,), "served_health_apis": (api.name,)}


def check_instance(instance: str) -> None:
    """Raises ValueError for what no instance can be called: it is part of file names and of annotations. Nothing is
    fine: the driver, or device plugin, then has one instance alone."""
    if instance and not _INSTANCE.fullmatch(instance):
        raise ValueError(
            f"instance must be letters and digits, with -_. between, such as a Pod's UID, got {instance!r}"
        )


@dataclass(frozen=True, slots=True)
class Returned:
    """A device as NodePrepareResources returns it, when that shall be another than the one allocated.

    `requests` None: the request it was allocated for; nothing: all requests of the claim.
    """

    pool: str
    device: str
    requests: tuple[str, ...] | None = None
    cdi_ids: tuple[str, ...] = ()
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
    """Their paths: `gpu-0`, or `gpu-0/mig-1` for a partition, which the API knows as `gpu-0-mig-1`."""
    registry_dir: str
    """Where the kubelet looks for registration sockets."""
    data_dir: str
    """Where the driver puts its own socket."""
    instance: str = ""
    """Tells two instances of a rolling update apart; part of the socket names, as a pod's uid is."""
    pool: str = ""
    """The devices' pool; empty: the node's name."""
    dra_versions: tuple[str, ...] = DRA_VERSIONS
    """The versions of the node service that are advertised; those that there are, are answered."""
    health_apis: tuple[str, ...] = DEFAULT_HEALTH_APIS
    """What is advertised of health APIs: services such as v1alpha1.NodeHealth."""
    served_health_apis: tuple[str, ...] | None = None
    """The health APIs that are answered, by the names of `HEALTH_APIS`; None: all those of the advertised services."""
    cdi_ids: bool = True
    """Prepared devices come with a CDI id each."""
    shared_cdi_id: bool = False
    """All prepared devices come with one and the same CDI id, as those of drivers that have one for a whole claim."""
    cdi_dir: str = ""
    """Where CDI specifications of prepared devices are written, for a real container runtime; empty: nowhere."""
    heartbeat: float = 10.0
    """Seconds between reports while nothing changes; 0 for none."""
    timeout: int = 0
    """The devices' own timeout in whole seconds; 0: the kubelet's default."""
    catalogue: str = "nvidia"
    """What the faults are called that the devices can have (`faults.catalogue`)."""
    policy: str = "nvidia-catalogue"
    """Which of them make a device Unhealthy."""
    seed: int = 0
    """Seed of random values: the messages that a stream fault hits, and the times of recoveries."""
    linked: bool = False
    """Each whole device of which nothing else is known shares a link with all others of these."""
    inventory: tuple[Device, ...] = ()
    """What is known of its devices, and of those that they are parts of; of others there is just the path."""
    returns: Mapping[str, tuple[Returned, ...]] = field(default_factory=dict)
    """What preparing an allocated device returns in its place, by its name: an odd driver, on purpose."""

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
        """What the API knows the devices by."""
        return tuple(path.replace("/", "-") for path in self.devices)

    @property
    def answered_apis(self) -> tuple[HealthApi, ...]:
        """The health APIs that are answered."""
        served = self.served_health_apis
        return tuple(
            health_api
            for health_api in HEALTH_APIS.values()
            if (health_api.advertised in self.health_apis if served is None else health_api.name in served)
        )

    def offering(self, apis: Sequence[str]) -> "DriverOptions":
        """The same driver with these health APIs, by the names of `HEALTH_APIS` or as v1, v1alpha1; none: as it is.

        Raises ValueError for an unknown one.
        """
        names = tuple(dict.fromkeys(map(full_name, apis)))
        for name in names:
            check_served(name)
        if not names:
            return self
        advertised = tuple(dict.fromkeys(HEALTH_APIS[name].advertised for name in names))
        return replace(self, health_apis=advertised, served_health_apis=names)

    def cdi_id(self, device: str) -> str:
        """What the device is called for container runtimes, where it comes with a CDI id."""
        return cdi_id(self.name, SHARED if self.shared_cdi_id else device)


class DriverControl(DriverLife, DriverDevices, StreamControl, DriverQuestions):
    """The control surface of a fake driver: a method for each of its commands (`commands`)."""
