"""Mutants whose health streams or reports are wrong."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc

from drahealth.proto.health_apis import NODE_HEALTH, NODE_HEALTH_DRAFT, V1, V1ALPHA1, HealthApi
from drahealth.proto.services import PREPARE
from drahealth.proto.values import MESSAGE_LIMIT, DeviceHealth, Health
from drahealth.suites.driver_checks.mutants.healthy import Healthy, Surroundings
from drahealth.suites.driver_checks.mutants.table import mutant

# Mutants whose reports have wrong fields: names, health, messages and times.

_FIELDS = "required-fields-are-valid"
_SIZE = "messages-have-at-most-1024-bytes"
_TIMES = "timestamps-are-plausible"


class _OneMore(Healthy):
    """Reports one more device; mutants give it a wrong name."""

    def more(self, number: int) -> DeviceHealth:
        """The device."""
        raise NotImplementedError

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        devices = super().listed(api, number)
        return devices if api is NODE_HEALTH_DRAFT else [*devices, self.more(number)]


@mutant(_FIELDS)
class NoPoolName(_OneMore):
    """A reported device has no pool name."""

    def more(self, number: int) -> DeviceHealth:
        return DeviceHealth("", "dev-3", Health.HEALTHY, updated=self.time())


@mutant(_FIELDS)
class InvalidDeviceName(_OneMore):
    """The name of a reported device is a PCI address."""

    def more(self, number: int) -> DeviceHealth:
        return DeviceHealth(self.around.node, "0000:3b:00.0", Health.HEALTHY, updated=self.time())


@mutant(_FIELDS)
class ChangingNames(_OneMore):
    """The name of a reported device contains the number of the report."""

    def more(self, number: int) -> DeviceHealth:
        return DeviceHealth(self.around.node, f"dev-3-{number}", Health.HEALTHY, updated=self.time())


@mutant(_FIELDS)
class UnknownHealthValue(Healthy):
    """A report of v1.DRAResourceHealth has the health number 7."""

    def message(self, api: HealthApi, number: int) -> Any:
        message = super().message(api, number)
        if api is V1 and number == 2:
            message.devices[0].health = 7
        return message


class _Unhealthy(Healthy):
    """Its first device is always unhealthy."""

    text = "failed"

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, health=Health.UNHEALTHY, message=self.text) if device == self.devices[0] else found


@mutant(_SIZE)
class LongMessage(_Unhealthy):
    """A message has 1025 bytes."""

    text = "x" * (MESSAGE_LIMIT + 1)


@mutant(_SIZE)
class LongMessageInBytes(_Unhealthy):
    """A message has 1024 characters, and 2048 bytes."""

    text = "é" * MESSAGE_LIMIT


@mutant("messages-are-stable")
class CountingMessage(_Unhealthy):
    """The message contains the number of the heartbeat."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, message=f"failed {self.beats} times") if found.message == self.text else found


@mutant(_TIMES)
class TimeInMilliseconds(Healthy):
    """Times are in milliseconds."""

    def time(self) -> int:
        return int(time.time() * 1000)


@mutant(_TIMES)
class TimeInTheFuture(Healthy):
    """Times are one hour in the future."""

    def time(self) -> int:
        return int(time.time()) + 3600


@mutant(_TIMES)
class TimeGoesBack(Healthy):
    """Times decrease with each heartbeat."""

    def time(self) -> int:
        return int(time.time()) - 6 * self.beats


@mutant(_TIMES)
class TimeSinceBoot(Healthy):
    """Times are seconds since the start of the machine."""

    def time(self) -> int:
        return int(time.monotonic())


# Mutants whose health streams are wrong: what they list, when they report, and how they end.

_PROMPT = "first-report-is-prompt"
_ALL = "first-report-lists-published-devices"


@mutant("advertised-health-streams-or-is-unimplemented")
class BrokenHealthApi(Healthy):
    """The advertised v1alpha1.DRAResourceHealth fails with an internal error."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        if api is V1ALPHA1:
            await context.abort(grpc.StatusCode.INTERNAL, "health is not ready")
        async for message in super().watch(api, context):
            yield message


@mutant("newest-kubelet-gets-the-health")
class OnlyTheOlderHealthApi(Healthy):
    """The driver advertises v1.DRAResourceHealth and v1alpha1.DRAResourceHealth, and serves only the second one."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        if api is V1:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such service")
        async for message in super().watch(api, context):
            yield message


@mutant("newest-kubelet-gets-the-health", "served-health-is-advertised")
class NoHealthAdvertised(Healthy):
    """The driver serves all health APIs, and advertises none of them."""

    advertised = (*PREPARE,)


@mutant(_PROMPT)
class SilentStream(Healthy):
    """The driver accepts streams of v1alpha1.DRAResourceHealth, but sends no report on them."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        if api is V1ALPHA1:
            await asyncio.Event().wait()
        async for message in super().watch(api, context):
            yield message


@mutant(_PROMPT, also=("new-stream-starts-with-all-devices",))
class LateFirstReport(Healthy):
    """The first report of a stream of v1alpha1.DRAResourceHealth comes after 7 s."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        if api is V1ALPHA1:
            await asyncio.sleep(7)
        async for message in super().watch(api, context):
            yield message


