"""A node as the stage of a timeline: its actions are told to the fake driver, what it expects is seen in pods."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.remote import ControlFailed
from drahealth.fakes.durations import Duration
from drahealth.fakes.timelines.check import WINDOWS
from drahealth.fakes.timelines.driver_steps import VERBS, DriverSteps
from drahealth.fakes.timelines.expected import fits, sought
from drahealth.fakes.timelines.model import EVERYTHING
from drahealth.fakes.timelines.plan import ENDING, Action
from drahealth.fakes.timelines.plugin_steps import PluginSteps
from drahealth.fakes.timelines.story import Story
from drahealth.fakes.timelines.workload import HELD
from drahealth.proto.events import Prepared, StatusSeen, StreamOpened, TimePassed, Unprepared
from drahealth.proto.values import ResourceHealth
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.judging.violation import Violation
from drahealth.suites.story.device_plugin import DevicePlugin
from drahealth.suites.story.hardware import Driver
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import Pod
from drahealth.suites.timelines.holder import Holder
from drahealth.suites.timelines.plugin_life import ToldLife

STRIDE = 2.0
"""Seconds that are jumped over at once, so that heartbeats come between and no device is taken for silent."""

_CALLS = {
    "NodePrepareResources": Prepared,
    "NodeUnprepareResources": Unprepared,
    "NodeWatchResources": StreamOpened,
}
"""What of the history a call of the driver is."""


@dataclass(frozen=True)
class NodeClock:
    """The node's time: real seconds, and those that were jumped over."""

    node: Node

    def now(self) -> float:
        return time.monotonic() + sum(event.seconds for event in self.node.history.of(TimePassed))

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await self.node.advance_time(seconds)


