"""A timeline that is played on a driver of a file."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.commands import Upgrade
from drahealth.fakes.control.definition import Command, Subject
from drahealth.fakes.control.fake_options import DriverOptions, PluginOptions
from drahealth.fakes.control.news import Publish
from drahealth.fakes.durations import Duration
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.devices import inventory_of
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.instances import begin_upgrade
from drahealth.fakes.hints import near
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.user_files import FileError, Finding, read
from drahealth.fakes.serve.pods import PodObserver
from drahealth.fakes.timelines.load import load_parts
from drahealth.fakes.timelines.model import HELD
from drahealth.fakes.timelines.plan import Action, ChangeKubelet, ChangePod, Expect
from drahealth.fakes.timelines.play import Story, TimelineStage, already_true, play, sought, stories
from drahealth.fakes.timelines.validation import steps_of
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import (
    ExpectationFailed,
    ExpectationMet,
    StepDone,
    StepFailed,
    StepStarted,
    TimelineEnded,
    TimelineStarted,
)
from drahealth.proto.quoting import one_line
from drahealth.proto.values import ResourceHealth

# A driver of a file, a device plugin beside it, and the pods of their node, as the stage of a timeline.

WINDOWS = {"push": 5.0, "resync": 95.0, "start": 30.0, "restart": 30.0}
"""Seconds to wait: push for what a kubelet is notified of, resync for a pod's next sync (each minute), ..."""

log = logging.getLogger(__name__)


class PlayedDriver(Protocol):
    """A driver that takes commands in this process."""

    @property
    def options(self) -> DriverOptions: ...

    async def do(self, command: Command[Any]) -> Any: ...


class DriverStage(TimelineStage):
    """What cannot be done, or is not as expected, is logged and published, and the timeline continues."""

    def __init__(
        self,
        driver: PlayedDriver,
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
        if isinstance(command, Upgrade) and isinstance(self._driver, FakeDriver):
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


# A timeline that is played on a driver of a file, once a kubelet has registered it: devices that fail on schedule.
#
# One that has a device plugin is played on that of the file too. Expectations look at all pods of the node that show
# a device of the driver or plugin; with a pod of its own `drahealth play` judges it.

_UNSUPPORTED = ("pod", "kubelet")
"""Steps that change the node of the driver."""


def load_stories(
    path: Path, drivers: Sequence[DriverOptions], plugins: Sequence[PluginOptions], seed: int | None
) -> list[Story]:
    """Those of a timeline's file, for the one driver that there is, and the device plugin where there is just one.

    Raises CommandError for what cannot be played here.
    """
    if len(drivers) != 1:
        raise CommandError(
            f"--play needs a file with one driver, got {len(drivers)} drivers; serve each in its own process"
        )
    (driver,) = drivers
    try:
        found = stories(path, seed=seed, inventory=inventory_of(driver))
    except FileError as error:
        # Its errors can have advice about steps that must go.
        raise CommandError(str(_unsupported(path, error))) from None
    except OSError as error:
        raise CommandError(f"{error.filename or path} cannot be read: {error.strerror}") from None
    odd = [(story.document, _odd(story, driver, plugins)) for story in found]
    if problems := [one for document, wrong in odd if document for one in document.problems(wrong)]:
        raise CommandError(str(FileError(str(path), problems)))
    return found


def _unsupported(path: Path, error: FileError) -> FileError:
    """The error for the steps of the file that no driver can play; the other error if it has no such steps."""
    parts, problems = load_parts(read(path), str(path))
    if problems:
        return error
    for part in parts:
        steps = [(place, step.verb) for place, step in steps_of(part.timeline) if step.verb in _UNSUPPORTED]
        problems += part.document.problems((place, _no_support(verb)) for place, verb in steps)
    return FileError(str(path), problems) if problems else error


def _odd(story: Story, driver: DriverOptions, plugins: Sequence[PluginOptions]) -> Iterator[Finding]:
    """What a process cannot do of it."""
    use = story.timeline.use
    for what, wanted, has in (("catalogue", use.catalogue, driver.catalogue), ("policy", use.policy, driver.policy)):
        if wanted != has:
            why = f"{what} must be {has}, the {what} of the driver, got {wanted}; pass --{what} {wanted}"
            yield ("use", what), why
    devices = {device.path for device in inventory_of(driver).devices}
    for place, step in steps_of(story.timeline):
        seen_of = step.when.device if step.when and step.when.device != HELD else None
        if seen_of is not None and devices.isdisjoint(story.inventory.matching(seen_of)):
            yield (*place, "when", "device"), f"the driver has no device {seen_of}"
    listed = {device.path: None for plugin in plugins for device in plugin.all_devices.devices}
    for action in (*story.plan.actions, *story.plan.always):
        if isinstance(action.do, ChangeKubelet | ChangePod):
            yield action.place, _no_support(action.verb)
        if isinstance(action.do, Expect) and action.do.pod_writes is not None:
            yield action.place, "--play does not support `pod_writes`; remove it"
        if action.of == "driver":
            if action.device not in ("", HELD) and action.device not in devices:
                yield action.place, f"the driver has no device {action.device}"
        elif len(plugins) != 1:
            yield action.place, _not_one(action, plugins)
        elif action.device not in ("", HELD) and action.device not in listed:
            there = near(action.device, listed)
            yield action.place, f"the device plugin {plugins[0].resource} has no device {action.device}; {there}"


def _no_support(verb: str) -> str:
    return f"--play does not support `{verb}`; remove the step"


def _not_one(action: Action, plugins: Sequence[PluginOptions]) -> str:
    out = "remove the step" if not isinstance(action.do, Expect) else "remove `of: plugin`"
    if not plugins:
        return f"the file has no device plugin; add one to `plugins:`, or {out}"
    there = ", ".join(plugin.resource for plugin in plugins)
    return f"the file has {len(plugins)} device plugins ({there}); serve each in its own process, or {out}"


async def play_on(
    driver: FakeDriver,
    stories: Sequence[Story],
    publish: Publish,
    pod_observer: PodObserver,
    plugin: FakeDevicePlugin | None = None,
    speed: float = 1.0,
) -> None:
    """One story after the other, from when the driver is registered, and the device plugin where the story has one.

    What waits for something waits until it comes.
    """
    await driver.wait_registered()
    for story in stories:
        part = plugin if story.plan.has_plugin else None
        if part:
            await part.wait_registered()
        name = (driver.options.name, story.timeline.name, story.plan.seed, story.plan.hash)
        publish(TimelineStarted(*name))
        stage = DriverStage(driver, story, publish, pod_observer, plugin=part, speed=speed)
        await play(story.plan, stage, speed=speed, patient=True)
        publish(TimelineEnded(*name))
