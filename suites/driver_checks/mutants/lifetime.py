"""Mutants that register, publish or end wrongly, or disturb a rolling update."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import grpc

from drahealth.fakes.cluster.api import SLICES, ApiError
from drahealth.fakes.kubelet_plugin.interface import Device, NamespacedObject
from drahealth.fakes.kubelet_plugin.slices import Pool
from drahealth.proto.health_apis import HEALTH_APIS, V1ALPHA1, HealthApi
from drahealth.proto.sockets import SocketInUse
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.mutants.healthy import Healthy, give_up
from drahealth.suites.driver_checks.mutants.table import mutant

# Mutants that register wrongly.

_INFO = "get-info-describes-a-dra-driver"


@mutant("driver-has-a-registration-socket")
class NoRegistrationSocket(Healthy):
    """The name of the registration socket starts with a dot. Kubelets ignore such sockets."""

    async def start(self) -> None:
        await super().start()
        self.registration_socket.remove()


@mutant(_INFO)
class WrongType(Healthy):
    """GetInfo returns the type DevicePlugin."""

    def info(self) -> dict[str, Any]:
        return {**super().info(), "type": "DevicePlugin"}


@mutant(_INFO)
class InvalidName(Healthy):
    """The driver name has an underscore and capital letters."""

    name = "Mutant_Example"


@mutant(_INFO)
class NoDraVersion(Healthy):
    """GetInfo lists health APIs, but no DRA service."""

    advertised = tuple(dict.fromkeys(api.advertised for api in HEALTH_APIS.values()))


@mutant(_INFO)
class FailingGetInfo(Healthy):
    """GetInfo fails."""

    async def get_info(self, request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.INTERNAL, "not ready")


@mutant("advertised-services-are-served")
class UnservedVersion(Healthy):
    """GetInfo lists v1beta1.DRAPlugin, but the driver serves only v1.DRAPlugin."""

    served = ("v1.DRAPlugin",)


@mutant("accepted-registration-is-acknowledged")
class FailingNotify(Healthy):
    """NotifyRegistrationStatus fails for the first accepted registration."""

    calls = 0

    async def notified(self, request: Any, context: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            await context.abort(grpc.StatusCode.UNKNOWN, "no handler")
        return await super().notified(request, context)


@mutant("refused-driver-can-be-registered-again")
class SocketRemovedAfterRefusal(Healthy):
    """If the kubelet refuses the registration, the driver removes its registration socket, and keeps running."""

    async def notified(self, request: Any, context: Any) -> Any:
        if not request.plugin_registered:
            self.registration_socket.remove()
        return await super().notified(request, context)


@mutant("refused-driver-can-be-registered-again")
class SilentAfterRefusal(Healthy):
    """If the kubelet refuses the registration, GetInfo fails afterwards, and the driver keeps running."""

    refused = False

    async def notified(self, request: Any, context: Any) -> Any:
        self.refused = not request.plugin_registered
        return await super().notified(request, context)

    async def get_info(self, request: Any, context: Any) -> Any:
        if self.refused:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the registration was refused")
        return await super().get_info(request, context)


@mutant("driver-registers-again-at-the-same-socket", also=("accepted-registration-is-acknowledged",))
class RegistersOnce(Healthy):
    """NotifyRegistrationStatus fails when a restarted kubelet registers the driver again."""

    registered = False

    async def notified(self, request: Any, context: Any) -> Any:
        if self.registered:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "already registered")
        self.registered = True
        return await super().notified(request, context)


@mutant("driver-registers-again-at-the-same-socket", also=("get-info-describes-a-dra-driver",))
class NewNameAtSecondRegistration(Healthy):
    """The second GetInfo returns another driver name."""

    calls = 0

    def info(self) -> dict[str, Any]:
        self.calls += 1
        return {**super().info(), "name": self.name if self.calls == 1 else f"second.{self.name}"}


@mutant("served-health-is-advertised")
class HealthNotAdvertised(Healthy):
    """The driver serves v1alpha1.DRAResourceHealth, but GetInfo does not list this API."""

    advertised = tuple(name for name in Healthy.advertised if name != V1ALPHA1.advertised)


# Mutants with wrong ResourceSlices, without an API server, and at their end.

_AT_START = "slices-are-published-when-the-api-server-is-up"
_LATER = "driver-answers-while-the-api-server-is-down"
_END = "driver-ends-without-sockets"


@mutant("slices-do-not-change")
class ChangingAttribute(Healthy):
    """The driver publishes the temperature of its devices. It writes the ResourceSlice when a temperature changes."""

    temperature = 40

    async def beat(self) -> None:
        self.spawn(super().beat())
        while True:
            await asyncio.sleep(2)
            self.temperature += 1
            self.publish()

    def pools(self) -> dict[str, Pool]:
        attributes = {"temperature": {"int": self.temperature}}
        return {self.around.node: Pool([{"name": name, "attributes": attributes} for name in self.devices])}


@mutant("slices-do-not-change")
class GrowingGeneration(Healthy):
    """The driver writes the same ResourceSlice again and again, with a new generation."""

    async def beat(self) -> None:
        self.spawn(super().beat())
        while True:
            await asyncio.sleep(2)
            self.slices.publish(self.pools(), new_generation=True)


@mutant("deleted-slice-returns")
class SliceNotRestored(Healthy):
    """The driver does not publish a deleted ResourceSlice again."""

    def publish(self) -> None:
        super().publish()
        self.spawn(self._stop_publishing())

    async def _stop_publishing(self) -> None:
        await self.slices.in_sync()
        await self.slices.stop()


@mutant(_AT_START)
class PublishesOnce(Healthy):
    """At its start, the driver tries to publish its ResourceSlices. It does not try again after an error."""

    def publish(self) -> None:
        super().publish()
        self.spawn(self._give_up())

    async def _give_up(self) -> None:
        if await self.slices.attempted():
            await self.slices.stop()


async def _needs_api(driver: Healthy) -> None:
    """Exits if the API server is unreachable."""
    try:
        await driver.around.api.list(SLICES)
    except ApiError as error:
        give_up(f"no API server: {error}")


@mutant(_AT_START)
class ExitsWithoutApiServer(Healthy):
    """The driver exits if the API server is unreachable at its start."""

    async def start(self) -> None:
        await _needs_api(self)
        await super().start()


@mutant(_LATER)
class DiesWithApiServer(Healthy):
    """The driver exits when its API server becomes unreachable after the start."""

    async def run(self) -> None:
        running = asyncio.ensure_future(super().run())
        seen = False
        while not running.done():
            await asyncio.sleep(1)
            try:
                await self.around.api.list(SLICES)
                seen = True
            except ApiError as error:
                if seen:
                    give_up(f"lost the API server: {error}")


@mutant(_LATER)
class PrepareNeedsApiServer(Healthy):
    """NodePrepareResources fails while the API server is unreachable, even if the request has no claims."""

    async def answer_claims(self, call: Any, request: Any, context: Any) -> Any:
        try:
            await self.around.api.list(SLICES)
        except ApiError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        return await super().answer_claims(call, request, context)


@mutant(_END)
class LeavesSockets(Healthy):
    """The driver does not remove its sockets at its end."""

    async def stop(self) -> None:
        give_up("the sockets stay")


@mutant(_END)
class HangsAtTheEnd(Healthy):
    """The driver does not exit after SIGTERM."""

    async def stop(self) -> None:
        await asyncio.Event().wait()


@mutant(_END)
class HangsAtTheEndWithoutApiServer(Healthy):
    """The driver does not exit after SIGTERM while its API server is unreachable."""

    async def stop(self) -> None:
        try:
            await self.around.api.list(SLICES)
        except ApiError:
            await asyncio.Event().wait()
        await super().stop()


@mutant("claims-are-unprepared-while-the-api-server-is-down")
class UnprepareReadsApiServer(Healthy):
    """NodeUnprepareResources returns an error for each claim while the API server is unreachable."""

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        try:
            await self.around.api.list(SLICES)
        except ApiError as error:
            return {claim.uid: error for claim in claims}
        return await super().unprepare_resource_claims(claims)


@mutant("driver-registers-again-at-the-same-socket")
class RegistersOnlyBetweenClaims(Healthy):
    """NotifyRegistrationStatus fails while a NodePrepareResources call is pending."""

    pending = False

    async def answer_claims(self, call: Any, request: Any, context: Any) -> Any:
        self.pending = True
        try:
            return await super().answer_claims(call, request, context)
        finally:
            self.pending = False

    async def notified(self, request: Any, context: Any) -> Any:
        if self.pending:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the driver is busy")
        return await super().notified(request, context)


@mutant("children-end-with-the-driver")
class LeavesChild(Healthy):
    """The driver starts a child process, and does not end it."""

    def publish(self) -> None:
        super().publish()
        os.posix_spawnp("sleep", ["sleep", "600"], os.environ)


@mutant("output-is-at-most-10-mib-per-minute")
class FloodsItsLog(Healthy):
    """The driver writes 2 MB of log each second."""

    async def start(self) -> None:
        self.spawn(self._flood())
        await super().start()

    async def _flood(self) -> None:
        line = "nothing happened\n" * 12_000
        while True:
            sys.stderr.write(line)
            await asyncio.sleep(0.1)


@mutant("driver-runs-until-it-is-stopped")
class ExitsWithFiveStreams(Healthy):
    """The driver exits 4 s after a fifth health stream was opened."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        if self.open_streams >= 4:
            self.spawn(self._exit())
        async for message in super().watch(api, context):
            yield message

    async def _exit(self) -> None:
        await asyncio.sleep(4)
        give_up("too many streams")


