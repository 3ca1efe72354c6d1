"""What is left running at the end of a test."""

import asyncio
from collections.abc import Set

PATIENCE = 120.0
"""Seconds that a busy machine may take to tell a call of its end."""

Tasks = Set["asyncio.Task[object]"]

_CALLS = ("_AioCall.", "_handle_exceptions", "_schedule_rpc_coro")
"""The beginnings of the names of gRPC's tasks for calls: of a client, and two of a server."""


async def calls_end(before: Tasks = frozenset()) -> None:
    """Returns when gRPC's calls that have begun since have ended, on the side of clients and of servers.

    A call hears how it ended from another thread, in no certain number of the loop's turns after its channel and server
    are closed. A loop that is closed before makes that thread complain of it, later and elsewhere.
    """
    calls = {task for task in asyncio.all_tasks() - before if _name(task).startswith(_CALLS)}
    if calls:
        await asyncio.wait(calls, timeout=PATIENCE)


async def running_since(before: Tasks) -> set[str]:
    """The names of what has begun since, and does not end."""
    await calls_end(before)
    names = map(_name, asyncio.all_tasks() - before)
    return {name for name in names if not name.startswith("TestRunner.")}  # anyio's own


def _name(task: "asyncio.Task[object]") -> str:
    return str(getattr(task.get_coro(), "__qualname__", task))
