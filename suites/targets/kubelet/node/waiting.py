"""Waits for a component, and fails at once if its process ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kubelet.node import logs
from drahealth.suites.targets.kubelet.node.processes import Process
from drahealth.suites.targets.polling import poll

_INTERVAL = 0.03


async def until(
    condition: Callable[[], Awaitable[bool]], processes: Iterable[Process], what: str, limit: float
) -> None:
    """Returns when the condition holds. Raises HarnessError when a process ends, or after `limit` seconds."""
    watched = list(processes)

    async def holds() -> bool:
        if await condition():
            return True
        check(watched)
        return False

    try:
        async with asyncio.timeout(limit):
            await poll(holds, _INTERVAL)
    except TimeoutError:
        failure = HarnessError(
            f"timed out after {limit:g} s waiting for {what}", "see the logs above; check whether the machine is busy"
        )
        for process in watched:
            failure.add_note(logs.note(process.name, process.log))
        raise failure from None


def check(processes: Iterable[Process]) -> None:
    """Raises HarnessError if one of the processes has ended."""
    for process in processes:
        if process.exited.done():
            raise process.failure()
