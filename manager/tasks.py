"""Background tasks of the manager: an exception in one is logged immediately."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

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
