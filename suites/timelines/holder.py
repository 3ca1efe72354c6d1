"""The workload of a timeline, which holds its devices: a pod, or the current pod of a ReplicaSet."""

import asyncio
from collections.abc import Sequence
from typing import Self

from drahealth.fakes.timelines.workload import PodVerb, Workload
from drahealth.suites.story.device_plugin import ResourceRequest
from drahealth.suites.story.hardware import Driver
from drahealth.suites.story.node import Node
from drahealth.suites.story.replica_set import ReplicaSet
from drahealth.suites.story.workload import Pod


class Holder:
    """The workload of a timeline. `async with` stops the task that makes its containers fail."""

    pod: Pod
    held: frozenset[str]
    """The names of the driver's devices that the scheduler allocated to the pod."""

    def __init__(self, node: Node, driver: Driver, shows: int) -> None:
        """The pod must show this number of devices before the story continues."""
        self._node = node
        self._driver = driver
        self._shows = shows
        self._replicas: ReplicaSet | None = None
        self._failing: asyncio.Task[None] | None = None

    async def begin(self, workload: Workload, devices: int, requests: Sequence[ResourceRequest]) -> None:
        """Create the workload, with this number of devices of the driver. Wait until it runs, and its health is
        watched.
        """
        claim = await self._node.claim(self._driver, template=workload.kind == "ReplicaSet", gpu=devices)
        if workload.kind == "ReplicaSet":
            self._replicas = await self._node.replica_set(claim["gpu"], *requests)
            await self._use_pod(await self._replicas.next_pod())
        else:
            await self._use_pod(await self._node.running_pod(claim["gpu"], *requests))
        if self._driver.health_api:  # a fault before the first stream is perhaps never reported
            await self._driver.is_watched()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            await self._stop_failing()

    async def apply(self, verb: PodVerb) -> None:
        """Apply a `pod` step."""
        match verb:
            case "keeps-failing":
                await self._stop_failing()
                self._failing = asyncio.create_task(self.pod.fails_repeatedly())
                await self.pod.is_in_back_off()
            case "running":
                await self._stop_failing()
            case "deleted" if self._replicas:
                await self._stop_failing()
                await self.pod.is_deleted()
                await self._use_pod(await self._replicas.next_pod())

    def check(self) -> None:
        """Raises the error of the task that makes its containers fail, if there is one."""
        if self._failing and self._failing.done():
            self._failing.result()

    async def _stop_failing(self) -> None:
        """Stop the failures of its containers. It does nothing if they do not fail."""
        failing, self._failing = self._failing, None
        if failing:
            failing.cancel()
            await asyncio.gather(failing, return_exceptions=True)

    async def _use_pod(self, pod: Pod) -> None:
        self.pod = pod
        self.held = frozenset(gpu.name for gpu in await pod.gpus_of(self._driver))
        await pod.has_devices(self._shows)