@mutant(_ALL)
class EmptyFirstReport(Healthy):
    """The first report lists no device. The next report lists all devices."""

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        first = number == 0 and api is not NODE_HEALTH
        return [] if first else super().listed(api, number)


@mutant(_ALL)
class PartialFirstReport(Healthy):
    """The first report lists all devices except the last device. The next report lists all devices."""

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        devices = super().listed(api, number)
        return devices[:-1] if number == 0 and not api.prepared_only else devices


@mutant("draft-reports-list-prepared-devices")
class PartialDraftReports(Healthy):
    """Reports over WatchDevicesStatus list only devices whose health changed."""

    heartbeat = 0.3

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        devices = super().listed(api, number)
        return devices if api is not NODE_HEALTH_DRAFT else [one for one in devices if one.message]

    async def unprepare_resource_claims(self, claims: Any) -> Any:
        await asyncio.sleep(1)
        return await super().unprepare_resource_claims(claims)

    async def prepare_resource_claims(self, claims: Any) -> Any:
        await asyncio.sleep(1)
        return await super().prepare_resource_claims(claims)


@mutant("node-health-reports-list-all-devices")
class PartialNodeHealthReports(Healthy):
    """After the first report, each report over WatchResources lists only one device."""

    change = 0

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        devices = super().listed(api, number)
        if api is not NODE_HEALTH or number == 0:
            return devices
        return [devices[number % len(devices)]]


@mutant("health-is-reported-while-prepare-is-pending", "first-report-is-prompt", "new-stream-starts-with-all-devices")
class HealthWaitsForPrepare(Healthy):
    """Health reports wait for the lock that NodePrepareResources holds."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.lock = asyncio.Lock()

    async def answer_claims(self, call: Any, request: Any, context: Any) -> Any:
        async with self.lock:
            return await super().answer_claims(call, request, context)

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        async for message in super().watch(api, context):
            async with self.lock:
                pass
            yield message


@mutant("streams-stay-open")
class StreamEndsEarly(Healthy):
    """Streams end after 5 s."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        end = asyncio.get_running_loop().time() + 5
        async for message in super().watch(api, context):
            if asyncio.get_running_loop().time() > end:
                return
            yield message


class _EndsStreams(Healthy):
    """Ends streams by itself."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        number = 0
        async with aclosing(super().watch(api, context)) as messages:
            async for message in messages:
                yield message
                number += 1
                if self.ends_after(api, number):
                    return

    def ends_after(self, api: HealthApi, number: int) -> bool:
        """Whether a stream ends after so many reports."""
        raise NotImplementedError


@mutant("streams-stay-open")
class StreamEndsAfterFirstReport(_EndsStreams):
    """Each stream ends after its first report."""

    def ends_after(self, api: HealthApi, number: int) -> bool:
        return True


@mutant("streams-stay-open")
class StreamEndsOnChange(_EndsStreams):
    """All streams end when the health of a device changes for the first time."""

    def ends_after(self, api: HealthApi, number: int) -> bool:
        return self.sick


@mutant("streams-stay-open")
class StreamFailsLate(Healthy):
    """After 20 s, streams of v1.DRAResourceHealth fail with an internal error."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        clock = asyncio.get_running_loop().time
        end = clock() + 20
        async for message in super().watch(api, context):
            if api is V1 and clock() > end:
                await context.abort(grpc.StatusCode.INTERNAL, "the connection to the hardware was lost")
            yield message


@mutant("streams-stay-open")
class SecondSubscriberEnds(Healthy):
    """If another stream of the health API is open, a new stream ends after 10 s."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        clock = asyncio.get_running_loop().time
        end = clock() + (10 if self.streams_of(api) else 3600)
        async for message in super().watch(api, context):
            if clock() > end:
                return
            yield message


@mutant("streams-stay-open")
class OnlyTheNewestStream(Healthy):
    """When a stream opens, the driver ends the other streams of the health API."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.newest: dict[HealthApi, int] = {}

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        mine = self.newest[api] = self.newest.get(api, 0) + 1
        async for message in super().watch(api, context):
            if self.newest[api] > mine:
                return
            yield message


@mutant("devices-are-refreshed-within-their-timeout")
class NeverAgain(Healthy):
    """The driver sends one report on a stream, and no heartbeats."""

    heartbeat = 0
    change = 0


@mutant("devices-are-refreshed-within-their-timeout")
class LateHeartbeat(Healthy):
    """The driver sends heartbeats every 13 s, but the timeout is 10 s."""

    heartbeat = 13
    timeout = 10
    change = 0


@mutant("devices-are-refreshed-within-their-timeout")
class OneDeviceExpires(Healthy):
    """Heartbeats list all devices except the first device."""

    timeout = 10

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        devices = super().listed(api, number)
        return devices[1:] if number and api in (V1, V1ALPHA1) else devices