class NodeStage:
    """Implements `play.Stage` with one driver, whose devices a pod holds, and those of a device plugin if it is given
    one, which has devices of the same names. What fails says at which step it did."""

    def __init__(
        self,
        node: Node,
        driver: Driver,
        holder: Holder,
        story: Story,
        *,
        plugin: DevicePlugin | None = None,
        speed: float = 1.0,
    ) -> None:
        self.clock = NodeClock(node)
        self._speed = speed
        self._node = node
        self._driver = driver
        self._holder = holder
        self._plugin = plugin
        self._story = story
        self._inventory = story.inventory

    async def passes(self, seconds: float) -> None:
        left = seconds
        while left > 0:
            step = min(left, STRIDE)
            if jumped := await self._node.target.advance_time(step):
                self._node.history.observe(TimePassed(jumped))
                await asyncio.sleep(0.01)
            left -= step

    async def act(self, action: Action) -> None:
        self._node.log(_words(action))
        with self._at(action):
            await self._act(action)

    async def expect(self, action: Action) -> None:
        expected = f"shows {sought(action)}"
        self._node.log(f"{action.step}: a pod {expected}?")
        within, seen, expected = action.what["within"], self._pod, f"pod {self._pod.name} {expected}"
        with self._at(action):
            held = ", ".join(sorted(self._holder.held))
            self._node.check(self._can_show(action), expected, f"it holds {held}, and not {action.device}\n{seen}")
            if within in WINDOWS:
                await self._node.until(lambda: self._is_so(action), within, expected, seen)
                return
            came = await self._node.history.until(lambda: self._is_so(action), Duration.parse(within).high)
            self._node.check(came, f"{expected} within {within}", seen)

    async def held(self, action: Action) -> None:
        expected = f"pod {self._pod.name} still shows {sought(action)}"
        with self._at(action):
            self._node.check(self._is_so(action), expected, self._pod)

    async def happens(self, trigger: Mapping[str, Any]) -> None:
        await self._node.history.until(lambda: self._has_happened(trigger), float("inf"))

    @contextmanager
    def _at(self, action: Action) -> Iterator[None]:
        """What is raised in here says at which step; what the driver or the API server refuses is told as that."""
        where = self._story.where(action)
        try:
            if action.place[0] != ENDING:  # what is always done is done, though the pod does not keep failing
                self._holder.check()
            yield
        except (Violation, HarnessError) as error:
            error.where = error.where or where
            raise
        except (ApiError, ControlFailed, ValueError) as error:
            refused = HarnessError(f"{_what(action)} cannot be done: {error}")
            refused.where = where
            raise refused from error

    # -- what is told

    async def _act(self, action: Action) -> None:
        what = action.what
        match action.verb:
            case verb if verb in VERBS:
                if told := await self._steps.tell(action, time.time()):
                    self._node.log(told)
                if self._plugin and (verb, what) == ("recover", EVERYTHING):
                    await self._plugin_steps(self._plugin).heal()
            case "driver":
                await self._tell_driver(what)
            case "plugin" if self._plugin:
                names = [self._inventory[path].name for path in self._leaves(action.device)] if action.device else []
                await self._plugin_steps(self._plugin).tell(what, names)
            case "pod":
                await self._holder.tell(what)
            case "kubelet":
                await self._tell_kubelet(what)
            case "mark":
                pass
            case verb:
                raise ConfigurationError(f"this target plays no {verb}", "leave the step out")

    @property
    def _steps(self) -> DriverSteps:
        """What the driver is told that there is now."""
        return DriverSteps(self._driver.control, self._driver.options.pool_name, self._inventory, self._speed)

    @staticmethod
    def _plugin_steps(plugin: DevicePlugin) -> PluginSteps:
        return PluginSteps(plugin.control, ToldLife(plugin))

    def _leaves(self, device: str) -> list[str]:
        """What there is to say something of: the device, or its parts if it is divided."""
        return [path for path in self._inventory.reached(device, "device") if path in self._driver.options.devices]

    async def _tell_kubelet(self, verb: str) -> None:
        match verb:
            case "restart":
                await self._node.kubelet_restarts()
            case "stop":
                await self._node.kubelet_stops()
            case "running":
                await self._node.kubelet_starts()

    async def _tell_driver(self, what: Any) -> None:
        verb = what if isinstance(what, str) else next(iter(what))
        more = {} if isinstance(what, str) else what[verb] or {}
        match verb:
            case "crash":
                await self._driver.crashes()
            case "stop":
                await self._driver.stops()
            case "running":
                await self._runs()
            case "unregister":
                await self._driver.control.unregister()
            case "restart":
                await self._driver.restarts(more.get("offer") or ())
            case "upgrade":
                overlap = more.get("overlap", 1.0) / self._speed
                await self._driver.upgrades(overlap, more.get("offer") or ())

    async def _runs(self) -> None:
        state = await self._driver.control.state()
        if not (state.running and state.registered):  # one that has unregistered runs on
            await self._driver.starts()

    # -- what is seen

    @property
    def _pod(self) -> Pod:
        return self._holder.pod

    def _can_show(self, action: Action) -> bool:
        """The pod holds some of it; which devices of a device plugin it does is the kubelet's business."""
        return action.what.get("of") == "plugin" or bool(self._names(action.device) & self._holder.held)

    def _names(self, device: str) -> set[str]:
        """What the API calls the device, or its partitions, or those that the pod holds."""
        if device == HELD:
            return set(self._holder.held)
        return {self._inventory[path].name for path in self._leaves(device)}

    def _is_so(self, action: Action) -> bool:
        what = action.what
        if (most := what.get("pod_writes")) is not None:
            writes = sum(event.uid == self._pod.uid for event in self._node.history.of(StatusSeen))
            if writes > most:
                return False
        shown = self._listed(action.device) if what.get("of") == "plugin" else self._shown(action.device)
        return bool(shown) and all(fits(found, what) for found in shown)

    def _shown(self, device: str) -> list[ResourceHealth]:
        """What the pod shows of a device, or of its partitions."""
        names = self._names(device)
        return [found for gpu in self._driver.gpus if gpu.name in names for found in self._pod.resources(gpu)]

    def _listed(self, device: str) -> list[ResourceHealth]:
        """The same of the device plugin's."""
        names = self._names(device)
        gpus = self._plugin.gpus if self._plugin else ()
        return [found for gpu in gpus if gpu.name in names for found in self._pod.resources(gpu)]

    def _has_happened(self, trigger: Mapping[str, Any]) -> bool:
        if trigger.get("seen"):
            whole = trigger.get("device") or "all"
            paths = [HELD] if whole == HELD else self._inventory.matching(whole)
            seen = [found for path in paths for found in self._shown(path)]
            return any(found.health == trigger["seen"] for found in seen)
        kinds = [_CALLS[trigger["method"]]] if trigger.get("method") in _CALLS else list(_CALLS.values())
        calls: int = trigger["calls"]
        return sum(1 for kind in kinds for _ in self._node.history.of(kind)) >= calls


def _words(action: Action) -> str:
    """A line of the story."""
    return f"{action.step}: {_what(action)}"


def _what(action: Action) -> str:
    what = action.what if isinstance(action.what, str) else action.what and str(dict(action.what))
    return " ".join(filter(None, (action.verb, str(what or ""), action.device and f"({action.device})")))
