"""Extended resources and the answers of device plugins: names, devices, and additions to a container. Values."""

import re
from dataclasses import dataclass, field

from drahealth.proto.values import Health

_PREFIX_LIMIT, _NAME_LIMIT = 253 - len("requests."), 63  # a quota for it is called requests.NAME
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def is_extended_resource(name: str) -> bool:
    """Whether this is the name of an extended resource, such as example.com/gpu, and not a resource of Kubernetes
    (A-09).
    """
    prefix, slash, rest = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    if len(prefix) > _PREFIX_LIMIT or len(rest) > _NAME_LIMIT:
        return False
    return _PREFIX.fullmatch(prefix) is not None and _NAME.fullmatch(rest) is not None


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """One device of a ListAndWatch response. `health` is any text; two values have a meaning."""

    id: str
    health: str = str(Health.HEALTHY)


def health_of(text: str) -> Health:
    """A kubelet's interpretation of a device plugin's health: `Healthy`, and Unhealthy for every other text (D-02)."""
    return Health.HEALTHY if text == Health.HEALTHY else Health.UNHEALTHY


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the node that is mounted into a container."""

    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file of the node for a container; `permissions` consist of r, w and m."""

    container_path: str
    host_path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class Grant:
    """The additions to a container for its allocated devices (`ContainerAllocateResponse`)."""

    envs: dict[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()

    def __add__(self, other: "Grant") -> "Grant":
        """The sum of both. For one name the later value counts; duplicates are removed."""
        return Grant(
            {**self.envs, **other.envs},
            tuple(dict.fromkeys((*self.mounts, *other.mounts))),
            tuple(dict.fromkeys((*self.devices, *other.devices))),
            {**self.annotations, **other.annotations},
            tuple(dict.fromkeys((*self.cdi_devices, *other.cdi_devices))),
        )


@dataclass(frozen=True, slots=True)
class Amount:
    """The number of devices of a resource on a node, and the number that can be allocated."""

    capacity: int
    allocatable: int


class AdmissionError(Exception):
    """A Pod cannot run because its devices cannot be allocated; the message says what is missing."""
