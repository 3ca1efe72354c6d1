"""The control surface of a fake driver: one set of asynchronous calls with plain data in and out.

It is the same whether the driver lives in this process (`driver.FakeDriver`), in another one or in a pod
(`remote.RemoteDriver`). Every argument and answer is a number, a text, or a dataclass of those, so that it can travel
as JSON; nothing else may be added here.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from drahealth.fakes.faults.catalogue import catalogue, policy
from drahealth.fakes.inventory.cdi import SHARED, cdi_id
from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi, check_advertised, check_served, full_name
from drahealth.proto.values import DeviceHealth, Health

DRA_VERSIONS = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
TAINT_EFFECTS = ("None", "NoSchedule", "NoExecute")
_QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INSTANCE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
DEFAULT_HEALTH_APIS = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")


def check_instance(instance: str) -> None:
    """Raises ValueError for what no instance can be called: it is part of file names and of annotations. Nothing is
    fine: the driver, or device plugin, then has one instance alone."""
    if instance and not _INSTANCE.fullmatch(instance):
        raise ValueError(
            f"{instance!r} is no name of an instance, which is letters, digits and -_. between, such as a pod's uid or "
            "name"
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
    """How a fake driver is made. Paths are as the kubelet and the driver see them. ValueError for what makes none."""

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
    """What is drawn at random by the driver comes of this: which messages a stream fault hits, how long recoveries
    take."""
    linked: bool = False
    """Each whole device of which nothing else is known shares a link with all others of these."""
    inventory: tuple[Device, ...] = ()
    """What is known of its devices, and of those that they are parts of; of others there is just the path."""
    returns: Mapping[str, tuple[Returned, ...]] = field(default_factory=dict)
    """What preparing an allocated device returns in its place, by its name: an odd driver, on purpose."""

    def __post_init__(self) -> None:
        if not self.name or not self.node:
            raise ValueError("a driver has a name" if not self.name else "a driver lives on a node")
        check_instance(self.instance)
        if not 0 <= self.heartbeat < math.inf:
            raise ValueError(f"the heartbeat is a finite number of seconds, 0 for none, not {self.heartbeat}")
        if twice := sorted(name for name, count in Counter(self.device_names).items() if count > 1):
            raise ValueError(f"no two devices have one name: {', '.join(twice)}")
        Inventory(self.inventory)
        policy(self.policy)
        catalogue(self.catalogue)
        for api in self.health_apis:
            check_advertised(api)
        if strange := sorted(self.returns.keys() - set(self.devices)):
            raise ValueError(f"what is returned for a device needs the device: {', '.join(strange)}")
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

        Raises ValueError for one that there is not.
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


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods off a device (API `DeviceTaint`). ValueError for what is none."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __post_init__(self) -> None:
        if not _QUALIFIED.fullmatch(self.key):
            raise ValueError(f"{self.key!r} is no key of a taint, such as example.com/unhealthy")
        if not _LABEL_VALUE.fullmatch(self.value):
            raise ValueError(f"{self.value!r} is no value of a taint: letters, digits, and -_. between, 63 at most")
        if self.effect not in TAINT_EFFECTS:
            raise ValueError(f"no effect of a taint is called {self.effect!r}; there are {', '.join(TAINT_EFFECTS)}")


@dataclass(frozen=True, slots=True)
class DriverState:
    """What a fake driver knows of itself."""

    running: bool
    registered: bool
    """A kubelet has said so since the last start, and it has not ended since."""
    registration_error: str
    streams: int
    """Health streams that are open now."""
    asked: Mapping[str, int]
    """How often a health stream was requested since the driver was made, over all its restarts, by the health API's
    name; also where the answer was Unimplemented."""
    prepared: tuple[str, ...]
    """Uids of the claims that are prepared now, by whichever instance."""
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What is wrong with the devices, by path."""
    taints: Mapping[str, tuple[Taint, ...]] = field(default_factory=dict)
    """The taints of the devices that have any, by path."""
    instance: str = ""
    """The instance that this is said of: of a driver that is being upgraded the newer one, once it has taken over."""
    health_apis: tuple[str, ...] = ()
    """What that advertises of health APIs."""
    heartbeat: float = 0.0
    """Seconds between its reports while nothing changes; 0: none."""
    upgrading: bool = False
    """Another instance of it begins, or is about to end."""
    stream_faults: tuple[str, ...] = ()
    """What is wrong with its health streams, such as `stall 1`, `drop 0.2`, `silent`."""

    @property
    def streams_opened(self) -> int:
        """How often that was in all."""
        return sum(self.asked.values())


@dataclass(frozen=True, slots=True)
class Attempt:
    """What comes of an attempt to recover devices: faults that will be gone and those left, as `xid/79 on gpu-0`."""

    cured: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    takes: float = 0.0
    """Seconds until then, on the driver's clock."""


