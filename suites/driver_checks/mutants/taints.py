"""Mutants that taint broken devices wrongly."""

import asyncio
from contextlib import suppress

from drahealth.fakes.cluster.api import SLICES, ApiError, Object, timestamp
from drahealth.suites.driver_checks.mutants.healthy import Healthy
from drahealth.suites.driver_checks.mutants.table import mutant

_TAINTED, _REMOVED = "broken-device-is-tainted", "taint-is-removed-after-recovery"
_OTHERS = "fault-leaves-other-taints-alone"
_RESTART, _TIME_OVER_RESTART = "taint-returns-after-a-restart", "taint-keeps-its-time-over-a-restart"


@mutant(_TAINTED)
class NoTaint(Healthy):
    """The driver publishes broken devices without a taint."""

    def taints(self, device: str) -> list[Object]:
        return []


@mutant(_TAINTED)
class TaintWithoutEffect(Healthy):
    """The taint of broken devices has the effect None."""

    def taints(self, device: str) -> list[Object]:
        return [{**one, "effect": "None"} for one in super().taints(device)]


@mutant(_TAINTED)
class TaintComesLate(Healthy):
    """The driver taints a broken device only after 9 s."""

    def taint(self, devices: frozenset[str]) -> None:
        self.tainted = devices
        asyncio.get_running_loop().call_later(9 if devices else 0, self.publish)


@mutant("each-broken-device-is-tainted")
class TaintDoesNotLast(Healthy):
    """The driver removes the taint of a broken device after 1 s."""

    old = frozenset[str]()
    """The devices whose taint is removed."""

    def taint(self, devices: frozenset[str]) -> None:
        self.old &= devices
        super().taint(devices)
        asyncio.get_running_loop().call_later(1, self.remove, devices)

    def remove(self, devices: frozenset[str]) -> None:
        """Publishes these devices without a taint."""
        self.old |= devices & self.tainted
        self.publish()

    def taints(self, device: str) -> list[Object]:
        return [] if device in self.old else super().taints(device)


@mutant(_TAINTED)
class BrokenDeviceIsRemoved(Healthy):
    """The driver removes broken devices from its ResourceSlices."""

    def taint(self, devices: frozenset[str]) -> None:
        self.devices = tuple(one for one in Healthy.devices if one not in devices)  # type: ignore[misc]
        super().taint(frozenset())
        self.tainted = devices
        self.devices = Healthy.devices  # type: ignore[misc]


@mutant(_OTHERS, also=("each-taint-is-removed",))
class AllDevicesTainted(Healthy):
    """If one device breaks, the driver taints all devices."""

    def taint(self, devices: frozenset[str]) -> None:
        super().taint(devices)
        self.slices.publish(self.pools())

    def taints(self, device: str) -> list[Object]:
        return super().taints(min(self.tainted, default=device))


@mutant(_REMOVED)
class TaintStays(Healthy):
    """The driver does not remove the taint of a device that has recovered."""

    def taints(self, device: str) -> list[Object]:
        self.ever = getattr(self, "ever", frozenset[str]()) | self.tainted
        return [{"key": self.taint_key, "effect": "NoSchedule"}] if device in self.ever else []


@mutant("each-broken-device-is-tainted")
class FirstDeviceNotTainted(Healthy):
    """The driver does not taint its first device."""

    def taints(self, device: str) -> list[Object]:
        return [] if device == self.devices[0] else super().taints(device)


@mutant("each-taint-is-removed")
class TaintOfFirstDeviceStays(Healthy):
    """The driver does not remove the taint of its first device."""

    ever = False

    def taints(self, device: str) -> list[Object]:
        self.ever = self.ever or self.devices[0] in self.tainted
        stays = self.ever and device == self.devices[0]
        return [{"key": self.taint_key, "effect": "NoSchedule"}] if stays else super().taints(device)


@mutant(_RESTART)
class TaintForgottenAtRestart(Healthy):
    """After a restart, the driver publishes the devices that were broken before without a taint."""

    async def start(self) -> None:
        self.forgotten = frozenset(self.read_faults())
        await super().start()

    def taints(self, device: str) -> list[Object]:
        return [] if device in self.forgotten else super().taints(device)


