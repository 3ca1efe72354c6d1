"""A timeline that is played on a driver of a file, once a kubelet has registered it: devices that fail on schedule.

One that has a device plugin is played on that of the file too. Expectations look at all pods of the node that show
a device of the driver or plugin; with a pod of its own `drahealth play` judges it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from drahealth.fakes.control.device_plugin import PluginOptions
from drahealth.fakes.control.driver import DriverOptions
from drahealth.fakes.control.news import Publish
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.inventories import inventory_of
from drahealth.fakes.hints import near
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.user_files import FileError, Finding, read
from drahealth.fakes.serve.driver_stage import DriverStage
from drahealth.fakes.serve.pod_observer import PodObserver
from drahealth.fakes.timelines.actions import Action, ChangeKubelet, ChangePod, Expect
from drahealth.fakes.timelines.check import steps_of
from drahealth.fakes.timelines.load import load_parts
from drahealth.fakes.timelines.play import play
from drahealth.fakes.timelines.story import Story, stories
from drahealth.fakes.timelines.workload import HELD
from drahealth.proto.events import TimelineEnded, TimelineStarted

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
