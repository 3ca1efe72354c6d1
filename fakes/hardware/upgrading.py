"""A rolling update that a story begins, and in whose overlap it goes on."""

import asyncio
from collections.abc import Sequence

from drahealth.fakes.control.driver import DriverControl

_LOOK = 0.02
"""Seconds between two looks at whether a newer instance has taken over."""

_under_way: set["asyncio.Task[None]"] = set()


async def begin_upgrade(control: DriverControl, overlap: float, offer: Sequence[str] = ()) -> str:
    """Returns once the newer instance has taken over, with its name; the older one ends by itself after the overlap.

    Raises what `DriverControl.upgrade` raises before that.
    """
    older = (await control.state()).instance
    upgrading = asyncio.create_task(control.upgrade(overlap, offer), name="rolling update")
    _under_way.add(upgrading)  # a loop keeps no task alive
    upgrading.add_done_callback(_forget)
    while not upgrading.done():
        if (newer := (await control.state()).instance) != older:
            return newer
        await asyncio.wait([upgrading], timeout=_LOOK)
    upgrading.result()
    return (await control.state()).instance


def _forget(upgrading: "asyncio.Task[None]") -> None:
    _under_way.discard(upgrading)
    if not upgrading.cancelled():
        upgrading.exception()  # what ends the driver ends the update, which is no news
