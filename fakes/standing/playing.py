"""A timeline that is played on a driver of a file, once a kubelet has registered it: devices that fail on schedule.

What pods are to show is not judged here, for that `drahealth play` has targets.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drahealth.fakes.api import ApiError
from drahealth.fakes.complaint import Complaint
from drahealth.fakes.hardware.control import DriverOptions
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.inventories import inventory_of
from drahealth.fakes.hardware.news import Line
from drahealth.fakes.timelines.driver_steps import VERBS, DriverSteps
from drahealth.fakes.timelines.plan import Action
from drahealth.fakes.timelines.play import play
from drahealth.fakes.timelines.story import Story, stories
from drahealth.fakes.user_files import FileError
from drahealth.proto.clock import SystemClock
from drahealth.proto.values import Health

LIVES = ("crash", "stop", "running", "unregister", "restart")
"""What a step can make of the driver: all but what needs another instance of it."""

log = logging.getLogger(__name__)

Tell = Callable[[str, Line], None]


def load_stories(path: Path, drivers: Sequence[DriverOptions], seed: int | None) -> list[Story]:
    """Those of a timeline's file, for the one driver that there is. Raises Complaint for what cannot be played here."""
    if len(drivers) != 1:
        raise Complaint(f"a timeline is played on one driver, and there are {len(drivers)}; give each a process")
    (options,) = drivers
    try:
        found = stories(path, seed=seed, inventory=inventory_of(options))
    except FileError as error:
        raise Complaint(str(error)) from None
    except OSError as error:
        raise Complaint(f"{error.filename or path} cannot be read: {error.strerror}") from None
    if odd := dict.fromkeys(said for story in found for said in _odd(story, options)):
        raise Complaint("\n".join(f"{path}: {said}" for said in odd))
    return found


def _odd(story: Story, options: DriverOptions) -> Iterator[str]:
    """What a process cannot do of it."""
    use = story.timeline.use
    for what, wanted, has in (("catalogue", use.catalogue, options.catalogue), ("policy", use.policy, options.policy)):
        if wanted != has:
            yield f"{story.timeline.name} has the {what} {wanted}, and the driver {has}; give --{what} {wanted}"
    known = {device.path for device in inventory_of(options).devices}
    for action in (*story.plan.actions, *story.plan.always):
        if action.trigger:
            yield f"{action.step}: a process knows no `when`; say `at` or `after`"
        if action.verb in ("kubelet", "plugin", "pod"):
            yield f"{action.step}: a process plays no `{action.verb}`; leave the step out"
        if action.verb == "driver" and (_life(action.what) not in LIVES or _offers(action.what)):
            yield f"{action.step}: the driver of a process does not {_life(action.what)} so; it can {', '.join(LIVES)}"
        if (
            action.verb != "expect" and action.device and action.device not in known
        ):  # what is expected is not looked at
            yield f"{action.step}: the driver has no device {action.device}"


class DriverStage:
    """Implements `play.Stage` with a driver alone; nothing that is expected is looked for."""

    def __init__(self, driver: FakeDriver, story: Story, tell: Tell, speed: float = 1.0) -> None:
        self.clock = SystemClock()
        self._driver = driver
        self._story = story
        self._inventory = story.inventory
        self._steps = DriverSteps(driver, driver.options.pool_name, story.inventory, speed)
        self._tell = tell

    async def passes(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    async def act(self, action: Action) -> None:
        """What cannot be done, for others tell the driver things too, is told of, and the story goes on."""
        self._say("step", **action.to_json())
        try:
            if told := await self._act(action):
                self._say("step", what=told)
        except (ValueError, ApiError) as error:
            log.warning("%s: %s", where := self._story.where(action), error)
            self._say("step-failed", step=action.step, where=where, why=str(error))

    async def expect(self, action: Action) -> None:
        """It is not looked at."""

    async def held(self, action: Action) -> None:
        """Nor is this."""

    async def happens(self, trigger: Mapping[str, Any]) -> None:
        """Never: such steps are refused before."""
        await asyncio.Event().wait()

    async def _act(self, action: Action) -> str:
        match action.verb:
            case verb if verb in VERBS:
                return await self._steps.tell(action, self.clock.wall())
            case "set":
                await self._set(action.what, action.device)
            case "driver":
                await self._live(_life(action.what))
        return ""

    async def _set(self, what: Mapping[str, Any], device: str) -> None:
        if "heartbeat" in what:
            await self._driver.set_heartbeat(what["heartbeat"])
        said = {"health", "message", "timeout"} & what.keys()
        for path in self._inventory.reached(device, "device") if said else ():
            if path not in self._driver.options.devices:
                continue  # it is divided, and its parts are what there is
            name = self._inventory[path].name
            old = next(found for found in await self._driver.devices() if found.device == name)
            timeout = int(what["timeout"]) if "timeout" in what else None
            health = Health(what.get("health", old.health))
            await self._driver.set_health(name, health, what.get("message", old.message), timeout)

    async def _live(self, life: str) -> None:
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
                await self._driver.stop()
                await self._driver.start()

    def _say(self, event: str, **more: Any) -> None:
        self._tell(self._driver.options.name, {"event": event, **more})


async def play_on(driver: FakeDriver, told: Sequence[Story], tell: Tell, speed: float = 1.0) -> None:
    """One story after the other, from when the driver is registered."""
    await driver.wait_registered()
    for story in told:
        name = {"story": story.timeline.name, "seed": story.plan.seed, "plan": story.plan.hash}
        tell(driver.options.name, {"event": "story-begins", **name})
        await play(story.plan, DriverStage(driver, story, tell, speed), speed=speed)
        tell(driver.options.name, {"event": "story-ends", **name})


def _life(what: Any) -> str:
    return what if isinstance(what, str) else str(next(iter(what)))


def _offers(what: Any) -> bool:
    return not isinstance(what, str) and bool((what[_life(what)] or {}).get("offer"))
