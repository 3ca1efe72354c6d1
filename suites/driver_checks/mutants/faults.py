"""Mutants that report faults wrongly."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from drahealth.fakes.cluster.api import SLICES, ApiError, Object
from drahealth.fakes.kubelet_plugin.slices import Pool
from drahealth.proto.health_apis import V1ALPHA1, HealthApi
from drahealth.proto.services import GET_INFO
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.mutants.healthy import Healthy, give_up
from drahealth.suites.driver_checks.mutants.lifetime import SliceNotRestored
from drahealth.suites.driver_checks.mutants.streams import HealthWaitsForPrepare
from drahealth.suites.driver_checks.mutants.table import mutant

_BREAK, _HEAL = "break-is-reported", "heal-is-reported"
_UNKNOWN = "unknown-is-not-unhealthy"
_OTHERS = "fault-leaves-other-devices-alone"
_AGREE = "reports-agree-while-a-fault-lasts"
_BYSTANDERS = "bystanders-keep-their-health"
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


@mutant("change-of-the-cause-is-reported", "each-change-of-a-cause-is-reported")
class FirstCauseStays(Healthy):
    """The message of a broken device does not change when the cause changes."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        old = {name: one for name, one in self.faults.items() if name in found and one.health is found[name].health}
        super().apply_faults(found | old)


@mutant(_UNKNOWN)
class UnknownAsUnhealthy(Healthy):
    """A device whose health is unknown is reported as Unhealthy."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, health=Health.UNHEALTHY) if found.health is Health.UNKNOWN else found


@mutant(_OTHERS, _BYSTANDERS, "each-unknown-health-is-reported")
class AllDevicesBreak(Healthy):
    """If one device breaks, the driver reports all devices as unhealthy."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        worst = next(iter(found.values()), None)
        super().apply_faults(dict.fromkeys(self.devices, worst) if worst else {})


class _NextDeviceIsUnknown(Healthy):
    """While `spreads` is set, the device after a broken one is reported as unknown."""

    spreads = False

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        after = {self.devices[(self.devices.index(name) + 1) % len(self.devices)]: one for name, one in found.items()}
        unknown = {name: replace(one, health=Health.UNKNOWN) for name, one in after.items() if self.spreads}
        super().apply_faults(unknown | found)


@mutant(_OTHERS, _BYSTANDERS, _AGREE)
class NextDeviceBreaks(_NextDeviceIsUnknown):
    """If one device breaks, the driver reports the next device as unknown."""

    spreads = True


@mutant("all-subscribers-hear-a-fault", "all-subscribers-receive-all-reports", "health-apis-agree", _AGREE)
class OneSubscriberHears(Healthy):
    """Only the newest stream of a health API shows changes. Each other one repeats the health of its first report."""

    heartbeat = 1
    change = 0

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.newest: Counter[str] = Counter()

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        self.newest[api.name] += 1
        mine, first = self.newest[api.name], self.listed(api, 0)
        async for message in super().watch(api, context):
            old = [replace(one, updated=self.time()) for one in first]
            yield message if mine == self.newest[api.name] else api.encode(old, {})


@mutant(
    "messages-agree-while-a-fault-lasts",
    level="core",
    also=("all-subscribers-receive-all-reports", "health-apis-agree"),
)
class NewStreamsHaveNoMessages(Healthy):
    """A stream that is opened while the driver has two streams of the health API has no messages."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        has_messages = list(self._wakers.values()).count(api) < 2
        async with aclosing(super().watch(api, context)) as reports:
            async for report in reports:
                shown = [replace(one, message="") for one in self.listed(api, 0)]
                yield report if has_messages else api.encode(shown, self.held_devices())


@mutant("message-is-that-of-the-fault", level="core")
class MessageOfTheReportBefore(Healthy):
    """The health of a device is new at each change, and its message that of the report before."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        old = {name: one.message for name, one in self.faults.items()}
        super().apply_faults({name: replace(one, message=old.get(name, "")) for name, one in found.items()})


