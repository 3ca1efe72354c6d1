"""The calls of a kubelet to a device plugin. A call that fails raises nothing; failures are events."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio

from drahealth.manager.calls import PluginCalls
from drahealth.manager.device_plugin import CALL_LIMIT
from drahealth.manager.plugin import describe_end
from drahealth.manager.registration import DIAL_LIMIT
from drahealth.proto.clock import Clock
from drahealth.proto.device_plugin import ALLOCATE, GET_OPTIONS, GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER
from drahealth.proto.events import Observe
from drahealth.proto.services import MalformedMessage, Unary
from drahealth.proto.sockets import is_served
from drahealth.suites.checking.kubelet.connection import connected
from drahealth.suites.checking.kubelet.waiting import until


class Unanswered(Exception):
    """A call failed; the message says how."""


class PluginClient:
    """The unary calls of one connection."""

    def __init__(
        self, channel: grpc.aio.Channel, clock: Clock, observe: Observe, endpoint: Path, resource: str
    ) -> None:
        self._call = PluginCalls(channel, clock, observe, endpoint, resource)

    async def options(self) -> Any:
        """DevicePluginOptions. Raises Unanswered."""
        return await self._ask(GET_OPTIONS, GET_OPTIONS.request())

    async def allocate(self, *containers: Sequence[str]) -> bool:
        """Allocates the devices of each container; returns whether the call succeeded."""
        requests = [{"devices_ids": list(devices)} for devices in containers]
        return await self._succeeds(ALLOCATE, ALLOCATE.request(container_requests=requests))

    async def prefer(self, *wanted: tuple[Sequence[str], Sequence[str], int]) -> bool:
        """Asks for preferred devices: for each container the available ones, those to include, and the number."""
        requests = [
            {"available_deviceIDs": available, "must_include_deviceIDs": included, "allocation_size": size}
            for available, included, size in wanted
        ]
        request = GET_PREFERRED_ALLOCATION.request(container_requests=requests)
        return await self._succeeds(GET_PREFERRED_ALLOCATION, request)

    async def pre_start(self, devices: Sequence[str]) -> bool:
        """Announces the start of a container; returns whether the call succeeded."""
        return await self._succeeds(PRE_START_CONTAINER, PRE_START_CONTAINER.request(devices_ids=devices))

    async def _succeeds(self, method: Unary[Any, Any], request: Any) -> bool:
        try:
            await self._ask(method, request)
        except Unanswered:
            return False
        return True

    async def _ask(self, method: Unary[Any, Any], request: Any) -> Any:
        try:
            return await self._call(method, request, CALL_LIMIT)
        except grpc.aio.AioRpcError as error:
            raise Unanswered(describe_end(error)) from None
        except MalformedMessage as malformed:
            raise Unanswered(str(malformed)) from None


@asynccontextmanager
async def plugin_client(
    endpoint: Path, resource: str, clock: Clock, observe: Observe
) -> AsyncGenerator[PluginClient, None]:
    """A connection of its own to a plugin. Raises ValueError for an invalid path."""
    async with connected(endpoint) as channel:
        yield PluginClient(channel, clock, observe, endpoint, resource)


async def served(endpoint: Path, clock: Clock) -> bool:
    """Whether a server listens at the endpoint, within the time in which a kubelet must be connected."""
    return bool(await until(clock, DIAL_LIMIT, lambda: is_served(endpoint)))
