"""The calls to one plugin, and the background tasks of the manager."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio

from drahealth.manager.profile import KEP, Gates, Profile
from drahealth.proto.clock import SYSTEM_CLOCK, Clock
from drahealth.proto.events import GrpcCall, MalformedReceived, Observe, ignore
from drahealth.proto.plain_messages import plain
from drahealth.proto.services import GET_INFO, MalformedMessage, Unary
from drahealth.proto.values import ClaimRef

# What the parts of a device manager share.


@dataclass(frozen=True, slots=True)
class Context:
    """The behavior of the kubelet, its feature gates, its time, and who receives its events."""

    profile: Profile = KEP
    gates: Gates = field(default_factory=Gates)
    clock: Clock = SYSTEM_CLOCK
    observe: Observe = ignore


# Background tasks of the manager: an exception in one is logged immediately.

T = TypeVar("T")

log = logging.getLogger(__name__)


def spawn(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Starts a task. An exception in it is logged with its traceback."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_exception)
    return task


def notify_each(listeners: Iterable[Callable[[T], None]], what: T) -> None:
    """Calls all of them; an exception in one does not affect the others."""
    for listener in list(listeners):
        try:
            listener(what)
        except Exception:
            log.exception("callback %r failed", listener)


def first_error(error: BaseException) -> BaseException:
    """The original exception in the groups of task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _log_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s failed", task.get_name(), exc_info=error)


# The unary calls to one plugin. The observer receives an event after each call.

_START = 256
"""Bytes of a malformed message that are reported."""

_streams = count(1)


class PluginCalls:
    """Calls a plugin over `channel`. Creates no events for an observer that ignores everything."""

    def __init__(
        self, channel: grpc.aio.Channel, clock: Clock, observe: Observe, endpoint: Path, driver: str = ""
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._observe = observe
        self._endpoint = path_text(endpoint)
        self._driver = driver
        """Empty until GetInfo has named it."""

    async def __call__(self, method: Unary[Any, Any], request: Any, timeout: float) -> Any:
        """The answer within `timeout` seconds. Raises AioRpcError, MalformedMessage."""
        call = method.stub(self._channel)(request, timeout=timeout)
        if self._observe is ignore:
            return await call
        began = self._clock.now()
        response, code, details = None, "CANCELLED", "the kubelet ended the call"
        try:
            response = await call
            code, details = "OK", ""
            return response
        except grpc.aio.AioRpcError as error:
            code, details = error.code().name, error.details() or ""
            raise
        except MalformedMessage as malformed:
            code, details = "", str(malformed)
            raise
        finally:
            self._observe_call(method, request, response, began, code, details)

    def _observe_call(
        self, method: Unary[Any, Any], request: Any, response: Any, began: float, code: str, details: str
    ) -> None:
        if method is GET_INFO and response is not None:
            self._driver = response.name
        asked, answer = plain(request), None if response is None else plain(response)
        name = method.path.removeprefix("/")
        seconds = self._clock.now() - began  # the last step, so that observers know exactly when the call began
        self._observe(GrpcCall(self._driver, self._endpoint, name, asked, answer, seconds, code, details))


def claims_request(method: Unary[Any, Any], claims: Iterable[ClaimRef]) -> Any:
    """The request of NodePrepareResources or NodeUnprepareResources for these claims."""
    request = method.request()
    for claim in claims:
        request.claims.add(namespace=claim.namespace, uid=claim.uid, name=claim.name)
    return request


def path_text(path: Path) -> str:
    """The path as printable text, also if its bytes are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def next_stream() -> str:
    """A stream name that is unique in this process."""
    return f"kubelet#{next(_streams)}"


def malformed_received(driver: str, endpoint: Path, stream: str, malformed: MalformedMessage) -> MalformedReceived:
    """The event for a stream's message that cannot be decoded."""
    data = malformed.data
    return MalformedReceived(driver, path_text(endpoint), stream, len(data), data[:_START].hex())
