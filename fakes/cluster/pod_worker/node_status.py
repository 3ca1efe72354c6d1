"""The node's status: its extended resources, as its device manager counts them."""

import asyncio
import logging

from drahealth.fakes.cluster.api import NODES, Api, ApiError, Object
from drahealth.fakes.cluster.pod_worker.devices import DeviceManager
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock

PERIOD = 10.0
"""Seconds between checks without a change, as in kubelets."""

log = logging.getLogger(__name__)


class NodeStatus:
    """Keeps `status.capacity` and `status.allocatable` of the node current; other resources stay unchanged."""

    def __init__(self, api: Api, devices: DeviceManager, node: str, clock: Clock) -> None:
        self._api = api
        self._devices = devices
        self._node = node
        self._clock = clock
        self._ours: set[str] = set()
        self._complaint = ""

    async def run(self) -> None:
        """Runs until cancelled."""
        changed = asyncio.Event()
        leave = self._devices.subscribe_to_amounts(changed.set)
        try:
            while True:
                changed.clear()
                await self._write_safely()
                await first_of(changed.wait(), self._clock.sleep(PERIOD))
        finally:
            leave()

    async def _write_safely(self) -> None:
        try:
            await self._write()
            self._complaint = ""
        except ApiError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("status of node %s: %s; retrying in %g s", self._node, error, PERIOD)

    async def _write(self) -> None:
        amounts = self._devices.amounts()
        self._ours |= amounts.keys()
        if not self._ours:
            return
        node = await self._api.get(NODES, self._node)
        status = node.get("status") or {}
        capacity = {name: str(amount.capacity) for name, amount in amounts.items()}
        allocatable = {name: str(amount.allocatable) for name, amount in amounts.items()}
        new = {
            **status,
            "capacity": self._with(status.get("capacity"), capacity),
            "allocatable": self._with(status.get("allocatable"), allocatable),
        }
        if new != status:
            await self._api.replace_status(NODES, {**node, "status": new})

    def _with(self, old: Object | None, ours: Object) -> Object:
        return {**{name: value for name, value in (old or {}).items() if name not in self._ours}, **ours}
