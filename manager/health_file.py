"""Decides when the health file is written: soon after a change, rarely for heartbeats, and at the end.

- A change is written after a short delay, so that several changes share a write and pods are notified first.
- After a write there is a pause of three times its duration, so that writing takes at most a quarter of the time.
- The renewal from a heartbeat is written with the next change, or after half of the device's timeout
  (`Update.renew_by`). So the heartbeats of all drivers share their writes. If the profile does not store heartbeats,
  they are written only with a change, as in kubelets (H-17).
- A write has the whole state of one moment. Only the drivers with new reports are encoded again.
- After a failed write, the next write includes its content; without a change, it is retried after a pause.
- `close` writes everything that is pending.
"""

import asyncio
import math
import time

from drahealth.manager.cache import HealthCache
from drahealth.manager.checkpoint import Checkpoint, health_text, load_health
from drahealth.manager.tasks import spawn
from drahealth.proto.clock import Clock

GATHERING = 0.002
"""Seconds from a change to the write."""

RESTING = 3
"""The pause after a write, as a multiple of its duration."""

AGAIN = 5.0
"""Seconds from a failed write to the next attempt, if no change causes one before."""


class HealthFile:
    """The file with the health of devices; it follows `cache`."""

    def __init__(self, file: Checkpoint, cache: HealthCache, clock: Clock) -> None:
        self._file = file
        self._cache = cache
        self._clock = clock
        self._texts: dict[str, bytes] = {}
        self._unsaved: set[str] = set()
        self._failed = False
        self._wanted = False
        self._renew_by = math.inf
        self._is_abandoned = False
        self._writer: asyncio.Task[None] | None = None
        self._renewer: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Loads the file into the cache."""
        self._cache.restore(load_health(self._file.read(), self._clock.now(), self._clock.wall()))

    def changed(self, driver: str) -> None:
        """Records a change of the driver's health: the file is written soon."""
        self._unsaved.add(driver)
        self._want()

    def renewed(self, driver: str, by: float) -> None:
        """Records a report without a change: the file is written at `by`, or with an earlier write.

        With `math.inf` no write is needed.
        """
        self._unsaved.add(driver)
        self._want_by(by)

    async def written(self) -> None:
        """Waits until the file has all changes, except renewals."""
        while self._wanted and self._writer:
            await asyncio.wait([self._writer])

    def abandon(self) -> None:
        """Writes nothing any more, as after a kill."""
        self._is_abandoned = True
        self._wanted, self._failed, self._renew_by = False, False, math.inf
        self._stop_renewer()
        if self._writer:
            self._writer.cancel()

    async def close(self) -> None:
        """Writes all pending changes."""
        tasks = [task for task in (self._writer, self._renewer) if task is not None]
        for task in tasks:
            task.cancel()
        if self._wanted or self._renew_by < math.inf or self._failed:
            self._write()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _want(self) -> None:
        if self._is_abandoned:
            return
        self._wanted = True
        if self._writer is None:
            self._writer = spawn(self._write_while_wanted(), "health file")

    def _want_by(self, when: float) -> None:
        if when < self._renew_by and not self._is_abandoned:
            self._renew_by = when
            self._stop_renewer()
            self._renewer = spawn(self._want_at(when), "health file, later")

    async def _want_at(self, when: float) -> None:
        await self._clock.sleep(when - self._clock.now())
        self._renewer = None
        self._want()

    async def _write_while_wanted(self) -> None:
        try:
            while self._wanted:
                await asyncio.sleep(GATHERING)
                began = time.perf_counter()
                self._write()
                if self._failed:
                    self._want_by(self._clock.now() + AGAIN)
                await asyncio.sleep(RESTING * (time.perf_counter() - began))
        finally:
            self._writer = None

    def _write(self) -> None:
        began = time.perf_counter()
        self._wanted, self._renew_by = False, math.inf
        self._stop_renewer()
        self._put_into_words()
        parts = [part for text in self._texts.values() for part in (b",", text)]
        self._failed = not self._file.write_text([b"{", *parts[1:], b"}"], began)

    def _put_into_words(self) -> None:
        now, wall, known = self._clock.now(), self._clock.wall(), self._cache.devices()
        for driver in self._unsaved | (known.keys() - self._texts.keys()):
            if devices := known.get(driver):
                self._texts[driver] = health_text(driver, devices, now, wall)
            else:
                self._texts.pop(driver, None)
        self._unsaved.clear()

    def _stop_renewer(self) -> None:
        renewer, self._renewer = self._renewer, None
        if renewer:
            renewer.cancel()
