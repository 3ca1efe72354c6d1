"""Lanes: namespaces in which scripts are played, each with a fence.

A fence proves that the kubelet has processed all earlier changes, without waiting. A driver of its own changes a
device, and the kubelet updates pods one after the other. So once the fence pod shows its change, earlier changes have
reached their pods. A second device is in every pod of the lane: its change syncs all of them, as a resync would.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import count

from drahealth.fakes.cluster.api import CLAIMS, DEVICE_CLASSES, NAMESPACES, PODS, ApiError
from drahealth.fakes.control.driver import DriverOptions
from drahealth.proto.events import StatusSeen
from drahealth.proto.values import Health
from drahealth.suites.differential.observation import FENCE
from drahealth.suites.differential.play_clock import WaitTimes
from drahealth.suites.errors import HarnessError
from drahealth.suites.story import manifests
from drahealth.suites.story.history import History
from drahealth.suites.story.pod_watch import PodWatch
from drahealth.suites.targets import polling
from drahealth.suites.targets.target import BELONGS, Target

_LONG = 10_000_000
"""Seconds: the timeout of the fence's devices. They never become stale."""
_START = 60.0
_PAUSE = 0.02
"""Seconds between two calls of a polled condition."""
_LATE = 60.0
"""Seconds after which a missing fence is an error of the machine."""


async def poll(true: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Call `true` repeatedly, for conditions without an event. Returns False after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await polling.poll(true, _PAUSE)
    except TimeoutError:
        return False
    return True


class FenceDriver:
    """The driver of all fences of a target, with two devices per lane."""

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
        await self.wait_for_stream(1)

    async def wait_for_stream(self, streams: int) -> None:
        """Wait until its health stream was opened this number of times."""
        if not await poll(lambda: self._has_stream(streams), _START):
            raise HarnessError(
                f"the kubelet opened no health stream to the fence's driver within {_START:g} s",
                await self.target.log_tail(),
            )

    async def _has_stream(self, streams: int) -> bool:
        return (await self.control.state()).streams_opened >= streams

    async def stop(self) -> None:
        with suppress(ApiError):
            await self.target.api.delete(DEVICE_CLASSES, self.name)
        await self.control.retire()


class Lane:
    """A namespace with a fence. It plays one script after another."""

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
        # No container uses the claim of the other fence. It stays prepared as long as the lane exists.
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
        """Wait until the kubelet has shown all changes from before this call. Raises HarnessError."""
        for _ in range(rounds):
            shows = partial(self._shows, self._pod, await self._change("push"))
            await self.wait(shows, "the fence pod shows its change", _LATE)

    async def sync(self, pods: set[str], waits: WaitTimes) -> set[str]:
        """Sync these pods, by uid. Returns those whose status the API server rejects.

        A sync takes a different time on each machine, so pods that do not show it yet are awaited until the fence pod
        shows a later change.
        """
        word = await self._change(FENCE)

        def shown() -> bool:
            return all(self._shows(uid, word) for uid in pods)

        if not await self.history.until(shown, waits.stuck):
            await self.push(waits.rounds)
            await self.history.until(shown, waits.settle)
        return {uid for uid in pods if not self._shows(uid, word)}

    async def wait(self, true: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until the condition is true. Raises HarnessError after `seconds`."""
        if not await self.history.until(true, seconds):
            self.target.check()
            raise HarnessError(f"not true within {seconds:g} s: {what}", "reduce the load of the machine, or --lanes")

    def is_running(self, uid: str) -> bool:
        """Whether every container runs."""
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
