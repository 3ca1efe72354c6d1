"""A driver of a file, a device plugin beside it, and the pods of their node, as the stage of a timeline."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.commands.definition import Command, Subject
from drahealth.fakes.control.commands.life import Upgrade
from drahealth.fakes.control.news import Publish
from drahealth.fakes.durations import Duration
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.upgrading import begin_upgrade
from drahealth.fakes.serve.pod_observer import PodObserver
from drahealth.fakes.timelines.actions import Action, ChangeKubelet, ChangePod, Expect
from drahealth.fakes.timelines.expected import already_true, sought
from drahealth.fakes.timelines.stage import TimelineStage
from drahealth.fakes.timelines.story import Story
from drahealth.fakes.timelines.workload import HELD
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import ExpectationFailed, ExpectationMet, StepDone, StepFailed, StepStarted
from drahealth.proto.quoting import one_line
from drahealth.proto.values import ResourceHealth

WINDOWS = {"push": 5.0, "resync": 95.0, "start": 30.0, "restart": 30.0}
"""Seconds to wait: push for what a kubelet is notified of, resync for a pod's next sync (each minute), ..."""

log = logging.getLogger(__name__)


class DriverStage(TimelineStage):
    """What cannot be done, or is not as expected, is logged and published, and the timeline continues."""

    def __init__(
        self,
        driver: FakeDriver,
        story: Story,
        publish: Publish,
        pods: PodObserver,
        *,
        plugin: FakeDevicePlugin | None = None,
        speed: float = 1.0,
    ) -> None:
        super().__init__(story, pool=driver.options.pool_name, has_plugin=plugin is not None, speed=speed)
        self.clock = SystemClock()
        self._driver = driver
        self._plugin = plugin
        self._publish = publish
        self._pods = pods

    async def passes(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    @contextmanager
    def at(self, action: Action) -> Iterator[None]:
        try:
            yield
        except (ValueError, ApiError, OSError) as error:
            log.warning("%s: %s", where := self.story.where(action), error)
            self._publish(StepFailed(self._name, action.step, where, str(error)))

    def begins(self, action: Action) -> None:
        self._publish(step_started(self._name, action))

    def done(self, action: Action, result: str) -> None:
        self._publish(StepDone(self._name, action.step, result))

    async def do(self, subject: Subject, command: Command[Any]) -> Any:
        if subject == "device-plugin":
            return await self._plugin.do(command) if self._plugin else None
        if isinstance(command, Upgrade):
            return await begin_upgrade(self._driver, command.overlap, command.offer)
        return await self._driver.do(command)

    def ids_of(self, device: str) -> tuple[str, ...]:
        if self._plugin is None:
            return ()
        ids, inventory = self._plugin.options.ids, self._plugin.options.all_devices
        paths = ids if device == HELD else inventory.reached(device, "device")
        return tuple(ids[path] for path in paths if path in ids)

    async def change_pod(self, change: ChangePod) -> None:
        """Refused when the timeline is loaded."""

    async def change_kubelet(self, change: ChangeKubelet) -> None:
        """Refused when the timeline is loaded."""

    async def comes(self, action: Action, expect: Expect, true: Callable[[], bool]) -> bool:
        within = expect.within
        seconds = WINDOWS[within] if within in WINDOWS else Duration.parse(within).high
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.until(true)
        return true()

    async def until(self, true: Callable[[], bool]) -> None:
        await self._pods.changes.until(true)

    def met(self, action: Action, expect: Expect, old: Action | None) -> None:
        note = already_true(old) if old else ""
        if note:
            log.warning("%s: %s", self.story.where(action), note)
        self._publish(ExpectationMet(self._name, action.step, action.device, sought(action, expect), note))

    def not_met(self, action: Action, expect: Expect, *, held: bool) -> None:
        window = f"for {expect.holds:g} s" if held else f"within {expect.within}"
        seen = self.shown(action.device, action.of)
        shows = ", ".join(dict.fromkeys(f"{found.health} {found.message!r}" for found in seen))
        why = self._pods.problem or (f"a pod shows {shows}" if shows else "no pod shows it")
        expected, why, where = f"{sought(action, expect)} {window}", one_line(why, 500), self.story.where(action)
        log.warning("%s: expected a pod with %s: %s", where, expected, why)
        self._publish(ExpectationFailed(self._name, action.step, where, action.device, expected, why))

    def shown(self, device: str, of: Subject = "driver") -> list[ResourceHealth]:
        if of == "device-plugin":
            return self._pods.shown(set(self.ids_of(device)), self._plugin.options.resource) if self._plugin else []
        return self._pods.shown(self._names(device))

    def newest(self) -> object:
        return self._pods.newest

    def pod_writes(self) -> int:
        """Expectations of it are rejected when the timeline is loaded."""
        return 0

    def calls(self, method: str | None) -> int:
        return self._pods.calls(self._name, method)

    def _names(self, device: str) -> set[str]:
        """What a status may call a device or its partitions, whatever the kubelet calls them."""
        options, inventory, ids = self._driver.options, self.story.inventory, set[str]()
        paths = options.devices if device == HELD else inventory.reached(device, "device")
        for known in (inventory[path] for path in paths if path in options.devices):
            ids.add(f"{options.name}/{known.pool or options.pool_name}/{known.name}")
            ids |= {options.cdi_id(known.name)} if options.cdi_ids else set()
        return ids

    @property
    def _name(self) -> str:
        return self._driver.options.name


def step_started(driver: str, action: Action) -> StepStarted:
    """The event of a step that is due."""
    when = dict(action.when) if action.when else None
    return StepStarted(driver, action.step, action.at, action.verb, action.what, action.device, when)
