"""Log gRPC calls, and attach the current call to log records.

`current_call` is set while a function of the plugin runs. `CallFilter` adds it to the records of any log handler:

    handler.addFilter(CallFilter())       # record.request_id, record.method
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any

from google.protobuf import text_format

from drahealth.proto.quoting import one_line
from drahealth.proto.services import Method, Unary

log = logging.getLogger(__name__)

_MAX_LENGTH = 800
"""Characters of a message in the log."""


@dataclass(frozen=True, slots=True)
class Call:
    """A gRPC call: a number, unique in this process, and the name of the method."""

    request_id: int
    method: str

    def __str__(self) -> str:
        return f"[{self.request_id} {self.method}]"


current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""The gRPC call that runs the driver's code; None outside of calls."""

_ids = count(1)


class CallFilter(logging.Filter):
    """Adds `request_id` and `method` to every record; 0 and an empty string outside of calls. Drops no record."""

    def filter(self, record: logging.LogRecord) -> bool:
        call = current_call.get()
        record.request_id, record.method = (call.request_id, call.method) if call else (0, "")
        return True


def log_calls(functions: Mapping[Method, Callable[..., Any]], level: int | None) -> dict[Method, Callable[..., Any]]:
    """Wraps the functions: numbers each call, and logs it at this level. None: no log."""
    return {
        method: (_unary if isinstance(method, Unary) else _stream)(method, of, level)
        for method, of in functions.items()
    }


def _unary(method: Method, function: Callable[..., Any], level: int | None) -> Callable[..., Any]:
    async def answer(request: Any, context: Any) -> Any:
        call = _begin(method, request, level)
        try:
            response = await function(request, context)
        except BaseException as error:
            _log(level, "%s failed: %s", call, repr(error))
            raise
        _log(level, "%s answered: %s", call, _Text(response))
        return response

    return answer


def _stream(
    method: Method, function: Callable[..., AsyncGenerator[Any, None]], level: int | None
) -> Callable[..., Any]:
    async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
        call = _begin(method, request, level)
        try:
            async with aclosing(function(request, context)) as messages:
                async for message in messages:
                    _log(level, "%s sends: %s", call, _Text(message))
                    yield message
        finally:
            _log(level, "%s ended", call)

    return answer


def _begin(method: Method, request: Any, level: int | None) -> Call:
    call = Call(next(_ids), method.path.rpartition("/")[2])
    current_call.set(call)
    _log(level, "%s called: %s", call, _Text(request))
    return call


def _log(level: int | None, message: str, *arguments: object) -> None:
    if level is not None:
        log.log(level, message, *arguments)


class _Text:
    """A message that is formatted only when it is logged."""

    def __init__(self, message: Any) -> None:
        self._message = message

    def __str__(self) -> str:
        if isinstance(self._message, bytes):
            return f"{len(self._message)} bytes"
        return one_line(text_format.MessageToString(self._message, as_one_line=True), _MAX_LENGTH)
