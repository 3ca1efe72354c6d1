"""Fences: how a play knows that what was to come has come, without waiting for time to pass.

A driver of its own reports a change of a device. The kubelet tells pods of changes one after the other, so when the
fence pod shows this change, what the kubelet had to tell of before has been told (absence is shown by what comes
later). A second device is in every pod of the lane: its change has each of them synced, as a resync would.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import count

from drahealth.fakes.cluster.api import CLAIMS, DEVICE_CLASSES, NAMESPACES, PODS, ApiError
from drahealth.fakes.control.driver import DriverOptions
from drahealth.proto.events import StatusSeen
from drahealth.proto.values import Health
from drahealth.suites.differential.margins import Margins
from drahealth.suites.differential.observation import FENCE
from drahealth.suites.differential.polling import comes_true
from drahealth.suites.errors import HarnessError
from drahealth.suites.story import manifests
from drahealth.suites.story.history import History
from drahealth.suites.story.pod_watch import PodWatch
from drahealth.suites.targets.labels import BELONGS
from drahealth.suites.targets.target import Target

_LONG = 10_000_000
"""Seconds, the timeout of the fence's devices: they never become stale."""
_START = 60.0
_LATE = 20.0
"""Seconds after which a fence that has not come is the machine's fault."""


class FenceDriver:
    """The driver of the fences of all lanes of a target; two devices for each lane."""

    def __init__(self, target: Target, lanes: int) -> None:
        self.target = target
        self.name = f"fence-{secrets.token_hex(3)}.example.com"
        self._devices = tuple(f"device-{number}" for number in range(2 * lanes))
        self._history = History()

    async def start(self) -> None:
        await self.target.api.create(DEVICE_CLASSES, manifests.device_class(self.name))
        options = DriverOptions(
            name=self.name,
            node=self.target.node_name,
            devices=self._devices,
            registry_dir=str(self.target.registry_dir),
            data_dir=str(self.target.plugins_dir / FENCE),
            heartbeat=0,
            timeout=_LONG,
        )
        self.control = await self.target.start_driver(options, self._history.add)
        await self.control.start()
        await asyncio.wait_for(self.control.wait_registered(), _START)
        await self.is_watched(1)

    async def is_watched(self, streams: int) -> None:
        """Returns once its health stream was opened so many times."""
        if not await comes_true(lambda: self._is_watched(streams), _START):
            raise HarnessError("waited in vain for the fence's health stream", await self.target.log_tail())

    async def _is_watched(self, streams: int) -> bool:
        return (await self.control.state()).streams_opened >= streams

    async def stop(self) -> None:
        with suppress(ApiError):
            await self.target.api.delete(DEVICE_CLASSES, self.name)
        await self.control.retire()


class Lane:
    """A namespace with a fence in it, where one script is played after another."""

    def __init__(self, fences: FenceDriver) -> None:
        self.target = fences.target
        self.namespace = f"lane-{secrets.token_hex(4)}"
        self.history = History()
        self.watch = PodWatch(self.target.api, self.namespace, self.history)
        self._fences = fences
        self._numbers = count(1)
        self._pod = ""
        self._devices: dict[str, str] = {}

    async def start(self) -> None:
        api = self.target.api
        await api.create(NAMESPACES, {"metadata": {"name": self.namespace, "labels": BELONGS}})
        await self.target.prepare_namespace(self.namespace)
        self.watch.start()
        for claim in ("push", FENCE):
            await api.create(CLAIMS, manifests.claim(self.namespace, claim, {"device": (self._fences.name, 1)}))
        uses = {FENCE: [("push", None)]}
        # The claim of the other fence is in no container, and stays prepared as long as the lane.
        pod = manifests.pod(self.namespace, "fence", uses, {"push": "push", FENCE: FENCE}, self.target.workload_image)
        self._pod = (await api.create(PODS, pod))["metadata"]["uid"]
        await self.wait(lambda: self.is_running(self._pod), "the fence pod runs", _START)
        for claim in ("push", FENCE):
            found = await api.get(CLAIMS, claim, self.namespace)
            self._devices[claim] = found["status"]["allocation"]["devices"]["results"][0]["device"]
        await self.push()

    async def stop(self) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.watch.stop)
            stack.push_async_callback(self.target.api.delete, NAMESPACES, self.namespace)
            stack.push_async_callback(self.target.api.delete, PODS, "fence", self.namespace)

    async def push(self, rounds: int = 1) -> None:
        """Returns when the kubelet has told all that it had to tell when this was called. Raises HarnessError."""
        for _ in range(rounds):
            shows = partial(self._shows, self._pod, await self._change("push"))
            await self.wait(shows, "the fence pod shows its change", _LATE)

    async def sync(self, pods: set[str], margins: Margins) -> set[str]:
        """Has these pods synced, by uid, and returns those that do not come to show it, as their status is refused.

        How long that takes depends on the machine: who does not show it is waited for until the fence pod has shown
        what came later.
        """
        word = await self._change(FENCE)

        def shown() -> bool:
            return all(self._shows(uid, word) for uid in pods)

        if not await self.history.until(shown, margins.stuck):
            await self.push(margins.rounds)
            await self.history.until(shown, margins.settle)
        return {uid for uid in pods if not self._shows(uid, word)}

    async def wait(self, true: Callable[[], bool], what: str, seconds: float) -> None:
        """Waits until it is true. Raises HarnessError if it does not become so."""
        if not await self.history.until(true, seconds):
            self.target.check()
            raise HarnessError(f"waited {seconds:g} s in vain until {what}", "the machine may be too busy")

    def is_running(self, uid: str) -> bool:
        """Every container runs."""
        status = self.status(uid)
        return status is not None and bool(status.containers) and all(c.state == "running" for c in status.containers)

    def status(self, uid: str) -> StatusSeen | None:
        return self.watch.statuses.get(uid)

    async def _change(self, claim: str) -> str:
        word = f"{claim} {next(self._numbers)}"
        await self._fences.control.set_health(self._devices[claim], Health.HEALTHY, word)
        return word

    def _shows(self, uid: str, word: str) -> bool:
        status = self.status(uid)
        containers = status.containers if status else ()
        resources = [r for c in containers if c.name == FENCE for e in c.resources or () for r in e.resources]
        return any(r.message == word for r in resources)
