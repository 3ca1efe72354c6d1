"""The values that both sides of the wire share, independent of API versions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

# The values that both sides of the wire share, independent of API versions.
#
# Names follow KEP-4680 and the resource.k8s.io API: driver, pool, device, claim, request.

MESSAGE_LIMIT = 1024
"""Maximum length of a health message in a Pod status, in bytes (API validation, A-13 in docs/facts.md)."""

DEFAULT_TIMEOUT = 30
"""Default timeout in seconds, after which an unreported device is Unknown (KEP-4680, Notes)."""


class Health(StrEnum):
    """The health of a device as in the Pod status (KEP-4680, `ResourceHealthStatus`)."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, order=True)
class DeviceId:
    """The identity of a device, unique in the cluster. `str()` gives the KEP's ResourceID, `driver/pool/device`."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of one device in a report.

    `timeout` is in whole seconds; 0 or less means the kubelet's default. `updated` is the driver's own Unix time;
    kubelets ignore it. A health value outside the enum arrives as Unknown.
    """

    pool: str
    device: str
    health: Health
    message: str = ""
    timeout: int = 0
    updated: int = 0


Report = tuple[DeviceHealth, ...]
"""The devices of one message of a health stream, in its order."""


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One device of a claim, as the driver returned it from NodePrepareResources.

    `requests` are the requests of the claim that the device serves; empty means all.
    """

    id: DeviceId
    requests: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A ResourceClaim object."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AllocatedClaim:
    """A claim to prepare for a Pod, with the drivers of its allocation."""

    ref: ClaimRef
    drivers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """One element of a container's `resources.claims`: the name in the Pod, the object, the request.

    `listed` means that the Pod's `status.resourceClaimStatuses` names the object, as for claims from templates.
    `extended` means that the claim is for an extended resource of the container, and that the Pod's
    `status.extendedResourceClaimStatus` names it; its name is that of the object (KEP-5004).
    """

    name: str
    claim_uid: str
    request: str | None = None
    listed: bool = False
    extended: bool = False


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a Pod by container; container names are unique in a Pod.

    Ephemeral containers use no claims. `unused` are claims in `spec.resourceClaims` without a container.
    """

    containers: Mapping[str, Sequence[ClaimUse]] = field(default_factory=dict)
    init_containers: Mapping[str, Sequence[ClaimUse]] = field(default_factory=dict)
    unused: Sequence[ClaimUse] = ()
    sidecars: frozenset[str] = frozenset()
    """The names of the init containers that run as long as the Pod."""

    def shown(self, initial: Literal["all", "sidecars", "none"]) -> Mapping[str, Sequence[ClaimUse]]:
        """The containers that have entries in the status, if these init containers have."""
        names = {"all": self.init_containers.keys(), "sidecars": self.sidecars, "none": frozenset[str]()}[initial]
        return {name: uses for name, uses in self.init_containers.items() if name in names} | dict(self.containers)


@dataclass(frozen=True, slots=True)
class ResourceHealth:
    """One element of `resources` in the Pod status: a device's id, its health and its message."""

    resource_id: str
    health: Health
    message: str = ""


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """One element of `allocatedResourcesStatus`: the entry's name (`claim:NAME[/REQUEST]`) and its devices."""

    name: str
    resources: tuple[ResourceHealth, ...]

    def to_json(self) -> dict[str, object]:
        """The entry as in the API, without an empty message."""
        return {
            "name": self.name,
            "resources": [
                {"resourceID": r.resource_id, "health": str(r.health), **({"message": r.message} if r.message else {})}
                for r in self.resources
            ],
        }


@dataclass(frozen=True, slots=True)
class AllocatedResources:
    """All `allocatedResourcesStatus` of a Pod's status: those of its containers, and the Pod's own (KEP-4680).

    `containers` includes init containers; a container without entries has no key. `pod` has claims without a container.
    """

    containers: Mapping[str, tuple[ResourceStatus, ...]] = field(default_factory=dict)
    pod: tuple[ResourceStatus, ...] = ()


# Extended resources and the answers of device plugins: names, devices, and additions to a container. Values.

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


# Feature gates of Kubernetes.

STATUS_GATE = "ResourceHealthStatus"
MESSAGE_GATE = "ResourceHealthStatusMessage"
KUBERNETES_API = "1.37"
"""The release of Kubernetes whose API the messages in `proto.kubernetes` and the API server in memory have."""

DRA_GATE = "DynamicResourceAllocation"
