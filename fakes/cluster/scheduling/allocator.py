"""Allocates devices to requests: all or nothing, no device twice. Pure.

The search backtracks if a choice leaves a later request without devices, as the real allocator does. To stay fast, it
treats devices that suit exactly the same requests as one group, and only tries how many of each group a request takes.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from drahealth.fakes.cluster.scheduling.device_requests import Alternatives, DeviceRequest
from drahealth.fakes.cluster.scheduling.pools import Offer, Pool
from drahealth.proto.values import DeviceId


@dataclass(frozen=True, slots=True)
class Grant:
    """The devices of one request, and the chosen alternative."""

    request: DeviceRequest
    offers: tuple[Offer, ...]


def allocate(
    requests: Sequence[Alternatives], pools: Sequence[Pool], in_use: Collection[DeviceId]
) -> list[Grant] | None:
    """One grant for each request, or None if they cannot all be met. `in_use`: devices that other claims hold."""
    return _Search(requests, pools, in_use).grants(0, ())


_Choice = tuple[tuple[Offer, ...], tuple[int, ...]]
"""The devices for one request, and the number of allocated devices of each group after it."""


class _Search:
    """`taken` counts the allocated devices of each group; the devices of a group are used in order."""

    def __init__(self, requests: Sequence[Alternatives], pools: Sequence[Pool], in_use: Collection[DeviceId]) -> None:
        self._requests = requests
        self._pools = pools
        self._in_use = in_use
        self._offers = [offer for pool in pools for offer in pool.offers]
        self._groups = self._grouped()

    def grants(self, index: int, taken: tuple[int, ...]) -> list[Grant] | None:
        """Grants for the requests from `index` on."""
        if index == len(self._requests):
            return []
        for request in self._requests[index]:
            for offers, taken_then in self._ways(request, taken or (0,) * len(self._groups)):
                rest = self.grants(index + 1, taken_then)
                if rest is not None:
                    return [Grant(request, offers), *rest]
        return None

    def _ways(self, request: DeviceRequest, taken: tuple[int, ...]) -> Iterator[_Choice]:
        if request.count is None:
            yield from self._all(request, taken)
        elif request.admin:
            suitable = tuple(offer for offer in self._offers if _suits(request, offer))[: request.count]
            if len(suitable) == request.count:
                yield suitable, taken
        else:
            yield from self._counted(request, request.count, taken)

    def _all(self, request: DeviceRequest, taken: tuple[int, ...]) -> Iterator[_Choice]:
        """Every matching device, if there is at least one, all are allocatable, and their pools are complete."""
        pools = [pool for pool in self._pools if request.matches(pool.driver)]
        offers = tuple(offer for pool in pools for offer in pool.offers)
        may = all(pool.complete for pool in pools) and all(request.tolerates(offer.taints) for offer in offers)
        if not offers or not may:
            return
        if request.admin:
            yield offers, taken
        elif self._away(taken).isdisjoint(offer.id for offer in offers):
            whole = [len(g) if _suits(request, g[0]) else n for g, n in zip(self._groups, taken, strict=True)]
            yield offers, tuple(whole)

    def _counted(self, request: DeviceRequest, count: int, taken: tuple[int, ...]) -> Iterator[_Choice]:
        pairs = list(zip(self._groups, taken, strict=True))
        room = [len(group) - n if _suits(request, group[0]) else 0 for group, n in pairs]
        for split in _splits(count, room):
            chosen = [group[n : n + more] for (group, n), more in zip(pairs, split, strict=True)]
            then = tuple(n + more for n, more in zip(taken, split, strict=True))
            yield tuple(offer for part in chosen for offer in part), then

    def _away(self, taken: tuple[int, ...]) -> set[DeviceId]:
        """The devices that are no longer free."""
        given = (offer.id for group, n in zip(self._groups, taken, strict=True) for offer in group[:n])
        return {*self._in_use, *given}

    def _grouped(self) -> list[list[Offer]]:
        """The free devices, grouped by the requests that they suit."""
        groups: dict[tuple[bool, ...], list[Offer]] = {}
        for offer in self._offers:
            if offer.id not in self._in_use:
                suits = tuple(_suits(request, offer) for alternatives in self._requests for request in alternatives)
                groups.setdefault(suits, []).append(offer)
        return list(groups.values())


def _suits(request: DeviceRequest, offer: Offer) -> bool:
    return request.matches(offer.id.driver) and request.tolerates(offer.taints)


def _splits(count: int, room: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The ways to take `count` from groups of these sizes, as many as possible from the first ones first."""
    if count > sum(room):
        return
    if not room:
        yield ()
        return
    for first in range(min(count, room[0]), -1, -1):
        for rest in _splits(count - first, room[1:]):
            yield (first, *rest)