@mutant(_TIME_OVER_RESTART)
class TaintIsAddedAgainAtRestart(Healthy):
    """At its start, the driver first publishes all devices without taints."""

    def publish(self) -> None:
        broken, self.tainted = self.tainted, frozenset()
        super().publish()
        if broken:
            self.spawn(self.publish_later(broken))

    async def publish_later(self, devices: frozenset[str]) -> None:
        """Publishes the taints."""
        await asyncio.sleep(0.5)
        self.tainted = devices
        super().publish()


class _Rewrites(Healthy):
    """Writes its ResourceSlices again and again while a device is broken."""

    async def beat(self) -> None:
        self.spawn(self.rewrite())
        await super().beat()

    async def rewrite(self) -> None:
        """Writes each ResourceSlice of this driver again."""
        while True:
            await asyncio.sleep(0.2)
            for one in await self.around.api.list(SLICES) if self.tainted else ():
                if one["spec"]["driver"] == self.name and one["spec"].get("nodeName") == self.around.node:
                    with suppress(ApiError):
                        await self.around.api.replace(SLICES, self.rewritten(one))

    def rewritten(self, found: Object) -> Object:
        """What is written in place of a ResourceSlice."""
        raise NotImplementedError


@mutant("taint-keeps-its-time")
class TaintGetsANewTime(_Rewrites):
    """The driver taints an unhealthy device. It writes the taint again and again, each time with another time."""

    writes = 0

    def changed(self) -> None:
        super().changed()
        self.taint(frozenset(self.devices[-1:]) if self.sick else frozenset())

    async def follow_taints(self) -> None:
        """The taint follows the health."""

    def rewritten(self, found: Object) -> Object:
        self.writes += 1
        added = {"timeAdded": timestamp(self.writes)}  # the API has whole seconds, and a fault can be shorter
        devices = [
            {"name": one["name"], "taints": [{**taint, **added} for taint in self.taints(one["name"])]}
            for one in found["spec"]["devices"]
        ]
        return {**found, "spec": {**found["spec"], "devices": devices}}


@mutant("slices-do-not-churn-during-a-fault")
class NewGenerationsDuringAFault(_Rewrites):
    """While a device is broken, the driver writes its ResourceSlice again and again, with a new generation."""

    def rewritten(self, found: Object) -> Object:
        pool = found["spec"]["pool"]
        return {**found, "spec": {**found["spec"], "pool": {**pool, "generation": pool["generation"] + 1}}}


@mutant("taint-changes-only-its-slice")
class TaintChangesAllSlices(Healthy):
    """The driver has a ResourceSlice for each device, and writes all of them when one device breaks."""

    generation = 0

    def publish(self) -> None:
        self.generation += 1
        self.spawn(self.write(self.generation))

    async def write(self, generation: int) -> None:
        """Writes all ResourceSlices in a generation."""
        pool = {"name": self.around.node, "generation": generation, "resourceSliceCount": len(self.devices)}
        for device in self.devices:
            name = f"{self.around.node}-{self.name}-{device}"
            published = self.published(device)
            spec = {"driver": self.name, "nodeName": self.around.node, "pool": pool, "devices": [published]}
            try:
                old = await self.around.api.get(SLICES, name)
            except ApiError:
                await self.around.api.create(SLICES, {"metadata": {"name": name}, "spec": spec})
            else:
                times = {one["key"]: one["timeAdded"] for one in old["spec"]["devices"][0].get("taints", ())}
                for taint in published.get("taints", ()):
                    taint |= {"timeAdded": times[taint["key"]]} if taint["key"] in times else {}
                await self.around.api.replace(SLICES, {**old, "spec": spec})


@mutant("taint-key-has-a-domain-of-the-vendor", _TAINTED)
class TaintKeyWithoutDomain(Healthy):
    """The key of the taint is `unhealthy`."""

    def taints(self, device: str) -> list[Object]:
        return [{**one, "key": "unhealthy"} for one in super().taints(device)]
