"""How commands end: signals, Ctrl-C, and unexpected exceptions."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import typer

from drahealth.fakes.program.errors import CommandError
from drahealth.proto.quoting import one_line
from drahealth.suites.errors import HarnessError

# SIGTERM and SIGINT outside of the event loop.


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Until the end of the block SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def signals_held() -> Iterator[None]:
    """SIGTERM and SIGINT wait until the end of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def terminated_gracefully() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C: cancel the current step, and stop everything that was started."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background
            signal.default_int_handler(number, frame)
        signal.raise_signal(signal.SIGINT)  # the running event loop handles it

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# Programs that SIGTERM and Ctrl-C end in order.

T = TypeVar("T")


def run_terminable(work: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end. SIGTERM and SIGINT cancel it, so that it ends everything that it started.

    Raises asyncio.CancelledError if it ends by that.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        return asyncio.run(_terminable(work))
    finally:
        signal.signal(signal.SIGTERM, before)  # asyncio restores only that of SIGINT


async def _terminable(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


# Unexpected exceptions of `drahealth check` and `judge` exit with 3: exit code 1 means that the driver fails.

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)


def harness_errors(command: Callable[P, R]) -> Callable[P, R]:
    """A subcommand that raises HarnessError for any exception that is neither an error of ours nor its exit code.

    An interrupt by Ctrl-C or SIGTERM is one, too: its exit code is neither 0 nor 1.
    """

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            with sigterm_as_interrupt():
                return command(*arguments, **options)
        except KeyboardInterrupt:
            raise HarnessError("interrupted") from None
        except (HarnessError, CommandError, typer.Exit):
            raise
        except OSError as error:
            raise HarnessError(one_line(str(error))) from error
        except Exception as error:
            log.exception("drahealth failed")
            raise HarnessError(
                one_line(f"unexpected {type(error).__name__}: {error}"), "report it with this traceback"
            ) from error

    return run
