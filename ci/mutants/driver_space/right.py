"""Drivers that are unusual, but right: no requirement may have the verdict FAIL.

`python -m driver_space.right NAME DIRECTORIES...` runs one; see `command`.
"""

import asyncio
import random
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.kubelet_plugin.interface import PrepareResult
from drahealth.fakes.kubelet_plugin.slices import Pool
from drahealth.proto.health_apis import NODE_HEALTH_DRAFT, V1, HealthApi
from drahealth.proto.services import PREPARE
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.mutants.driver import PLACES, serve
from drahealth.suites.driver_checks.mutants.healthy import Healthy

RIGHT: dict[str, type[Healthy]] = {}
"""The drivers by name. The docstring of a class is its sentence."""
WITHOUT_FAULTS = "static-health"
"""The one whose profile has no faults."""
_SLOW = 8.0
"""Seconds of a slow start."""


def command(name: str) -> tuple[str, ...]:
    """The command line of a driver; `ci/mutants` must be in PYTHONPATH."""
    return (sys.executable, "-m", "driver_space.right", name, *PLACES)


def right(name: str) -> Any:
    """Registers a class under this name."""

    def register(driver: type[Healthy]) -> type[Healthy]:
        RIGHT[name] = driver
        return driver

    return register


@right("usual")
class Usual(Healthy):
    """The driver without a defect."""


@right("heartbeat-1s")
class EachSecond(Healthy):
    """It sends a report each second."""

    heartbeat = 1


@right("timeout-120s")
class LongTimeout(Healthy):
    """The timeout is 120 s, and a heartbeat comes each 50 s."""

    heartbeat = 50
    timeout = 120


@right("negative-timeout")
class NegativeTimeout(Healthy):
    """The timeout is negative, which means the default of kubelets."""

    timeout = -1


@right("no-timeout")
class NoTimeout(Healthy):
    """The timeout is 0, which means the default of kubelets."""

    timeout = 0


@right("slow-start")
class SlowStart(Healthy):
    """It needs 8 s until it opens its sockets."""

    async def start(self) -> None:
        await asyncio.sleep(_SLOW)
        await super().start()


@right("device-in-no-slice")
class MoreReported(Healthy):
    """The reports have one more device, which no ResourceSlice has."""

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        found = super().listed(api, number)
        if api is NODE_HEALTH_DRAFT:
            return found
        return [*found, DeviceHealth(self.around.node, "spare-0", Health.HEALTHY, "", self.timeout, self.time())]


@right(WITHOUT_FAULTS)
class StaticHealth(Healthy):
    """The health of its devices never changes; its profile has no faults."""

    change = 0


@right("other-order")
class OtherOrder(Healthy):
    """Each report has the devices in another order."""

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        found = super().listed(api, number)
        return random.Random(number).sample(found, len(found))


@right("twice")
class Twice(Healthy):
    """It sends each report twice."""

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        async for message in super().watch(api, context):
            yield message
            yield message


@right("unknown-at-the-start")
class UnknownAtTheStart(Healthy):
    """In the first 2 s, the health of the devices is not known yet."""

    ready = False

    async def start(self) -> None:
        await super().start()
        asyncio.get_running_loop().call_later(2, self._examined)

    def _examined(self) -> None:
        self.ready = True
        self.changed()

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return found if self.ready else replace(found, health=Health.UNKNOWN, message="not examined yet")


@right("message-of-healthy")
class MessageOfHealthy(Healthy):
    """A healthy device has a message, too."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, message=found.message or "no problem found")


@right("unknown-time")
class UnknownTime(Healthy):
    """The time is unknown, except over NodeHealth, which does not allow this."""

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        found = super().listed(api, number)
        return found if "NodeHealth" in api.name else [replace(one, updated=0) for one in found]


@right("time-of-the-change")
class TimeOfTheChange(Healthy):
    """The time is that of the last change of the device."""

    def __init__(self, around: Any) -> None:
        super().__init__(around)
        self.since: dict[str, tuple[Health, str, int]] = {}

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        known = self.since.get(device)
        if known is None or known[:2] != (found.health, found.message):
            known = self.since[device] = (found.health, found.message, self.time())
        return replace(found, updated=known[2])


@right("two-pools")
class TwoPools(Healthy):
    """Its devices are in two pools."""

    devices = ("dev-0", "dev-1", "other-0", "other-1")

    def _pool(self, device: str) -> str:
        return f"{self.around.node}-other" if device.startswith("other") else self.around.node

    def pools(self) -> dict[str, Pool]:
        names = dict.fromkeys(map(self._pool, self.devices))
        return {name: Pool([self.published(one) for one in self.devices if self._pool(one) == name]) for name in names}

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        return replace(super().health_of(device, api), pool=self._pool(device))


@right("one-device")
class OneDevice(Healthy):
    """It has only one device."""

    devices = ("dev-0",)


@right("many-devices")
class ManyDevices(Healthy):
    """It has 128 devices."""

    devices = tuple(f"dev-{number}" for number in range(128))


@right("only-v1")
class OnlyV1(Healthy):
    """It serves only v1.DRAResourceHealth."""

    advertised = (*PREPARE, V1.advertised)

    def methods(self) -> Any:
        health = {name for name in super().methods() if "Watch" in name.path and name is not V1.method}
        return {name: one for name, one in super().methods().items() if name not in health}


@right("only-dra-v1")
class OnlyDraV1(Healthy):
    """It serves only the newest version of the DRA service."""

    served = tuple(PREPARE)[:1]
    advertised = (*tuple(PREPARE)[:1], *[one for one in Healthy.advertised if one not in PREPARE])


@right("slow-prepare")
class SlowPrepare(Healthy):
    """NodePrepareResources takes 3 s."""

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        await asyncio.sleep(3)
        return await super().prepare_resource_claims(claims)


@right("broken-are-refused")
class BrokenAreRefused(Healthy):
    """It does not prepare a device that is broken."""

    def refusal(self, uid: str, results: Sequence[Object]) -> str:
        broken = [one["device"] for one in results if one["device"] in self.faults | self.unlinked]
        return f"device {broken[0]} is broken" if broken else super().refusal(uid, results)


if __name__ == "__main__":
    name, *places = sys.argv[1:]
    asyncio.run(serve(RIGHT[name], places))
