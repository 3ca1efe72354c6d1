"""The common part of controllers: they read a mirror of the API after each change, and never poll."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence

from drahealth.fakes.cluster.api import ApiError, Kind, Object
from drahealth.fakes.cluster.clients.mirror import Mirror
from drahealth.fakes.cluster.list_watch import ControlPlaneApi

_RETRY = 1.0
"""Seconds until a rejected pass is repeated."""

log = logging.getLogger(__name__)


class ControlLoop(ABC):
    """Works from `start` to `stop`."""

    def __init__(self, name: str, api: ControlPlaneApi, kinds: Sequence[Kind]) -> None:
        self._name = name
        self._mirror = Mirror(api, kinds, self._changed)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Handles the existing objects, then every change."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def wait(self) -> None:
        """Waits until the loop has ended; raises its error."""
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task.result()

    async def stop(self) -> None:
        """Ends the loop; raises an earlier error."""
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror.run(), name=f"mirror of {self._name}")
            complaint = ""
            while True:
                await self._wake.wait()
                await self._mirror.whole.wait()
                self._wake.clear()
                try:
                    await self._pass()
                    complaint = ""
                except ApiError as error:
                    if str(error) != complaint:
                        complaint = str(error)
                        log.warning("%s: %s; retrying each second", self._name, error)
                    await asyncio.sleep(_RETRY)
                    self._wake.set()

    @abstractmethod
    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        """Called after a change of an object; sets `_wake` if the change matters."""

    @abstractmethod
    async def _pass(self) -> None:
        """Checks all objects once. An `ApiError` is logged, and the pass is repeated."""
