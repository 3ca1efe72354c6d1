"""Mutants whose second instance in a rolling update disturbs the first one, or is disturbed by its end."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from drahealth.fakes.cluster.api import SLICES
from drahealth.fakes.kubelet_plugin.interface import Device
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.sockets import SocketInUse
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.checking.mutants.healthy import Healthy, give_up
from drahealth.suites.checking.mutants.table import mutant

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


@mutant(_BOTH)
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
