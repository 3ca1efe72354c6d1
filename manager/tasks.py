"""Tasks of the manager that nobody awaits: a fault in one is told at once, not when it is too late."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


def spawn(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Begins it. If it ends by a fault, that is one line in the log with its traceback."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_tell_fault)
    return task


def tell_each(listeners: Iterable[Callable[[T], None]], what: T) -> None:
    """Tells all of them; a fault in one is its own, and none of the others'."""
    for listener in list(listeners):
        try:
            listener(what)
        except Exception:
            log.exception("%r was told something and failed", listener)


def _tell_fault(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended by a fault", task.get_name(), exc_info=error)
