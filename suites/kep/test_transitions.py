"""KEP-4680, Basic Health Reporting and State Transitions: each change, for several devices, drivers and Pods."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.claims import Use
from drahealth.suites.story.hardware import DevicePlugin, Driver, Gpu, PluginGpu, ResourceRequest
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import Pod, PodPart
from drahealth.suites.targets.target import Window

_H, _U, _K = Health.HEALTHY, Health.UNHEALTHY, Health.UNKNOWN
CHANGES = ((_U, "a"), (_U, "b"), (_K, ""), (_H, "c"), (_K, "d"), (_U, ""), (_H, ""))
"""Each change of health once, with a message after none, none after a message, and a new message."""
TIMEOUTS = (600, 0, 900, 0, 300, 600, 0)
"""Seconds; 0 is none, also after a report with one."""


@dataclass
class Fleet:
    """Two drivers and two device plugins with three devices each, and Pods with two containers that share them."""

    node: Node
    drivers: Sequence[Driver]
    plugins: Sequence[DevicePlugin]
    fence: Driver
    pods: Sequence[Pod]
    entries: dict[tuple[Pod, str], dict[str, Sequence[Gpu | PluginGpu]]]
    """By Pod and container: the devices in each entry."""
    shown: dict[Gpu | PluginGpu, tuple[Health, str]]
    """What the status of each Pod with the device must show."""
    fenced: dict[Gpu, Health] = field(default_factory=dict)
    """The health of the devices that cause a sync."""

    @property
    def gpus(self) -> list[Gpu]:
        """The devices of the drivers."""
        return [gpu for driver in self.drivers for gpu in driver.gpus]

    @property
    def listed(self) -> list[PluginGpu]:
        """The devices of the device plugins."""
        return [gpu for plugin in self.plugins for gpu in plugin.gpus]

    def parts(self, gpu: Gpu | PluginGpu) -> list[PodPart]:
        """The containers that use the device."""
        found = self.entries.items()
        return [pod[name] for (pod, name), entries in found if any(gpu in gpus for gpus in entries.values())]

    async def becomes(self, gpu: Gpu | PluginGpu, health: Health, message: str = "", timeout: int = 600) -> None:
        """The device changes, and nothing else does."""
        if isinstance(gpu, PluginGpu):
            await gpu.becomes(health)
        else:
            await gpu.becomes(health, message, timeout)
        self.shown[gpu] = (health, message)
        await self.shows(gpu)
        self.still_shows()

    async def become_healthy(self, gpus: Sequence[Gpu]) -> None:
        """The devices are Healthy, whatever they show before."""
        for gpu in gpus:
            self.shown[gpu] = (_H, "back")
            await gpu.becomes(_H, "back", timeout=600)
        for gpu in gpus:
            await self.shows(gpu)
        self.still_shows()

    async def shows(self, gpu: Gpu | PluginGpu, within: Window = "push") -> None:
        """Each container with the device shows it."""
        for part in self.parts(gpu):
            await part.shows(gpu, *self.shown[gpu], within)

    def still_shows(self) -> None:
        """Each container shows each of its devices, now."""
        for gpu, shown in self.shown.items():
            for part in self.parts(gpu):
                part.still_shows(gpu, *shown)

    async def has_its_entries(self) -> None:
        """Each container has its entries and no others, each with its devices."""
        for (pod, name), entries in self.entries.items():
            await pod[name].shows_entries(entries)

    async def syncs(self, message: str) -> None:
        """Each Pod is synced, because of a device of its own that nothing else is done to."""
        for gpu in self.fence.gpus:
            for part in self.parts(gpu):
                self.fenced[gpu] = _H if self.fenced.get(gpu) == _U else _U
                await gpu.becomes(self.fenced[gpu], message, timeout=3600)
                await part.shows(gpu, self.fenced[gpu], message)

    async def changes(self, when: str) -> None:
        """Each device changes in each way, one after the other. A device plugin lists only Healthy and Unhealthy.

        The second driver has messages where the first one has none.
        """
        for number, ((health, message), timeout) in enumerate(zip(CHANGES, TIMEOUTS, strict=True)):
            for gpu in self.gpus:
                has_message = bool(message) is (gpu.driver is self.drivers[0])
                text = f"{message or 'e'} of {gpu} of {gpu.driver}, {when}" if has_message else ""
                await self.becomes(gpu, health, text, timeout)
            for listed in self.listed if number in (0, len(CHANGES) - 1) else ():
                await self.becomes(listed, health)
        beats = [(await driver.control.state()).heartbeat for driver in self.drivers]
        for driver in self.drivers:
            await driver.control.set_heartbeat(0)  # a complete report has the health from before
            alone = driver.gpus[1]
            self.shown[alone] = (_U, f"alone in a report, {when}")
            await driver.control.report([alone.reading(*self.shown[alone], timeout=600)])
            await self.shows(alone)
        await self.syncs(f"after reports of one device, {when}")
        self.still_shows()
        for driver, beat in zip(self.drivers, beats, strict=True):
            await self.becomes(driver.gpus[1], *self.shown[driver.gpus[1]])  # also in its complete reports
            await driver.control.set_heartbeat(beat)
        await self.has_its_entries()


async def fleet(node: Node) -> Fleet:
    """All devices are Healthy, and each Pod shows them."""
    one, two, fence = await node.driver(3), await node.driver(3), await node.driver(4)
    first, second = await node.device_plugin(3), await node.device_plugin(["gpu-3", "gpu-4", "gpu-5"])
    fences = [(await node.claim(fence))["gpu"] for _ in range(3)]
    pair, single = (await node.claim(one, gpu=2))["gpu"], (await node.claim(two))["gpu"]
    other_single, other_pair = (await node.claim(one))["gpu"], (await node.claim(two, gpu=2))["gpu"]
    containers: list[dict[str, list[Use | ResourceRequest]]] = [
        {"left": [fences[0], pair, first.request(2)], "right": [single, second.request()]},
        {"left": [other_single, first.request()], "right": [fences[1], other_pair, second.request(2)]},
    ]
    if node.profile.claims_shown != "listed":  # a Pod that shares the claim of another one shows it
        containers.append({"left": [other_pair, other_single], "right": [fences[2], single, pair]})
    pods = [await node.running_pod(containers=uses) for uses in containers]
    entries: dict[tuple[Pod, str], dict[str, Sequence[Gpu | PluginGpu]]] = {}
    for pod, users in zip(pods, containers, strict=True):
        for name, uses in users.items():
            entries[pod, name] = {use.entry: await _devices(pod, use) for use in uses}
    every: tuple[Gpu | PluginGpu, ...] = (*one.gpus, *two.gpus, *first.gpus, *second.gpus)
    found = Fleet(node, (one, two), (first, second), fence, pods, entries, dict.fromkeys(every, (_H, "")))
    for gpu in every:
        await found.shows(gpu)
    await found.has_its_entries()
    return found


async def _devices(pod: Pod, use: Use | ResourceRequest) -> Sequence[Gpu | PluginGpu]:
    if isinstance(use, ResourceRequest):
        return await pod.devices_of(use.plugin)
    return await pod.node.allocated(use.claim)


@scenario("STATUS-01", "STATUS-03", "STATUS-16", "DP-01", "DP-02")
async def test_each_change_of_each_of_several_devices_shows(node: Node) -> None:
    devices = await fleet(node)
    await devices.changes("first")
    await devices.changes("second")


@scenario("PERSIST-01", "PERSIST-04", "DP-07", "STATUS-01", "STATUS-03")
async def test_each_of_several_devices_keeps_its_health_over_a_kubelet_restart_and_changes_after_it(node: Node) -> None:
    devices = await fleet(node)
    for number, gpu in enumerate(devices.gpus):
        health = (_U, _H, _K, _H, _U, _U)[number]
        await devices.becomes(
            gpu, health, f"{gpu} of {gpu.driver} before" if number % 2 else "", timeout=(600, 0)[number % 2]
        )
    for number, listed in enumerate(devices.listed):
        await devices.becomes(listed, (_U, _H, _U, _H, _U, _U)[number])
    for driver in devices.drivers:
        await driver.is_silenced()
    await node.advance_time(1)  # a kubelet may gather changes before it writes its checkpoint
    await node.kubelet_restarts()
    await node.kubelet_catches_up()
    with node.judging("PERSIST-01", "each device shows its health from before the restart"):
        await devices.syncs("after the restart")
        for gpu in devices.gpus:
            await devices.shows(gpu)
    with node.judging("DP-07", "each device plugin is watched again"):
        for listed in devices.listed:
            await devices.shows(listed, within="restart")
    with node.judging("PERSIST-04", "each device has its entry"):
        await devices.has_its_entries()
    for driver in devices.drivers:
        await driver.is_watched()
        await driver.resumes()
    await devices.changes("after the restart")


@scenario("STATUS-01", "STREAM-01", "STREAM-05", "TIMEOUT-01", "DP-04", "DP-07", needs=("restart-kubelet",))
async def test_each_of_several_devices_changes_after_disturbances(node: Node) -> None:
    devices = await fleet(node)
    await _is_disturbed(devices)
    await _streams_end(devices, "first")
    await node.kubelet_restarts()
    await node.kubelet_catches_up()
    for driver in devices.drivers:
        await driver.is_watched()
    for listed in devices.listed:
        await devices.shows(listed, within="restart")
    await devices.has_its_entries()
    await devices.changes("after disturbances")
    await _streams_end(devices, "second")


@scenario("TIMEOUT-01", "TIMEOUT-02", "TIMEOUT-04", "PERSIST-02")
async def test_each_of_several_devices_expires_and_returns(node: Node) -> None:
    devices = await fleet(node)
    for driver in devices.drivers:
        await driver.is_silenced()
    for when, healths in (("first", (_U, _H, _U, _H, _U, _H)), ("second", (_H, _U, _H, _U, _H, _U))):
        await _expire(devices, healths, when)
    for driver in devices.drivers:
        await driver.resumes()
    await devices.become_healthy(devices.gpus)
    await _is_disturbed(devices)
    for driver in devices.drivers:
        await driver.is_silenced()
    await _expire(devices, (_U, _H, _U, _H, _U, _H), "third", restart=True)
    await _expire(devices, (_H, _U, _H, _U, _H, _U), "fourth")


async def _is_disturbed(devices: Fleet) -> None:
    """A Pod is deleted, devices expire, and drivers and device plugins register again."""
    node, fence = devices.node, devices.fence
    own = await node.claim(fence)
    gone = await node.running_pod(own["gpu"])
    [free] = await node.allocated(own)
    await gone.is_deleted()
    await gone.is_gone()
    await free.becomes(_U, "of a deleted Pod")
    expired = [driver.gpus[1] for driver in devices.drivers]
    for gpu in expired:
        await devices.becomes(gpu, _U, "the last report", timeout=3)
        await gpu.driver.is_silenced()
    await node.advance_time(3.1)
    with node.judging("TIMEOUT-01", "it shows as Unknown"):
        devices.shown |= dict.fromkeys(expired, (_K, ""))
        await devices.syncs("after the timeout")
        devices.still_shows()
    for driver in devices.drivers:
        await driver.resumes()
    await devices.become_healthy(expired)
    for driver in devices.drivers:
        await driver.restarts()
        await driver.is_watched()
        for gpu in driver.gpus:
            await devices.shows(gpu, "restart")
    for plugin in devices.plugins:
        await plugin.list_ends()
        await node.kubelet_catches_up()  # a kubelet rejects a device plugin that is connected
        await plugin.registers_again()
        for listed in plugin.gpus:
            await devices.shows(listed)
    devices.still_shows()


async def _streams_end(devices: Fleet, when: str) -> None:
    """The health stream of one driver ends, then that of the other one, and the lists of the device plugins."""
    node = devices.node
    for number, gpu in enumerate(devices.gpus):
        await devices.becomes(gpu, (_U, _H, _U, _H, _U, _H)[number], f"{gpu} of {gpu.driver} before the end, {when}")
    before = dict(devices.shown)
    for driver in devices.drivers:
        await driver.is_silenced()
        await driver.stream_ends("OK")
        devices.shown |= dict.fromkeys(driver.gpus, (_K, ""))
        with node.judging("STREAM-01", "the devices of the ended stream show Unknown, and no others"):
            for gpu in driver.gpus:
                await devices.shows(gpu, "resync")
            devices.still_shows()
    await node.advance_time(6)
    for driver in devices.drivers:
        await driver.has_new_stream()
        await driver.resumes()
        await driver.stream_ends("UNAVAILABLE")
    await node.advance_time(6)
    devices.shown = before
    for driver in devices.drivers:
        with node.judging("STREAM-05", "the first report of the new stream counts"):
            await driver.has_new_stream()
            for gpu in driver.gpus:
                await devices.shows(gpu)
    await _lists_end(devices)


async def _lists_end(devices: Fleet) -> None:
    """The devices of each device plugin show Unknown, and no others, until the plugin registers again."""
    before = dict(devices.shown)
    for plugin in devices.plugins:
        await plugin.list_ends()
        if devices.node.profile.forgets_list_of_gone_plugin:  # otherwise DP-04 fails in its own scenario
            with devices.node.judging("DP-04", "they show as Unknown, and no others"):
                devices.shown |= dict.fromkeys(plugin.gpus, (_K, ""))
                for gpu in plugin.gpus:
                    await devices.shows(gpu, "resync")
                devices.still_shows()
        devices.shown |= {gpu: before[gpu] for gpu in plugin.gpus}
        await devices.node.kubelet_catches_up()  # a kubelet rejects a device plugin that is connected
        await plugin.registers_again()
        for gpu in plugin.gpus:
            await devices.shows(gpu)
    devices.still_shows()


async def _expire(devices: Fleet, healths: Sequence[Health], when: str, *, restart: bool = False) -> None:
    """Each device has its last report, and shows as Unknown after its timeout; then it has the same report again.

    With `restart` the kubelet restarts in between.
    """
    node, timeout = devices.node, 20 if restart else 12
    readings = {}
    for gpu, health in zip(devices.gpus, healths, strict=True):
        readings[gpu] = gpu.reading(health, f"the {when} report of {gpu} of {gpu.driver}", timeout)
        devices.shown[gpu] = (health, readings[gpu].message)
    known = dict(devices.shown)
    for driver in devices.drivers:
        await driver.control.report([readings[gpu] for gpu in driver.gpus])
    for gpu in devices.gpus:
        await devices.shows(gpu)
    await node.advance_time(timeout / 2 + 0.5)
    if restart:
        await node.kubelet_restarts()
        await node.kubelet_catches_up()
        for driver in (devices.fence, *devices.drivers):
            await driver.is_watched()
        for listed in devices.listed:
            await devices.shows(listed, "restart")
    await devices.syncs(f"before the {when} timeout")
    with node.judging("TIMEOUT-02", "within its timeout each device keeps its health"):
        devices.still_shows()
    await node.advance_time(timeout / 2 - 0.4)
    with node.judging("TIMEOUT-01", "it shows as Unknown"):
        devices.shown |= dict.fromkeys(devices.gpus, (_K, ""))
        await devices.syncs(f"after the {when} timeout")
        devices.still_shows()
    devices.shown = known
    with node.judging("TIMEOUT-04", "the pod shows the recovery"):
        for driver in devices.drivers:
            await driver.control.report([readings[gpu] for gpu in driver.gpus])
            for gpu in driver.gpus:
                await devices.shows(gpu)
    for driver in devices.drivers:
        await driver.control.report([readings[gpu] for gpu in driver.gpus])
    for fence in ("once", "twice"):  # the first one may be faster than the reports
        await devices.syncs(f"{fence} after the {when} return")
    devices.still_shows()
