"""The values that both sides of the wire share, independent of API versions.

Names follow KEP-4680 and the resource.k8s.io API: driver, pool, device, claim, request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

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
