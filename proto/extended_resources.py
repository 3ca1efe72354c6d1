"""Extended resources and what device plugins give for them: names, devices, and what a container gets. Values."""

import re
from dataclasses import dataclass, field

from drahealth.proto.values import Health

_PREFIX_LIMIT, _NAME_LIMIT = 253 - len("requests."), 63  # a quota for it is called requests.NAME
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def is_extended_resource(name: str) -> bool:
    """Whether it is the name of a resource that is counted and not Kubernetes' own, such as example.com/gpu (A-09)."""
    prefix, slash, rest = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    if len(prefix) > _PREFIX_LIMIT or len(rest) > _NAME_LIMIT:
        return False
    return _PREFIX.fullmatch(prefix) is not None and _NAME.fullmatch(rest) is not None


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """One device of a ListAndWatch response. `health` is a text of the plugin's, of which two have a meaning."""

    id: str
    health: str = str(Health.HEALTHY)


def health_of(text: str) -> Health:
    """What a kubelet reads in a device plugin's health: `Healthy`, and every other text is Unhealthy (D-02)."""
    return Health.HEALTHY if text == Health.HEALTHY else Health.UNHEALTHY


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the node that a container is to see."""

    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file of the node that a container is to have; `permissions` are of r, w and m."""

    container_path: str
    host_path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container is started with for the devices that it was allocated (`ContainerAllocateResponse`)."""

    envs: dict[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()

    def __add__(self, other: "Grant") -> "Grant":
        """Both; of two values for one name the later counts, and what occurs twice is there once."""
        return Grant(
            {**self.envs, **other.envs},
            tuple(dict.fromkeys((*self.mounts, *other.mounts))),
            tuple(dict.fromkeys((*self.devices, *other.devices))),
            {**self.annotations, **other.annotations},
            tuple(dict.fromkeys((*self.cdi_devices, *other.cdi_devices))),
        )


@dataclass(frozen=True, slots=True)
class Amount:
    """How many devices of a resource a node has, and how many of them pods can be given."""

    capacity: int
    allocatable: int


class AdmissionError(Exception):
    """A pod cannot be given the devices it asks for, and is not to run; says what is missing."""