class _ChangesOnce(Healthy):
    """Changes the health of the last device once, after 10 s, and sends no heartbeats."""

    heartbeat = 0

    async def alternate(self) -> None:
        await asyncio.sleep(10)
        self.sick = True
        self.changed()


@mutant("devices-are-refreshed-within-their-timeout")
class SilentAfterChange(_ChangesOnce):
    """The driver reports one change of health after 10 s. After this report, it is silent."""


@mutant("devices-are-refreshed-within-their-timeout")
class HeartbeatsStop(Healthy):
    """The driver sends only five heartbeats."""

    heartbeat = 6
    change = 0

    async def beat(self) -> None:
        for _ in range(5):
            await asyncio.sleep(self.heartbeat)
            self.wake()


@mutant("devices-are-refreshed-within-their-timeout")
class HeartbeatsSlowDown(Healthy):
    """The driver sends heartbeats every 5 s, and after 25 s every 40 s."""

    change = 0

    async def beat(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(5 if number < 5 else 40)
            number += 1
            self.wake()


@mutant("devices-are-refreshed-within-their-timeout")
class OneDeviceSilentLater(Healthy):
    """After the third report of a stream, reports do not list the first device."""

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        devices = super().listed(api, number)
        return devices[1:] if number > 2 and api in (V1, V1ALPHA1) else devices


@mutant("devices-are-refreshed-within-their-timeout")
class SilentHealthApi(Healthy):
    """After three heartbeats, the driver sends no reports over v1alpha1.DRAResourceHealth."""

    async def woken(self, waker: "asyncio.Queue[None]", api: HealthApi) -> None:
        await super().woken(waker, api)
        if api is V1ALPHA1 and self.beats > 2:
            await asyncio.Event().wait()


@mutant("devices-are-refreshed-within-their-timeout", "all-subscribers-receive-all-reports")
class SilentSecondSubscriber(Healthy):
    """All streams get the first heartbeat. Later heartbeats reach only every second open stream of a health API."""

    heartbeat = 12
    change = 0

    def wake(self, *, prepared_only: bool = False) -> None:
        for api in set(self._wakers.values()):
            mine = [waker for waker, of in self._wakers.items() if of is api]
            for waker in mine if self.beats < 2 else mine[::2]:
                if api.prepared_only or not prepared_only:
                    waker.put_nowait(None)


@mutant("devices-are-refreshed-within-their-timeout")
class TimeoutShrinks(Healthy):
    """The driver sends heartbeats every 13 s. After the second heartbeat, it reports a timeout of 10 s, before 30 s."""

    heartbeat = 13
    change = 0

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        return replace(super().health_of(device, api), timeout=10 if self.beats > 1 else 30)


@mutant("devices-are-refreshed-within-half-their-timeout")
class LastMinuteHeartbeat(Healthy):
    """The driver sends heartbeats every 8 s, but half of the timeout is 5 s."""

    heartbeat = 8
    timeout = 10
    change = 0


@mutant("all-subscribers-receive-all-reports")
class OneChannelForAll(Healthy):
    """Only every second open stream of a health API receives changes: the first, the third and so on."""

    heartbeat = 12

    def changed(self) -> None:
        for api in set(self._wakers.values()):
            for waker in [waker for waker, of in self._wakers.items() if of is api][::2]:
                waker.put_nowait(None)


@mutant("new-stream-starts-with-all-devices", "first-report-lists-published-devices")
class ResumedStream(Healthy):
    """After a subscriber has cancelled a stream, the first report of a new stream lists only one device."""

    opened = 0
    """Streams of v1.DRAResourceHealth so far."""
    open_now = 0
    ended = 0.0
    """When one of them ended while others were open."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        stream = self._continued(super().watch(api, context)) if api is V1 else super().watch(api, context)
        async with aclosing(stream):
            async for message in stream:
                yield message

    async def _continued(self, stream: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        clock, resumed = asyncio.get_running_loop().time, False
        self.opened += 1
        self.open_now += 1
        try:
            if self.opened > 1:
                await asyncio.sleep(0.3)  # streams open at the same time, and the end of one is noticed late
                resumed = clock() - self.ended < 1
            async for message in stream:
                if resumed:
                    del message.devices[1:]
                resumed = False
                yield message
        finally:
            self.open_now -= 1
            self.ended = clock() if self.open_now else self.ended


@mutant("required-fields-are-valid")
class GarbageReport(Healthy):
    """The third report of a stream is not a message of the health API."""

    def message(self, api: HealthApi, number: int) -> Any:
        return b"\xff garbage" if number == 2 else super().message(api, number)


@mutant("health-apis-agree")
class DisagreeingHealthApis(Healthy):
    """v1alpha1.DRAResourceHealth reports an unhealthy device as healthy."""

    change = 0

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.sick = True

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, health=Health.HEALTHY, message="") if api is V1ALPHA1 else found
