"""The devices of a pool, read from its slices."""

from typing import Any

from drahealth.fakes.cluster.allocation import Pool, Taint, pools_on
from drahealth.fakes.cluster.api import Object


def slice_of(name: str, *devices: Object | str, generation: int = 1, count: int = 1, **spec: Any) -> Object:
    listed = [{"name": device} if isinstance(device, str) else device for device in devices]
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": count}
    where = {} if {"allNodes", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": "node"}
    return {
        "metadata": {"name": name},
        "spec": {"driver": "gpu.example.com", "pool": pool, "devices": listed, **where, **spec},
    }


def devices(pools: list[Pool]) -> list[str]:
    return [offer.id.device for pool in pools for offer in pool.offers]


def test_slices_of_a_pool_are_joined_in_order_of_their_names() -> None:
    pools = pools_on("node", [slice_of("b", "2", count=2), slice_of("a", "0", "1", count=2)])
    assert devices(pools) == ["0", "1", "2"]
    assert [pool.complete for pool in pools] == [True]


def test_only_the_newest_generation_counts() -> None:
    pools = pools_on("node", [slice_of("a", "old", generation=1), slice_of("b", "new", generation=2, count=2)])
    assert (devices(pools), [pool.complete for pool in pools]) == (["new"], [False])


def test_a_node_has_its_own_devices_and_those_for_all_nodes() -> None:
    slices = [
        slice_of("a", "own"),
        slice_of("b", "others", nodeName="other", driver="b"),
        slice_of("c", "shared", allNodes=True, driver="c"),
        slice_of("d", {"name": "placed", "nodeName": "node"}, {"name": "x"}, perDeviceNodeSelection=True, driver="d"),
    ]
    pools = pools_on("node", slices)
    assert devices(pools) == ["shared", "placed", "own"]
    assert [pool.offers[0].node_local for pool in pools] == [False, True, True]


def test_pool_with_duplicate_device_names_is_ignored() -> None:
    assert pools_on("node", [slice_of("a", "0", "1", count=2), slice_of("b", "1", count=2)]) == []


def test_devices_that_share_counters_are_not_offered() -> None:
    assert devices(pools_on("node", [slice_of("a", {"name": "mig", "consumesCounters": [{}]}, "whole")])) == ["whole"]


def test_taints_with_effect_none_are_ignored() -> None:
    taints = [{"key": "k", "effect": "None"}, {"key": "hot", "value": "very", "effect": "NoExecute"}]
    ((offer,),) = [pool.offers for pool in pools_on("node", [slice_of("a", {"name": "0", "taints": taints})])]
    assert offer.taints == (Taint("hot", "very", "NoExecute"),)
