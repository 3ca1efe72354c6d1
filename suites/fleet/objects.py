"""The objects of hollow nodes in the API server: Nodes, Leases and ResourceSlices."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TypeVar

from drahealth.fakes.cluster.api import LEASES, NODES, SLICES, ApiError, Kind, Object
from drahealth.fakes.kubelet_plugin import Pool
from drahealth.fakes.kubelet_plugin.slices import Owner, desired_pools, generation, slice_object, taint_times
from drahealth.fakes.waiting import Retry
from drahealth.manager.calls import first_error
from drahealth.proto.clock import Clock
from drahealth.suites.fleet.client import AT_ONCE, FleetClient, is_missing
from drahealth.suites.fleet.topology import (
    LEASE_NAMESPACE,
    HollowNodeName,
    is_without_startup_taint,
    lease_object,
    node_object,
    renewed,
)

log = logging.getLogger(__name__)

RENEWAL = 20.0
"""Seconds between two renewals of a Lease. A node is NotReady after 50 s without one."""
_PARTS = 40
"""Parts of this time, in each of which a part of the Leases is renewed."""

T = TypeVar("T")
Pools = Mapping[str, Mapping[str, Pool]]
"""The pool of each driver on each node: by driver, then by node."""


async def for_each(items: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
    """Does it for all of them, as many at once as the client permits. Raises the first error, and then stops."""
    left = deque(items)

    async def work() -> None:
        while left:
            await do(left.popleft())

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(left))):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None


class FleetObjects:
    """Creates the objects of these nodes, or takes over those of an earlier start."""

    def __init__(self, api: FleetClient, nodes: Sequence[HollowNodeName], kubernetes: str, clock: Clock) -> None:
        self._api = api
        self._nodes = nodes
        self._kubernetes = kubernetes
        self._clock = clock
        self._uids: dict[str, str] = {}
        self._leases: dict[str, Object | None] = {}
        """The Lease of each node; None before the first renewal."""
        self._slices: dict[tuple[str, str], list[Object]] = {}
        self._published: dict[tuple[str, str], Pool] = {}
        self._publishing = asyncio.Lock()

    async def register(self, pools: Pools) -> None:
        """Registers all nodes, with their devices. Raises ApiError."""

        async def register(node: HollowNodeName) -> None:
            wall = self._clock.wall()
            made = await self._put(NODES, node_object(node, self._kubernetes, wall), with_status=True)
            self._uids[node.name] = made["metadata"]["uid"]
            for driver, by_node in pools.items():
                await self._publish(driver, node.name, by_node[node.name])
            self._leases[node.name] = None

        await for_each(self._nodes, register)

    async def until_schedulable(self) -> None:
        """Returns when no node has the taint of a starting node. Raises ApiError."""
        waiting = {node.name for node in self._nodes}
        while True:  # a server ends the watch of a slow client
            async with aclosing(self._api.watch(NODES)) as changes:
                async for change in changes:
                    if is_without_startup_taint(change.object):
                        waiting.discard(change.object["metadata"]["name"])
                    if not waiting:
                        return

    async def publish(self, pools: Pools) -> None:
        """Writes the ResourceSlices of those pools that differ from the published ones. Raises ApiError."""
        async with self._publishing:
            changed = [
                (driver, node, pool)
                for driver, by_node in pools.items()
                for node, pool in by_node.items()
                if node in self._uids and self._published.get((driver, node)) != pool
            ]
            await for_each(changed, lambda one: self._publish(*one))

    async def renew_leases(self) -> None:
        """Renews all Leases in turn, until cancelled. A node whose Lease was deleted is no longer renewed."""
        complaint = ""
        while True:
            names = list(self._leases)
            share = -(-max(len(names), 1) // _PARTS)
            for start in range(0, _PARTS * share, share):
                try:
                    await for_each(names[start : start + share], self._renew)
                    complaint = ""
                except ApiError as error:
                    if str(error) != complaint:
                        complaint = str(error)
                        log.warning("Leases cannot be renewed: %s; retrying", complaint)
                await self._clock.sleep(RENEWAL / _PARTS)

    async def _renew(self, name: str) -> None:
        known, wall = self._leases[name], self._clock.wall()
        if known is None:
            self._leases[name] = await self._put(LEASES, lease_object(name, self._uids[name], wall))
            return
        try:
            self._leases[name] = await self._api.replace(LEASES, renewed(known, wall))
        except ApiError as error:
            if is_missing(error):  # with its Node
                del self._leases[name]
            elif error.status == 409:
                self._leases[name] = await self._api.get(LEASES, name, LEASE_NAMESPACE)
            else:
                raise

    async def _publish(self, driver: str, node: str, pool: Pool) -> None:
        owner = Owner(driver, node, self._uids[node])
        (desired,) = desired_pools(owner, {node: pool})
        before = self._slices.get((driver, node), [])
        number = max((generation(one) for one in before), default=0) + 1
        times = taint_times(before)
        stored = [
            await self._put(
                SLICES, slice_object(owner, desired, name, number, times), version=_version_of(before, name)
            )
            for name in desired.slices
        ]
        for gone in before:
            if gone["metadata"]["name"] not in desired.slices:
                await self._api.delete(SLICES, gone["metadata"]["name"])
        self._slices[driver, node] = [_kept(one) for one in stored]
        self._published[driver, node] = pool

    async def _put(self, kind: Kind, obj: Object, version: str = "", *, with_status: bool = False) -> Object:
        """Creates the object, or replaces an existing one."""
        retry = Retry()
        while True:
            try:
                if not version:
                    return await self._api.create(kind, obj)
                metadata = {**obj["metadata"], "resourceVersion": version}
                put = self._api.replace_status if with_status else self._api.replace
                return await put(kind, {**obj, "metadata": metadata})
            except ApiError as error:
                if error.reason in ("AlreadyExists", "Conflict"):
                    metadata = obj["metadata"]
                    there = await self._api.get(kind, metadata["name"], metadata.get("namespace"))
                    version = there["metadata"]["resourceVersion"]
                    if kind is SLICES:  # a generation never goes back
                        obj["spec"]["pool"]["generation"] = generation(there) + 1
                elif error.status in (429, 503):
                    await self._clock.sleep(retry.next())
                elif version and is_missing(error):
                    version = ""
                else:
                    raise


def _version_of(slices: Iterable[Object], name: str) -> str:
    return next((one["metadata"]["resourceVersion"] for one in slices if one["metadata"]["name"] == name), "")


def _kept(slice_: Object) -> Object:
    """What the next version of a slice needs: its devices only with taints, whose times must stay."""
    tainted = [one for one in slice_["spec"].get("devices") or () if one.get("taints")]
    metadata = {key: slice_["metadata"][key] for key in ("name", "resourceVersion")}
    return {"metadata": metadata, "spec": {"pool": slice_["spec"]["pool"], "devices": tainted}}