# Mutants whose second instance in a rolling update disturbs the first one, or is disturbed by its end.

_BOTH, _CLAIMS = "two-instances-serve-side-by-side", "newer-instance-has-the-claims"
_LEFT, _HEALTH = "older-instance-leaves-what-the-newer-one-needs", "newer-instance-keeps-its-health"


@mutant(_BOTH)
class OneSocketForAllInstances(Healthy):
    """Both instances use the same names for their sockets."""

    ending = ""

    async def start(self) -> None:
        try:
            await super().start()
        except SocketInUse as error:
            give_up(str(error))


@mutant(_BOTH, also=("streams-stay-open",))
class OlderInstanceExits(Healthy):
    """The older instance exits when the newer instance creates its registration socket."""

    async def start(self) -> None:
        await super().start()
        self.spawn(self.look_for_others())

    async def look_for_others(self) -> None:
        others = self.around.registry_dir.glob(f"{self.name}-[2-9]-reg.sock")
        while self.ending or not any(others):
            await asyncio.sleep(self.poll)
            others = self.around.registry_dir.glob(f"{self.name}-[2-9]-reg.sock")
        give_up("another instance runs")


@mutant(_CLAIMS)
class ClaimsOfOneInstance(Healthy):
    """An instance refuses claims that the other instance has prepared."""

    def load(self) -> dict[str, list[Device]]:
        self.foreign = super().load() if self.ending else {}
        return {} if self.ending else super().load()

    def refusal(self, uid: str, results: Any) -> str:
        return "another instance has prepared it" if uid in self.foreign else super().refusal(uid, results)


