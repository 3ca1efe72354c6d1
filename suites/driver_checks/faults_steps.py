"""The steps of experiments with faults: break, change and heal, and what the health streams show."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Literal

from drahealth.fakes.waiting import poll
from drahealth.manager.profile import KEP
from drahealth.manager.stream import advertised_health_api
from drahealth.proto.events import FaultCleared, FaultInjected
from drahealth.proto.events.checks import ActionOutcome
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.quoting import one_line
from drahealth.proto.values import DEFAULT_TIMEOUT, DeviceHealth, Health
from drahealth.suites.driver_checks.claims_experiments import Published, published_devices
from drahealth.suites.driver_checks.experiments import Incomplete, NotApplicable
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.observed_health import APART, FIRST_REPORT_WAIT, OWN_DELAY
from drahealth.suites.driver_checks.profile.faults import MARGIN, Action, Fault, SetEnvironment, described
from drahealth.suites.driver_checks.registration_experiments import plugin_of_process, restarted
from drahealth.suites.driver_checks.scripted_kubelet import PAUSE, Plugin, Subscriber, subscribed
from drahealth.suites.driver_checks.slice_watch import SliceWatch, watched_slices
from drahealth.suites.driver_checks.subject.places import filled
from drahealth.suites.driver_checks.subject.subject import ActionFailed

# Two health streams at once, and what they show of the device that a fault breaks.

Shown = Callable[[DeviceHealth], bool]


class FaultStreams:
    """The open streams: two of each health API. They show whether all hear a change.

    A health API of prepared devices is watched, too, but nobody waits for its reports.
    """

    def __init__(self, lab: Lab, streams: Sequence[Subscriber]) -> None:
        self._lab = lab
        self._streams = [one for one in streams if not one.api.prepared_only]

    @property
    def apis(self) -> tuple[HealthApi, ...]:
        """The health APIs of the streams, the best one first."""
        return tuple(dict.fromkeys(one.api for one in self._streams))

    def reported(self) -> list[Device]:
        """The devices that the streams listed, in the order of the first report."""
        return list(dict.fromkeys(Device(*key) for stream in self._streams for key in stream.latest))

    def of(self, device: Device) -> list[DeviceHealth]:
        """What each stream last showed of a device."""
        return [stream.latest[device] for stream in self._streams if device in stream.latest]

    async def show(self, device: Device, shown: Shown, limit: float, *, message: bool = False) -> bool:
        """Waits until all streams show it; returns whether any does. Raises Incomplete if the driver ends.

        A stream that does not show it within the limit must have one more report of the device, as a fence: only
        then its absence proves something. `message`: only streams with messages can show it, if there are any.
        """
        able = [one for one in self._streams if not message or "message" in one.api.carries] or self._streams

        def all_show() -> bool:
            self._lab.subject.check_running()
            return all(device in one.latest and shown(one.latest[device]) for one in able)

        if not await poll(all_show, PAUSE, limit, self._lab.subject.clock):
            await self._fence(device, all_show)
        return any(map(shown, self.of(device)))

    def all_show(self, device: Device, shown: Shown) -> bool:
        """Whether all streams show it now."""
        return all(map(shown, self.of(device)))

    async def report_again(self) -> None:
        """Waits until each stream has two more reports of each device: the second one within the timeout of the first.

        A timer that was due while the driver did not run gives the first one.
        """
        counts = [one.counts.copy() for one in self._streams]
        longest = max((one.largest_timeout for one in self._streams), default=0)
        pairs = list(zip(self._streams, counts, strict=True))

        def reported_again() -> bool:
            self._lab.subject.check_running()
            return all(one.counts[device] > count[device] + 1 for one, count in pairs for device in count)

        limit = 2 * ((longest if longest > 0 else DEFAULT_TIMEOUT) + MARGIN)
        await poll(reported_again, PAUSE, limit, self._lab.subject.clock)

    async def follow(self, since: float | None = None, limit: float | None = None) -> None:
        """Waits until each stream has one more report of each device without a change, or its timeout is over.

        `since`: the time after which this report counts; by default, now. `limit`: the most seconds after it.
        """
        lab, now = self._lab, self._lab.subject.clock.now()
        start = now if since is None else since
        longest = lab.run.longest_watch / 2 if limit is None else limit

        def followed() -> bool:
            lab.subject.check_running()
            return all(one.is_followed(start) for one in self._streams)

        await poll(followed, PAUSE, max(start + longest - now, 0), lab.subject.clock)

    async def _fence(self, device: Device, all_show: Callable[[], bool]) -> None:
        counts = [one.counts[device] for one in self._streams]
        timeout = max((one.timeout for one in self.of(device)), default=0)
        limit = (timeout if timeout > 0 else DEFAULT_TIMEOUT) + MARGIN

        def reported_again() -> bool:
            again = [one.counts[device] > count for one, count in zip(self._streams, counts, strict=True)]
            return all_show() or all(again)

        await poll(reported_again, PAUSE, min(limit, FENCE_LIMIT), self._lab.subject.clock)
        if not all_show():
            await self._lab.subject.clock.sleep(APART)


FENCE_LIMIT = 35.0
"""Seconds for the report that proves the absence of another one."""


SERVED_LIMIT = 15.0
"""Seconds until a health API counts as one without reports: the checks judge how soon the first report comes."""


def expected(health: Health) -> Shown:
    """Whether a report has this health."""
    return lambda one: one.health is health


@asynccontextmanager
async def fault_streams(lab: Lab, plugin: Plugin, each: int = 2) -> AsyncGenerator[FaultStreams, None]:
    """So many streams of each health API. Those with all devices have reported, if they do so in time.

    The first streams of a process stay open: a kubelet is the first subscriber of a driver, too. Raises NotApplicable
    if the driver has no health API with all devices.
    """
    clock = lab.subject.clock
    async with AsyncExitStack() as stack:
        first = {} if lab.facts.health_apis.done() else await _first_streams(lab, plugin, stack)
        served = [HEALTH_APIS[name] for name in lab.facts.health_apis.result()]
        streams: list[Subscriber] = []
        for api in served * each:
            if api in first:
                streams.append(first.pop(api))
            else:
                streams.append(await stack.enter_async_context(subscribed(plugin, api, clock, lab.record)))
        for stream in streams:
            if not stream.api.prepared_only:
                await stream.reported(FIRST_REPORT_WAIT)
        lab.subject.check_running()
        yield FaultStreams(lab, streams)


async def _first_streams(lab: Lab, plugin: Plugin, stack: AsyncExitStack) -> dict[HealthApi, Subscriber]:
    """Opens a stream of each health API, and closes those that the driver does not serve.

    Sets the fact of what streams, one with all devices first: advertised ones, in the order of a kubelet.
    """
    opened: dict[HealthApi, Subscriber] = {}
    async with AsyncExitStack() as rest:
        for api in HEALTH_APIS.values():
            opened[api] = await rest.enter_async_context(subscribed(plugin, api, lab.subject.clock, lab.record))
        limits = [OWN_DELAY if api.prepared_only else SERVED_LIMIT for api in opened]
        await asyncio.gather(*(one.reported(limit) for one, limit in zip(opened.values(), limits, strict=True)))
        lab.subject.check_running()
        served = [api for api, one in opened.items() if one.reports or (api.prepared_only and one.is_open)]
        if not any(not api.prepared_only for api in served):
            raise NotApplicable("the driver streams no health API that lists all devices")
        for api in opened.keys() - set(served):
            await opened[api].cancel()
        stack.push_async_exit(rest.pop_all())
    order = [*advertised_health_api(plugin.versions, KEP), *HEALTH_APIS.values()]
    served.sort(key=lambda api: (api.prepared_only, order.index(api)))
    lab.facts.health_apis.set_result(tuple(api.name for api in served))
    return opened


# The steps of experiments with faults: break, change and heal, and wait until the driver reports it.

_SLICES_LIMIT = 10.0
"""Seconds to wait for slices before a device is chosen; a driver may have none."""
_LIST_LIMIT = 2.0
"""Seconds to wait for slices that were published before."""
_WORDS = 500  # characters of a problem


class Bench:
    """A driver with open health streams. They are opened again after drahealth started the driver again."""

    def __init__(self, lab: Lab, plugin: Plugin) -> None:
        self.lab = lab
        self.plugin = plugin
        self.streams = FaultStreams(lab, ())
        self._stack = AsyncExitStack()
        self._kept = AsyncExitStack()
        self._slices: SliceWatch | None = None
        self._due = 0.0
        """When the last action must have had its effect."""

    async def open(self) -> None:
        """Opens the streams, and waits for their first reports. Raises NotApplicable without health."""
        self.streams = await self._stack.enter_async_context(fault_streams(self.lab, self.plugin))

    async def close(self) -> None:
        """Cancels the streams; no effect if there are none."""
        await self._stack.aclose()

    async def end(self) -> None:
        """Cancels the streams, and ends the watch of the ResourceSlices."""
        await self.close()
        await self._kept.aclose()

    async def settles(self, done: Callable[[], bool]) -> None:
        """Waits until it is done, or for the longest settle time: a driver that starts may not know the health."""
        limit = max(one.settle for one in self.lab.subject.faults) + MARGIN
        await poll(done, PAUSE, limit, self.lab.subject.clock)

    async def healthy_device(self, fault: Fault) -> Device:
        """The device to break, once it is healthy. Raises Incomplete if there is none."""
        device = await self._device(fault)
        if not await self.streams.show(device, expected(Health.HEALTHY), fault.settle + MARGIN):
            raise Incomplete(f"{device} was not healthy before fault {fault.name}")
        return device

    async def breaks(self, fault: Fault, device: Device, *, change: bool = False, shows: Sequence[Health] = ()) -> bool:
        """Breaks the device, or changes the cause; returns whether the adapter is done.

        `shows` are the healths that the driver may report, if not only that of the fault.
        """
        action = fault.change if change else fault.break_
        assert action
        step: Literal["break", "change"] = "change" if change else "break"
        message = (fault.changed_message if change else fault.message).replace("{device}", device.name)

        def record(outcome: ActionOutcome, seconds: float, problem: str) -> None:
            self.lab.record(
                FaultInjected(
                    *(self.lab.subject.label, fault.name, step, device.pool, device.name, _text(action, device)),
                    grade="asked" if fault.capability == "asked" else "forced",
                    health=fault.health,
                    settle=fault.settle,
                    outcome=outcome,
                    seconds=seconds,
                    problem=problem,
                    on_error=fault.on_error,
                    on_no_effect=fault.on_no_effect,
                    shows=tuple(map(str, shows)),
                    taint=str(fault.taint or ""),
                    message=message,
                )
            )

        return await self._act(action, fault, device, record)

    async def breaks_more(self, second: Fault, device: Device, shows: Sequence[Health]) -> bool:
        """Breaks a broken device with a second fault, which changes the cause; returns whether the adapter is done."""
        both = second.model_copy(update={"change": second.break_, "changed_message": ""})
        return await self.breaks(both, device, change=True, shows=shows)

    async def heals(self, fault: Fault, device: Device, shows: Sequence[Health] = ()) -> bool:
        """Heals the device; returns whether the adapter is done. Does nothing if the fault cannot be healed."""
        if fault.heal == "none":
            return False
        action = fault.heal

        def record(outcome: ActionOutcome, seconds: float, problem: str) -> None:
            self.lab.record(
                FaultCleared(
                    *(self.lab.subject.label, fault.name, device.pool, device.name, _text(action, device)),
                    settle=fault.settle,
                    outcome=outcome,
                    seconds=seconds,
                    problem=problem,
                    on_error=fault.on_error,
                    shows=tuple(map(str, shows)),
                )
            )

        return await self._act(action, fault, device, record)

    async def shows(self, device: Device, shown: Shown, fault: Fault, *, message: bool = False) -> bool:
        """Waits until all streams show it; returns whether any does. `message`: it can be only another message."""
        return await self.streams.show(device, shown, fault.settle + MARGIN, message=message)

    async def tainted(self, fault: Fault, device: Device, *, so: bool = True) -> bool:
        """Waits until the device has the taint of the fault, or with `so` False no longer has it; returns whether so.

        At the limit, the ResourceSlices are recorded: they prove that it is not so. Does nothing for a fault without a
        taint.
        """
        if fault.taint is None or self._slices is None:
            return True
        limit = max(self._due - self.lab.subject.clock.now(), PAUSE)
        asked = (self.plugin.driver, str(device), fault.taint.key, fault.taint.effect)
        reached = await self._slices.tainted(*asked, limit, so=so)
        if not reached:
            self._slices.list()
        return reached

    async def still_tainted(self, fault: Fault, device: Device) -> None:
        """Follows the taint of a fault while a new process of the driver publishes: it can remove the taint."""
        if fault.taint is None or self._slices is None:
            return
        asked = (self.plugin.driver, str(device), fault.taint.key, fault.taint.effect)
        await self._slices.tainted(*asked, fault.settle, so=False)
        self._due = self.lab.subject.clock.now() + fault.settle + MARGIN
        await self.tainted(fault, device)

    async def follow(self) -> None:
        """Follows the last report of each device, and lists the devices that are published then. Ends an experiment."""
        await self.streams.follow()
        if watched := await self._watched():
            with suppress(Incomplete):
                await watched.complete(self.plugin.driver, _LIST_LIMIT)
            watched.list()

    async def restart(self, environment: dict[str, str] | None = None) -> None:
        """Ends the driver, starts it again, with further variables, and opens the streams again."""
        await self.close()
        self.plugin = await restarted(self.lab, environment, kill=False)
        await self.open()

    async def _act(
        self,
        action: Action | Literal["restart"],
        fault: Fault,
        device: Device,
        record: Callable[[ActionOutcome, float, str], None],
    ) -> bool:
        """Does an action, and records its outcome, also if it is interrupted; returns whether it is done."""
        clock = self.lab.subject.clock
        began = clock.now()
        outcome: ActionOutcome = "interrupted"
        problem = "the experiment ended during the action"
        try:
            outcome, problem = await self._outcome(action, fault, device)
        finally:
            record(outcome, clock.now() - began, problem)
        self._due = clock.now() + fault.settle + MARGIN
        return outcome == "done"

    async def _outcome(
        self, action: Action | Literal["restart"], fault: Fault, device: Device
    ) -> tuple[ActionOutcome, str]:
        subject = self.lab.subject
        values = subject.places.placeholders() | {"device": device.name}
        try:
            if action == "restart":
                await self.restart()
            elif isinstance(action, SetEnvironment):
                await self.restart({name: filled(text, values) for name, text in action.variables.items()})
            else:
                assert subject.adapters
                await subject.adapters.perform(action, values, fault.limit)
        except ActionFailed as error:
            return "timed out" if error.timed_out else "failed", one_line(str(error), _WORDS)
        return "done", ""

    async def _device(self, fault: Fault) -> Device:
        """The named device, or one that is neither the first of its slice nor the first of the report."""
        reported = self.streams.reported()
        slices = await self.published() if fault.taint or not fault.device else []
        published = [Device(one.id.pool, one.id.device) for one in slices]
        if fault.device:
            found = [one for one in reported if fault.device in (one.name, str(one))]
            if len(found) != 1:
                problem = (
                    f"pools {', '.join(one.pool for one in found)} have" if found else "the driver does not report"
                )
                raise Incomplete(f"fault {fault.name}: {problem} device {fault.device}")
            return found[0]
        inner = [one for one in reported[1:] if not published or one in published[1:]]
        if not reported:
            raise Incomplete("the driver reports no device")
        return (inner or [one for one in reported if one in published] or reported)[-1]

    async def published(self) -> list[Published]:
        """The published devices. From the first call on, each change of the ResourceSlices is recorded."""
        watched = await self._watched()
        slices = await watched.complete(self.plugin.driver, _SLICES_LIMIT) if watched else ()
        if watched and slices and not watched.recording:
            watched.list()
        return published_devices(slices)

    async def _watched(self) -> SliceWatch | None:
        """The watch of the ResourceSlices, which lasts until the end of the experiment; None without an API server."""
        if self._slices is None and self.lab.subject.api is not None:
            self._slices = await self._kept.enter_async_context(watched_slices(self.lab, self.plugin.driver))
        return self._slices


@asynccontextmanager
async def bench_of(lab: Lab) -> AsyncGenerator[Bench, None]:
    """The driver of the process, registered, with two open streams."""
    bench = Bench(lab, await plugin_of_process(lab))
    try:
        await bench.open()
        yield bench
    finally:
        await bench.end()


def _text(action: Action | str, device: Device) -> str:
    return described(action).replace("{device}", device.name)
