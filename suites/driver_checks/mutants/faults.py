"""Mutants that report faults wrongly."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from drahealth.fakes.cluster.api import SLICES, ApiError
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.mutants.healthy import Healthy, give_up
from drahealth.suites.driver_checks.mutants.lifetime import SliceNotRestored
from drahealth.suites.driver_checks.mutants.streams import HealthWaitsForPrepare
from drahealth.suites.driver_checks.mutants.table import mutant

_BREAK, _HEAL = "break-is-reported", "heal-is-reported"
_UNKNOWN = "unknown-is-not-unhealthy"
_OTHERS = "fault-leaves-other-devices-alone"
_TIMEOUT = "devices-are-refreshed-within-their-timeout"


@mutant(_BREAK)
class BreakNotReported(Healthy):
    """The driver never reports a device as unhealthy."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        super().apply_faults({name: one for name, one in found.items() if one.health is not Health.UNHEALTHY})


@mutant(_BREAK, _UNKNOWN)
class BreakReportedLate(Healthy):
    """The driver reports a broken device only after 9 s."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        asyncio.get_running_loop().call_later(9 if found else 0, super().apply_faults, found)


@mutant(_BREAK, _UNKNOWN)
class HealthOfTheStart(Healthy):
    """A stream repeats the health that the devices had when the stream was opened."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        first = self.listed(api, 0)
        async for _ in super().watch(api, context):
            yield api.encode([replace(one, updated=self.time()) for one in first], {})


@mutant("streams-stay-open", level="core")
class BreakEndsStreams(Healthy):
    """The streams end whenever a device breaks, and before they report it."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        known = set(self.faults)
        async with aclosing(super().watch(api, context)) as messages:
            async for message in messages:
                if not known.issuperset(self.faults):
                    return
                known = set(self.faults)
                yield message


@mutant(_HEAL)
class HealNotReported(Healthy):
    """After a device has recovered, the driver reports it as unhealthy until the driver restarts."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        super().apply_faults(self.faults | found)


@mutant("change-of-the-cause-is-reported")
class FirstCauseStays(Healthy):
    """The message of a broken device does not change when the cause changes."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        super().apply_faults({name: self.faults.get(name, one) for name, one in found.items()})


@mutant(_UNKNOWN)
class UnknownAsUnhealthy(Healthy):
    """A device whose health is unknown is reported as Unhealthy."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, health=Health.UNHEALTHY) if found.health is Health.UNKNOWN else found


@mutant(_OTHERS)
class AllDevicesBreak(Healthy):
    """If one device breaks, the driver reports all devices as unhealthy."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        worst = next(iter(found.values()), None)
        super().apply_faults(dict.fromkeys(self.devices, worst) if worst else {})


@mutant(_OTHERS)
class NextDeviceBreaks(Healthy):
    """If one device breaks, the driver reports the next device as unknown."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        after = {self.devices[(self.devices.index(name) + 1) % len(self.devices)]: one for name, one in found.items()}
        super().apply_faults({name: replace(one, health=Health.UNKNOWN) for name, one in after.items()} | found)


@mutant("all-subscribers-hear-a-fault", "all-subscribers-receive-all-reports")
class OneSubscriberHears(Healthy):
    """Only the newest stream shows changes. Each other stream repeats the health of its first report."""

    heartbeat = 1
    change = 0
    newest = 0

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        self.newest += 1
        mine, first = self.newest, self.listed(api, 0)
        async for message in super().watch(api, context):
            old = [replace(one, updated=self.time()) for one in first]
            yield message if mine == self.newest else api.encode(old, {})


@mutant("driver-survives-faults")
class ExitsWhenADeviceBreaks(Healthy):
    """The driver exits when a device breaks."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        super().apply_faults(found)
        if found:
            give_up("a device is broken")


@mutant("break-is-reported-during-prepare")
class FaultWaitsForPrepare(HealthWaitsForPrepare):
    """The driver reports a changed health only while no NodePrepareResources call is pending."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        async for message in Healthy.watch(self, api, context):
            yield message

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        self.spawn(self._apply(found))

    async def _apply(self, found: dict[str, DeviceHealth]) -> None:
        async with self.lock:
            super().apply_faults(found)


@mutant("new-stream-starts-with-the-fault", "new-kubelet-hears-of-the-fault")
class FollowsHealthWithStreams(Healthy):
    """The driver reads the health only while a stream is open, but not in the first second of this stream."""

    followed = 0.0

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        if self.open_streams and asyncio.get_running_loop().time() > self.followed:
            super().apply_faults(found)

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        loop = asyncio.get_running_loop()
        if not self.open_streams:
            self.followed = loop.time() + 1
            loop.call_later(1.1, lambda: self.apply_faults(self.read_faults()))
        async for message in super().watch(api, context):
            yield message


