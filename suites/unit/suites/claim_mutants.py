"""Wrong reference managers. Each has one error of a kubelet in the work on claims."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from drahealth.manager.claims import Claims, PreparedClaim
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


class UnpreparesShared(DraManager):
    """A shared claim is unprepared with the first of its pods."""

    async def unprepare(self, pod_uid: str) -> None:
        for claim in self._claims.held_by(pod_uid):
            await self._unprepare(claim)
        await super().unprepare(pod_uid)


class ForgetsFailures(DraManager):
    """A claim that could not be prepared is not unprepared."""

    async def _unprepare(self, claim: PreparedClaim) -> None:
        if claim.complete:
            await super()._unprepare(claim)


class AsksOneDriver(DraManager):
    """Only the first driver of a claim is called."""

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, tuple[PreparedDevice, ...]]:
        return await super().prepare(pod_uid, [replace(claim, drivers=claim.drivers[:1]) for claim in claims])


class LosesItsClaims(DraManager):
    """After a restart no claim is prepared."""

    def load(self) -> None:
        super().load()
        self._claims = Claims()
