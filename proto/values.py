"""The values that both sides of the wire speak, free of any API version.

Names follow KEP-4680 and the resource.k8s.io API: driver, pool, device, claim, request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

MESSAGE_LIMIT = 1024
"""Bytes that a health message may have in a Pod status (API validation, A-13 in docs/facts.md)."""

DEFAULT_TIMEOUT = 30
"""Seconds after which an unreported device is Unknown, unless it names its own timeout (KEP-4680, Notes)."""


class Health(StrEnum):
    """The health of a device as the Pod status spells it (KEP-4680, `ResourceHealthStatus`)."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, order=True)
class DeviceId:
    """A device, unique in the cluster. `str()` gives the KEP's ResourceID, `driver/pool/device`."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """What a driver says of one device in a report.

    `timeout` is in whole seconds, 0 or less means the kubelet's default. `updated` is the driver's own Unix time of
    the finding; kubelets ignore it. `health` outside the enum of the wire arrives as Unknown.
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
    """One device of a claim as the driver returned it from NodePrepareResources.

    `requests` are the claim's requests it serves; empty means all of them.
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
    """A claim to prepare for a pod, with the drivers that its allocation names."""

    ref: ClaimRef
    drivers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """One element of a container's `resources.claims`: the pod-local name, the object behind it, the request.

    `listed` says that the pod's `status.resourceClaimStatuses` names the object, as for claims made from a template.
    """

    name: str
    claim_uid: str
    request: str | None = None
    listed: bool = False


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a pod by who uses them; names of containers differ throughout a pod.

    Ephemeral containers use none. `unused` are claims in `spec.resourceClaims` that no container uses.
    """

    containers: Mapping[str, Sequence[ClaimUse]] = field(default_factory=dict)
    init_containers: Mapping[str, Sequence[ClaimUse]] = field(default_factory=dict)
    unused: Sequence[ClaimUse] = ()


@dataclass(frozen=True, slots=True)
class ResourceHealth:
    """One element of `resources` in the Pod status: a device's id there, its health and the message, if any."""

    resource_id: str
    health: Health
    message: str = ""


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """One element of `allocatedResourcesStatus`: an entry's name (`claim:NAME[/REQUEST]`) and its devices."""

    name: str
    resources: tuple[ResourceHealth, ...]

    def to_json(self) -> dict[str, object]:
        """The entry as the API spells it; an empty message is left out."""
        return {
            "name": self.name,
            "resources": [
                {"resourceID": r.resource_id, "health": str(r.health), **({"message": r.message} if r.message else {})}
                for r in self.resources
            ],
        }


@dataclass(frozen=True, slots=True)
class AllocatedResources:
    """Every `allocatedResourcesStatus` in a pod's status: those of its containers, and the pod's own (KEP-4680).

    `containers` has init containers too; one without entries has no key. `pod` is for what no container uses.
    """

    containers: Mapping[str, tuple[ResourceStatus, ...]] = field(default_factory=dict)
    pod: tuple[ResourceStatus, ...] = ()
