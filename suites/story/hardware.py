"""The story's hardware: a driver and its devices, told what to do in words."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from drahealth.fakes.cluster.api import SLICES, Object
from drahealth.fakes.control.driver import DriverControl, DriverOptions
from drahealth.fakes.hardware.inventories import inventory_of
from drahealth.fakes.hardware.upgrading import begin_upgrade
from drahealth.manager.profile import Profile
from drahealth.proto.events import Registered, ReportSent, StreamClosed, StreamOpened
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.values import DeviceHealth, DeviceId, Health
from drahealth.suites.story.context import StoryNode


@dataclass(frozen=True)
class Gpu:
    """One device of a fake driver."""

    driver: "Driver"
    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def entry(self) -> None:
        """It stands in entries of several names."""

    @property
    def id(self) -> DeviceId:
        return DeviceId(self.driver.name, self.driver.pool_of(self.name), self.name)

    def resource_id(self, profile: Profile) -> str:
        """What the device is called in a Pod status where this profile holds."""
        if profile.device_id == "first CDI id" and self.driver.options.cdi_ids:
            return self.driver.options.cdi_id(self.name)
        return str(self.id)

    def so(self, health: Health, message: str = "", timeout: int = 0) -> DeviceHealth:
        """A report's words about this device."""
        return DeviceHealth(self.id.pool, self.name, health, message, timeout or self.driver.options.timeout)

    async def becomes(self, health: Health, message: str = "", timeout: int | None = None) -> None:
        """The device is so from now on, and its driver reports it at once. `timeout` in seconds is kept if None."""
        await self.driver.control.set_health(self.name, health, message, timeout)

    @property
    def path(self) -> str:
        """What the driver calls it."""
        return dict(zip(self.driver.options.device_names, self.driver.options.devices, strict=True))[self.name]

    async def has(self, fault: str) -> None:
        """The device has this fault of its driver's catalogue from now on."""
        self.driver.node.tell(f"{self} has {fault}")
        await self.driver.control.inject(fault, self.path)

    async def is_tainted(self, key: str, effect: str) -> None:
        """Its driver publishes it with this taint, and the API server has it so."""
        node = self.driver.node
        node.tell(f"{self} is tainted with {key}:{effect}")
        await self.driver.control.taint(self.path, key, effect=effect)
        published = False
        with suppress(TimeoutError):
            async with asyncio.timeout(node.target.windows["push"]), aclosing(node.target.api.watch(SLICES)) as changes:
                async for change in changes:
                    if published := (key, effect) in self._taints_in(change.object):
                        break
        node.check(published, f"{self} is published with the taint {key}:{effect}", "other taints, or none")

    def _taints_in(self, slice_: Object) -> set[tuple[str, str]]:
        """Those that a ResourceSlice has for it."""
        spec = slice_["spec"]
        mine = [device for device in spec.get("devices") or () if device["name"] == self.name]
        is_ours = (spec["driver"], spec["pool"]["name"]) == (self.driver.name, self.id.pool)
        return {(t["key"], t["effect"]) for device in mine if is_ours for t in device.get("taints") or ()}


class DriverNode(StoryNode, Protocol):
    """A node that drivers can be added to."""

    async def add_driver(self, options: DriverOptions) -> "Driver":
        """A driver with just these options, not started."""


