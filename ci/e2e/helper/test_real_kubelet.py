"""A driver on the helper beside a real kubelet, with a real API server (`ci/step helper` runs this)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import cast

import pytest

from drahealth.fakes.cluster.api import NODES, SLICES, ListWatch, Object
from drahealth.fakes.kubelet_plugin import (
    Helper,
    NamespacedObject,
    Options,
    Pool,
    PrepareResult,
    RegistrationStatus,
    start,
)
from drahealth.manager.releases import DEFAULT_VERSION, NEWEST
from drahealth.suites.targets.kubelet import ensure as binaries
from drahealth.suites.targets.kubelet.target import KubeletTarget
from drahealth.suites.unit.endings import PATIENCE

DRIVER = "helper.example.com"
NAME = f"node-a-{DRIVER}-0"
TAINT = {"key": "example.com/unhealthy", "effect": "NoExecute"}


class Plugin:
    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        return {claim["metadata"]["uid"]: PrepareResult() for claim in claims}

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        return {claim.uid: None for claim in claims}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def target() -> AsyncIterator[KubeletTarget]:
    target = KubeletTarget(binaries.ensure(DEFAULT_VERSION), NEWEST)
    try:
        await target.start()
        yield target
    finally:
        await target.stop()


@pytest.fixture
async def helper(target: KubeletTarget) -> AsyncIterator[Helper]:
    """A driver that runs; afterwards nothing of it is left."""
    options = Options(
        DRIVER,
        node_name=target.node_name,
        api=_api(target),
        registrar_dir=Path(target.registry_dir),
        plugin_data_dir=Path(target.plugins_dir) / DRIVER,
    )
    async with asyncio.timeout(3 * PATIENCE), await start(Plugin(), options) as helper:
        yield helper
        await helper.withdraw_resources()
        assert await slices(target) == {}


def _api(target: KubeletTarget) -> ListWatch:
    return cast("ListWatch", target.api)


async def slices(target: KubeletTarget) -> dict[str, Object]:
    """The specs of the driver's slices, by name."""
    found = await target.api.list(SLICES)
    return {s["metadata"]["name"]: s["spec"] for s in found if s["spec"]["driver"] == DRIVER}


async def become(target: KubeletTarget, so: Callable[[dict[str, Object]], bool]) -> dict[str, Object]:
    """The slices, once they are so."""
    async with aclosing(_api(target).watch(SLICES)) as changes:
        async for _ in changes:
            if so(found := await slices(target)):
                return found
    raise AssertionError("the API server has ended the watch")


def is_whole(spec: Object) -> bool:
    """Whether it has all its devices again."""
    return len(spec["devices"]) > 1


def pools(found: dict[str, Object]) -> set[tuple[int, int]]:
    """The generations and counts in the slices. They differ while the helper writes one slice after another."""
    return {(spec["pool"]["generation"], spec["pool"]["resourceSliceCount"]) for spec in found.values()}


async def test_kubelet_registers_the_driver(helper: Helper) -> None:
    await helper.wait_registered()
    assert helper.registration_status == RegistrationStatus(True)


async def test_the_node_owns_its_slices(helper: Helper, target: KubeletTarget) -> None:
    helper.publish_resources({target.node_name: Pool([{"name": "a"}])})
    await helper.published()
    node = (await target.api.get(NODES, target.node_name))["metadata"]
    (owner,) = (await target.api.get(SLICES, NAME))["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", node["name"], node["uid"])


async def test_helper_restores_deleted_and_changed_slices(helper: Helper, target: KubeletTarget) -> None:
    helper.publish_resources({target.node_name: Pool([{"name": f"d-{number}"} for number in range(200)])})
    await helper.published()
    await target.api.delete(SLICES, NAME)
    await become(target, lambda found: len(found) == 2)
    changed = await target.api.get(SLICES, NAME)
    await target.api.replace(SLICES, {**changed, "spec": {**changed["spec"], "devices": [{"name": "other"}]}})
    found = await become(target, lambda found: all(map(is_whole, found.values())) and len(pools(found)) == 1)
    assert pools(found) == {(2, 2)}


async def test_unchanged_taint_keeps_its_time_and_slices_are_not_rewritten(
    helper: Helper, target: KubeletTarget
) -> None:
    capacity = {"memory": {"value": "1024Mi"}}  # which the server calls 1Gi
    times = set()
    for count in (100, 101):
        devices = [{"name": f"d-{number}", "capacity": capacity} for number in range(count)]
        helper.publish_resources({target.node_name: Pool([{**devices[0], "taints": [TAINT]}, *devices[1:]])})
        await helper.published()
        times.add((await slices(target))[NAME]["devices"][0]["taints"][0]["timeAdded"])
        await asyncio.sleep(1.1)  # the API's times are whole seconds
    generations = {spec["pool"]["generation"] for spec in (await slices(target)).values()}
    assert (len(times), generations) == (1, {2})


async def test_rejected_slice_is_reported_with_the_error_of_the_server(helper: Helper, target: KubeletTarget) -> None:
    helper.publish_resources({target.node_name: Pool([{"name": "Not A Name"}])})
    error = await helper.publish_attempted()
    assert "spec.devices[0].name: Invalid value" in str(error)
    assert (helper.publish_state.in_sync, helper.publish_state.error) == (False, str(error))
