"""Allocation of devices to requests, compared with an exhaustive allocator."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.cluster.allocation import (
    Alternatives,
    DeviceRequest,
    Grant,
    Offer,
    Pool,
    Taint,
    Toleration,
    allocate,
)
from drahealth.proto.values import DeviceId

HOT = Taint("hot", "", "NoSchedule")
ANY = (Toleration(operator="Exists"),)


def pool(driver: str, *taints: tuple[Taint, ...], complete: bool = True) -> Pool:
    """A pool with a device for each tuple of taints."""
    offers = tuple(Offer(DeviceId(driver, "pool", f"{i}"), each) for i, each in enumerate(taints))
    return Pool(driver, offers, complete)


def wanted(
    *drivers: str, count: int | None = 1, admin: bool = False, tolerations: tuple[Toleration, ...] = ()
) -> DeviceRequest:
    return DeviceRequest("request", "class", drivers, count, admin, tolerations)


def names(grants: list[Grant] | None) -> list[list[str]] | None:
    return None if grants is None else [[str(offer.id) for offer in grant.offers] for grant in grants]


TAINTS = st.sampled_from([(), (), (HOT,)])
POOLS = st.tuples(
    st.lists(TAINTS, max_size=4).map(lambda taints: pool("a", *taints)),
    st.lists(TAINTS, max_size=3).map(lambda taints: pool("b", *taints, complete=len(taints) != 2)),
)
WANTED = st.builds(
    wanted,
    st.sampled_from(["a", "b"]),
    count=st.sampled_from([None, 1, 1, 2, 3]),
    admin=st.booleans(),
    tolerations=st.sampled_from([(), ANY]),
) | st.builds(wanted, count=st.integers(1, 3))
REQUESTS = st.lists(st.lists(WANTED, min_size=1, max_size=2).map(tuple), max_size=3)


@given(REQUESTS, POOLS, st.sets(st.sampled_from(["0", "1"]), max_size=2))
def test_everything_or_nothing_and_no_device_twice(
    requests: list[Alternatives], pools: tuple[Pool, ...], used: set[str]
) -> None:
    in_use = {DeviceId("a", "pool", name) for name in used}
    grants = allocate(requests, pools, in_use)
    assert (grants is not None) == any(_all_ways(requests, pools, in_use))
    if grants is not None:
        assert _keeps_the_rules(grants, requests, pools, in_use)


def test_devices_go_in_their_order() -> None:
    grants = allocate([(wanted("a", count=2),), (wanted("a"),)], [pool("a", (), (), (), ())], set())
    assert names(grants) == [["a/pool/0", "a/pool/1"], ["a/pool/2"]]


def test_choice_that_starves_a_later_request_is_reverted() -> None:
    first = (wanted("a", count=2), wanted("b"))
    grants = allocate([first, (wanted("a", count=2),)], [pool("a", (), ()), pool("b", ())], set())
    assert names(grants) == [["b/pool/0"], ["a/pool/0", "a/pool/1"]]


def test_first_alternative_is_preferred() -> None:
    grants = allocate([(wanted("b", count=2), wanted("a"))], [pool("a", ()), pool("b", ())], set())
    assert names(grants) == [["a/pool/0"]]


def test_tainted_device_is_allocated_only_with_a_toleration() -> None:
    pools = [pool("a", (HOT,))]
    assert allocate([(wanted("a"),)], pools, set()) is None
    assert names(allocate([(wanted("a", tolerations=ANY),)], pools, set())) == [["a/pool/0"]]


def test_admin_access_shares_devices_in_use() -> None:
    in_use = {DeviceId("a", "pool", "0")}
    request = (wanted("a", count=None, admin=True),)
    assert names(allocate([request, (wanted("a"),)], [pool("a", (), ())], in_use)) == [
        ["a/pool/0", "a/pool/1"],
        ["a/pool/1"],
    ]


def test_impossible_request_fails_fast_with_ten_thousand_devices() -> None:
    request = (wanted("a", count=4000),)
    assert allocate([request] * 3, [pool("a", *[()] * 10_000)], set()) is None


def _keeps_the_rules(
    grants: Sequence[Grant], requests: Sequence[Alternatives], pools: Sequence[Pool], in_use: set[DeviceId]
) -> bool:
    """What is given suits who gets it, in the number asked for, and nobody else has it."""
    owned = [offer.id for grant in grants if not grant.request.admin for offer in grant.offers]
    return (
        len(set(owned)) == len(owned)
        and in_use.isdisjoint(owned)
        and all(grant.request in request for grant, request in zip(grants, requests, strict=True))
        and all(set(grant.offers) in map(set, _choices(grant.request, pools)) for grant in grants)
        and all(len(set(grant.offers)) == len(grant.offers) for grant in grants)
    )


def _choices(one: DeviceRequest, pools: Sequence[Pool]) -> Iterator[tuple[Offer, ...]]:
    """What the request may get if it were alone."""
    matching = [pool for pool in pools if one.matches(pool.driver) and pool.offers]
    offers = [offer for pool in matching for offer in pool.offers]
    suitable = [offer for offer in offers if one.tolerates(offer.taints)]
    if one.count is not None:
        yield from combinations(suitable, one.count)
    elif offers and suitable == offers and all(pool.complete for pool in matching):
        yield tuple(offers)


def _all_ways(requests: Sequence[Alternatives], pools: Sequence[Pool], in_use: set[DeviceId]) -> Iterator[bool]:
    if not requests:
        yield True
        return
    for one in requests[0]:
        for offers in _choices(one, pools):
            ids = set() if one.admin else {offer.id for offer in offers}
            if in_use.isdisjoint(ids):
                yield from _all_ways(requests[1:], pools, in_use | ids)
