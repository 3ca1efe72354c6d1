"""Wrong reference managers. Each has one error of a kubelet in the work on claims."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from drahealth.manager.dra import DraManager, Notify, PrepareError
from drahealth.proto.values import AllocatedClaim, PreparedDevice


class StartsUnprepared(DraManager):
    """A pod starts although its claims cannot be prepared."""

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, tuple[PreparedDevice, ...]]:
        with suppress(PrepareError):
            return await super().prepare(pod_uid, claims)
        return {}


class AbandonsClaims(DraManager):
    """A pod is deleted although its claims cannot be unprepared."""

    async def unprepare(self, pod_uid: str) -> None:
        with suppress(PrepareError):
            await super().unprepare(pod_uid)


class TellsEveryPod(DraManager):
    """A change of one device notifies all pods with claims."""

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        return super().subscribe(lambda pods: notify(frozenset(pod for claim in self._claims for pod in claim.pods)))