class Driver:
    """One instance of a fake driver on the node."""

    def __init__(self, node: "DriverNode", options: DriverOptions, control: DriverControl) -> None:
        self.node = node
        self.options = options
        self.control = control
        self._inventory = inventory_of(options)
        self.gpus = tuple(Gpu(self, name) for name in options.device_names)

    def pool_of(self, device: str) -> str:
        """The pool that the device of this name is published in."""
        known = self._inventory.find(device)
        return (known and known.pool) or self.options.pool_name

    def __str__(self) -> str:
        return f"{self.name} ({self.options.instance})" if self.options.instance else self.name

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def health_api(self) -> HealthApi | None:
        """The health API by which the kubelet here learns of its devices; None if there is none."""
        profile = self.node.profile
        apis = profile.health_apis if profile.asks_unadvertised else self.options.health_apis
        return next((f for f in profile.called_apis if f.advertised in apis and f in self.options.answered_apis), None)

    async def starts(self) -> None:
        """Starts and is registered."""
        self.node.tell(f"driver {self} starts")
        before = self._registrations()
        await self.control.start()
        await self._is_registered(before)

    async def stops(self) -> None:
        """Ends in order and unregisters."""
        self.node.tell(f"driver {self} stops")
        await self.control.stop()

    async def restarts(self, offer: Sequence[str] = ()) -> None:
        """Ends in order, starts and is registered again, with these health APIs from now on if any are named."""
        self.node.tell(f"driver {self} restarts")
        before = self._registrations()
        await self.control.restart(offer)
        self.options = self.options.offering(offer)
        await self._is_registered(before)

    async def upgrades(self, overlap: float, offer: Sequence[str] = ()) -> None:
        """A newer instance has taken over in a rolling update; the older one ends when so many seconds have passed.

        What is wrong with the devices is so for the newer instance too, which is what this driver is from now on.
        """
        self.node.tell(f"driver {self} is upgraded")
        instance = await begin_upgrade(self.control, overlap, offer)
        self.options = replace(self.options.offering(offer), instance=instance)

    async def unregisters(self) -> None:
        """Is deregistered, though it runs on."""
        self.node.tell(f"driver {self} unregisters")
        await self.control.unregister()

    async def is_watched_no_more(self) -> None:
        """No health stream of it is open."""
        await self.node.until(lambda: not self._streams(), "push", f"no health stream of {self} is open", "one is")

    async def crashes(self) -> None:
        """Is gone at once and leaves its sockets lying."""
        self.node.tell(f"driver {self} crashes")
        await self.control.crash()

    async def falls_silent(self) -> None:
        """Stays up and says nothing more of its own accord."""
        self.node.tell(f"driver {self} falls silent")
        await self.control.hush(True)

    async def speaks_again(self) -> None:
        """Reports again from now on: at changes, at heartbeats, on new streams."""
        self.node.tell(f"driver {self} speaks again")
        await self.control.hush(False)

    async def is_heard_of(self) -> None:
        """Has reported once more from now on, of its own accord."""
        before = len(self._said())
        await self.node.until(
            lambda: len(self._said()) > before, "start", f"driver {self} reports over a health stream", "no report"
        )

    async def has_said(self, gpu: Gpu, health: Health) -> None:
        """A report that the device is so was written to a health stream."""
        await self.node.until(
            lambda: any((d.device, d.health) == (gpu.name, health) for report in self._said() for d in report.devices),
            "push",
            f"driver {self} has said that {gpu} is {health}",
            "no such report",
        )

    async def plays(self, changes: Sequence[DeviceHealth]) -> None:
        """Reports these changes one after the other, as fast as they go."""
        self.node.tell(f"driver {self} reports {len(changes)} changes in a row")
        await self.control.play(changes)

    async def newer_instance(self) -> "Driver":
        """Starts a second instance of the same driver beside this one, as a rolling update does."""
        options = replace(self.options, instance=f"{self.options.instance or 'a'}b")
        newer = await self.node.add_driver(options)
        await newer.starts()
        return newer

    async def _is_registered(self, before: int) -> None:
        """More often than it had been."""
        await self.node.until(
            lambda: self._registrations() > before, "start", f"driver {self} is registered", "no registration"
        )

    def _streams(self) -> set[str]:
        """Those that are open, by the history."""
        mine, history = (self.name, self.options.instance), self.node.history
        opened = {e.stream for e in history.of(StreamOpened) if (e.driver, e.instance) == mine}
        return opened - {e.stream for e in history.of(StreamClosed)}

    def _said(self) -> list[ReportSent]:
        mine = (self.name, self.options.instance)
        return [e for e in self.node.history.of(ReportSent) if (e.driver, e.instance) == mine]

    def _registrations(self) -> int:
        mine = (self.name, self.options.instance, True)
        return sum((e.driver, e.instance, e.ok) == mine for e in self.node.history.of(Registered))
