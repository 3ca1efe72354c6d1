"""The prepared claims: which pods hold which devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.manager.claims import Claims, PreparedClaim
from drahealth.proto.values import ClaimRef, DeviceId, PreparedDevice


def device(name: str, share: str | None = None) -> PreparedDevice:
    return PreparedDevice(DeviceId("gpu.example.com", "node-a", name), share_id=share)


def claim(uid: str, *devices: PreparedDevice, pods: str = "") -> PreparedClaim:
    return PreparedClaim(ClaimRef("default", uid, uid), ("gpu.example.com",), devices, set(pods.split()))


def test_devices_come_in_the_drivers_order_and_none_for_an_unknown_claim() -> None:
    claims = Claims([claim("c", device("gpu-1"), device("gpu-0"))])
    assert claims.devices("c") == (device("gpu-1"), device("gpu-0"))
    assert (claims.devices("other"), claims.get("other")) == ((), None)


@pytest.mark.counterpart("kep/manager-affected-pods", "alpha2/handle-affected-pods")
def test_shared_device_lists_each_pod_once() -> None:
    claims = Claims([claim("c", device("gpu-0"), pods="a b"), claim("d", device("gpu-0"), pods="b c")])
    assert claims.pods_with([device("gpu-0").id, device("gpu-0").id]) == {"a", "b", "c"}


@pytest.mark.counterpart("TestHandleWatchResourcesStream/HealthChangeForDeviceWithShareID")
def test_share_id_of_a_device_is_ignored() -> None:
    claims = Claims([claim("c", device("gpu-0", "1"), pods="a"), claim("d", device("gpu-0", "2"), pods="b")])
    assert claims.pods_with([device("gpu-0").id]) == {"a", "b"}


def test_claim_is_removed_with_its_last_pod() -> None:
    claims = Claims([claim("c", device("gpu-0"), pods="a b")])
    claims.release("c", "a")
    assert claims.pods_with([device("gpu-0").id]) == {"b"}
    claims.release("c", "b")
    assert (list(claims), claims.pods_with([device("gpu-0").id])) == ([], frozenset())


def test_a_claim_prepared_later_is_found_by_its_devices() -> None:
    claims = Claims()
    assert claims.pods_with([device("gpu-0").id]) == frozenset()
    claims.add(claim("c", device("gpu-0")))
    claims.hold("c", "a")
    assert claims.pods_with([device("gpu-0").id, device("gpu-9").id]) == {"a"}


def test_the_claims_of_a_pod_are_those_it_holds() -> None:
    claims = Claims([claim("c", pods="a"), claim("d", pods="a b"), claim("e", pods="b")])
    assert [held.ref.uid for held in claims.held_by("a")] == ["c", "d"]


HOLDINGS = st.dictionaries(
    st.sampled_from("cdef"),
    st.tuples(st.sets(st.sampled_from(["0", "1", "2"])), st.sets(st.sampled_from("xyz"), min_size=1)),
)


@given(HOLDINGS, st.lists(st.tuples(st.sampled_from("cdef"), st.sampled_from("xyz"))))
def test_pods_with_a_device_equal_a_linear_search(
    holdings: dict[str, tuple[set[str], set[str]]], releases: list[tuple[str, str]]
) -> None:
    claims = Claims([claim(uid, *map(device, names), pods=" ".join(pods)) for uid, (names, pods) in holdings.items()])
    for uid, pod in releases:
        claims.pods_with([device("0").id])
        if uid in holdings and holdings[uid][1]:
            claims.release(uid, pod)
            holdings[uid][1].discard(pod)
    for name in "012":
        assert claims.pods_with([device(name).id]) == {
            p for names, pods in holdings.values() if name in names for p in pods
        }