@mutant("break-is-reported-without-api-server")
class ReportsNeedApiServer(Healthy):
    """The driver reports a changed health only if the API server answers."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        self.spawn(self._apply(found))

    async def _apply(self, found: dict[str, DeviceHealth]) -> None:
        while True:
            try:
                await self.around.api.list(SLICES)
            except ApiError:
                await asyncio.sleep(0.5)
            else:
                super().apply_faults(found)
                return


@mutant("restarted-driver-reports-the-fault")
class HealthyAtTheStart(Healthy):
    """The driver ignores devices that broke before its start."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.earlier = self.read_faults()

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        super().apply_faults({name: one for name, one in found.items() if one != self.earlier.get(name)})


@mutant("break-is-reported-after-a-backend-restart")
class StaysWithDeadBackend(Healthy):
    """If its backend restarts, the driver does not connect again."""

    connections = 0

    async def read_backend(self) -> None:
        self.connections += 1
        if self.connections > 1:
            await asyncio.Event().wait()
        await super().read_backend()


@mutant("reports-continue-after-a-stop")
class TimerEndsAfterPause(Healthy):
    """After a pause of its process, the driver sends no heartbeats."""

    heartbeat = 1
    timeout = 10

    async def beat(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            before = clock()
            await asyncio.sleep(self.heartbeat)
            if clock() - before > self.heartbeat + 3:
                return
            self.wake()


@mutant("reports-continue-after-a-stop")
class OneHeartbeatAfterPause(Healthy):
    """After a pause of its process, the driver sends only the heartbeat that is due."""

    heartbeat = 1
    timeout = 10

    async def beat(self) -> None:
        clock, late = asyncio.get_running_loop().time, False
        while not late:
            before = clock()
            await asyncio.sleep(self.heartbeat)
            late = clock() - before > self.heartbeat + 3
            self.wake()


@mutant("stream-after-a-pause-starts-with-all-devices")
class ForgetsDevicesWhenIdle(Healthy):
    """After 20 s without a stream, the first report of a new stream lists only one device."""

    idle_since = 0.0

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        clock = asyncio.get_running_loop().time
        forgot = not self.open_streams and 0 < self.idle_since < clock() - 20
        try:
            async for message in super().watch(api, context):
                yield api.encode(self.listed(api, 0)[:1], {}) if forgot else message
                forgot = False
        finally:
            self.idle_since = clock()


class _StopsHeartbeats(Healthy):
    """Sends heartbeats until `silent` is set."""

    change = 0
    timeout = 10
    silent = False

    async def beat(self) -> None:
        while not self.silent:
            await asyncio.sleep(self.heartbeat)
            if not self.silent:
                self.wake()


@mutant(_TIMEOUT, level="core")
class SilentAfterRecovery(_StopsHeartbeats):
    """After the first recovery of a device, the driver sends no heartbeats."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        self.silent |= len(found) < len(self.faults)
        super().apply_faults(found)


@mutant(_TIMEOUT, level="full")
class SilentAfterIdle(_StopsHeartbeats):
    """After 20 s without a stream, the driver sends no heartbeats."""

    idle_since = 0.0

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        clock = asyncio.get_running_loop().time
        self.silent |= not self.open_streams and 0 < self.idle_since < clock() - 20
        try:
            async for message in super().watch(api, context):
                yield message
        finally:
            self.idle_since = clock()


@mutant(_TIMEOUT)
class SilentAfterKubeletRestart(_StopsHeartbeats):
    """After the second registration, the driver sends no heartbeats."""

    registrations = 0

    async def notified(self, request: Any, context: Any) -> Any:
        self.registrations += 1
        self.silent = self.registrations > 1
        return await super().notified(request, context)


@mutant("slices-return-after-a-kubelet-restart")
class PublishesOnlyOnce(SliceNotRestored):
    """The driver does not publish its ResourceSlices again after a restarted kubelet has deleted them."""


@mutant("second-fault-does-not-heal")
class TwoFaultsCancelOut(Healthy):
    """A device with two faults is reported as healthy."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        both = device in self.faults and device in self.unlinked
        return replace(found, health=Health.HEALTHY, message="") if both else found


@mutant("change-while-stopped-is-reported")
class IgnoresChangesOfAPause(Healthy):
    """After a pause of its process, the driver ignores all changes of health during the pause."""

    async def follow_faults(self) -> None:
        clock = asyncio.get_running_loop().time
        before, last = self.read_faults(), clock()
        while True:
            found = self.read_faults()
            if found != before and clock() - last < 2:
                self.apply_faults(found)
            before, last = found, clock()
            await asyncio.sleep(self.poll)
