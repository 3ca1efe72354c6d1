"""Plays a script in a lane of a target, and records the pod statuses after each step."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import assert_never

from differential import script as wire
from differential.lane import (
    FENCE,
    LIMIT,
    PAUSE,
    Lane,
    PlayClock,
    Played,
    PodShown,
    Receipts,
    Snapshot,
    WaitTimes,
    shown,
)
from differential.script import (
    DeletePod,
    EndList,
    EndStream,
    Garbage,
    Held,
    ListDevices,
    PluginStep,
    Report,
    RestartKubelet,
    Script,
    Silence,
    Start,
    StartPlugin,
    StartPod,
    Step,
    Stop,
    StopPlugin,
    Use,
)
from drahealth.fakes.cluster.api import CLAIMS, DEVICE_CLASSES, PODS, ApiError
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
from drahealth.fakes.control.replies import DriverState
from drahealth.fakes.waiting import poll
from drahealth.proto.events import DevicesListed, Record
from drahealth.suites.errors import HarnessError
from drahealth.suites.story import manifests

# The device plugins of a play: they start, list devices, and stop.

START = 60.0
"""Seconds until a driver or a device plugin is surely registered, and a Pod has its devices."""

Instance = tuple[int, int]


class PluginPlayer:
    """The device plugins of one play. `key` makes their resources unique on the target."""

    def __init__(self, lane: Lane, script: Script, key: str) -> None:
        self._target = lane.target
        self._history = lane.history
        self._script = script
        self._key = key
        self._instances: dict[Instance, PluginControl] = {}
        self._running: set[Instance] = set()
        self._lists: Counter[Instance] = Counter()
        self._allocations: Counter[int] = Counter()

    @property
    def names(self) -> dict[str, str]:
        """The names in the script, by the names on the target."""
        return {self._domain(number): f"plugin-{number}" for number in range(len(self._script.plugins))}

    def limits(self, held: Iterable[Held]) -> dict[str, str]:
        """The limits of a container that requests these devices."""
        return {self._resource(use.plugin): str(use.count) for use in held}

    async def start(self) -> None:
        """Start the first instance of each plugin."""
        for number in range(len(self._script.plugins)):
            await self._start((number, 0))

    async def run_step(self, step: PluginStep) -> None:
        """Run a step, until the kubelet has its list or the end of it."""
        instance = (step.plugin, step.instance)
        match step:
            case ListDevices():
                await self._list(instance, {listed.device: listed.health for listed in step.devices})
            case EndList():
                await self._instances[instance].end_lists()
            case StartPlugin():
                await self._start(instance)
            case StopPlugin():
                self._running.discard(instance)
                await self._instances[instance].stop()
            case unhandled:
                assert_never(unhandled)

    async def wait_for_allocations(self, pod: int) -> None:
        """Wait until the new pod holds its devices, so that each play allocates the same ones. Raises HarnessError."""
        for container in self._script.pods[pod].containers:
            self._allocations.update(use.plugin for use in container if isinstance(use, Held))
        if not await poll(self._have_allocated, PAUSE, START):
            raise HarnessError(
                f"the kubelet allocated no devices of a device plugin within {START:g} s",
                await self._target.log_tail(),
            )

    def lists_sent(self) -> Mapping[Instance, int]:
        """The number of lists that each running plugin has sent."""
        return {instance: self._lists[instance] for instance in self._running}

    async def wait_for_lists(self, before: Mapping[Instance, int]) -> None:
        """Wait until each of these plugins has sent another list. Raises HarnessError."""
        for (plugin, number), sent in before.items():
            if not await self._history.until(partial(self._has_sent_more, (plugin, number), sent), START):
                raise HarnessError(
                    f"the kubelet asked device plugin {plugin} for no list within {START:g} s",
                    await self._target.log_tail(),
                )

    async def drop(self) -> None:
        """Stop all plugins."""
        for control in self._instances.values():
            await control.retire()
            await self._target.drop_driver(control)

    async def _start(self, instance: Instance) -> None:
        if instance not in self._instances:
            options, observe = self._options(instance), partial(self._observed, instance)
            self._instances[instance] = await self._target.start_device_plugin(options, observe)
        before = {instance: self._lists[instance]}
        await self._instances[instance].start()
        self._running.add(instance)
        await self.wait_for_lists(before)

    async def _list(self, instance: Instance, health: Mapping[str, str]) -> None:
        """Send one list, with all changes."""
        control = self._instances[instance]
        known = {device.device: device for device in await control.devices()}
        before = {instance: self._lists[instance]}
        await control.hold_lists()
        for name, device in known.items():
            if device.listed and name not in health:
                await control.remove(name)
            elif not device.listed and name in health:
                await control.restore(name)
            if name in health:
                await control.set_health(name, health[name])
        await control.release_lists()
        if (await control.state()).streams:
            await self.wait_for_lists(before)

    async def _have_allocated(self) -> bool:
        states = {number: await self._instances[number, 0].state() for number in self._allocations}
        return all(states[number].allocations >= count for number, count in self._allocations.items())

    def _has_sent_more(self, instance: Instance, before: int) -> bool:
        return self._lists[instance] > before

    def _observed(self, instance: Instance, record: Record) -> None:
        self._lists[instance] += isinstance(record.what, DevicesListed)
        self._history.add(record)

    def _options(self, instance: Instance) -> PluginOptions:
        number, side = instance
        plugin = self._script.plugins[number]
        return PluginOptions(
            resource=self._resource(number),
            devices=plugin.devices,
            plugins_dir=str(self._target.device_plugins_dir),
            registry_dir=str(self._target.registry_dir),
            data_dir=str(self._target.plugins_dir / f"{self._key}-plugin-{number}"),
            registration="plugins_registry" if plugin.directory else "kubelet.sock",
            instance="b" if side else "",
            preferred=plugin.devices,  # otherwise the kubelet chooses at random
        )

    def _domain(self, number: int) -> str:
        return f"p{number}-{self._key}.example.com"

    def _resource(self, number: int) -> str:
        return f"{self._domain(number)}/gpu"


# Play a script in a lane of a target, and record the pod statuses after each step.

RETRY = 5.2
"""Seconds after which a kubelet has retried to open an ended stream (W-23)."""


class Player:
    """One play of a script. `restart` restarts the kubelet, which other plays may share.

    `receipts` has what the kubelet has received, if it can be known.
    """

    def __init__(
        self,
        lane: Lane,
        script: Script,
        clock: PlayClock,
        waits: WaitTimes,
        restart: Callable[[], Awaitable[None]],
        receipts: Receipts | None = None,
    ) -> None:
        self._lane = lane
        self._target = lane.target
        self._script = script
        self._clock = clock
        self._waits = waits
        self._restart = restart
        self._receipts = receipts
        self._key = secrets.token_hex(3)
        self._plugins = PluginPlayer(lane, script, self._key)
        self._instances: dict[Instance, DriverControl] = {}
        self._running: set[Instance] = set()
        self._pods: dict[int, str] = {}
        self._stuck: set[str] = set()
        self._snapshots: list[Snapshot] = []

    async def play(self) -> Played:
        """Play the script to its end. Raises HarnessError, ApiError."""
        await self._set_up()
        for number, step in enumerate(self._script.steps):
            await self._play(number, step)
        return Played(tuple(self._snapshots), self._clock.times)

    async def clean_up(self) -> None:
        """Delete all objects of the play. Raises HarnessError if a pod remains, after deleting everything else."""
        async with AsyncExitStack() as stack:  # in reverse order, even if one fails
            stack.push_async_callback(self._delete_objects)
            stack.push_async_callback(self.drop_drivers)
            stack.push_async_callback(self._end_pods)

    async def _end_pods(self) -> None:
        for driver in range(len(self._script.drivers)):  # pods end only after a driver has unprepared their claims
            if (driver, 0) in self._instances and not self._running & {(driver, 0), (driver, 1)}:
                await self._start((driver, 0))
        await self._delete_pods()
        if not await self._lane.history.until(lambda: not self._seen(), self._waits.gone):
            await self._delete_pods(grace=0)  # a pod whose final status is rejected would remain (B-32)
            await self._lane.wait(lambda: not self._seen(), "the script's pods are gone", START)

    async def _delete_pods(self, grace: int | None = None) -> None:
        for pod in self._pods:
            with suppress(ApiError):
                await self._target.api.delete(PODS, self._name("pod", pod), self._lane.namespace, grace)

    async def _delete_objects(self) -> None:
        for number in range(len(self._script.claims)):
            with suppress(ApiError):
                await self._target.api.delete(CLAIMS, self._name("claim", number), self._lane.namespace)
        for number in range(len(self._script.drivers)):
            with suppress(ApiError):
                await self._target.api.delete(DEVICE_CLASSES, self._driver(number))

    async def drop_drivers(self) -> None:
        """Stop all drivers and device plugins, even if pods remain."""
        await self._plugins.drop()
        for control in self._instances.values():
            await control.retire()
            await self._target.drop_driver(control)

    # Setting up

    async def _set_up(self) -> None:
        api, script, namespace = self._target.api, self._script, self._lane.namespace
        for number in range(len(script.drivers)):
            await api.create(DEVICE_CLASSES, manifests.device_class(self._driver(number)))
        await self._clock.reach("-1 started")
        await asyncio.gather(*(self._start((number, 0)) for number in range(len(script.drivers))))
        await self._clock.mark("-1 started")
        await self._plugins.start()
        for number, claim in enumerate(script.claims):
            requests = {request.name: (self._driver(request.driver), request.count) for request in claim.requests}
            await api.create(CLAIMS, manifests.claim(namespace, self._name("claim", number), requests))
        for number, pod in enumerate(script.pods):
            if not pod.later:
                await self._create_pod(number)
        await self._settle_pods()
        await self._clock.mark("-1 begin")
        await self._lane.push(self._waits.rounds)  # the kubelet has seen the containers start
        await self._synced(-1, "synced")

    async def _create_pod(self, number: int) -> None:
        """Create a pod and wait for its allocation, so that each play allocates the same devices."""
        users = self._script.pods[number].containers
        containers = {
            f"container-{place}": [(f"claim-{use.claim}", use.request) for use in uses if isinstance(use, Use)]
            for place, uses in enumerate(users)
        }
        used = sorted({use.claim for uses in users for use in uses if isinstance(use, Use)})
        claims = {f"claim-{claim}": self._name("claim", claim) for claim in used}
        pod = manifests.pod(
            self._lane.namespace,
            self._name("pod", number),
            {**containers, FENCE: [(FENCE, None)]},
            {**claims, FENCE: FENCE},
            self._target.workload,
        )
        for container, uses in zip(pod["spec"]["containers"], users, strict=False):  # the fence has no plugin
            limits = self._plugins.limits(use for use in uses if isinstance(use, Held))
            container["resources"] |= {"limits": limits} if limits else {}
        self._pods[number] = (await self._target.api.create(PODS, pod))["metadata"]["uid"]
        if not await poll(lambda: self._are_allocated(claims.values()), PAUSE, START):
            raise HarnessError(f"no allocation by the scheduler within {START:g} s", await self._target.log_tail())
        await self._plugins.wait_for_allocations(number)

    async def _are_allocated(self, claims: Iterable[str]) -> bool:
        found = await self._target.api.list(CLAIMS, self._lane.namespace)
        allocated = {claim["metadata"]["name"] for claim in found if claim.get("status", {}).get("allocation")}
        return set(claims) <= allocated

    async def _settle_pods(self) -> None:
        """Wait until all pods run, or until the time for it is over: a rejected status never shows it."""
        await self._lane.history.until(
            lambda: all(self._lane.is_running(uid) for uid in self._pods.values()), self._waits.started
        )

    async def _start(self, instance: Instance) -> None:
        if instance not in self._instances:
            self._instances[instance] = await self._target.start_driver(self._options(instance), self._lane.history.add)
        control, script = self._instances[instance], self._script.drivers[instance[0]]
        if not script.greets:
            await control.stream_silence()
        opened, greeted = (await control.state()).streams_opened, self._greeted(instance)
        await control.start()
        self._running.add(instance)
        try:
            await asyncio.wait_for(control.wait_registered(), START)
        except TimeoutError:
            raise HarnessError(f"no driver registration within {START:g} s", await self._target.log_tail()) from None
        if script.advertised:
            await self._opened(instance, opened + 1, self._waits.reopened, greeted)

    def _options(self, instance: Instance) -> DriverOptions:
        driver = self._script.drivers[instance[0]]
        return DriverOptions(
            name=self._driver(instance[0]),
            node=self._target.node_name,
            devices=tuple(device.name for device in driver.devices),
            registry_dir=str(self._target.registry_dir),
            data_dir=str(self._target.plugins_dir / f"{self._key}-{instance[0]}"),
            instance="" if instance[1] == 0 else "b",
            pool=driver.pool,
            health_apis=driver.advertised,
            served_health_apis=driver.served,
            cdi_ids=driver.cdi_ids,
            heartbeat=0,
            timeout=driver.timeout,
            returns={device.name: device.returned for device in driver.devices if device.returned is not None},
        )

    # Playing

    async def _play(self, number: int, step: Step) -> None:
        await self._clock.mark(f"{number} action")
        if isinstance(step, Silence) and not step.looks:
            await self._clock.pause(step.seconds)
            return
        before = {i: await self._instances[i].state() for i in self._running}
        await self._run_step(number, step)
        await asyncio.sleep(self._waits.receipt + _devices(step) * self._waits.each)
        await self._pushed(number)
        await self._clock.pause(_pause(step))
        await self._synced(number, "synced")
        if isinstance(step, RestartKubelet):
            return  # all streams are new
        ended = [i for i in before.keys() & self._running if await self._has_ended(i, before[i])]
        if ended:
            await self._recovered(number, {i: before[i].streams_opened for i in ended})

    async def _run_step(self, number: int, step: Step) -> None:
        match step:
            case Report():
                await self._send((step.driver, step.instance), wire.encode(step.says).hex())
            case Garbage():
                await self._send((step.driver, step.instance), step.payload)
            case EndStream():
                await self._instances[step.driver, step.instance].stream_close(step.code)
            case Start():
                await self._clock.reach(f"{number} started")
                await self._start((step.driver, step.instance))
                await self._clock.mark(f"{number} started")
            case Stop():
                self._running.discard((step.driver, step.instance))
                await self._instances[step.driver, step.instance].stop()
            case ListDevices() | EndList() | StartPlugin() | StopPlugin():
                await self._plugins.run_step(step)
            case StartPod():
                await self._create_pod(step.pod)
                await self._settle_pods()
            case DeletePod():
                await self._target.api.delete(PODS, self._name("pod", step.pod), self._lane.namespace)
                await self._wait_until_deleted(step.pod)
            case RestartKubelet():
                await self._clock.reach(f"{number} restarted")
                await self._restarted()
                await self._clock.mark(f"{number} restarted")
            case Silence():
                pass  # only its pause, which follows
            case unhandled:
                assert_never(unhandled)

    async def _send(self, instance: Instance, payload: str) -> None:
        control, driver = self._instances[instance], self._driver(instance[0])
        before = self._receipts.sent(driver) if self._receipts else 0
        is_open = (await control.state()).streams > 0
        await control.stream_send(payload)
        if self._receipts and is_open:
            await self._receipts.wait_sent(driver, before)

    async def _wait_until_deleted(self, pod: int) -> None:
        """Wait until the pod is gone, or the time for it is over: a pod with a rejected final status remains (B-32)."""
        uid = self._pods[pod]
        if await self._lane.history.until(lambda: self._lane.status(uid) is None, self._waits.gone):
            del self._pods[pod]

    async def _restarted(self) -> None:
        before = {i: (await self._instances[i].state()).streams_opened for i in self._running}
        greeted = {i: self._greeted(i) for i in self._running}
        lists = self._plugins.lists_sent()
        await self._restart()
        await self._plugins.wait_for_lists(lists)
        for (driver, instance), opened in before.items():
            if self._script.drivers[driver].advertised:
                seconds = self._waits.restarted
                await self._opened((driver, instance), opened + 1, seconds, greeted[driver, instance])

    async def _has_ended(self, instance: Instance, before: DriverState) -> bool:
        """Whether the stream that was open before has ended."""
        now = await self._instances[instance].state()
        return before.streams > 0 and (now.streams == 0 or now.streams_opened > before.streams_opened)

    async def _recovered(self, number: int, opened: dict[Instance, int]) -> None:
        greeted = {instance: self._greeted(instance) for instance in opened}
        await self._clock.pause(RETRY)
        await self._clock.mark(f"{number} retried")
        for instance, count in opened.items():
            await self._opened(instance, count + 1, self._waits.reopened, greeted[instance])
        await asyncio.sleep(self._waits.receipt)
        await self._synced(number, "recovered")

    async def _opened(self, instance: Instance, count: int, seconds: float, greeted: int) -> None:
        """Wait until this number of streams was opened, for at most `seconds`. Then wait for the first report.

        The reference opens a stream to a single instance unless the last one was rejected, so no limit is guessed.
        """
        driver = self._driver(instance[0])
        is_single = sum(running[0] == instance[0] for running in self._running) == 1
        receipts = self._receipts
        if receipts and (not is_single or receipts.is_rejected(driver)):
            receipts = None

        async def is_decided() -> bool:
            is_open = (await self._instances[instance].state()).streams_opened >= count
            return is_open or (receipts is not None and receipts.is_rejected(driver))

        await poll(is_decided, PAUSE, seconds if receipts is None else LIMIT)
        if receipts and self._script.drivers[instance[0]].greets:
            await receipts.wait_greeted(driver, greeted)

    def _greeted(self, instance: Instance) -> int:
        return self._receipts.greeted(self._driver(instance[0])) if self._receipts else 0

    # Looking

    async def _pushed(self, number: int) -> None:
        await self._clock.mark(f"{number} push")
        await self._lane.push(self._waits.rounds)
        await asyncio.sleep(self._waits.settle)
        await self._clock.mark(f"{number} pushed")
        await self._take_snapshot(number, "pushed")

    async def _synced(self, number: int, moment: str) -> None:
        await self._clock.mark(f"{number} {moment} asked")
        self._stuck = await self._lane.sync(set(self._pods.values()), self._waits) if self._pods else set()
        await self._clock.mark(f"{number} {moment}")
        await self._take_snapshot(number, moment)

    async def _take_snapshot(self, number: int, moment: str) -> None:
        streams = {
            f"driver-{driver}" + ("b" if instance else ""): (await control.state()).streams_opened
            for (driver, instance), control in sorted(self._instances.items())
        }
        self._snapshots.append(Snapshot(number, moment, self._seen(), streams))

    def _seen(self) -> dict[str, PodShown]:
        drivers = {self._driver(number): f"driver-{number}" for number in range(len(self._script.drivers))}
        names = {**drivers, **self._plugins.names}
        seen = {}
        for number, uid in self._pods.items():
            if status := self._lane.status(uid):
                seen[f"pod-{number}"] = shown(status, names, stuck=uid in self._stuck)
        return seen

    def _driver(self, number: int) -> str:
        return f"d{number}-{self._key}.example.com"

    def _name(self, what: str, number: int) -> str:
        return f"{what}-{number}-{self._key}"


def _devices(step: Step) -> int:
    """The number of devices in a report."""
    return sum(reading.count for reading in step.says) if isinstance(step, Report) else 0


def _pause(step: Step) -> float:
    """Seconds between moment `pushed` of a step and its sync."""
    if isinstance(step, Silence):
        return step.seconds
    return step.pause if isinstance(step, Report) else 0.0
