"""Mutants with wrong ResourceSlices, without an API server, and at their end."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from typing import Any

import grpc

from drahealth.fakes.cluster.api import SLICES, ApiError
from drahealth.fakes.kubelet_plugin.pools import Pool
from drahealth.proto.health_apis import HealthApi
from drahealth.suites.checking.mutants.healthy import Healthy, give_up
from drahealth.suites.checking.mutants.table import mutant

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
