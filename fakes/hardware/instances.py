"""The instances of a fake driver: the current one and, during a rolling update, another one.

A stop or a crash ends all instances, and cancels a running start or update. A start waits for a running stop, crash
or start.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeGuard

from drahealth.fakes.control.fake_options import DriverControl, DriverOptions
from drahealth.fakes.hardware.driver_instance import DriverInstance
from drahealth.fakes.waiting import cancel_and_wait, first_of
from drahealth.proto.clock import Clock
from drahealth.proto.quoting import one_line

REGISTRATION_TIMEOUT = 30.0
"""Seconds within which a kubelet must register a newer instance."""

UPGRADE = "upgrade-"
"""Part of the name of an instance that an upgrade started: first instance's name, this, and a number."""

OnStatus = Callable[[DriverInstance], None]
"""Called after each registration status of an instance."""

log = logging.getLogger(__name__)


class DriverInstances:
    """The instances of one driver. `make` creates one, which calls its function argument after each registration
    status; `begin` starts it."""

    def __init__(
        self,
        options: DriverOptions,
        clock: Clock,
        make: Callable[[DriverOptions, OnStatus], DriverInstance],
        begin: Callable[[DriverInstance], Awaitable[None]],
    ) -> None:
        self.current = make(options, self._on_status)
        self.registered = asyncio.Event()
        """A kubelet has registered the current instance since its start."""
        self._first = options.instance
        self._clock = clock
        self._make = make
        self._begin = begin
        self._others: list[DriverInstance] = []
        """Other instances that run, or have left files."""
        self._publisher = self.current
        """The instance that publishes the devices: the newer of two."""
        self._status_received = asyncio.Event()
        self._updates = 0
        self._update: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ending = asyncio.Lock()

    @property
    def updating(self) -> bool:
        """Whether a rolling update is running."""
        return _is_running(self._update)

    def all(self) -> list[DriverInstance]:
        """All instances, the current one first."""
        return [self.current, *self._others]

    # -- lifecycle

    async def start(self) -> None:
        """Starts the current instance; running instances register again. Raises ValueError if stopped meanwhile."""
        if _is_running(self._starting):
            await self._outcome(self._starting)
            return
        start = self._starting = asyncio.create_task(self._start(), name=f"start of {self.current.options.name}")
        try:
            await self._outcome(start)
        except asyncio.CancelledError:
            await _cancel(start)
            raise

    async def _start(self) -> None:
        await self._wait_ended()
        if self.current.running:
            self._register_again()
        else:
            await self._begin_current()

    async def _outcome(self, start: "asyncio.Task[None]") -> None:
        try:
            await asyncio.shield(start)
        except asyncio.CancelledError:
            if start.cancelled():
                raise ValueError(f"driver {self.current.options.name} was stopped while it was starting") from None
            raise

    def _register_again(self) -> None:
        for instance in self.all():
            if instance.running:
                instance.register_again()

    async def _begin_current(self) -> None:
        self.registered.clear()
        others, self._others = self._others, []
        for instance in others:  # left by a crash during an update
            await instance.stop()
            instance.detach()
        await self._begin(self.current)

    async def stop(self) -> None:
        """Stops all instances in order."""
        async with self._ending:
            await self._stop()

    async def _stop(self) -> None:
        await _cancel(self._starting)
        await _cancel(self._update)
        self.unregister()
        for instance in self.all():
            await instance.stop()

    def offer(self, offer: Sequence[str]) -> None:
        """Sets the health APIs of the current instance, from its next start."""
        self.current.options = self.current.options.offering(offer)

    def unregister(self) -> None:
        """Removes the registration sockets."""
        self.registered.clear()
        for instance in self.all():
            instance.unregister()

    async def crash(self) -> None:
        """Ends all instances at once, as after SIGKILL."""
        async with self._ending:
            await _cancel(self._starting)
            self.registered.clear()
            for instance in self.all():
                await instance.crash()
            await _cancel(self._update)

    async def retire(self) -> None:
        """Stops all instances permanently, and deletes their files and ResourceSlices."""
        async with self._ending:
            await self._stop()
            for instance in self.all():
                await instance.retire()
            others, self._others = self._others, []
            for instance in others:
                instance.detach()

    def set_heartbeat(self, seconds: float) -> None:
        """Sets the seconds between complete health reports of all instances; 0: none."""
        for instance in self.all():
            instance.set_heartbeat(seconds)

    async def set_endpoint(self, *, served: bool) -> None:
        """Starts or stops serving the plugin's sockets of all instances. Raises ValueError and OSError."""
        for instance in self.all():
            await instance.set_endpoint(served=served)

    async def publish(self) -> None:
        """Publishes the devices. Raises as `DriverInstance.publish`. A stopped driver publishes at its next start."""
        if self._publisher.running:
            await self._publisher.publish()

    def publish_later(self) -> None:
        """Publishes the devices in the background."""
        if self._publisher.running:
            self._publisher.publish_later()

    # -- rolling updates

    async def upgrade(self, overlap: float, offer: Sequence[str]) -> None:
        """Implements `DriverControl.upgrade`."""
        await self._wait_ended()
        if _is_running(self._starting):
            await asyncio.wait([self._starting])
        older, name = self.current, self.current.options.name
        options = older.options.offering(offer)
        if self.updating:
            raise ValueError(f"driver {name} is already being upgraded; wait until its older instance has stopped")
        if not older.running:
            raise ValueError(f"driver {name} is not running; start it before an upgrade")
        if not older.serves_endpoint:
            raise ValueError(f"driver {name} does not serve its endpoint; open it before an upgrade")
        newer = self._make(replace(options, instance=self._next_name()), self._on_status)
        newer.inherit(older)
        self._others.append(newer)
        update = self._update = asyncio.create_task(self._take_over(older, newer, overlap), name=f"upgrade of {name}")
        try:
            await asyncio.shield(update)
        except asyncio.CancelledError:
            if update.cancelled():
                raise ValueError(f"driver {name} was stopped during its upgrade") from None
            update.add_done_callback(_log_failure)  # the caller was cancelled and does not receive the error
            raise

    def _next_name(self) -> str:
        self._updates += 1
        return f"{self._first}-{UPGRADE}{self._updates}".removeprefix("-")

    async def _take_over(self, older: DriverInstance, newer: DriverInstance, overlap: float) -> None:
        try:
            try:
                self._publisher = newer
                await older.stop_publishing()
                await self._begin(newer)
                if older.registered:
                    await self._wait_registered(newer)
            except BaseException:
                await self._roll_back(older, newer)
                raise
            self._others.remove(newer)
            self._others.append(older)
            self.current = newer
            self._on_status(newer)
            await self._clock.sleep(overlap)
            await older.stop()
            self._others.remove(older)
            older.detach()
        finally:
            self._update = None

    async def _wait_registered(self, newer: DriverInstance) -> None:
        name, deadline = newer.options.name, self._clock.now() + REGISTRATION_TIMEOUT
        while not newer.notified and self._clock.now() < deadline:
            self._status_received.clear()
            await first_of(self._status_received.wait(), self._clock.sleep(deadline - self._clock.now()))
        if not newer.notified:
            raise ValueError(
                f"no kubelet registered the newer instance of driver {name} within {REGISTRATION_TIMEOUT:g} s; "
                "the older instance continues"
            )
        if not newer.registered:
            why = one_line(newer.registration_error, 500)
            raise ValueError(
                f"the kubelet rejected the newer instance of driver {name}; the older instance continues: {why}"
            )

    async def _roll_back(self, older: DriverInstance, newer: DriverInstance) -> None:
        """Ends the newer instance, and restores the files and ResourceSlices of the older one."""
        self._publisher = older
        await newer.stop()
        self._others.remove(newer)
        newer.detach()
        older.write_cdi()
        if older.running:
            older.publish_later(new_generation=True)

    async def _wait_ended(self) -> None:
        """Waits for a running stop or crash."""
        async with self._ending:
            pass

    def _on_status(self, instance: DriverInstance) -> None:
        self._status_received.set()
        if instance is self.current:
            (self.registered.set if instance.registered else self.registered.clear)()


def _is_running(task: "asyncio.Task[None] | None") -> "TypeGuard[asyncio.Task[None]]":
    return task is not None and not task.done()


async def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task:
        await cancel_and_wait(task)


def _log_failure(update: "asyncio.Task[None]") -> None:
    if not update.cancelled() and (error := update.exception()):
        log.warning("%s", error)


# Start a rolling update, and continue during the overlap of both instances.

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
