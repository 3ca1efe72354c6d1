"""Count the gRPC calls of a driver or a device plugin."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import grpc.aio

from drahealth.proto.device_plugin import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    LIST_AND_WATCH,
    PRE_START_CONTAINER,
)
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, UNPREPARE, Method

DRIVER: tuple[Method, ...] = (GET_INFO, NOTIFY_REGISTRATION, *PREPARE.values(), *UNPREPARE.values())
PLUGIN: tuple[Method, ...] = (
    GET_INFO,
    NOTIFY_REGISTRATION,
    GET_OPTIONS,
    LIST_AND_WATCH,
    GET_PREFERRED_ALLOCATION,
    ALLOCATE,
    PRE_START_CONTAINER,
)


class CallCounts(grpc.aio.ServerInterceptor):
    """Counts calls of these methods, by method path. Passes all calls on."""

    def __init__(self, counted: Iterable[Method] = DRIVER) -> None:
        self._counted = frozenset(method.path for method in counted)
        self.calls = Counter[str]()

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        if details.method in self._counted:
            self.calls[details.method] += 1
        return await continuation(details)
