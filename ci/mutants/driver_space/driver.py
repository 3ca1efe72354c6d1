"""A wrong driver as a process: `python -m driver_space.driver JSON DIRECTORIES...`, see `command`."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

import grpc

from drahealth.fakes.cluster.api import SLICES, Object
from drahealth.fakes.kubelet_plugin.interface import Device, NamespacedObject, PrepareResult
from drahealth.fakes.kubelet_plugin.slices import Pool
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.services import PREPARE, Method
from drahealth.proto.values import DeviceHealth
from drahealth.suites.driver_checks.mutants.driver import PLACES, serve
from drahealth.suites.driver_checks.mutants.healthy import Healthy, Surroundings, give_up
from driver_space.model import DEVICES, LATE, LATE_FIRST, Streams, WrongDriver

_LOOK = 0.25
"""Seconds between two looks at what has no event: the API server, and moments of the process."""
_CHURN = 3.0
"""Seconds between two changes of an attribute, or of a taint."""
_HANG = 600.0
"""Seconds of a call that does not return."""


def command(driver: WrongDriver) -> tuple[str, ...]:
    """The command line of a wrong driver; `ci/mutants` must be in PYTHONPATH."""
    return (sys.executable, "-m", "driver_space.driver", json.dumps(asdict(driver)), *PLACES)


class Generated(Healthy):
    """The driver of a defect. A subclass has the defect."""

    defect: ClassVar[WrongDriver]
    devices = DEVICES

    def __init__(self, around: Surroundings) -> None:
        self.born = time.monotonic()
        self.tainted_at: dict[str, float] = {}
        self.stays: dict[str, list[Object]] = {}
        """The taints that stay."""
        self.streams = Streams(self.defect, started=int(time.time()))
        mark = around.data_dir / "started-before"
        self.now.restarted = mark.exists() and around.instance == "1"
        mark.touch()
        super().__init__(around)
        self.now.prepared = bool(self.prepared)

    @property
    def now(self) -> Any:
        """What has happened so far."""
        now = self.streams.situation
        now.now = time.monotonic() - self.born
        return now

    def is_wrong(self, what: str) -> bool:
        """Whether the driver has this defect, and is at its moment."""
        return self.defect.what == what and bool(self.now.is_at(self.defect.moment))

    # -- life

    async def start(self) -> None:
        await super().start()
        self.spawn(self.look())

    async def look(self) -> None:
        """Looks whether the API server answers, and does what belongs to the process."""
        published = self.pools()
        while True:
            if self.defect.moment == "api-away":
                try:
                    await asyncio.wait_for(self.around.api.list(SLICES), 2)
                    self.now.api_away = False
                except Exception:
                    self.now.api_away = True
            if self.is_wrong("exits"):
                give_up("the driver exits")
            if self.is_wrong("hangs"):
                time.sleep(_HANG)  # noqa: ASYNC251
            if self.is_wrong("floods"):
                sys.stderr.write(("x" * 79 + "\n") * int(2 * 1024 * 1024 * _LOOK / 80))
            if self.is_wrong("no-registration-socket"):
                self.registration_socket.remove()
            if self.defect.family in ("slice", "taint") and (pools := self.pools()) != published:
                published = pools
                self.publish()
            await asyncio.sleep(_LOOK)

    async def stop(self) -> None:
        if self.is_wrong("ignores-sigterm"):
            await asyncio.sleep(_HANG)
        if self.is_wrong("leaves-sockets"):
            give_up("the driver ends without its last steps")
        await super().stop()

    # -- registration

    def info(self) -> dict[str, Any]:
        self.now.registrations += 1
        found = super().info()
        if self.is_wrong("other-driver-name"):
            found["name"] = f"other.{self.name}"
        if self.is_wrong("other-type"):
            found["type"] = "CSIPlugin"
        if self.is_wrong("no-versions"):
            found["supported_versions"] = tuple(one for one in self.advertised if one not in PREPARE)
        return found

    async def notified(self, request: Any, context: Any) -> Any:
        if self.is_wrong("notify-fails"):
            await context.abort(grpc.StatusCode.INTERNAL, "the registration is not known")
        return await super().notified(request, context)

    # -- ResourceSlices

    def pools(self) -> dict[str, Pool]:
        devices = [self.published(name) for name in self.devices]
        if self.is_wrong("slice-deleted"):
            return {}
        return {self.around.node: Pool([one for one in devices if one])}

    def published(self, device: str) -> Object:
        found = super().published(device)
        if self.defect.family != "slice" or not self.defect.has(device, self.now.broken):
            return found
        if self.is_wrong("slice-drops"):
            return {}
        if self.is_wrong("slice-renames"):
            return found | {"name": f"{device}-other"}
        if self.is_wrong("slice-churns"):
            return found | {"attributes": {"load": {"int": int(self.now.now // _CHURN)}}}
        return found

    def taints(self, device: str) -> list[Object]:
        right = super().taints(device)
        if self.defect.family != "taint":
            return right
        if not right:
            self.tainted_at.pop(device, None)
        elif device not in self.tainted_at:
            self.tainted_at[device] = self.now.now
        before = self.devices[self.devices.index(device) - 1]
        if self.is_wrong("taint-spreads") and self.defect.has(before, self.now.broken):
            return right or super().taints(before)
        if not self.defect.has(device, self.now.broken):
            return right
        if self.is_wrong("taint-stays"):
            self.stays |= {device: right} if right else {}
            return right or self.stays.get(device, [])
        since = self.now.now - self.tainted_at.get(device, 0.0)
        late = self.is_wrong("late-taint") and since < LATE
        if late or self.is_wrong("untainted") or (self.is_wrong("taint-flaps") and since // _CHURN % 2):
            return []
        changes: dict[str, Object] = {
            "other-key": {"key": f"other.{self.taint_key}"},
            "other-effect": {"effect": "None"},
        }
        change = changes.get(self.defect.what, {}) if self.is_wrong(self.defect.what) else {}
        return [one | change for one in right]

    # -- claims

    def methods(self) -> dict[Method, Any]:
        return {
            method: self._pending(function) if method in PREPARE.values() else function
            for method, function in super().methods().items()
        }

    def _pending(self, function: Any) -> Any:
        async def prepare(request: Any, context: Any) -> Any:
            self.now.preparing += 1
            try:
                return await function(request, context)
            finally:
                self.now.preparing -= 1

        return prepare

    def _of(self, uid: str) -> bool:
        """Whether the claim has a device of the defect."""
        return any(self.defect.has(one.device, self.now.broken) for one in self.prepared.get(uid, ()))

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        results = dict(await super().prepare_resource_claims(claims))
        self.now.prepared = bool(self.prepared)
        for uid in [uid for uid in results if self._of(uid)]:
            if self.is_wrong("prepare-aborts"):
                raise ValueError("the device library has failed")
            if self.is_wrong("prepare-hangs"):
                await asyncio.sleep(_HANG)
            if self.is_wrong("prepare-fails"):
                results[uid] = PrepareResult(error=ValueError("the device library has failed"))
            if self.is_wrong("prepare-no-result"):
                del results[uid]
        return results

    def answer(self, uid: str, device: Device) -> Device:
        found = super().answer(uid, device)
        if not self.defect.has(device.device, self.now.broken):
            return found
        if self.is_wrong("prepare-other-name"):
            return replace(found, device=f"{found.device}-other")
        if self.is_wrong("prepare-other-pool"):
            return replace(found, pool=f"{found.pool}-other")
        if self.is_wrong("prepare-other-request"):
            return replace(found, requests=("other",))
        if self.is_wrong("prepare-undefined-cdi"):
            return replace(found, cdi_ids=(f"{found.cdi_ids[0]}-undefined",))
        if self.is_wrong("prepare-shared-cdi"):
            return replace(found, cdi_ids=self.cdi_ids(self.devices[0]))
        return found

    def prepare(self, claim: Object) -> PrepareResult:
        result = super().prepare(claim)
        if not self.is_wrong("prepare-drops"):
            return result
        kept = [one for one in result.devices if not self.defect.has(one.device, self.now.broken)]
        return replace(result, devices=tuple(kept))

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        wrong = {one.uid: self.prepared[one.uid] for one in claims if self._of(one.uid)}
        results = dict(await super().unprepare_resource_claims(claims))
        for uid, devices in wrong.items():
            if self.is_wrong("unprepare-keeps"):
                self.prepared[uid] = devices
                self.save()
            if self.is_wrong("unprepare-aborts"):
                raise ValueError("the device library has failed")
            if self.is_wrong("unprepare-hangs"):
                await asyncio.sleep(_HANG)
            if self.is_wrong("unprepare-fails"):
                results[uid] = ValueError("the device library has failed")
            if self.is_wrong("unprepare-no-result"):
                del results[uid]
        self.now.unprepared = self.now.unprepared or bool(claims)
        self.now.prepared = bool(self.prepared)
        return results

    # -- health

    def changed(self) -> None:
        self.streams.sees({api.name: self.listed(api, 0) for api in HEALTH_APIS.values()})
        super().changed()
        if self.defect.what == "late":
            asyncio.get_running_loop().call_later(LATE + 0.1, self.wake)

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        assert self.now  # takes over the time
        view = self.streams.opens(api)
        waker = asyncio.Queue[None]()
        self._wakers[waker] = api
        try:
            while True:
                act, shown = view.report(self.listed(api, view.number), self.now)
                if act == "wait":
                    await asyncio.sleep(LATE_FIRST)
                    shown = tuple(self.listed(api, 0))
                if act in ("send", "wait"):
                    yield self.encoded(api, shown)
                elif act != "skip":
                    await self._ends(act, context)
                    return
                await self.woken(waker, api)
        finally:
            del self._wakers[waker]
            assert self.now  # takes over the time
            self.streams.closes(view)

    async def _ends(self, act: str, context: Any) -> None:
        """Ends a stream, or leaves it open without reports."""
        if act == "crash":
            give_up("a device has changed")
        if act == "block":
            await asyncio.Event().wait()
        if act == "fail":
            await context.abort(grpc.StatusCode.INTERNAL, "the device library has failed")
        if act == "unimplemented":
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no health")

    def encoded(self, api: HealthApi, devices: Sequence[DeviceHealth]) -> Any:
        """A report as it is sent."""
        return api.encode(devices, self.held_devices())


def class_of(defect: WrongDriver) -> type[Generated]:
    """The class of a wrong driver."""
    return type("Wrong", (Generated,), {"defect": defect})


if __name__ == "__main__":
    data, *places = sys.argv[1:]
    asyncio.run(serve(class_of(WrongDriver(**json.loads(data))), places))
