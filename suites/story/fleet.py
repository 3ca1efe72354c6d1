"""A fleet: several drivers, device plugins and Pods, and what the status of each Pod must show of each device."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from drahealth.proto.events import TimePassed
from drahealth.proto.values import Health
from drahealth.suites.story.claims import Use
from drahealth.suites.story.hardware import DevicePlugin, Driver, Gpu, PluginGpu, ResourceRequest
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import Pod, PodPart
from drahealth.suites.targets.target import Window

AnyGpu = Gpu | PluginGpu
Shown = tuple[Health, str]
"""The health and the message of a device in a status."""

LASTING = 3600
"""Seconds. A timeout that no scenario reaches."""
_FIRST = (Health.UNHEALTHY, Health.HEALTHY, Health.UNKNOWN)


@dataclass
class Fleet:
    """Two drivers and two device plugins with three devices each, and Pods with two containers that share them.

    Each method that changes something also checks that nothing else changes in any Pod.
    """

    node: Node
    drivers: Sequence[Driver]
    plugins: Sequence[DevicePlugin]
    fence: Driver
    pods: Sequence[Pod]
    entries: dict[tuple[Pod, str], dict[str, Sequence[AnyGpu]]]
    """By Pod and container: the devices in each entry."""
    started: float
    """Before the first reports, on the clock of `now`."""
    shown: dict[AnyGpu, Shown] = field(default_factory=dict)
    """What the status of each Pod with the device must show."""
    _parts: dict[AnyGpu, list[PodPart]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for (pod, name), entries in self.entries.items():
            for gpu in (gpu for gpus in entries.values() for gpu in gpus):
                self._parts.setdefault(gpu, []).append(pod[name])

    @property
    def gpus(self) -> list[Gpu]:
        """The devices of the drivers."""
        return [gpu for driver in self.drivers for gpu in driver.gpus]

    @property
    def listed(self) -> list[PluginGpu]:
        """The devices of the device plugins."""
        return [gpu for plugin in self.plugins for gpu in plugin.gpus]

    def parts(self, gpu: AnyGpu) -> list[PodPart]:
        """The containers that use the device."""
        return self._parts.get(gpu, [])

    async def becomes(self, gpu: AnyGpu, health: Health, message: str = "", timeout: int = LASTING) -> None:
        """The device changes, and nothing else does."""
        await self.become({gpu: (health, message)}, timeout)

    async def become(self, changes: Mapping[AnyGpu, Shown], timeout: int = LASTING) -> None:
        """These devices change, each in a report or a list of its own, and nothing else does."""
        for gpu, (health, message) in changes.items():
            if isinstance(gpu, PluginGpu):
                await gpu.becomes(health)
            else:
                await gpu.becomes(health, message, timeout)
        self.shown |= changes
        await self.show(changes)

    async def become_alike(self, driver: Driver, health: Health, message: str) -> None:
        """All devices of the driver change in one report, and nothing else does."""
        await driver.control.set_health("all", health, message, LASTING)
        self.shown |= dict.fromkeys(driver.gpus, (health, message))
        await self.show(driver.gpus)

    async def show(self, gpus: Iterable[AnyGpu], within: Window = "push") -> None:
        """Wait until each container with these devices shows them. Nothing else may have changed."""
        await self.reach(gpus, within)
        self.still_shows()

    async def reach(self, gpus: Iterable[AnyGpu], within: Window = "push") -> None:
        """Wait until each container with these devices shows them, whatever else changes."""
        for gpu in gpus:
            for part in self.parts(gpu):
                await part.shows(gpu, *self.shown[gpu], within)

    def still_shows(self, gpus: Iterable[AnyGpu] | None = None) -> None:
        """Check that each container shows each of these devices, now. Without an argument: all devices."""
        for gpu in self.shown if gpus is None else gpus:
            for part in self.parts(gpu):
                part.still_shows(gpu, *self.shown[gpu])

    async def has_its_entries(self) -> None:
        """Each container has its entries and no others, each with its devices."""
        for (pod, name), entries in self.entries.items():
            await pod[name].shows_entries(entries)

    async def syncs(self, message: str) -> None:
        """Each Pod is synced, because of devices of its own that nothing else is done to."""
        for gpu in self.fence.gpus:
            self.shown[gpu] = (_other(self.shown[gpu][0]), message)
            await gpu.becomes(*self.shown[gpu], LASTING)
        await self.reach(self.fence.gpus)

    def now(self) -> float:
        """Seconds on the clock of the node, from any start."""
        return _now(self.node)

    async def wait_until(self, time_: float) -> None:
        """Advance the clock of `now` to this time, if it is not over already."""
        await self.node.advance_time(max(time_ - self.now(), 0))

    def keeps_its_order(self) -> None:
        """Check that the entries of each container, and the devices of each entry, never changed their order."""
        claims = {gpu.entry for gpu in self.listed}
        found = [(pod, name, *_orders(pod, name, entries)) for (pod, name), entries in self.entries.items()]
        with self.node.judging("STATUS-13", "the order of entries does not change"):
            for pod, name, orders, _ in found:
                self.node.check(len(orders) == 1, f"{pod[name]} has one order of entries", orders)
        for is_listed, assertion in enumerate((_OF_CLAIMS, _OF_PLUGINS)):
            with self.node.judging("STATUS-13", assertion):
                for pod, name, _, devices in found:
                    for entry, orders in devices.items():
                        is_judged = (entry in claims) is bool(is_listed)
                        words = f"{pod[name]} has one order of devices in {entry}"
                        self.node.check(len(orders) == 1 or not is_judged, words, orders)


_OF_CLAIMS = "the order of the devices of a claim does not change"
_OF_PLUGINS = "the order of devices does not change"


def _orders(
    pod: Pod, name: str, entries: Mapping[str, Sequence[AnyGpu]]
) -> tuple[set[tuple[str, ...]], dict[str, set[tuple[str, ...]]]]:
    """The orders of the entries of a container, and of the devices of each entry, in its statuses with all of them."""
    shown = [found for status in pod.statuses() if len(found := dict(status.entries()).get(name, ())) == len(entries)]
    devices = {
        entry: {
            ids
            for found in shown
            for one in found
            if one.name == entry and len(ids := tuple(each.resource_id for each in one.resources)) == len(gpus)
        }
        for entry, gpus in entries.items()
    }
    return {tuple(entry.name for entry in found) for found in shown}, devices


def _now(node: Node) -> float:
    return time.monotonic() + sum(passed.seconds for passed in node.history.of(TimePassed))


def _other(health: Health) -> Health:
    return Health.HEALTHY if health is Health.UNHEALTHY else Health.UNHEALTHY


async def fleet(node: Node, registration: str = "kubelet.sock", timeout: int = LASTING) -> Fleet:
    """Each Pod shows its devices: those of a driver are Unhealthy, Healthy and Unknown, each with a message.

    `registration` is that of the device plugins, `timeout` that of the first reports. Drivers send no heartbeats, so
    that a lost report is not repeated.
    """
    # In Kubernetes 1.34 each timeout is 30 s.
    rate = {"timeout": LASTING, "heartbeat": 0.0 if node.profile.timeouts else 10.0}
    one, two, fence = [await node.new_driver(count, **rate) for count in (3, 3, 4)]
    for driver in (one, two):
        for gpu, health in zip(driver.gpus, _FIRST, strict=True):
            await gpu.becomes(health, f"{gpu} of {driver} at its start", timeout)
    started = _now(node)
    for driver in (one, two, fence):
        await driver.starts()
    first = await node.device_plugin(3, registration=registration)
    second = await node.device_plugin(["gpu-3", "gpu-4", "gpu-5"], registration=registration)
    pair, other_pair = (await node.claim(one, gpu=2))["gpu"], (await node.claim(two, gpu=2))["gpu"]
    if node.profile.requests == "filtered":
        joint = await node.joint_claim(one=one, two=two)
        single, other_single = joint["two"], joint["one"]
    else:
        single, other_single = (await node.claim(two))["gpu"], (await node.claim(one))["gpu"]
    fences = [(await node.claim(fence))["gpu"] for _ in range(3)]
    containers: list[dict[str, list[Use | ResourceRequest]]] = [
        {"left": [pair, fences[0], first.request(2)], "right": [single, second.request()]},
        {"left": [other_single, first.request()], "right": [fences[1], other_pair, second.request(2)]},
    ]
    if node.profile.claims_shown != "listed":  # a pod that shares the claim of another one shows it
        containers.append({"left": [other_pair, other_single], "right": [fences[2], single, pair]})
    pods = [await node.running_pod(containers=uses) for uses in containers]
    entries: dict[tuple[Pod, str], dict[str, Sequence[AnyGpu]]] = {}
    for pod, users in zip(pods, containers, strict=True):
        for name, uses in users.items():
            entries[pod, name] = {use.entry: await _devices(pod, use) for use in uses}
    found = Fleet(node, (one, two), (first, second), fence, pods, entries, started)
    for gpu, health in zip(found.gpus, (*_FIRST, *_FIRST), strict=True):
        found.shown[gpu] = (health, f"{gpu} of {gpu.driver} at its start")
    found.shown |= dict.fromkeys((*found.listed, *fence.gpus), (Health.HEALTHY, ""))
    await found.show(found.shown)
    await found.has_its_entries()
    return found


async def _devices(pod: Pod, use: Use | ResourceRequest) -> Sequence[AnyGpu]:
    if isinstance(use, ResourceRequest):
        return await pod.devices_of(use.plugin)
    return await pod.node.allocated(use.claim, use.request)
