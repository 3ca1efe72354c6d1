"""Lanes: namespaces in which scripts are played, their clock, and their observations."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from drahealth.fakes.cluster.api import CLAIMS, DEVICE_CLASSES, NAMESPACES, PODS, ApiError
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.waiting import poll
from drahealth.proto.events import Event, MalformedReceived, ReportReceived, StatusSeen, StreamClosed
from drahealth.proto.values import Health
from drahealth.suites.errors import HarnessError
from drahealth.suites.story import manifests
from drahealth.suites.story.history import History, ScenarioWatch
from drahealth.suites.targets.target import BELONGS, Target

# The observations of a play: the pod statuses at each moment, and the times of the moments.
#
# Pure data with a JSON form. Names that differ between plays are replaced by names of the script.

FENCE = "fence"
"""The container and the claim of the fence. Every pod has them; observations leave them out."""

Readings = dict[str, tuple[str, str]]
"""Health and message by resourceID."""
Entries = dict[str, Readings] | None
"""The entries of a container by name. Their order is random in releases (B-01). None: the field is missing."""


@dataclass(frozen=True, slots=True)
class PodShown:
    """A pod in the API. `stuck`: the status of a requested sync did not arrive, because the API server rejected it."""

    phase: str
    stuck: bool
    containers: dict[str, Entries]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The observations at one moment.

    `pushed`: after the kubelet's own updates. `synced`: after one more sync of every pod. `recovered`: the same, after
    an ended stream is open again or the time for it is over.
    """

    step: int
    """The number of the step; -1 before the first step."""
    moment: str
    pods: dict[str, PodShown]
    streams: dict[str, int]
    """Health streams opened so far, by driver and instance."""


@dataclass(frozen=True, slots=True)
class Played:
    """A play of a script: its snapshots, and the times of its marks in seconds since the start."""

    snapshots: tuple[Snapshot, ...]
    times: dict[str, float] = field(default_factory=dict)


def shown(status: StatusSeen, names: Mapping[str, str], *, stuck: bool) -> PodShown:
    """The observation of a pod status. `names` maps names of drivers and device plugins to names in the script."""
    containers: dict[str, Entries] = {}
    for container in status.containers:
        if container.name == FENCE:
            continue
        if container.resources is None:
            containers[container.name] = None
            continue
        containers[container.name] = {
            _plain(entry.name, names): {
                _plain(device.resource_id, names): (str(device.health), device.message) for device in entry.resources
            }
            for entry in container.resources
        }
    return PodShown(status.phase, stuck, containers)


def _plain(text: str, names: Mapping[str, str]) -> str:
    for name, plain in names.items():
        text = text.replace(name, plain)
    return text


# The clock of a play, and the times to wait for conditions without an event.
#
# A script is played on the real kubelet first. The play on the reference then follows its times: before each moment,
# the simulated clock jumps to the time at which the kubelet reached it. So the same timeouts have passed on both
# sides.


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """Times for what no event reports, in real seconds, for a loaded machine with two cores."""

    receipt: float
    """From a driver's message until the kubelet has processed it."""
    each: float
    """Added to `receipt` for each device in the message. The reference reports its receipts."""
    rounds: int
    """Number of changes of the fence pod.

    A kubelet syncs a pod again only after it has inspected the containers, which it does every second. The second
    change of the fence pod comes after such an inspection, and so after all changes that waited for it.
    """
    settle: float
    """From the status of the fence pod to the statuses of other pods that the kubelet processed before."""
    stuck: float
    """From a requested sync to its status. After that, a change of the fence pod shows whether it was rejected."""
    reopened: float
    """From the retry until a stream is open again."""
    restarted: float
    """From a restart of the kubelet until all streams are open."""
    started: float
    """Until a pod runs, if the API server accepts its status."""
    gone: float
    """Until a deleted pod is gone."""


