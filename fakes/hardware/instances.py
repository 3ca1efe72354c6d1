"""The instances of a fake driver: the one that it is now, and beside it for a while another, in a rolling update.

What ends the driver ends all of them, and a start or an update that is under way. Whoever starts it waits for what
ends it, and for a start that goes on already.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeGuard

from drahealth.fakes.control.driver import DriverOptions
from drahealth.fakes.hardware.driver_instance import DriverInstance
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock
from drahealth.proto.quoting import one_line

PATIENCE = 30.0
"""Seconds that a kubelet has to register a newer instance."""

UPGRADE = "upgrade-"
"""What instances are called that began in an upgrade: this and a number, after the name of the first instance."""

Told = Callable[[DriverInstance], None]

log = logging.getLogger(__name__)


class Instances:
    """Those of one driver. `make` makes one that tells when a kubelet has said something of it, `begin` starts it."""

    def __init__(
        self,
        options: DriverOptions,
        clock: Clock,
        make: Callable[[DriverOptions, Told], DriverInstance],
        begin: Callable[[DriverInstance], Awaitable[None]],
    ) -> None:
        self.current = make(options, self._told)
        self.registered = asyncio.Event()
        """A kubelet has registered the current one, since its start."""
        self._first = options.instance
        self._clock = clock
        self._make = make
        self._begin = begin
        self._beside: list[DriverInstance] = []
        """Others that run, or have left something."""
        self._publisher = self.current
        """The one that keeps the devices published: of two, the newer."""
        self._heard = asyncio.Event()
        self._updates = 0
        self._update: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ending = asyncio.Lock()

    @property
    def updating(self) -> bool:
        """A rolling update is under way."""
        return _goes_on(self._update)

    def all(self) -> list[DriverInstance]:
        """The current one first."""
        return [self.current, *self._beside]

    # -- their life

    async def start(self) -> None:
        """The current one begins; those that run register again. Raises ValueError where it is ended before it runs."""
        if _goes_on(self._starting):
            await self._outcome(self._starting)
            return
        start = self._starting = asyncio.create_task(self._start(), name=f"start of {self.current.options.name}")
        try:
            await self._outcome(start)
        except asyncio.CancelledError:
            await _cancel(start)
            raise

    async def _start(self) -> None:
        await self._ended()
        if self.current.running:
            self._register_again()
        else:
            await self._begin_current()

    async def _outcome(self, start: "asyncio.Task[None]") -> None:
        try:
            await asyncio.shield(start)
        except asyncio.CancelledError:
            if start.cancelled():
                raise ValueError(f"driver {self.current.options.name} was ended while it was starting") from None
            raise

    def _register_again(self) -> None:
        for instance in self.all():
            if instance.running:
                instance.register_again()

    async def _begin_current(self) -> None:
        self.registered.clear()
        beside, self._beside = self._beside, []
        for instance in beside:  # what a crash in the middle of an update has left
            await instance.stop()
            instance.forget()
        await self._begin(self.current)

    async def stop(self) -> None:
        """All end in order."""
        async with self._ending:
            await self._stop()

    async def _stop(self) -> None:
        await _cancel(self._starting)
        await _cancel(self._update)
        self.unregister()
        for instance in self.all():
            await instance.stop()

    def offer(self, offer: Sequence[str]) -> None:
        """The current one has these health APIs from its next start on."""
        self.current.options = self.current.options.offering(offer)

    def unregister(self) -> None:
        """Their registration sockets go."""
        self.registered.clear()
        for instance in self.all():
            instance.unregister()

    async def crash(self) -> None:
        """All are gone at once."""
        async with self._ending:
            await _cancel(self._starting)
            self.registered.clear()
            for instance in self.all():
                await instance.crash()
            await _cancel(self._update)

    async def retire(self) -> None:
        """All stop for good."""
        async with self._ending:
            await self._stop()
            for instance in self.all():
                await instance.retire()
            beside, self._beside = self._beside, []
            for instance in beside:
                instance.forget()

    def set_heartbeat(self, seconds: float) -> None:
        """Of all."""
        for instance in self.all():
            instance.set_heartbeat(seconds)

    async def publish(self) -> None:
        """The devices as they are; raises what `DriverInstance.publish` does. One that does not run does so later."""
        if self._publisher.running:
            await self._publisher.publish()

    def publish_later(self) -> None:
        """The same, and returns at once."""
        if self._publisher.running:
            self._publisher.publish_later()

    # -- rolling updates

    async def upgrade(self, overlap: float, offer: Sequence[str]) -> None:
        """As `DriverControl.upgrade`."""
        await self._ended()
        if _goes_on(self._starting):
            await asyncio.wait([self._starting])
        older, name = self.current, self.current.options.name
        options = older.options.offering(offer)
        if self.updating:
            raise ValueError(f"driver {name} is being upgraded already; wait until its older instance has ended")
        if not older.running:
            raise ValueError(f"driver {name} does not run, so nothing can take over from it; start it first")
        newer = self._make(replace(options, instance=self._next_name()), self._told)
        newer.follow(older)
        self._beside.append(newer)
        update = self._update = asyncio.create_task(self._take_over(older, newer, overlap), name=f"upgrade of {name}")
        try:
            await asyncio.shield(update)
        except asyncio.CancelledError:
            if update.cancelled():
                raise ValueError(f"driver {name} was ended while it was being upgraded") from None
            update.add_done_callback(_log_failure)  # who asked has left
            raise

    def _next_name(self) -> str:
        self._updates += 1
        return f"{self._first}-{UPGRADE}{self._updates}".removeprefix("-")

    async def _take_over(self, older: DriverInstance, newer: DriverInstance, overlap: float) -> None:
        try:
            try:
                self._publisher = newer
                await older.leave_published()
                await self._begin(newer)
                if older.registered:
                    await self._wait_registered(newer)
            except BaseException:
                await self._give_up(older, newer)
                raise
            self._beside.remove(newer)
            self._beside.append(older)
            self.current = newer
            self._told(newer)
            await self._clock.sleep(overlap)
            await older.stop()
            self._beside.remove(older)
            older.forget()
        finally:
            self._update = None

    async def _wait_registered(self, newer: DriverInstance) -> None:
        name, over = newer.options.name, self._clock.now() + PATIENCE
        while not newer.notified and self._clock.now() < over:
            self._heard.clear()
            await first_of(self._heard.wait(), self._clock.sleep(over - self._clock.now()))
        if not newer.notified:
            raise ValueError(
                f"no kubelet has registered the newer instance of driver {name} within {PATIENCE:g} s; the older one "
                "goes on"
            )
        if not newer.registered:
            why = one_line(newer.registration_error, 500)
            raise ValueError(
                f"the kubelet refuses the newer instance of driver {name}, so the older one goes on: {why}"
            )

    async def _give_up(self, older: DriverInstance, newer: DriverInstance) -> None:
        """What it has written by now is the older one's again."""
        self._publisher = older
        await newer.stop()
        self._beside.remove(newer)
        newer.forget()
        older.write_cdi()
        if older.running:
            older.publish_later(new_generation=True)

    async def _ended(self) -> None:
        """Returns once what ends the driver has ended it."""
        async with self._ending:
            pass

    def _told(self, instance: DriverInstance) -> None:
        self._heard.set()
        if instance is self.current:
            (self.registered.set if instance.registered else self.registered.clear)()


def _goes_on(task: "asyncio.Task[None] | None") -> "TypeGuard[asyncio.Task[None]]":
    return task is not None and not task.done()


async def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _log_failure(update: "asyncio.Task[None]") -> None:
    if not update.cancelled() and (error := update.exception()):
        log.warning("%s", error)