@mutant("driver-survives-faults")
class ExitsWhenADeviceBreaks(Healthy):
    """The driver exits when a device breaks."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        super().apply_faults(found)
        if found:
            give_up("a device is broken")


@mutant("driver-survives-faults", level="core")
class ExitsWhenASecondDeviceBreaks(Healthy):
    """The driver exits when two devices are broken at the same time."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        super().apply_faults(found)
        if len(found) > 1:
            give_up("two devices are broken")


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


@mutant(_BYSTANDERS, level="full")
class NextDeviceUnknownAfterPause(_NextDeviceIsUnknown):
    """After a pause of its process, the driver reports the device after a broken one as unknown."""

    async def beat(self) -> None:
        self.spawn(self._notice_pauses())
        await super().beat()

    async def _notice_pauses(self) -> None:
        clock = asyncio.get_running_loop().time
        while not self.spreads:
            before = clock()
            await asyncio.sleep(0.2)
            self.spreads = clock() - before > 3
        self.apply_faults(self.read_faults())


@mutant(_BYSTANDERS, level="full")
class NextDeviceUnknownAfterBackendRestart(Healthy):
    """After a restart of its backend, the driver reports the device after one without a link as unknown."""

    connections = 0

    async def read_backend(self) -> None:
        self.connections += 1
        await super().read_backend()

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found, before = super().health_of(device, api), self.devices[self.devices.index(device) - 1]
        spreads = self.connections > 1 and before in self.unlinked
        return replace(found, health=Health.UNKNOWN) if spreads else found


@mutant("stream-after-a-pause-starts-with-all-devices", also=("new-stream-starts-with-all-devices",))
class ForgetsDevicesWhenIdle(Healthy):
    """After 20 s without a stream, the first report of the next stream with all devices lists only one device."""

    idle_since = 0.0

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        clock = asyncio.get_running_loop().time
        first = not api.prepared_only and all(one.prepared_only for one in self._wakers.values())
        forgot = first and 0 < self.idle_since < clock() - 20
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


class _ChangesWhenIdle(Healthy):
    """After 20 s without a stream, `was_idle` is set."""

    idle_since = 0.0
    was_idle = False

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        clock = asyncio.get_running_loop().time
        self.was_idle |= not self.open_streams and 0 < self.idle_since < clock() - 20
        try:
            async for message in super().watch(api, context):
                yield message
        finally:
            self.idle_since = clock()


@mutant(_TIMEOUT, level="full")
class SilentAfterIdle(_ChangesWhenIdle, _StopsHeartbeats):
    """After 20 s without a stream, the driver sends no heartbeats."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        async for message in super().watch(api, context):
            self.silent |= self.was_idle
            yield message


@mutant("slices-do-not-change", level="full")
class UnpublishesWhenIdle(_ChangesWhenIdle):
    """After 20 s without a stream, the driver removes its first device from the ResourceSlices."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        async for message in super().watch(api, context):
            if self.was_idle:
                self.publish()
            yield message

    def pools(self) -> dict[str, Pool]:
        devices = self.devices[1:] if self.was_idle else self.devices
        return {self.around.node: Pool([self.published(name) for name in devices])}


@mutant("driver-registers-again-at-the-same-socket", level="full", also=("get-info-describes-a-dra-driver",))
class OtherNameWhenIdle(_ChangesWhenIdle):
    """After 20 s without a stream, GetInfo returns another driver name."""

    async def get_info(self, request: Any, context: Any) -> Any:
        return GET_INFO.response(**self.info() | ({"name": f"other-{self.name}"} if self.was_idle else {}))


@mutant("each-broken-device-is-tainted", level="full")
class NoTaintWhenIdle(_ChangesWhenIdle):
    """After 20 s without a stream, the driver taints no device."""

    def taints(self, device: str) -> list[Object]:
        return [] if self.was_idle else super().taints(device)


@mutant("second-unprepare-succeeds", level="full")
class UnprepareFailsWhenIdle(_ChangesWhenIdle):
    """After 20 s without a stream, NodeUnprepareResources returns an error for each claim."""

    def unprepare(self, uid: str) -> Exception | None:
        return RuntimeError("no answer") if self.was_idle else super().unprepare(uid)


