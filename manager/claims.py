"""The prepared claims: the devices of each claim, and its pods (the kubelet's claim info cache). Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from drahealth.proto.values import ClaimRef, DeviceId, PreparedDevice


@dataclass(slots=True)
class PreparedClaim:
    """A prepared claim, with the drivers' answers and the UIDs of the pods that reference it."""

    ref: ClaimRef
    drivers: tuple[str, ...]
    """The drivers that were called to prepare it, and must be called to unprepare it."""
    devices: tuple[PreparedDevice, ...]
    pods: set[str] = field(default_factory=set)
    complete: bool = True
    """False until all drivers have prepared it; before that it has no devices."""
    restored: bool = False
    """Restored from a checkpoint, without a call to its drivers since."""


class Claims:
    """All prepared claims of the node, by UID."""

    def __init__(self, claims: Iterable[PreparedClaim] = ()) -> None:
        self._claims = {claim.ref.uid: claim for claim in claims}
        self._index: dict[DeviceId, set[str]] | None = None

    def __iter__(self) -> Iterator[PreparedClaim]:
        return iter(self._claims.values())

    def get(self, claim_uid: str) -> PreparedClaim | None:
        return self._claims.get(claim_uid)

    def devices(self, claim_uid: str) -> tuple[PreparedDevice, ...]:
        """The devices of a claim in the order of the drivers' answers; empty if it is not prepared."""
        claim = self._claims.get(claim_uid)
        return claim.devices if claim else ()

    def name(self, claim_uid: str) -> str:
        """The name of a claim's object; empty if it is not prepared."""
        claim = self._claims.get(claim_uid)
        return claim.ref.name if claim else ""

    def add(self, claim: PreparedClaim) -> None:
        """Adds a prepared claim."""
        self._claims[claim.ref.uid] = claim
        self._index = None

    def hold(self, claim_uid: str, pod_uid: str) -> None:
        """Records that the pod references the claim."""
        self._claims[claim_uid].pods.add(pod_uid)

    def release(self, claim_uid: str, pod_uid: str) -> None:
        """Removes the pod's reference; a claim without pods is removed."""
        claim = self._claims[claim_uid]
        claim.pods.discard(pod_uid)
        if not claim.pods:
            del self._claims[claim_uid]
            self._index = None

    def held_by(self, pod_uid: str) -> list[PreparedClaim]:
        return [claim for claim in self._claims.values() if pod_uid in claim.pods]

    def pods_with(self, devices: Iterable[DeviceId]) -> frozenset[str]:
        """The pods that hold any of these devices, through any claim (H-23: share ids are ignored)."""
        index = self._by_device()
        holders = [uid for device in devices for uid in index.get(device, ())]
        return frozenset(pod for uid in holders for pod in self._claims[uid].pods)

    def _by_device(self) -> dict[DeviceId, set[str]]:
        if self._index is None:
            self._index = defaultdict(set)
            for uid, claim in self._claims.items():
                for device in claim.devices:
                    self._index[device.id].add(uid)
        return self._index
