"""The experiment that plays a plan of faults: many devices, moments and changes in one process of a device plugin."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from drahealth.fakes.waiting import cancel_and_wait, poll
from drahealth.proto.events import FaultGap, FaultStage
from drahealth.proto.values import Health, health_of
from drahealth.suites.driver_checks.device_plugins.kubelet import (
    DOWN,
    DevicePluginKubelet,
    ListStream,
    RegisteredPlugin,
    listed,
    plugin_client,
)
from drahealth.suites.driver_checks.device_plugins.observed import FIRST_LIST_WAIT
from drahealth.suites.driver_checks.device_plugins.registration_experiments import (
    AGAIN_LIMIT,
    kubelet_of,
    registered_plugins,
)
from drahealth.suites.driver_checks.experiments import Incomplete
from drahealth.suites.driver_checks.fault_plan import (
    AFTER_AGAIN,
    AGAIN,
    ALLOCATE,
    EACH,
    IDLE,
    NO_KUBELET,
    OTHER,
    PLUGINS,
    RECOVER,
    SECOND,
    START,
    Act,
    FaultPlan,
    Gap,
    Stage,
    Target,
    plan,
)
from drahealth.suites.driver_checks.faults_steps import Bench
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import Device, named
from drahealth.suites.driver_checks.observed_health import APART
from drahealth.suites.driver_checks.profile.faults import MARGIN, Fault
from drahealth.suites.driver_checks.registration_experiments import SOCKET_LIMIT, started, terminated
from drahealth.suites.driver_checks.scripted_kubelet import PAUSE, Plugin

HELD = 5.0
"""Seconds at most for which the plugin is watched after an action that must not change the health of its device."""
_AFTER = 40.0
"""Seconds of a run after the last stage: to clear all faults, and for the faults that the plan leaves out."""
_ALLOCATE_PAUSE = 0.2
"""Seconds between two calls of Allocate."""


class PluginBench(Bench):
    """A device plugin with an open ListAndWatch stream for each resource. The pool of a device is its resource.

    A kubelet opens one stream after each registration, and so does this one.
    """

    def __init__(self, lab: Lab, kubelet: DevicePluginKubelet, plugins: Sequence[RegisteredPlugin]) -> None:
        first = plugins[0]
        super().__init__(lab, Plugin(first.resource, first.endpoint, first.endpoint, ()))
        self.kubelet = kubelet
        self._plugins = {one.resource: one for one in plugins}
        self._lists: dict[str, ListStream] = {}
        """The last stream of each resource; it can be cancelled."""
        self._opened: dict[str, AsyncExitStack] = {}
        self._following: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Opens the streams, and waits for their first lists. Raises Incomplete if one has none."""
        for plugin in self._plugins.values():
            await self._listen(plugin)
        self._following = asyncio.create_task(self._follow(), name="registrations of open streams")

    async def close(self) -> None:
        """Cancels the streams."""
        if self._following:
            await cancel_and_wait(self._following)
        for opened in self._opened.values():
            await opened.aclose()

    async def _listen(self, plugin: RegisteredPlugin) -> None:
        if before := self._opened.pop(plugin.resource, None):
            await before.aclose()
        opened = self._opened[plugin.resource] = AsyncExitStack()
        stream = await opened.enter_async_context(listed(plugin, self.lab.subject.clock, self.lab.record))
        if await stream.devices(FIRST_LIST_WAIT) is None:
            raise Incomplete(f"the device plugin sent no list of {plugin.resource}")
        self._lists[plugin.resource] = stream

    async def _follow(self) -> None:
        """Opens a new stream when a plugin registers once more, as a kubelet does."""
        while True:
            plugin = await self.kubelet.answered()
            if plugin.resource in self._plugins:
                self._plugins[plugin.resource] = plugin
                with suppress(Incomplete):  # the record shows it
                    await self._listen(plugin)

    async def restart(self, environment: Mapping[str, str] | None = None) -> None:
        """Ends the plugin, starts it again, and opens the streams again."""
        await self.start_again(environment)
        await self.open()

    async def start_again(self, environment: Mapping[str, str] | None = None) -> None:
        """Ends the plugin, and starts it again. Returns when it has registered."""
        await self.close()
        self.kubelet.forget()
        await terminated(self.lab)
        await self.lab.subject.start(environment)
        await self._registered(SOCKET_LIMIT, restarts=False)

    async def reopen(self) -> None:
        """Opens the streams after a restart of the kubelet, once the plugin has registered again."""
        await self._registered(AGAIN_LIMIT, restarts=True)
        await self.open()

    async def _registered(self, limit: float, *, restarts: bool) -> None:
        names = list(self._plugins)
        found = await registered_plugins(self.lab, self.kubelet, limit, restarts=restarts, resources=names)
        self._plugins |= {one.resource: one for one in found}

    @property
    def devices(self) -> list[Device]:
        """The devices of the last lists."""
        return [Device(resource, one.id) for resource, stream in self._lists.items() for one in stream.latest]

    @property
    def healthy(self) -> list[Device]:
        """Those that are Healthy."""
        return [one for one in self.devices if self.health(one) is Health.HEALTHY]

    def healthy_one(self, fault: Fault) -> Device:
        """The named device, or a healthy one that is not the first in its list. Raises Incomplete."""
        devices = [one for one in self.devices if fault.device in ("", one.name, str(one))]
        resources = dict.fromkeys(one.pool for one in devices)
        healthy = [one for one in devices if self.health(one) is Health.HEALTHY]
        if not devices:
            raise Incomplete(f"fault {fault.name}: the plugin does not list device {fault.device}")
        if fault.device and len(resources) > 1:
            names = ", ".join(resources)
            raise Incomplete(f"fault {fault.name}: {names} have device {fault.device}; name it RESOURCE/ID")
        if not healthy:
            raise Incomplete(f"fault {fault.name}: no device is healthy before it")
        same = [one for one in healthy if one.pool == healthy[0].pool]
        return same[len(same) // 2]

    async def lists(self, device: Device, health: Health, fault: Fault) -> bool:
        """Waits until the plugin lists the device with this health; returns whether it does in time."""

        def does() -> bool:
            self.lab.subject.check_running()
            return self.health(device) is health

        return await poll(does, PAUSE, fault.settle + MARGIN, self.lab.subject.clock)

    def health(self, device: Device) -> Health | None:
        """The health of a device in the last list; None if the list does not have it."""
        stream = self._lists.get(device.pool)
        return next((health_of(one.health) for one in stream.latest if one.id == device.name), None) if stream else None

    @asynccontextmanager
    async def allocating(self, devices: Sequence[Device]) -> AsyncGenerator[None, None]:
        """Allocates each device before the block, and again and again until its end."""
        clock, record, ends = self.lab.subject.clock, self.lab.record, asyncio.Event()
        async with AsyncExitStack() as stack:
            calls = []
            for one in devices:
                endpoint = self._plugins[one.pool].endpoint
                calls.append(await stack.enter_async_context(plugin_client(endpoint, one.pool, clock, record)))

            async def allocate() -> None:
                for one, client in zip(devices, calls, strict=True):
                    await client.allocate([one.name])

            async def repeat() -> None:
                while not ends.is_set():
                    await clock.sleep(_ALLOCATE_PAUSE)
                    await allocate()

            await allocate()
            repeating = asyncio.create_task(repeat(), name="Allocate during a fault")
            try:
                yield
                ends.set()
                await repeating
            finally:
                await cancel_and_wait(repeating)


async def plugin_fault_plan(lab: Lab) -> None:
    """Breaks each device at each moment. Then causes each fault that the plan leaves out once, in one device."""
    kubelet = await kubelet_of(lab)
    await started(lab)
    bench = PluginBench(lab, kubelet, await registered_plugins(lab, kubelet, SOCKET_LIMIT))
    try:
        await bench.open()
        await bench.settles(lambda: bench.healthy == bench.devices)
        targets, gaps = _targets(bench)
        few = {} if len(bench.healthy) > 1 else {OTHER: "the plugin lists fewer than two healthy devices"}
        made = plan(lab.subject.faults, targets, lab.run.level, few, space=PLUGINS)
        await _Player(lab, bench, made).play(gaps)
        planned = [act.fault for stage in made.stages for act in stage.acts]
        others = [fault for fault in lab.subject.faults if fault not in planned]
        for fault in sorted(others, key=lambda one: one.heal == "none"):
            await _once(bench, fault)
    finally:
        await bench.close()
    lab.subject.check_running()


def _targets(bench: PluginBench) -> tuple[list[Target], list[Gap]]:
    """The devices that can be broken by their ID, and why others cannot."""
    counts = Counter(one.name for one in bench.devices)
    unclear = {one for one in bench.devices if counts[one.name] > 1}
    sick = {one for one in bench.devices if one not in unclear and bench.health(one) is not Health.HEALTHY}
    gaps = []
    if unclear:
        gaps.append(
            Gap("device", EACH, f"an action names only the ID, and several devices have the ID of {named(unclear)}")
        )
    if sick:
        gaps.append(Gap("device", EACH, f"not Healthy before the first fault: {named(sick)}"))
    return [Target(one) for one in bench.healthy if one not in unclear], gaps


async def _once(bench: PluginBench, fault: Fault) -> None:
    device = bench.healthy_one(fault)
    changes = (RECOVER,) if fault.heal != "none" else ()
    bench.lab.record(FaultStage(bench.lab.subject.label, IDLE, (str(device),), changes, (), ("before",)))
    if await bench.breaks(fault, device):
        await bench.lists(device, Health.UNHEALTHY, fault)
    if await bench.heals(fault, device):
        await bench.lists(device, Health.HEALTHY, fault)


class _Player:
    """Plays the stages of a plan."""

    def __init__(self, lab: Lab, bench: PluginBench, made: FaultPlan) -> None:
        self._lab = lab
        self._bench = bench
        self._plan = made
        self._lasting: dict[Device, list[Fault]] = {}
        """The faults of each device that are not cleared."""
        self._failed: set[Device] = set()
        """The devices that are left out from now on."""
        self._played: set[str] = set()
        """The moments that were caused."""
        self._held = next((one for one in made.stages if one.moment == SECOND), None)
        """The stage whose faults last for a while."""

    async def play(self, gaps: Sequence[Gap]) -> None:
        """Plays the stages, and clears all faults.

        After a stage that the plugin does not list, the others prove nothing: they are gaps.
        """
        for gap in (*gaps, *self._plan.gaps):
            self._gap(gap)
        lasting: dict[Device, Fault] = {}
        try:
            await self._stages()
        finally:
            for device, faults in self._lasting.items():
                for number, fault in enumerate(faults, start=1):
                    shows = () if number == len(faults) else (Health.UNHEALTHY,)
                    if await self._bench.heals(fault, device, shows):
                        lasting[device] = fault
        await asyncio.gather(*(self._bench.lists(one, Health.HEALTHY, fault) for one, fault in lasting.items()))

    async def _stages(self) -> None:
        clock, limit = self._lab.subject.clock, min(self._plan.space.limit, self._lab.run.deadline - _AFTER)
        end, stages = clock.now() + limit, self._plan.stages
        for number, stage in enumerate(stages):
            why = f"they do not fit into {limit:g} s" if clock.now() > end else ""
            if not why and not await self._stage(stage):
                number, why = number + 1, "the plugin did not list the stage before"
            if why:
                self._gap(Gap("stages", f"the last {len(stages) - number} stages", why))
                return
        for moment in sorted({one.moment for one in stages} - self._played):
            self._gap(Gap("moment", moment, "each of its devices was left out"))

    async def _stage(self, stage: Stage) -> bool:
        """Plays a stage; returns whether the plugin listed all of it."""
        bench, clock = self._bench, self._lab.subject.clock
        acts = await self._possible(stage)
        if not acts:
            return True
        self._played.add(stage.moment)
        await clock.sleep(APART)
        steady = [one.fault.settle for one in acts if bench.health(one.device) is _wanted(one)]
        reopens = stage.moment in (START, AGAIN, NO_KUBELET)
        names, changes = tuple(str(one.device) for one in acts), tuple(one.change for one in acts)
        streams = (AFTER_AGAIN,) if reopens else ("before",)
        self._lab.record(FaultStage(self._lab.subject.label, stage.moment, names, changes, (), streams))
        async with AsyncExitStack() as moment:
            if reopens:
                await bench.close()
            if stage.moment == START:
                await bench.start_again()
                await asyncio.gather(*map(self._act, acts), bench.open())
            elif stage.moment == AGAIN:
                await bench.kubelet.restart()
                await asyncio.gather(*map(self._act, acts), bench.reopen())
            elif stage.moment == NO_KUBELET:
                await self._without_kubelet(acts)
            else:
                if stage.moment in (ALLOCATE, OTHER):
                    await moment.enter_async_context(bench.allocating(self._allocated(stage.moment, acts)))
                await asyncio.gather(*map(self._act, acts))
            shown = await self._listed(acts)
            await clock.sleep(min(HELD, max(steady, default=0.0)))
        if shown and stage.moment == AGAIN:  # once more, with the faults that were listed
            await bench.close()
            await bench.kubelet.restart()
            await bench.reopen()
        if shown and stage is self._held:
            await clock.sleep(HELD)
        self._lab.subject.check_running()
        return shown

    async def _possible(self, stage: Stage) -> list[Act]:
        """The acts of a stage, without those on devices that are broken without us, or whose adapter failed."""
        begun = {device for device, _ in stage.begins} - self._failed
        first = [act for act in stage.acts if act.device in begun]
        found = await asyncio.gather(*(self._bench.lists(act.device, Health.HEALTHY, act.fault) for act in first))
        for act, is_healthy in zip(first, found, strict=True):
            if not is_healthy:
                self._failed.add(act.device)
                self._gap(Gap("device", str(act.device), "it was not Healthy before a fault"))
        return [act for act in stage.acts if act.device not in self._failed]

    async def _without_kubelet(self, acts: Sequence[Act]) -> None:
        """The settle time passes while the kubelet is down, so the first list has the faults."""
        kubelet, clock = self._bench.kubelet, self._lab.subject.clock
        await kubelet.stop()
        await asyncio.gather(*map(self._act, acts))
        await clock.sleep(max([DOWN, *(one.fault.settle + MARGIN for one in acts)]))
        kubelet.forget()
        await kubelet.start()
        await self._bench.reopen()

    def _allocated(self, moment: str, acts: Sequence[Act]) -> list[Device]:
        """The devices to allocate: those that change, or one that is healthy and stays so."""
        busy = {act.device for act in acts} | self._lasting.keys()
        others = [one for one in self._bench.healthy if one not in busy][-1:]
        if moment == OTHER and not others:
            self._gap(Gap("moment", OTHER, "each other device is broken"))
        return others if moment == OTHER else [act.device for act in acts]

    async def _act(self, act: Act) -> None:
        device, left = act.device, self._lasting.setdefault(act.device, [])
        if act.verb == "heal":
            heals_all = act.shows == (Health.HEALTHY,)
            done = await self._bench.heals(act.fault, device, () if heals_all else (Health.UNHEALTHY,))
            left[:] = [one for one in left if one is not act.fault and not heals_all]
        else:
            done = await self._bench.breaks(act.fault, device, change=act.verb == "change", shows=(Health.UNHEALTHY,))
            if act.verb == "break":  # it can replace a fault that is cleared in the same way
                left[:] = [*(one for one in left if one.heal != act.fault.heal), act.fault]
        if not left:
            del self._lasting[device]
        if not done:
            self._failed.add(device)
            self._gap(Gap("device", str(device), f"fault {act.fault.name}: its action failed"))

    async def _listed(self, acts: Sequence[Act]) -> bool:
        """Waits until the plugin lists all acts; returns whether it does."""
        mine = [act for act in acts if act.device not in self._failed]
        found = await asyncio.gather(*(self._bench.lists(act.device, _wanted(act), act.fault) for act in mine))
        return all(found)

    def _gap(self, gap: Gap) -> None:
        self._lab.record(FaultGap(self._lab.subject.label, gap.dimension, gap.value, gap.reason))


def _wanted(act: Act) -> Health:
    """The health in the lists. Device plugins have no other word than Unhealthy for a device that is not healthy."""
    return Health.HEALTHY if act.shows == (Health.HEALTHY,) else Health.UNHEALTHY
