"""A node for the tests of the manager: the manager itself and fake drivers, over real sockets, time under control."""

import asyncio
import json
import logging
import re
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import CLAIMS
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.sockets import ServedSocket
from drahealth.manager.manager import DeviceManager
from drahealth.manager.profile import KEP, Gates, Profile
from drahealth.proto.events import Event, Registered
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, UNPREPARE, Method
from drahealth.proto.values import AllocatedClaim, ClaimRef, ClaimUse, DeviceHealth, Health, PodClaims, ResourceStatus
from drahealth.suites.unit.endings import PATIENCE

E = TypeVar("E")

DRIVER = "gpu.example.com"
REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


async def until(condition: Callable[[], Any], within: float = PATIENCE) -> Any:
    """What `condition` gives once it is true; real time, since real sockets bring it. Raises TimeoutError."""
    async with asyncio.timeout(within):
        while True:
            if value := condition():
                return value
            await asyncio.sleep(0.002)


async def settle() -> None:
    """Lets everything that is due now take its turn."""
    for _ in range(20):
        await asyncio.sleep(0)


class StillClock(JumpClock):
    """Time that passes by jumps alone, so that a slow machine changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._passed = 0.0

    def now(self) -> float:
        return self._passed

    def wall(self) -> float:
        return 1_750_000_000.0 + self._passed

    def jump(self, seconds: float) -> None:
        self._passed += seconds
        super().jump(seconds)


class Node:
    """Where a test lives: `start` the manager, run pods, start drivers, look at what shows."""

    def __init__(self, profile: Profile = KEP, gates: Gates | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dra-")
        self.root = Path(self._folder.name)
        self.registry = self.root / "plugins_registry"
        self.clock = StillClock()
        self.api = ApiServer(clock=self.clock)
        self.profile = profile
        self.gates = gates
        self.events: list[Event] = []
        self.notified: list[set[str]] = []
        self.observed: list[Event] = []
        self.uses: dict[str, list[ClaimUse]] = {}
        self._closing: list[Callable[[], Awaitable[Any]]] = []
        self._make_manager()

    def _make_manager(self) -> None:
        self.manager = DeviceManager(
            self.root, profile=self.profile, gates=self.gates, clock=self.clock, observe=self.observed.append
        )
        self.manager.subscribe(lambda pods: self.notified.append(set(pods)))

    async def start(self) -> None:
        await self.manager.start()

    async def restart(self, seconds: float = 0.0) -> None:
        """A new manager on the files of the old one, after so long."""
        await self.manager.stop()
        self.clock.jump(seconds)
        self._make_manager()
        await self.manager.start()

    async def close(self) -> None:
        await self.manager.stop()
        for close in reversed(self._closing):
            await close()
        self._folder.cleanup()

    # -- plugins

    def driver(self, name: str = DRIVER, devices: tuple[str, ...] = ("gpu-0", "gpu-1"), **options: Any) -> FakeDriver:
        """A fake driver that was not started yet; without heartbeat unless asked for."""
        folders = {"registry_dir": str(self.registry), "data_dir": str(self.root / "plugins" / name)}
        settings = {"node": "node-a", "devices": devices, "heartbeat": 0.0, **folders, **options}
        driver = FakeDriver(DriverOptions(name, **settings), self.api, clock=self.clock, observe=self.events.append)
        self._closing.append(driver.stop)
        return driver

    async def run_driver(self, name: str = DRIVER, **options: Any) -> FakeDriver:
        """A fake driver that is registered, with its health stream open where one is to be."""
        driver = self.driver(name, **options)
        await self.start_driver(driver)
        return driver

    async def start_driver(self, driver: FakeDriver) -> None:
        """Starts a driver, and waits until the manager has noted its registration: the driver knows it first."""
        before = self.happened(Registered)
        await driver.start()
        await registered(driver)
        await until(lambda: self.happened(Registered) != before)

    async def serve(self, functions: Mapping[Method, Callable[..., Any]], name: str = "odd-reg.sock") -> ServedSocket:
        """A plugin that is nothing but these functions behind a registration socket."""
        plugin = ServedSocket(self.registry / name, self.root / f".{name}", functions)
        await plugin.start()
        self._closing.append(plugin.stop)
        return plugin

    async def run_odd(self, **info: Any) -> "OddPlugin":
        """A plugin by hand, after its registration status has arrived."""
        plugin = OddPlugin(**info)
        await self.serve(plugin.methods)
        await until(lambda: plugin.told)
        return plugin

    def on_close(self, close: Callable[[], Awaitable[Any]]) -> None:
        self._closing.append(close)

    # -- pods

    async def claim(
        self,
        name: str,
        *devices: str,
        drivers: tuple[str, ...] = (DRIVER,),
        pool: str = "node-a",
        share: str = "",
    ) -> AllocatedClaim:
        """A claim of the API, allocated these devices of each driver, or a share of them."""
        shared = {"shareID": share} if share else {}
        made = await self.api.create(CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": REQUEST})
        results = [
            {"request": "gpu", "driver": driver, "pool": pool, "device": device, **shared}
            for driver in drivers
            for device in devices
        ]
        made["status"] = {"allocation": {"devices": {"results": results}}}
        await self.api.replace_status(CLAIMS, made)
        return AllocatedClaim(ClaimRef("default", name, made["metadata"]["uid"]), drivers)

    async def run_pod(self, pod: str, *claims: AllocatedClaim) -> None:
        """Prepares the claims of a pod with one container that uses them all."""
        self.uses[pod] = [ClaimUse(claim.ref.name, claim.ref.uid) for claim in claims]
        await self.manager.prepare(pod, claims)

    def entries(self, pod: str) -> tuple[ResourceStatus, ...]:
        """Those of the pod's one container now."""
        uses = PodClaims({"main": self.uses[pod]})
        return self.manager.allocated_resources_status(pod, uses).containers.get("main", ())

    def seen(self, pod: str) -> dict[str, str]:
        """What the pod's status would say now: health and message by the device's name."""
        return {
            re.split("[/=]", shown.resource_id)[-1]: ": ".join(filter(None, (shown.health, shown.message)))
            for entry in self.entries(pod)
            for shown in entry.resources
        }

    async def shows(self, pod: str, **expected: str) -> None:
        """The pod's status comes to say so; devices are written with underscores."""
        wanted = {name.replace("_", "-"): health for name, health in expected.items()}
        with suppress(TimeoutError):
            await until(lambda: self.seen(pod) == wanted)
        assert self.seen(pod) == wanted

    def health_on_file(self) -> Any:
        """What the health file holds; nothing before it was first written."""
        file = self.root / "dra_health_state"
        return json.loads(file.read_text()) if file.exists() else {}

    async def jump(self, seconds: float) -> None:
        """Time passes for all who wait for it by now."""
        await settle()
        self.clock.jump(seconds)
        await settle()

    async def after_jumps(self, condition: Callable[[], Any]) -> None:
        """Advances the clock by seconds until the condition holds."""

        def jumped() -> Any:
            self.clock.jump(1)
            return condition()

        await until(jumped)

    def happened(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


async def registered(driver: FakeDriver) -> None:
    async with asyncio.timeout(PATIENCE):
        await driver.wait_registered()


def says(device: str, health: Health = Health.HEALTHY, message: str = "") -> DeviceHealth:
    """Of a device in the node's own pool."""
    return DeviceHealth("node-a", device, health, message)


async def streams(driver: FakeDriver, still_open: int) -> int:
    """How many health streams there ever were, once this many are open: a plugin hears last that one has ended."""
    await until(lambda: driver.health.open == still_open)
    return (await driver.state()).streams_opened


async def watched_pod(node: Node, **options: Any) -> FakeDriver:
    """A driver whose two devices a pod holds and shows healthy."""
    driver = await node.run_driver(**options)
    await node.run_pod("pod", await node.claim("gpus", "gpu-0", "gpu-1"))
    await node.shows("pod", gpu_0="Healthy", gpu_1="Healthy")
    return driver


class OddPlugin:
    """A plugin by hand: sends the given registration data and records the status that it receives."""

    def __init__(self, **info: Any) -> None:
        self.info = {"type": "DRAPlugin", "name": "odd.example.com", "supported_versions": ["v1.DRAPlugin"], **info}
        self.told: list[tuple[bool, str]] = []
        self.asked = 0
        self.answer: Any = None
        self.pause = asyncio.Event()
        self.pause.set()
        self.code = grpc.StatusCode.OK
        self.methods: dict[Method, Any] = {GET_INFO: self._get_info, NOTIFY_REGISTRATION: self._notify}
        self.methods |= {PREPARE["v1.DRAPlugin"]: self._prepare, UNPREPARE["v1.DRAPlugin"]: self._unprepare}

    async def _get_info(self, request: Any, context: Any) -> Any:
        return GET_INFO.response(**self.info)

    async def _notify(self, request: Any, context: Any) -> Any:
        self.told.append((request.plugin_registered, request.error))
        return await self._as_told(context, NOTIFY_REGISTRATION.response())

    async def _prepare(self, request: Any, context: Any) -> Any:
        self.asked += 1
        await self.pause.wait()
        return await self._as_told(
            context, PREPARE["v1.DRAPlugin"].response(claims={c.uid: {} for c in request.claims})
        )

    async def _unprepare(self, request: Any, context: Any) -> Any:
        return await self._as_told(
            context, UNPREPARE["v1.DRAPlugin"].response(claims={c.uid: {} for c in request.claims})
        )

    async def _as_told(self, context: Any, answer: Any) -> Any:
        if self.code is not grpc.StatusCode.OK:
            await context.abort(self.code, "on purpose")
        return answer if self.answer is None else self.answer


def lines(caplog: pytest.LogCaptureFixture, about: str, level: int = logging.WARNING) -> list[str]:
    """What was logged at this level or above with these words in it, by us or by gRPC."""
    return [r.getMessage() for r in caplog.records if r.levelno >= level and about in r.getMessage()]