REAL = WaitTimes(
    receipt=0.15,
    each=0.0001,
    rounds=2,
    settle=0.3,
    stuck=3.0,
    reopened=3.0,
    restarted=20.0,
    started=30.0,
    gone=12.0,
)
REFERENCE = WaitTimes(
    receipt=0.1, each=0.0, rounds=2, settle=0.1, stuck=2.0, reopened=1.5, restarted=20.0, started=5.0, gone=5.0
)


class PlayClock:
    """The clock of a play. `follow` has the times of another play, by mark; None keeps its own time."""

    def __init__(self, target: Target, follow: Mapping[str, float] | None = None) -> None:
        self.times: dict[str, float] = {}
        self._target = target
        self._follow = follow
        self._begin = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the play, on the node's clock."""
        return time.monotonic() - self._begin

    async def mark(self, name: str) -> None:
        """Record the time of this mark. A following play waits until the other play's time first."""
        await self.reach(name)
        self.times[name] = self.elapsed

    async def reach(self, name: str) -> None:
        """In a following play, wait until the other play's time of this mark. Otherwise do nothing."""
        if self._follow is not None and name in self._follow:
            await self.advance(self._follow[name] - self.elapsed)

    async def advance(self, seconds: float) -> None:
        """Advance the node's time by `seconds`."""
        if seconds > 0:
            self._begin -= await self._target.advance_time(seconds)

    async def pause(self, seconds: float) -> None:
        """Advance the time by `seconds`. A following play does so at its next mark."""
        if self._follow is None:
            await self.advance(seconds)


# Lanes: namespaces in which scripts are played, each with a fence.
#
# A fence proves that the kubelet has processed all earlier changes, without waiting. A driver of its own changes a
# device, and the kubelet updates pods one after the other. So once the fence pod shows its change, earlier changes
# have reached their pods. A second device is in every pod of the lane: its change syncs all of them, as a resync
# would.

_LONG = 10_000_000
"""Seconds: the timeout of the fence's devices. They never become stale."""
_START = 60.0
PAUSE = 0.02
"""Seconds between two calls of a polled condition."""
_LATE = 60.0
"""Seconds after which a missing fence is an error of the machine."""


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
        if not await poll(lambda: self._has_stream(streams), PAUSE, _START):
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
        self.watch = ScenarioWatch(self.target.api, self.namespace, self.history)
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
        pod = manifests.pod(self.namespace, "fence", uses, {"push": "push", FENCE: FENCE}, self.target.workload)
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


# What the reference has received from drivers. A play on it waits for that, because a large report takes its time.

LIMIT = 60.0
"""Seconds until the reference has surely received a report, or opened a stream again."""


class Receipts:
    """Counts the reports that the reference receives, and the ends of its streams, by driver."""

    def __init__(self) -> None:
        self._reports: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._rejections: Counter[str] = Counter()
        self._last_code: dict[str, str] = {}

    def observe(self, event: Event) -> None:
        """Take an event of the reference."""
        match event:
            case ReportReceived(driver=driver) | MalformedReceived(driver=driver):
                self._reports[driver] += 1
            case StreamClosed(driver=driver, code=code):
                self._ends[driver] += 1
                self._rejections[driver] += code == "UNIMPLEMENTED"
                self._last_code[driver] = code
            case _:
                pass

    def sent(self, driver: str) -> int:
        """The number of messages that have arrived, or have ended their stream."""
        return self._reports[driver] + self._ends[driver]

    def greeted(self, driver: str) -> int:
        """The number of messages that have arrived, and of rejected streams."""
        return self._reports[driver] + self._rejections[driver]

    def is_rejected(self, driver: str) -> bool:
        """Whether the last stream of the driver that ended has ended with Unimplemented."""
        return self._last_code.get(driver) == "UNIMPLEMENTED"

    async def wait_sent(self, driver: str, before: int) -> None:
        """Wait until `sent` is above `before`."""
        await self._wait(lambda: self.sent(driver) > before)

    async def wait_greeted(self, driver: str, before: int) -> None:
        """Wait until `greeted` is above `before`."""
        await self._wait(lambda: self.greeted(driver) > before)

    async def _wait(self, true: Callable[[], bool]) -> None:
        await poll(true, PAUSE, LIMIT)
