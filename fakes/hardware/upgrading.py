"""Start a rolling update, and continue during the overlap of both instances."""

import asyncio
from collections.abc import Sequence

from drahealth.fakes.control.driver import DriverControl

_POLL_SECONDS = 0.02
"""Seconds between checks whether a newer instance has taken over."""

_running: set["asyncio.Task[None]"] = set()


async def begin_upgrade(control: DriverControl, overlap: float, offer: Sequence[str] = ()) -> str:
    """Waits until the newer instance has taken over, and returns its name; the older one stops after the overlap.

    Raises the errors of `DriverControl.upgrade` until then.
    """
    older = (await control.state()).instance
    upgrading = asyncio.create_task(control.upgrade(overlap, offer), name="rolling update")
    _running.add(upgrading)  # the event loop holds only weak references to tasks
    upgrading.add_done_callback(_forget)
    while not upgrading.done():
        if (newer := (await control.state()).instance) != older:
            return newer
        await asyncio.wait([upgrading], timeout=_POLL_SECONDS)
    upgrading.result()
    return (await control.state()).instance


def _forget(upgrading: "asyncio.Task[None]") -> None:
    _running.discard(upgrading)
    if not upgrading.cancelled():
        upgrading.exception()  # retrieve the error, so that asyncio does not log it
