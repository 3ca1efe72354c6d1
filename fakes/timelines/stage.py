"""Does the actions of a plan on a driver and a device plugin, and looks at what pods show."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count
from operator import attrgetter
from typing import Any, assert_never, cast

from drahealth.fakes.control.commands import (
    Clear,
    Inject,
    Recover,
    Reset,
    SetHeartbeat,
    StreamSend,
    TaintDevices,
    UntaintDevices,
)
from drahealth.fakes.control.definition import Command, Kind, Subject
from drahealth.fakes.control.without_subcommand import Report
from drahealth.fakes.faults.catalogue import fault
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.model import HELD, DeviceMessage, Message, Trigger
from drahealth.fakes.timelines.plan import Action, ChangeKubelet, ChangePod, Expect, Mark, Send
from drahealth.fakes.timelines.play import Story
from drahealth.proto.clock import Clock
from drahealth.proto.health_apis import HEALTH_NUMBERS
from drahealth.proto.health_v1_pb2 import DeviceHealth as ShippedHealth
from drahealth.proto.health_v1_pb2 import NodeWatchResourcesResponse
from drahealth.proto.values import DeviceHealth, Health, ResourceHealth

# What a timeline's `send` says, as a report or, where no report could say it, as bytes. Pure.


def command_of(message: DeviceMessage | Message, pool: str, wall: float, inventory: Inventory) -> Command[None]:
    """The command that sends it now."""
    given = report_of(message, pool, wall, inventory)
    return StreamSend(given) if isinstance(given, str) else Report(given)


def report_of(
    message: DeviceMessage | Message, pool: str, wall: float, inventory: Inventory
) -> list[DeviceHealth] | str:
    """A report of the devices, or hexadecimal bytes: those that it has, or those of DRAResourceHealth if a health is a
    number that nobody knows."""
    if isinstance(message, Message) and message.raw is not None:
        return message.raw
    devices = (message,) if isinstance(message, DeviceMessage) else message.devices or ()
    if all(isinstance(device.health, Health) for device in devices):
        return [_device(device, pool, wall, inventory) for device in devices]
    shipped = NodeWatchResourcesResponse(devices=[_shipped(device, pool, wall, inventory) for device in devices])
    return shipped.SerializeToString().hex()


def _device(given: DeviceMessage, pool: str, wall: float, inventory: Inventory) -> DeviceHealth:
    known = inventory.find(given.device)
    return DeviceHealth(
        pool=given.pool if given.pool is not None else (known and known.pool) or pool,
        device=known.name if known else given.device,  # what the API knows it by; another's name as it is
        health=given.health if isinstance(given.health, Health) else Health.UNKNOWN,
        message=given.message if isinstance(given.message, str) else "x" * given.message.length,
        timeout=int(given.timeout or 0),
        updated=int(wall + given.updated) if given.updated is not None else 0,
    )


def _shipped(given: DeviceMessage, pool: str, wall: float, inventory: Inventory) -> Any:
    known = _device(given, pool, wall, inventory)
    number: Any = HEALTH_NUMBERS[given.health] if isinstance(given.health, Health) else given.health
    return ShippedHealth(
        device={"pool_name": known.pool, "device_name": known.device},
        health=number,
        last_updated_time=known.updated,
        health_check_timeout_seconds=known.timeout,
        message=known.message,
    )


# Whether what a pod shows of a device is what a timeline expects. Pure.


def fits(found: ResourceHealth, expect: Expect) -> bool:
    """Whether its health and message are the expected ones."""
    if expect.health not in (None, found.health):
        return False
    message = expect.message
    return message is None or (fnmatchcase(found.message, message) if message else not found.message)


def sought(action: Action, expect: Expect) -> str:
    """What it expects, in words."""
    words = ["its devices" if expect.device == HELD else expect.device]
    words += ["of the device plugin"] if action.of == "device-plugin" else []
    words += [str(expect.health or ""), repr(expect.message) if expect.message is not None else ""]
    words += [f"with at most {expect.pod_writes} status writes"] if expect.pod_writes is not None else []
    return " ".join(filter(None, words))


def already_true(old: Action) -> str:
    """The note on an expectation that was met by a status from before this step."""
    verb = old.verb.replace("_", " ")
    return f"already true before the step {old.step} ({verb}); add `holds`, or expect something new"


# Does the actions of a plan on a driver and a device plugin beside it, and looks at what pods show.
#
# A stage defines the rest: how it sees pods, how its clock passes, how it starts and stops a fake, and how it reports
# a failure.

_SUBJECTS: tuple[Subject, ...] = ("driver", "device-plugin")
_TIMES = (Kind.DURATION, Kind.RECOVERY_TIME)


@dataclass(slots=True)
class _Change:
    """A step that can change what pods show of a device."""

    number: int
    """The later step has the higher number."""
    newest: object
    """`TimelineStage.newest` before it, or before the first of several steps without an expectation between them."""
    action: Action
    is_checked: bool = False
    """An expectation came after it."""


class TimelineStage(ABC):
    """Implements `play.Stage`; `speed` times as fast as the plan has it."""

    clock: Clock

    def __init__(self, story: Story, *, pool: str, has_plugin: bool, speed: float) -> None:
        self.story = story
        self._pool = pool
        self._has_plugin = has_plugin
        self._speed = speed
        self._failed: set[tuple[str, str]] = set()
        """Steps and devices whose expectation was not met: nothing is to be held."""
        self._numbers = count()
        self._changed: dict[tuple[Subject, str], _Change] = {}
        """The last step that can change a device of a fake."""
        self._reached: dict[str, set[str]] = {}
        """The devices that faults on a device have reached."""

    async def act(self, action: Action) -> None:
        with self.at(action):
            self.begins(action)
            self._remember(action)
            match action.do:
                case Command():
                    await self._command(action, action.do)
                case Send(message=message):
                    await self.do("driver", command_of(message, self._pool, self.clock.wall(), self.story.inventory))
                case ChangePod():
                    await self.change_pod(action.do)
                case ChangeKubelet():
                    await self.change_kubelet(action.do)
                case Mark() | Expect():
                    pass  # `expect` does the latter
                case unhandled:
                    assert_never(unhandled)

    async def expect(self, action: Action) -> None:
        expect = cast("Expect", action.do)
        self._failed.discard((action.step, action.device))
        old = self._old(action, expect)
        with self.at(action):
            if not await self.comes(action, expect, lambda: self._is_so(action, expect)):
                self._failed.add((action.step, action.device))
                self.not_met(action, expect, held=False)
            elif not expect.holds:
                self.met(action, expect, old)

    async def held(self, action: Action) -> None:
        expect = cast("Expect", action.do)
        if (action.step, action.device) in self._failed:
            return
        with self.at(action):
            if self._is_so(action, expect):
                self.met(action, expect, None)
            else:
                self.not_met(action, expect, held=True)

    async def happens(self, trigger: Trigger) -> None:
        await self.until(lambda: self._has_happened(trigger))

    # -- what a stage does

    @abstractmethod
    async def passes(self, seconds: float) -> None:
        """Returns when so much time has passed for everything on the stage."""

    @abstractmethod
    def at(self, action: Action) -> AbstractContextManager[object]:
        """What fails in it fails at this action."""

    @abstractmethod
    def begins(self, action: Action) -> None:
        """It is done now."""

    @abstractmethod
    def done(self, action: Action, result: str) -> None:
        """The result of the action."""

    @abstractmethod
    async def do(self, subject: Subject, command: Command[Any]) -> Any:
        """The driver, or the device plugin, does the command."""

    @abstractmethod
    def ids_of(self, device: str) -> tuple[str, ...]:
        """The device plugin's ids of a device, or of its partitions."""

    @abstractmethod
    async def change_pod(self, change: ChangePod) -> None:
        """Lets the pod fail or run, or deletes it."""

    @abstractmethod
    async def change_kubelet(self, change: ChangeKubelet) -> None:
        """Restarts, stops or starts the kubelet."""

    # -- what a stage sees

    @abstractmethod
    async def comes(self, action: Action, expect: Expect, true: Callable[[], bool]) -> bool:
        """Waits through the window of an expectation; whether it came true. May raise what says that it did not."""

    @abstractmethod
    async def until(self, true: Callable[[], bool]) -> None:
        """Waits until it is true."""

    @abstractmethod
    def met(self, action: Action, expect: Expect, old: Action | None) -> None:
        """Pods show what they are to show, and have as long as they are to.

        `old`: they showed it before this step, and no status was written since.
        """

    @abstractmethod
    def not_met(self, action: Action, expect: Expect, *, held: bool) -> None:
        """They do not; `held`: they did at first. May raise what says so."""

    @abstractmethod
    def shown(self, device: str, of: Subject = "driver") -> list[ResourceHealth]:
        """What pods show of a device or of its partitions, or of those that the pod holds."""

    @abstractmethod
    def newest(self) -> object:
        """An object that is the same until the status of a pod changes."""

    @abstractmethod
    def pod_writes(self) -> int:
        """How often the pod's status was written."""

    @abstractmethod
    def calls(self, method: str | None) -> int:
        """How often the driver was called since the start, by this method or by any."""

    # -- inside

    async def _command(self, action: Action, command: Command[Any]) -> None:
        if action.of == "device-plugin" and command.definition.has_devices:
            command = command.on(self.ids_of(action.device))
        reply = await self.do(action.of, faster(command, self._speed))
        if isinstance(command, Reset) and self._has_plugin:
            await self.do("device-plugin", command)
        if isinstance(command, Recover) and reply.left:
            self.done(action, f"{command.action} does not clear {', '.join(reply.left)}")

    def _is_so(self, action: Action, expect: Expect) -> bool:
        if expect.pod_writes is not None and self.pod_writes() > expect.pod_writes:
            return False
        shown = self.shown(action.device, action.of)
        return bool(shown) and all(fits(found, expect) for found in shown)

    def _remember(self, action: Action) -> None:
        """The action is about to change devices. A new pod shows nothing old."""
        if isinstance(action.do, ChangePod) and action.do.what == "deleted":
            self._changed.clear()
        number, newest = next(self._numbers), self.newest()
        for key in self._changed_by(action):
            known = self._changed.get(key)
            first = known.newest if known and not known.is_checked else newest
            self._changed[key] = _Change(number, first, action)

    def _changed_by(self, action: Action) -> Iterable[tuple[Subject, str]]:
        """The devices whose health or message the action can change."""
        inventory, device = self.story.inventory, action.device
        match action.do:
            case Mark() | Expect() | ChangePod() | SetHeartbeat() | TaintDevices() | UntaintDevices():
                return []
            case ChangeKubelet() | Reset():
                return [(of, one.path) for of in _SUBJECTS for one in inventory.devices]
            case Inject(fault=name) | Clear(fault=name):
                reached = inventory.reached(device, fault(self.story.timeline.use.catalogue, name).reaches)
                self._reached.setdefault(device, set()).update(reached)
                return [(action.of, path) for path in reached]
        if not device:
            return [(action.of, one.path) for one in inventory.devices]
        inside = inventory.reached(device, "device")
        by_fault = (path for one in inside for path in self._reached.get(one, ()))
        return [(action.of, path) for path in (*inside, *by_fault)]

    def _old(self, action: Action, expect: Expect) -> Action | None:
        """The last step that can change the device, if pods have shown what is expected since before this step.

        Of several steps without an expectation between them, the first one counts.
        """
        inventory = self.story.inventory
        everywhere = (device.path for device in inventory.devices)
        paths = everywhere if action.device == HELD else inventory.reached(action.device, "device")
        changes = [self._changed[action.of, path] for path in paths if (action.of, path) in self._changed]
        for change in changes:
            change.is_checked = True
        is_about_state = not expect.holds and (expect.health is not None or expect.message is not None)
        if not changes or not is_about_state or not self._is_so(action, expect):
            return None
        last = max(changes, key=attrgetter("number"))
        return last.action if last.newest is self.newest() else None

    def _has_happened(self, trigger: Trigger) -> bool:
        if trigger.calls is not None:
            return self.calls(trigger.method) >= trigger.calls
        paths = [HELD] if trigger.device == HELD else self.story.inventory.matching(trigger.device or "all")
        return any(found.health == trigger.seen for path in paths for found in self.shown(path))


def faster(command: Command[Any], speed: float) -> Command[Any]:
    """The same, with the times that pass on the driver's clock shortened."""
    times = [argument.name for argument in command.definition.arguments if argument.kind in _TIMES]
    if speed == 1 or not times:
        return command
    args = command.arguments()
    return type(command)(**{**args, **{name: args[name] / speed for name in times if args[name]}})