class DriverControl(Protocol):
    """What one can tell a fake driver."""

    async def start(self) -> None:
        """Opens the sockets and publishes the devices. Starting a running driver changes nothing, but that its
        registration socket comes back if it was taken away. Who starts one that is starting waits for what comes of it.
        Raises ValueError where the driver is ended before it runs."""

    async def stop(self) -> None:
        """Ends in order: unregisters (the registration socket goes first), ends the streams, removes the sockets."""

    async def restart(self, offer: Sequence[str] = ()) -> None:
        """Ends in order, if it runs, and starts again, from now on with these health APIs: names of
        `proto.health_apis`, or v1, v1alpha1; none: as before. Raises ValueError for others; nothing changes then."""

    async def upgrade(self, overlap: float = 1.0, offer: Sequence[str] = ()) -> None:
        """A newer instance takes over, as in a rolling update; returns once the older one has ended.

        It begins beside the older one, with sockets of its own and the health APIs that `offer` names (as `restart` has
        it). Where a kubelet has registered the older one it is to register the newer one too. Then both run for
        `overlap` seconds on the driver's clock, and the older one ends in order. Devices are what they were, with their
        faults, taints, recoveries under way and what was set; what is wrong with streams ends with the older instance.

        It goes on when who asked has left; what ends the driver ends both. Raises ValueError for a driver that does not
        run or is being upgraded already, and for a newer instance that no kubelet registers or that cannot start, as
        `start` does. Then the older one goes on, and nothing is left of the newer.
        """

    async def unregister(self) -> None:
        """Takes away the registration socket alone; it comes back with the next start."""

    async def crash(self) -> None:
        """Is gone at once, as after SIGKILL: streams are cut, the socket files stay."""

    async def retire(self) -> None:
        """Stops for good: what it published is deleted."""

    async def wait_registered(self) -> None:
        """Returns once a kubelet has said that the driver is registered, since its last start."""

    async def set_health(self, device: str, health: Health, message: str = "", timeout: int | None = None) -> None:
        """From now on the device is so; told at once in a complete report. `timeout` None: as it was."""

    async def play(self, changes: Sequence[DeviceHealth]) -> None:
        """One change after the other, each told in a complete report of its own, as fast as they go."""

    async def report(self, devices: Sequence[DeviceHealth]) -> None:
        """Tells just this, whatever the devices' state: a partial, empty or odd report. Nothing is remembered."""

    async def hush(self, quiet: bool) -> None:
        """While quiet it says nothing by itself: no first report on a new stream, no heartbeat, no changes."""

    async def send_raw(self, payload: str) -> None:
        """Writes the bytes (hexadecimal) as a message to every open stream: garbage on purpose."""

    async def end_streams(self, code: str = "OK") -> None:
        """Ends every open stream with this gRPC status code."""

    async def inject(self, fault: str, device: str) -> None:
        """The device, by its path, has this fault of the catalogue from now on; told at once as the policy has it."""

    async def clear(self, fault: str, device: str) -> None:
        """The device has this fault no more, however that came."""

    async def recover(
        self, action: str, device: str = "", fails: bool = False, claimed: bool = False, takes: float | None = 0.0
    ) -> Attempt:
        """Does this to recover a device, or all: what it is too weak for stays.

        An attempt that `fails` changes nothing. One that is `claimed` helps nothing either, but the driver says that
        all is well. It `takes` so many seconds, in which the device stays as it is and no other recovery of it can
        begin; None: as long as the catalogue says of each fault, drawn from the driver's seed.
        """

    async def taint(self, device: str, key: str, value: str = "", effect: str = "NoSchedule") -> None:
        """The device, by its path, is published with this taint from now on, in place of one with its key and effect.

        Effects are None, NoSchedule and NoExecute. Returns once the API server has it, or at once where that is away;
        where it refuses the taint, or drops it without a word, that is an error, and all is as it was. Told while the
        driver does not run, it is published at the start; refused there, it is dropped, with a warning in the log.
        """

    async def untaint(self, device: str, key: str, effect: str = "") -> None:
        """Without it, whatever its effect if none is given; nothing where it has none."""

    async def heal(self) -> None:
        """No device has any fault any more, each is Healthy, whatever it was set to, and nothing is wrong with the
        streams."""

    async def fault_streams(self, kind: str, value: float = 1.0) -> None:
        """Something is wrong with the streams: stall, delay (seconds), drop, duplicate or reorder (a share), partial
        (changes are told alone), skew (seconds that the driver's own times are off)."""

    async def restore_streams(self, kind: str) -> None:
        """That is wrong no more."""

    async def set_heartbeat(self, seconds: float) -> None:
        """So long between reports while nothing changes; 0: none."""

    async def devices(self) -> tuple[DeviceHealth, ...]:
        """What it says of each of its devices now."""

    async def state(self) -> DriverState:
        """What the driver knows of itself now."""