@mutant("cdi-device-ids-are-in-a-valid-spec", level="core")
class UndefinedCdiDeviceAfterRecovery(Healthy):
    """After the first recovery of a device, no CDI spec defines the returned CDI device IDs."""

    recovered = False

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        self.recovered |= len(found) < len(self.faults)
        super().apply_faults(found)

    def cdi_ids(self, device: str) -> tuple[str, ...]:
        right = super().cdi_ids(device)
        return tuple(f"{one}-undefined" for one in right) if self.recovered else right


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


@mutant("each-break-is-reported")
class LastDeviceIsWatched(Healthy):
    """The driver watches the health of the last device only."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        super().apply_faults({name: one for name, one in found.items() if name == self.devices[-1]})


@mutant("each-unknown-health-is-reported")
class OneBrokenDevice(Healthy):
    """While a device is broken, the driver does not report that another one breaks."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        known = {name: one for name, one in found.items() if name in self.faults}
        super().apply_faults(known or dict(list(found.items())[:1]))


@mutant("each-recovery-is-reported")
class SecondRecoveryIsLost(Healthy):
    """The driver does not report that a device recovers for the second time."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.recovered: list[str] = []

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        healed = [name for name in self.faults if name not in found]
        lost = {name: self.faults[name] for name in healed if name in self.recovered}
        self.recovered += healed
        super().apply_faults(lost | found)


@mutant("each-unknown-health-is-reported")
class UnhealthyStaysUnhealthy(Healthy):
    """The driver does not report Unknown for a device that is unhealthy."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        old = {name: one for name, one in self.faults.items() if one.health is Health.UNHEALTHY}
        lost = {name: old[name] for name, one in found.items() if name in old and one.health is Health.UNKNOWN}
        super().apply_faults(found | lost)


@mutant(_AGREE, level="core")
class RecoveryHealsAll(Healthy):
    """When a device recovers, the driver reports all devices as healthy for half a second."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        if self.faults.keys() - found.keys():
            super().apply_faults({})
            asyncio.get_running_loop().call_later(0.5, lambda: self.apply_faults(self.read_faults()))
        else:
            super().apply_faults(found)


@mutant(_AGREE)
class FirstReportIsHealthy(Healthy):
    """The first report of each stream says that all devices are healthy; the next report follows at once."""

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        found = super().listed(api, number)
        return found if number else [replace(one, health=Health.HEALTHY, message="") for one in found]

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        asyncio.get_running_loop().call_later(0.1, self.wake)
        async for message in super().watch(api, context):
            yield message


@mutant("all-subscribers-hear-a-fault", _AGREE)
class OldApiStaysHealthy(Healthy):
    """Over v1alpha1, the driver reports all devices as healthy."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, health=Health.HEALTHY, message="") if api is V1ALPHA1 else found


@mutant(_AGREE, level="core")
class PreparedDeviceIsHealthy(Healthy):
    """The driver reports each prepared device as healthy."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        held = {one.device for devices in self.prepared.values() for one in devices}
        return replace(found, health=Health.HEALTHY, message="") if device in held else found


@mutant(_AGREE, level="full")
class FaultsAreForgottenWithoutStreams(Healthy):
    """After 30 s without a stream, the driver reports all devices as healthy until one of them changes."""

    alone_since = math.inf

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        if time.monotonic() - self.alone_since > 30:
            self.faults = {}
        self.alone_since = math.inf
        try:
            async with aclosing(super().watch(api, context)) as messages:
                async for message in messages:
                    yield message
        finally:
            self.alone_since = math.inf if self.open_streams else time.monotonic()


@mutant(_AGREE, level="core")
class RegistrationResetsHealth(Healthy):
    """After a registration, the driver reports all devices as healthy until one of them changes."""

    async def notified(self, request: Any, context: Any) -> Any:
        self.faults = {}
        return await super().notified(request, context)


@mutant(_AGREE, level="core")
class CancelledStreamResetsHealth(Healthy):
    """After a stream was cancelled, the driver reports all devices as healthy until one of them changes."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        try:
            async for message in super().watch(api, context):
                yield message
        finally:
            self.faults = {}
