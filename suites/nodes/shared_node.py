"""A node that others use at the same time: each user has a namespace and drivers of its own, and removes them."""

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import astuple
from typing import Any

from drahealth.fakes.cluster.api import NAMESPACES, PODS, ApiError, Kind, Object
from drahealth.fakes.control.remote import RemoteDriver
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.inventory.devices import Inventory
from drahealth.suites.nodes.node import DRIVER, Node
from drahealth.suites.nodes.node_target import LocalConfiguration, NodeTarget
from drahealth.suites.nodes.pod_statuses import timed_out
from drahealth.suites.targets.polling import poll
from drahealth.suites.up_command.process_identity import ProcessIdentity

PROCESS = "drahealth.example.com/process"
"""The annotation of a namespace with the process that removes it. A namespace that is kept has none."""
_LONGEST_NAME = 23
"""Bytes of a driver's name for which there is room in the path of its registration socket (`up_command.folder`)."""
_GRACE = 1
"""Seconds that Pods have to end."""
_INTERVAL = 0.1


def unique(start: str) -> str:
    """A name for a namespace, which begins with `start`."""
    return f"{start}-{secrets.token_hex(3)}"


def driver_name(base: str, namespace: str) -> str:
    """The name of a driver that belongs to the namespace: gpu-1a2b3c.example.com for gpu.example.com."""
    first, _, rest = base.partition(".")
    number = namespace.rpartition("-")[2]
    name = f"{first}-{number}.{rest}"
    return name if len(name) <= _LONGEST_NAME else f"gpu-{number}.example.com"


class SharedNode(Node):
    """A part of a node: a namespace and drivers. At the end they are removed, with all that is in the namespace."""

    def __init__(self, configuration: LocalConfiguration, *, namespace: str = "", keep_failed: bool = False) -> None:
        super().__init__(configuration, namespace=namespace or unique("test"))
        self._keep_failed = keep_failed
        self._is_kept = False

    async def keep(self) -> None:
        """Leave the namespace and its drivers at the end. Deleting the namespace then removes them."""
        found = await self.api.get(NAMESPACES, self.namespace)
        found["metadata"].get("annotations", {}).pop(PROCESS, None)
        await self.api.replace(NAMESPACES, found)
        self._is_kept = True

    @property
    def is_kept(self) -> bool:
        """Whether the namespace and its drivers stay at the end."""
        return self._is_kept

    @property
    def _annotations(self) -> Mapping[str, str]:
        return {PROCESS: json.dumps(astuple(ProcessIdentity.own()))}

    async def _begin(self) -> None:
        for namespace in await self.api.list(NAMESPACES):
            if _is_orphan(namespace):  # its process was killed
                await self._delete_namespace(namespace["metadata"]["name"])
        await super()._begin()

    async def _end(self, *, failed: bool) -> None:
        """Pods go first, then the drivers, which Pods need to end. The namespace goes with everything else."""
        if failed and self._keep_failed and not self._is_kept:
            await self.keep()
        if self._is_kept:
            return
        try:
            await self._delete_namespace(self.namespace)
            await self._until_no_pods()
        finally:
            await self._end_drivers()
            for kind, obj in reversed(self._created):
                if obj["metadata"].get("namespace") != self.namespace:
                    await self._delete(kind, obj)

    async def _end_drivers(self) -> None:
        """Those that another process runs."""

    async def _delete_namespace(self, name: str) -> None:
        """Nothing new can be created in the namespace from then on."""
        await self._delete(NAMESPACES, {"metadata": {"name": name}})
        for pod in await self.api.list(PODS, name):
            await self._delete(PODS, pod, _GRACE)

    async def _until_no_pods(self) -> None:
        """Raises TimeoutError with the Pods that are left."""
        left = list[Object]()

        async def gone() -> bool:
            left[:] = await self.api.list(PODS, self.namespace)
            return not left

        limit = self._seen.start_timeout
        try:
            async with asyncio.timeout(limit):
                await poll(gone, _INTERVAL)
        except TimeoutError:
            names = ", ".join(pod["metadata"]["name"] for pod in left)
            raise timed_out(f"the Pods of namespace {self.namespace} are gone", limit, names) from None

    async def _delete(self, kind: Kind, obj: Object, grace: int | None = None) -> None:
        try:
            await self.api.delete(kind, obj["metadata"]["name"], obj["metadata"].get("namespace"), grace)
        except ApiError as error:
            if error.status != 404:  # the test has deleted it
                raise


class PartOfNode(SharedNode):
    """A part of a node that runs in this process."""

    def __init__(self, node: Node, *, namespace: str = "") -> None:
        super().__init__(node._configuration, namespace=namespace)
        self._node = node

    async def add_driver(
        self, devices: Sequence[str] | Inventory | None = None, **options: Any
    ) -> FakeDriver | RemoteDriver:
        return await super().add_driver(devices, **{"name": driver_name(DRIVER, self.namespace), **options})

    async def _open(self, stack: AsyncExitStack) -> NodeTarget:
        return self._node._target


def _is_orphan(namespace: Object) -> bool:
    """Whether the process that removes the namespace has ended without doing so."""
    metadata = namespace["metadata"]
    text = (metadata.get("annotations") or {}).get(PROCESS)
    if not text or "deletionTimestamp" in metadata:
        return False
    with suppress(ValueError, TypeError):  # not written by us
        return not ProcessIdentity(*json.loads(text)).runs()
    return False
