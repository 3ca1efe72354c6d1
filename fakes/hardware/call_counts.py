"""How often a driver's methods are called."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, UNPREPARE, Method

_METHODS: tuple[Method, ...] = (GET_INFO, NOTIFY_REGISTRATION, *PREPARE.values(), *UNPREPARE.values())
COUNTED = frozenset(method.path for method in _METHODS)


class CallCounts(grpc.aio.ServerInterceptor):
    """Counts, and lets all calls through."""

    def __init__(self) -> None:
        self.calls = Counter[str]()

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        if details.method in COUNTED:
            self.calls[details.method] += 1
        return await continuation(details)
