"""Who holds a timeline's devices: a pod, and with a ReplicaSet those that take its place."""

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
    """The pod that runs now. Within `async with`, after which nothing keeps its containers failing."""

    pod: Pod
    held: frozenset[str]
    """What the API calls the driver's devices that the scheduler gave to it."""

    def __init__(self, node: Node, driver: Driver, shows: int) -> None:
        """The pod is to show so many devices before the story goes on."""
        self._node = node
        self._driver = driver
        self._shows = shows
        self._replicas: ReplicaSet | None = None
        self._failing: asyncio.Task[None] | None = None

    async def begin(self, workload: Workload, devices: int, asks: Sequence[ResourceRequest]) -> None:
        """Makes the workload, whose pod asks for so many devices of the driver; returns when it runs."""
        claim = await self._node.claim(self._driver, template=workload.kind == "ReplicaSet", gpu=devices)
        if workload.kind == "ReplicaSet":
            self._replicas = await self._node.replica_set(claim["gpu"], *asks)
            await self._meet(await self._replicas.next_pod())
        else:
            await self._meet(await self._node.running_pod(claim["gpu"], *asks))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            await self._lets_run()

    async def tell(self, verb: PodVerb) -> None:
        """What becomes of the pod."""
        match verb:
            case "keeps-failing":
                await self._lets_run()
                self._failing = asyncio.create_task(self.pod.fails_repeatedly())
                await self.pod.is_in_back_off()
            case "running":
                await self._lets_run()
            case "deleted" if self._replicas:
                await self._lets_run()
                await self.pod.is_deleted()
                await self._meet(await self._replicas.next_pod())

    def check(self) -> None:
        """Raises what keeps its containers from failing, if they are to."""
        if self._failing and self._failing.done():
            self._failing.result()

    async def _lets_run(self) -> None:
        """Its containers stay up, once the kubelet has started them again. Harmless on one that never failed."""
        failing, self._failing = self._failing, None
        if failing:
            failing.cancel()
            await asyncio.gather(failing, return_exceptions=True)

    async def _meet(self, pod: Pod) -> None:
        self.pod = pod
        self.held = frozenset(gpu.name for gpu in await pod.gpus_of(self._driver))
        await pod.has_devices(self._shows)