@mutant(_LEFT)
class EndRemovesCdiSpecs(Healthy):
    """An instance removes the CDI specs at its end."""

    async def stop(self) -> None:
        await super().stop()
        for path in self.around.cdi_dir.iterdir():
            path.unlink()


@mutant(_LEFT)
class EndRemovesAllSockets(Healthy):
    """An instance removes the registration sockets of all instances at its end."""

    async def stop(self) -> None:
        await super().stop()
        for path in self.around.registry_dir.glob(f"{self.name}*-reg.sock"):
            path.unlink()


@mutant(_LEFT)
class EndRemovesSlices(Healthy):
    """An instance deletes the ResourceSlices at its end, and the other instance does not publish them again."""

    def publish(self) -> None:
        if not self.ending:
            super().publish()

    async def stop(self) -> None:
        await super().stop()
        if not self.ending:
            for one in await self.around.api.list(SLICES):
                await self.around.api.delete(SLICES, one["metadata"]["name"])


class _WithMark(Healthy):
    """The older instance has a file until its end."""

    async def start(self) -> None:
        if not self.ending:
            self.mark.touch()
        await super().start()

    async def stop(self) -> None:
        self.mark.unlink(missing_ok=True)
        await super().stop()

    @property
    def mark(self) -> Any:
        return self.around.data_dir / "older"


@mutant(_HEALTH)
class EndClearsHealth(_WithMark):
    """After the end of the older instance, the newer instance reports all devices as unknown."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, health=Health.UNKNOWN) if self.ending and not self.mark.exists() else found


@mutant(_HEALTH)
class EndEndsStreams(_WithMark):
    """When the older instance ends, the streams of the newer instance end."""

    heartbeat = 1

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        marked = self.mark.exists()
        async for message in super().watch(api, context):
            if self.ending and marked and not self.mark.exists():
                return
            yield message


@mutant(_HEALTH)
class OlderInstanceKeepsHealth(_WithMark):
    """While the older instance runs, the newer instance reports all devices as healthy."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        super().apply_faults({} if self.ending and self.mark.exists() else found)
