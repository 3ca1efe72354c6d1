"""Tasks that still run at the end of a test are reported, except calls that are about to end."""

import asyncio

from drahealth.suites.unit.endings import running_since


class _AioCall:
    """As gRPC's: it ends when a thread says so."""

    async def hears(self, told: asyncio.Event) -> None:
        await told.wait()


async def test_call_that_ends_shortly_afterwards_is_not_reported() -> None:
    before, told = asyncio.all_tasks(), asyncio.Event()
    call = asyncio.create_task(_AioCall().hears(told))
    asyncio.get_running_loop().call_later(0.05, told.set)
    assert (await running_since(before), call.done()) == (set(), True)


async def test_unfinished_task_is_reported_by_name() -> None:
    before = asyncio.all_tasks()
    left = asyncio.create_task(asyncio.Event().wait())
    assert await running_since(before) == {"Event.wait"}
    left.cancel()
