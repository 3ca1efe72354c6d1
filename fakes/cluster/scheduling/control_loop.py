"""What controllers have in common: they look at a mirror of the API whenever something has changed, and never poll."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.clients.mirror import Mirror
from drahealth.fakes.cluster.list_watch import ControlPlaneApi


class ControlLoop(ABC):
    """Works from `start` to `stop`."""

    def __init__(self, name: str, api: ControlPlaneApi, kinds: Sequence[Kind]) -> None:
        self._name = name
        self._mirror = Mirror(api, kinds, self._changed)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Takes up what is there, and from then on whatever changes."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def wait(self) -> None:
        """Returns once it has ended; raises what ended it, if anything did."""
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task.result()

    async def stop(self) -> None:
        """Ends it; raises what ended it before, if anything did."""
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror.run(), name=f"mirror of {self._name}")
            while True:
                await self._wake.wait()
                await self._mirror.whole.wait()
                self._wake.clear()
                await self._pass()

    @abstractmethod
    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        """An object is another; sets `_wake` where that matters."""

    @abstractmethod
    async def _pass(self) -> None:
        """Looks at everything once."""
