"""Scenarios that overlap on one node: the next one starts before the last one has ended, and need not wait for its
cleanup.

On a real kubelet most scenarios wait: for a registration, a timeout, a sync, the end of a Pod. pytest still runs one
test after the other. A test whose scenario was started ahead only waits for its end.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from drahealth.suites.story.node import Node

_CLEANUPS = 2
"""The most cleanups that run beside scenarios."""

Story = Callable[[Node], Awaitable[None]]


class Overlap:
    """The scenarios of a process that have started ahead, and the cleanups that have not ended."""

    def __init__(self) -> None:
        self._nodes: dict[pytest.Item, Node] = {}
        self._beginnings: dict[Node, asyncio.Task[None]] = {}
        self._cleanups: list[asyncio.Task[None]] = []

    def start(self, item: pytest.Item, node: Node, story: Story, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the scenario of a test. It runs whenever `loop` does."""
        self._nodes[item] = node
        self._beginnings[node] = loop.create_task(_begin(node, story))

    def started(self, item: pytest.Item) -> Node | None:
        """The node of a test that was started ahead."""
        return self._nodes.pop(item, None)

    async def begun(self, node: Node) -> None:
        """Waits until it has its namespace. Raises what `Node.begin` raises."""
        await self._beginnings.pop(node)

    async def clean(self, node: Node) -> None:
        """Starts the cleanup. Waits for earlier ones if there are too many, and raises their errors."""
        self._cleanups.append(asyncio.create_task(_finish(node)))
        await self._wait(_CLEANUPS)

    async def cleaned(self) -> None:
        """Waits for the end of all cleanups. Raises their errors."""
        await self._wait(0)

    async def _wait(self, most: int) -> None:
        while len(self._cleanups) > most:
            await self._cleanups.pop(0)

    async def close(self) -> list[BaseException]:
        """Ends the scenarios whose tests were not run, after a run that stopped early. Returns errors of cleanups."""
        begun = [node for node, beginning in self._beginnings.items() if await _has_begun(beginning)]
        ends = await asyncio.gather(*self._cleanups, *map(_finish, begun), return_exceptions=True)
        return [end for end in ends if end is not None]


async def _begin(node: Node, story: Story) -> None:
    await node.begin()
    node.start(lambda: story(node))


async def _finish(node: Node) -> None:
    try:
        await node.finish()
    except Exception as error:
        error.add_note(f"This was the cleanup after {node.title!r}.")
        raise


async def _has_begun(beginning: asyncio.Task[None]) -> bool:
    await asyncio.wait([beginning])
    return not beginning.cancelled() and beginning.exception() is None
