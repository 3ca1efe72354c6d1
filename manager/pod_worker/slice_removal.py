"""Removes the ResourceSlices of drivers that are gone, as a kubelet does (W-30).

When a kubelet starts, no driver has registered, so it removes all slices of its node. It removes those of a driver
30 s after the driver's last instance has deregistered or lost its connection.
"""

import asyncio
import logging
from collections.abc import Callable

from drahealth.fakes.cluster.api import SLICES, Api, ApiError
from drahealth.fakes.waiting import Retry, cancel_and_wait
from drahealth.manager.manager import DeviceManager
from drahealth.proto.clock import Clock
from drahealth.proto.quoting import one_line

DELAY = 30.0
"""Seconds without an instance after which the slices of a driver are removed."""
_FIRST_RETRY, _LAST_RETRY = 1.0, 300.0  # seconds, doubling

log = logging.getLogger(__name__)


class SliceRemoval:
    """Removes slices of the node `node_name`, from `start` to `stop`."""

    def __init__(self, api: Api, drivers: DeviceManager, node_name: str, clock: Clock) -> None:
        self._api = api
        self._drivers = drivers
        self._node_name = node_name
        self._clock = clock
        self._pending: dict[str | None, asyncio.Task[None]] = {}
        self._leave: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Removes all slices of the node; if the API rejects this, it is retried in the background."""
        self._leave = self._drivers.subscribe_to_connections(self._changed)
        if not await self._removed(None):
            self._begin(None, _FIRST_RETRY)

    async def stop(self) -> None:
        """Cancels what is pending; harmless before `start`."""
        self._leave()
        self._leave = lambda: None
        tasks = list(self._pending.values())
        self._pending.clear()
        await cancel_and_wait(*tasks)

    def _changed(self, driver: str) -> None:
        if self._drivers.connected(driver):
            if pending := self._pending.pop(driver, None):
                pending.cancel()
        elif driver not in self._pending:
            self._begin(driver, DELAY)

    def _begin(self, driver: str | None, delay: float) -> None:
        self._pending[driver] = asyncio.create_task(self._remove(driver, delay), name="removal of slices")

    async def _remove(self, driver: str | None, delay: float) -> None:
        await self._clock.sleep(delay)
        retry = Retry(_FIRST_RETRY, _LAST_RETRY)
        while not await self._removed(driver):
            await self._clock.sleep(retry.next())
        del self._pending[driver]

    async def _removed(self, driver: str | None) -> bool:
        """Removes the slices of the driver, of all drivers for None; returns whether it succeeded."""
        whose = f"driver {one_line(driver)}" if driver is not None else "all drivers"
        try:
            names = [
                slice_["metadata"]["name"]
                for slice_ in await self._api.list(SLICES)
                if slice_["spec"].get("nodeName") == self._node_name and driver in (None, slice_["spec"]["driver"])
            ]
            for name in names:
                await self._delete(name)
        except ApiError as error:
            log.warning("ResourceSlices of %s cannot be removed: %s; retrying", whose, error)
            return False
        if names:
            log.info("removed %d ResourceSlices of %s on node %s", len(names), whose, self._node_name)
        return True

    async def _delete(self, name: str) -> None:
        try:
            await self._api.delete(SLICES, name)
        except ApiError as error:
            if error.status != 404:
                raise
