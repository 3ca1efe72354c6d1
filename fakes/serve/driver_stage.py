"""A driver of a file, a device plugin beside it, and the pods of their node, as the stage of a timeline."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.news import Publish
from drahealth.fakes.durations import Duration
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.upgrading import begin_upgrade
from drahealth.fakes.serve.plugin_part import PluginPart
from drahealth.fakes.serve.witness import PodObserver
from drahealth.fakes.timelines.driver_steps import VERBS, DriverSteps
from drahealth.fakes.timelines.expected import fits, sought
from drahealth.fakes.timelines.model import EVERYTHING
from drahealth.fakes.timelines.plan import Action
from drahealth.fakes.timelines.story import Story
from drahealth.fakes.timelines.workload import HELD
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import ExpectationFailed, ExpectationMet, StepDone, StepFailed, StepStarted
from drahealth.proto.quoting import one_line
from drahealth.proto.values import ResourceHealth

WINDOWS = {"push": 5.0, "resync": 95.0, "start": 30.0, "restart": 30.0}
"""Seconds that are waited for what a kubelet is told of, for what it finds at a pod's next sync (each minute), ..."""

log = logging.getLogger(__name__)


class DriverStage:
    """Implements `play.Stage`. Whatever cannot be done, or is not as expected, is told of, and the story goes on."""

    def __init__(
        self,
        driver: FakeDriver,
        story: Story,
        publish: Publish,
        witness: PodObserver,
        *,
        plugin: PluginPart | None = None,
        speed: float = 1.0,
    ) -> None:
        self.clock = SystemClock()
        self._driver = driver
        self._story = story
        self._inventory = story.inventory
        self._steps = DriverSteps(driver, driver.options.pool_name, story.inventory, speed)
        self._speed = speed
        self._publish = publish
        self._witness = witness
        self._plugin = plugin
        self._failed: set[tuple[str, str]] = set()
        """Steps and devices whose expectation was not met: nothing is to be held."""

    async def passes(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    async def act(self, action: Action) -> None:
        self._publish(step_started(self._name, action))
        try:
            if result := await self._act(action):
                self._publish(StepDone(self._name, action.step, result))
        except (ValueError, ApiError, OSError) as error:
            log.warning("%s: %s", where := self._story.where(action), error)
            self._publish(StepFailed(self._name, action.step, where, str(error)))

    async def expect(self, action: Action) -> None:
        self._failed.discard((action.step, action.device))
        within = action.what["within"]
        seconds = WINDOWS[within] if within in WINDOWS else Duration.parse(within).high
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._witness.changes.until(lambda: self._is_so(action))
        if not self._is_so(action):
            self._failed.add((action.step, action.device))
            self._fail(action, f"within {within}")
        elif not action.what.get("holds"):
            self._met(action)

    async def held(self, action: Action) -> None:
        if (action.step, action.device) in self._failed:
            return
        if self._is_so(action):
            self._met(action)
        else:
            self._fail(action, f"for {action.what['holds']:g} s")

    async def happens(self, trigger: Mapping[str, Any]) -> None:
        await self._witness.changes.until(lambda: self._has_happened(trigger))

    # -- what is told

    async def _act(self, action: Action) -> str:
        match action.verb:
            case verb if verb in VERBS:
                if self._plugin and (verb, action.what) == ("recover", EVERYTHING):
                    await self._plugin.heal()
                return await self._steps.tell(action, self.clock.wall())
            case "driver":
                await self._live(action.what)
            case "plugin" if self._plugin:
                await self._plugin.tell(action.what, action.device)
        return ""

    def _leaves(self, device: str) -> list[str]:
        """The device, or its parts if it is divided; any of them where it is what a pod holds."""
        if device == HELD:
            return list(self._driver.options.devices)
        return [path for path in self._inventory.reached(device, "device") if path in self._driver.options.devices]

    async def _live(self, what: Any) -> None:
        life = what if isinstance(what, str) else next(iter(what))
        more = {} if isinstance(what, str) else what[life] or {}
        match life:
            case "crash":
                await self._driver.crash()
            case "stop":
                await self._driver.stop()
            case "unregister":
                await self._driver.unregister()
            case "running":
                await self._driver.start()
            case "restart":
                await self._driver.restart(more.get("offer") or ())
            case "upgrade":
                overlap = more.get("overlap", 1.0) / self._speed
                await begin_upgrade(self._driver, overlap, more.get("offer") or ())

    # -- what is seen

    def _is_so(self, action: Action) -> bool:
        shown = self._looked_at(action)
        return bool(shown) and all(fits(found, action.what) for found in shown)

    def _looked_at(self, action: Action) -> list[ResourceHealth]:
        """What pods show of what an `expect` is about."""
        if action.what.get("of") == "plugin":
            return self._plugin.shown(action.device) if self._plugin else []
        return self._shown(action.device)

    def _shown(self, device: str) -> list[ResourceHealth]:
        """What pods show of a device, or of its partitions, whatever the kubelet calls them."""
        options, ids = self._driver.options, set[str]()
        for known in map(self._inventory.__getitem__, self._leaves(device)):
            ids.add(f"{options.name}/{known.pool or options.pool_name}/{known.name}")
            ids |= {options.cdi_id(known.name)} if options.cdi_ids else set()
        return self._witness.shown(ids)

    def _has_happened(self, trigger: Mapping[str, Any]) -> bool:
        if "calls" in trigger:
            return self._witness.calls(self._driver.options.name, trigger.get("method")) >= int(trigger["calls"])
        device = trigger.get("device") or EVERYTHING
        paths = [HELD] if device == HELD else self._inventory.matching(device)
        return any(str(found.health) == trigger["seen"] for path in paths for found in self._shown(path))

    def _met(self, action: Action) -> None:
        self._publish(ExpectationMet(self._name, action.step, action.device, sought(action)))

    def _fail(self, action: Action, window: str) -> None:
        shows = ", ".join(dict.fromkeys(f"{found.health} {found.message!r}" for found in self._looked_at(action)))
        why = self._witness.problem or (f"a pod shows {shows}" if shows else "no pod shows it")
        expected, why, where = f"{sought(action)} {window}", one_line(why, 500), self._story.where(action)
        log.warning("%s: a pod is to show %s: %s", where, expected, why)
        self._publish(ExpectationFailed(self._name, action.step, where, action.device, expected, why))

    @property
    def _name(self) -> str:
        return self._driver.options.name


def step_started(driver: str, action: Action) -> StepStarted:
    """The event of a step that is due."""
    when = dict(action.trigger) if action.trigger else None
    return StepStarted(driver, action.step, action.at, action.verb, action.what, action.device, when)
