"""The prepared claims: which devices each has, and which pods hold it (the kubelet's claim info cache). Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from drahealth.proto.values import ClaimRef, DeviceId, PreparedDevice


@dataclass(slots=True)
class PreparedClaim:
    """A claim that its drivers prepared, with what they returned, and the uids of the pods that reference it."""

    ref: ClaimRef
    drivers: tuple[str, ...]
    """Those that were asked to prepare it, and are to be asked to undo that."""
    devices: tuple[PreparedDevice, ...]
    pods: set[str] = field(default_factory=set)
    complete: bool = True
    """False until all drivers have prepared it; till then it has no devices."""
    restored: bool = False
    """A checkpoint brought it back, and no driver was asked since."""


class Claims:
    """All prepared claims of the node, by the claim's uid."""

    def __init__(self, claims: Iterable[PreparedClaim] = ()) -> None:
        self._claims = {claim.ref.uid: claim for claim in claims}
        self._index: dict[DeviceId, set[str]] | None = None

    def __iter__(self) -> Iterator[PreparedClaim]:
        return iter(self._claims.values())

    def get(self, claim_uid: str) -> PreparedClaim | None:
        return self._claims.get(claim_uid)

    def devices(self, claim_uid: str) -> tuple[PreparedDevice, ...]:
        """The devices of a claim in the order in which the drivers returned them; none if it is not prepared."""
        claim = self._claims.get(claim_uid)
        return claim.devices if claim else ()

    def name(self, claim_uid: str) -> str:
        """What a claim's object is called; nothing if it is not prepared."""
        claim = self._claims.get(claim_uid)
        return claim.ref.name if claim else ""

    def add(self, claim: PreparedClaim) -> None:
        """Takes a claim that was just prepared."""
        self._claims[claim.ref.uid] = claim
        self._index = None

    def hold(self, claim_uid: str, pod_uid: str) -> None:
        """The pod references the claim from now on."""
        self._claims[claim_uid].pods.add(pod_uid)

    def release(self, claim_uid: str, pod_uid: str) -> None:
        """The pod holds the claim no longer; a claim that nobody holds is forgotten."""
        claim = self._claims[claim_uid]
        claim.pods.discard(pod_uid)
        if not claim.pods:
            del self._claims[claim_uid]
            self._index = None

    def held_by(self, pod_uid: str) -> list[PreparedClaim]:
        return [claim for claim in self._claims.values() if pod_uid in claim.pods]

    def pods_with(self, devices: Iterable[DeviceId]) -> frozenset[str]:
        """The pods that hold any of these devices, through whatever claim (H-23: share ids play no part)."""
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
