"""The space of faults as data, and the plan of a run that covers it. Pure.

A run is judged by what it caused. So the plan has dimensions with values, and no list of known faults. At level core
it covers each value, and at level full each pair of values of devices, moments and changes. Health APIs and subscribers
need no pairs: each stage watches all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any, Literal

from drahealth.proto.events import ExperimentEnded, FaultGap, FaultStage
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.profile.faults import (
    MARGIN,
    CreateFile,
    Fault,
    PatchObject,
    WriteFile,
    overlap,
    strings,
)
from drahealth.suites.driver_checks.verdicts import Level, SubjectKind

# The dimensions.


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of the space, with the meaning of each value."""

    name: str
    values: Mapping[str, str]
    pairs: bool = False
    """Whether level full covers each pair of a value and a value of the other dimensions of this kind."""


START, AGAIN, NO_API = "right after start", "re-registration", "no API server"
PREPARE, UNPREPARE, SECOND, IDLE = "prepare", "unprepare", "second fault", "idle"
AFTER_AGAIN = "after a re-registration"
ALLOCATE, OTHER, NO_KUBELET = "allocate", "allocate another device", "no kubelet"
EACH, TOGETHER, LAST, KINDS = "each device", "two at once", "the last device", "each pool and model"
RECOVER, UNKNOWN, TWO_FAULTS, MESSAGE, REPEATED = "recover", "unknown", "two faults", "message", "again"


@dataclass(frozen=True, slots=True)
class Space:
    """The dimensions of the faults of a kind of subject."""

    dimensions: tuple[Dimension, ...]
    """The order of the moments is that of the stages at level core."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What a stage at a moment takes besides the usual time."""
    stage: float = 1.0
    """Seconds of a stage besides the time until its acts are reported."""
    limit: float = 120.0
    """Seconds of the stages of a plan; what does not fit is a gap."""

    def values(self, dimension: str) -> tuple[str, ...]:
        """The values of a dimension, in order."""
        return tuple(next(one.values for one in self.dimensions if one.name == dimension))


DRIVERS = Space(
    (
        Dimension(
            "device",
            {
                EACH: "each device that is in a ResourceSlice and in the reports, at most 32",
                TOGETHER: "two devices at the same time",
                LAST: "the last device that the driver reports",
                KINDS: "a device of each pool and model",
            },
            pairs=True,
        ),
        Dimension("health API", {"each health API": "all health APIs that the driver serves, at the same time"}),
        Dimension(
            "subscriber",
            {
                "before": "a stream that was opened before the fault, and a second stream of the same health API",
                "during": "a stream that is opened while the fault is caused",
                "after": "a stream that is opened after another stream has shown the fault",
                "after a cancelled stream": "a stream that is opened after another stream was cancelled",
                AFTER_AGAIN: "a stream that is opened after the driver was registered again",
            },
        ),
        Dimension(
            "moment",
            {
                START: "the driver was started and registered, and no stream is open",
                SECOND: "another device is broken",
                PREPARE: "NodePrepareResources is pending",
                UNPREPARE: "NodeUnprepareResources is called",
                AGAIN: "the streams are cancelled, and the driver is registered again",
                NO_API: "the API server is down",
                IDLE: "nothing else happens",
            },
            pairs=True,
        ),
        Dimension(
            "change",
            {
                RECOVER: "Healthy, Unhealthy, Healthy",
                UNKNOWN: "Healthy, Unknown, Healthy",
                "unhealthy to unknown": "Healthy, Unhealthy, Unknown, Healthy",
                "unknown to unhealthy": "Healthy, Unknown, Unhealthy, Healthy",
                MESSAGE: "another cause at the same health",
                REPEATED: "the same fault twice",
            },
            pairs=True,
        ),
    )
)
"""The faults of DRA drivers."""
PLUGINS = Space(
    (
        Dimension(
            "device",
            {
                EACH: "each device that the plugin lists as Healthy, at most 32",
                TOGETHER: "two devices at the same time",
                LAST: "the last device of the last resource",
                "each resource": "a device of each resource",
            },
            pairs=True,
        ),
        Dimension(
            "stream",
            {
                "before": "the ListAndWatch stream that was opened before the fault",
                AFTER_AGAIN: "the stream that is opened after the next registration; its first list has all faults",
            },
        ),
        Dimension(
            "moment",
            {
                SECOND: "another device is broken",
                ALLOCATE: "the device was allocated, and Allocate is called for it again",
                OTHER: "Allocate is called for another device",
                AGAIN: "the kubelet was restarted, and the plugin registers again",
                NO_KUBELET: "the kubelet is down, until the settle time is over",
                START: "the plugin was started and registered, and no stream is open",
                IDLE: "nothing else happens",
            },
            pairs=True,
        ),
        Dimension(
            "change",
            {
                RECOVER: "Healthy, Unhealthy, Healthy",
                UNKNOWN: "the health is unknown, and the plugin can only list Unhealthy",
                TWO_FAULTS: "two faults in the device, which is Unhealthy until it has none",
                MESSAGE: "another cause while the device is Unhealthy",
                REPEATED: "the same fault twice",
            },
            pairs=True,
        ),
    ),
    {START: 2.0, AGAIN: 6.0, NO_KUBELET: MARGIN + 3.0},
    stage=0.5,
    limit=150.0,
)
"""The faults of device plugins."""
KUBELET_RESTARTS = (AGAIN, NO_KUBELET)
"""The moments at which the kubelet of a device plugin stops and starts."""
SPACES: Mapping[SubjectKind, Space] = {"dra-driver": DRIVERS, "device-plugin": PLUGINS}
PLANS = ("fault-plan", "plugin-fault-plan")
"""The experiments that play a plan."""
MOST = 32
"""Devices of a plan at most; others are left out, but not the last one, and not the only one of its pool and model."""

# What is done to devices.

Verb = Literal["break", "change", "heal"]


@dataclass(frozen=True, slots=True)
class Target:
    """A device that can be broken."""

    device: Device
    model: str = ""
    """What the ResourceSlice says of its model; devices of one text are alike."""


@dataclass(frozen=True, slots=True)
class Act:
    """One action of a fault on a device."""

    device: Device
    fault: Fault
    verb: Verb
    shows: tuple[Health, ...]
    """The healths that the driver may report from then on."""
    change: str
    """The change that this act belongs to."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Acts that are done side by side at a moment. The other devices are bystanders."""

    moment: str
    acts: tuple[Act, ...]
    begins: tuple[tuple[Device, str], ...]
    """The devices whose first act this is, each with its change."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A value that this driver profile cannot cause."""

    dimension: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The stages of a run, and what they do not cover."""

    stages: tuple[Stage, ...]
    gaps: tuple[Gap, ...]
    space: Space = DRIVERS

    @property
    def seconds(self) -> float:
        """The usual duration for a driver that needs all of its settle time."""
        return sum(
            self.space.stage
            + self.space.seconds.get(stage.moment, 0.0)
            + max((act.fault.settle for act in stage.acts), default=0.0)
            for stage in self.stages
        )


# The changes that a driver profile can cause.


_Step = tuple[Fault, Verb, tuple[Health, ...]]


def usable(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """The faults that a plan can cause: while the driver runs, and so that they end."""
    return tuple(one for one in faults if one.lasts)


def _breaks(fault: Fault, device: Device) -> bool:
    if fault.device:
        return fault.device in (device.name, str(device))
    return _names_its_device(fault)


def _names_its_device(fault: Fault) -> bool:
    """Whether the action that breaks depends on the device. Otherwise it breaks the same one, whichever is asked."""
    return bool(fault.device) or any("{device}" in text for text in strings(fault.break_))


def one_at_a_time(fault: Fault) -> bool:
    """Whether the fault of a second device would replace that of the first one, because both write to one place."""
    match fault.break_:
        case CreateFile(path) | WriteFile(path):
            return "{device}" not in path
        case PatchObject(_, name, _, merge):
            return "{device}" not in name and not any("{device}" in key for key in _keys(merge))
        case _:
            return False


def together(fault: Fault, devices: Sequence[Device]) -> list[Device]:
    """Those of the devices that the fault can break at the same time, at most `MOST`."""
    mine = [one for one in devices if _breaks(fault, one)]
    return mine[: 1 if one_at_a_time(fault) else MOST]


def _keys(merge: Mapping[str, Any]) -> Iterator[str]:
    for key, value in merge.items():
        yield key
        if isinstance(value, Mapping):
            yield from _keys(value)


_ONE = "the faults of the driver profile break one device at a time"


def changes_of(
    faults: Sequence[Fault], device: Device, number: int = 0, space: Space = DRIVERS
) -> dict[str, tuple[Act, ...]]:
    """The acts of each change of the space that these faults can cause in a device.

    `number` chooses among faults of the same kind, so that several devices get all of them.
    """
    mine = [one for one in usable(faults) if _breaks(one, device)]
    sick = _turned([one for one in mine if one.health is Health.UNHEALTHY], number)
    lost = _turned([one for one in mine if one.health is Health.UNKNOWN], number)
    told = _turned([one for one in mine if one.change is not None], number)
    found: dict[str, tuple[Act, ...]] = {}

    def add(change: str, *steps: _Step) -> None:
        found[change] = tuple(Act(device, fault, verb, shows, change) for fault, verb, shows in steps)

    healthy, broken = (Health.HEALTHY,), (Health.UNHEALTHY, Health.UNKNOWN)
    for change, kind in ((RECOVER, sick), (UNKNOWN, lost)):
        for one in kind[:1]:
            add(change, *_broken_and_healed(one))
    for change, firsts, seconds in (("unhealthy to unknown", sick, lost), ("unknown to unhealthy", lost, sick)):
        pairs = [(one, other, way) for one, other in product(firsts, seconds) if (way := _both(one, other))]
        for one, other, way in pairs[:1]:
            seconds_health = (other.health,) if way == "replaces" else (one.health, other.health)
            steps: list[_Step] = [(one, "break", (one.health,)), (other, "break", seconds_health)]
            steps += [] if way == "replaces" else [(one, "heal", (other.health,))]
            add(change, *steps, (other, "heal", healthy))
    others = (
        (one, other, _both(one, other)) for one, other in product(_turned(mine, number), mine) if one is not other
    )
    for one, other, way in [found for found in others if found[-1]][:1]:
        first: list[_Step] = [] if way == "replaces" else [(one, "heal", broken)]
        add(TWO_FAULTS, (one, "break", broken), (other, "break", broken), *first, (other, "heal", healthy))
    for one in told[:1]:
        add(MESSAGE, (one, "break", (one.health,)), (one, "change", broken), (one, "heal", healthy))
    for one in (sick or lost)[:1]:
        add(REPEATED, *_broken_and_healed(one), *_broken_and_healed(one))
    return {change: found[change] for change in space.values("change") if change in found}


def _broken_and_healed(fault: Fault) -> tuple[_Step, _Step]:
    return (fault, "break", (fault.health,)), (fault, "heal", (Health.HEALTHY,))


def _turned(faults: list[Fault], number: int) -> list[Fault]:
    start = number % len(faults) if faults else 0
    return faults[start:] + faults[:start]


def _both(one: Fault, other: Fault) -> Literal["", "replaces", "lasts beside"]:
    """What the second fault of a device does to the first one; "" if that is unknown."""
    mine, theirs = one.break_, other.break_
    if isinstance(mine, CreateFile | WriteFile) and isinstance(theirs, WriteFile) and mine.path == theirs.path:
        return "replaces" if one.heal == other.heal else ""
    return "" if overlap(one, other) else "lasts beside"


def _reason(change: str, faults: Sequence[Fault]) -> str:
    healths = {one.health for one in faults}
    if not faults:
        return "each fault of the driver profile starts the driver again, or is never cleared"
    if change == MESSAGE:
        return "no fault of the driver profile has an action `change`"
    if change == RECOVER or (change not in (UNKNOWN, TWO_FAULTS) and Health.UNHEALTHY not in healths):
        return "no fault of the driver profile makes a device unhealthy"
    if change != TWO_FAULTS and Health.UNKNOWN not in healths:
        return "no fault of the driver profile makes the health unknown"
    return "no two faults of the driver profile can last in one device"


# The devices of a plan.


def chosen(targets: Sequence[Target]) -> list[Target]:
    """At most `MOST` devices: the last one, one of each pool and model, and then in order."""
    kinds: dict[tuple[str, str], Target] = {}
    for one in targets:
        kinds.setdefault((one.device.pool, one.model), one)
    wanted = list(dict.fromkeys([*targets[-1:], *kinds.values(), *targets]))[:MOST]
    return [one for one in targets if one in wanted]


# The plan.


def plan(
    faults: Sequence[Fault],
    targets: Sequence[Target],
    level: Level,
    blocked: Mapping[str, str] | None = None,
    once: Mapping[str, str] | None = None,
    space: Space = DRIVERS,
) -> FaultPlan:
    """The stages that cover each value, and at level full each pair of values, as far as the faults can cause them.

    `blocked` has the moments that cannot be caused, and `once` those that one stage causes, each with the reason.
    """
    found = _Planner(faults, chosen(targets), dict(blocked or {}), dict(once or {}), level, space)
    found.run()
    return FaultPlan(tuple(found.stages), (*found.gaps(), *_left_out(targets, faults)), space)


def _left_out(targets: Sequence[Target], faults: Sequence[Fault]) -> Iterator[Gap]:
    mine = chosen(targets)
    if more := len(targets) - len(mine):
        yield Gap("device", EACH, f"{more} of {len(targets)} devices were left out")
    if whole := [str(one.device) for one in mine if not changes_of(faults, one.device)]:
        names = ", ".join(whole[:5]) + (f" and {len(whole) - 5} more" if len(whole) > 5 else "")
        yield Gap("device", EACH, f"no fault of the driver profile breaks {names}")
    if len(targets) < 2 or any(map(one_at_a_time, usable(faults))):
        yield Gap("device", TOGETHER, "the driver has fewer than two devices" if len(targets) < 2 else _ONE)
    for one in faults:
        if not one.lasts:
            why = "starts the driver again" if one.restarts else "is never cleared"
            yield Gap("change", f"fault {one.name}", f"it {why}; it is caused in one device, at no other moment")
        elif not _names_its_device(one):
            yield Gap("device", f"fault {one.name}", "its action has no {device}, and the fault names no device")


@dataclass
class _Planner:
    faults: Sequence[Fault]
    targets: Sequence[Target]
    blocked: dict[str, str]
    once: dict[str, str]
    level: Level
    space: Space
    stages: list[Stage] = field(default_factory=list)
    _running: dict[Device, list[Act]] = field(default_factory=dict)
    """The acts that are left for each device that is not healthy."""
    _begun: dict[Device, int] = field(default_factory=dict)
    _open: set[frozenset[tuple[str, str]]] = field(default_factory=set)
    """What is not covered yet: values, or pairs of values."""

    def __post_init__(self) -> None:
        self._moments = self.space.values("moment")
        self._changes = {
            one.device: changes_of(self.faults, one.device, number, self.space)
            for number, one in enumerate(self.targets)
        }
        self._devices = [device for device, changes in self._changes.items() if changes]
        self._alone = any(map(one_at_a_time, usable(self.faults)))
        if self._alone:
            self.blocked.setdefault(SECOND, _ONE)
        if len(self._devices) < 2:
            self.blocked.setdefault(SECOND, "the faults of the driver profile break fewer than two devices")
        for moment in self._moments:
            for device, change in self._ways(moment):
                self._open |= self._covers(moment, device, change)

    def gaps(self) -> Iterator[Gap]:
        mine = usable(self.faults)
        for moment in self._moments:
            if moment in self.blocked:
                yield Gap("moment", moment, self.blocked[moment])
            elif self._devices and not self._ways(moment):
                yield Gap("moment", moment, "each fault of the driver profile needs the API server")
            elif moment in self.once and self.level == "full":
                yield Gap("pairs", moment, self.once[moment])
        for change in self.space.values("change"):
            if not any(change in changes for changes in self._changes.values()):
                yield Gap("change", change, _reason(change, mine))
        if left := len(self._open) + len(self._apart()):
            what = "pairs of values" if self.level == "full" else "values"
            yield Gap("pairs", f"{left} {what}", f"they do not fit into {self.space.limit:g} s")

    def run(self) -> None:
        """Adds stages until nothing is left to cover, or the time is over, and all devices are healthy."""
        while self._open and self._seconds < self.space.limit:
            moment = self._next_moment()
            if moment == START and self._running:
                self._drain()
                continue
            if moment == SECOND and not self._running:
                self._stage(IDLE, self._best(IDLE, 1) or [self._earlier()])
            if begins := self._best(moment, (len(self._devices) + 1) // 2):
                self._stage(moment, begins)
            elif self._running:
                self._drain()
            else:
                break
        self._together()
        while self._running:
            self._drain()

    @property
    def _seconds(self) -> float:
        return FaultPlan(tuple(self.stages), (), self.space).seconds

    def _drain(self) -> None:
        """Adds a stage with the next acts of the devices that are not healthy, at the moment that covers most."""
        moments = [IDLE, *(one for one in self._moments if one not in (START, SECOND) and one not in self.blocked)]

        def gain(moment: str) -> int:
            acts = [left[0] for left in self._running.values()]
            return sum(len(self._covers_later(moment, act) & self._open) for act in acts)

        self._stage(max(moments, key=gain), [])

    def _together(self) -> None:
        """Breaks two devices at the same time: once, and at level full at each moment and with each change.

        Many stages do so already. A driver of two devices has no bystander then.
        """
        while (missing := self._apart()) and (self.level != "full" or self._seconds < self.space.limit):
            while self._running:
                self._drain()
            moment = next((one for one in self._moments if one in missing), IDLE)
            if moment == SECOND:
                self._stage(IDLE, [self._earlier()])
            begins: list[tuple[Device, str]] = []
            for _ in range(2):
                ways = [way for way in self._ways(moment) if way[0] not in {**self._running, **dict(begins)}]
                begins.append(next((way for way in ways if way[1] in missing), ways[0]))
                missing.discard(begins[-1][1])
            self._stage(moment, begins)

    def _earlier(self) -> tuple[Device, str]:
        """The device that breaks before the moment `SECOND`, with its change: the one with least to cover there."""

        def left(device: Device) -> int:
            return sum(len(self._covers(SECOND, device, change) & self._open) for change in self._changes[device])

        device = min(reversed(self._devices), key=left)
        return device, next(iter(self._changes[device]))

    def _ways(self, moment: str) -> list[tuple[Device, str]]:
        """Each device, with each change that is possible at the moment."""
        ways = ((device, change) for device in self._devices for change in self._changes[device])
        return [way for way in ways if self._possible(moment, *way)]

    def _apart(self) -> set[str]:
        """The moments and changes with which two devices could break at the same time, and do not.

        At level core once is enough, and `IDLE` stands for that.
        """
        pairs = [stage for stage in self.stages if len(stage.begins) > 1]
        if self._alone or len(self._devices) < 2:
            return set()
        if self.level != "full":
            return set() if pairs else {IDLE}
        found = {stage.moment for stage in pairs} | {change for stage in pairs for _, change in stage.begins}
        moments = (one for one in self._moments if one not in self.once)
        able = {one for one in moments if len(dict(self._ways(one))) > (2 if one == SECOND else 1)}
        return {*able, *(change for changes in self._changes.values() for change in changes)} - found

    def _next_moment(self) -> str:
        """The moment with most that is open; of equals the first one."""
        return max(
            (one for one in self._moments if one not in self.blocked),
            key=lambda one: sum(("moment", one) in part for part in self._open),
        )

    def _best(self, moment: str, most: int) -> list[tuple[Device, str]]:
        """The devices to break at the moment, each with the change that covers most. One device stays a bystander."""
        if self._alone and self._running:
            return []
        most = 1 if self._alone else most
        acting = 0 if moment == SECOND else len(self._running)
        room = max(len(self.targets) - acting - 1, 0) if len(self.targets) > 1 else 1
        found: list[tuple[Device, str]] = []
        covered: set[frozenset[tuple[str, str]]] = set()
        free = [one for one in self._devices if one not in self._running]
        while free and len(found) < min(most, room):
            ways = [way for way in self._ways(moment) if way[0] in free]
            gains = [
                (len(self._covers(moment, *way) & self._open - covered), -self._begun.get(way[0], 0), -number, way)
                for number, way in enumerate(ways)
            ]
            best = max(gains, default=None)
            if best is None or not best[0]:
                break
            device, change = best[-1]
            found.append((device, change))
            covered |= self._covers(moment, device, change)
            free.remove(device)
        return found

    def _possible(self, moment: str, device: Device, change: str) -> bool:
        acts = self._changes[device][change]
        return moment not in self.blocked and (moment != NO_API or not any(map(_needs_api, acts)))

    def _covers(self, moment: str, device: Device, change: str) -> set[frozenset[tuple[str, str]]]:
        if moment in self.once:
            return {frozenset((("moment", moment),))}
        values = (("moment", moment), ("device", str(device)), ("change", change))
        if self.level != "full":
            return {frozenset((value,)) for value in values}
        return {frozenset(pair) for pair in product(values, values) if pair[0] != pair[1]}

    def _covers_later(self, moment: str, act: Act) -> set[frozenset[tuple[str, str]]]:
        """What an act covers that is not the first one of its change: at level core nothing."""
        needs_api = moment == NO_API and _needs_api(act)
        return set() if self.level != "full" or needs_api else self._covers(moment, act.device, act.change)

    def _stage(self, moment: str, begins: Sequence[tuple[Device, str]]) -> None:
        """Adds a stage: the first act of these devices, and the next act of the others that are not healthy."""
        acts: list[Act] = []
        if moment != SECOND:  # there the earlier fault lasts
            room = max(len(self.targets) - 1 - len(begins), 1)
            if len(self._running) > 1:  # one stays broken while others recover
                room = min(room, len(self._running) - 1)
            for device, left in list(self._running.items()):
                if len(acts) == room or (moment == NO_API and _needs_api(left[0])):
                    continue
                acts.append(left.pop(0))
                self._open -= self._covers_later(moment, acts[-1])
                if not left:
                    del self._running[device]
        for device, change in begins:
            first, *rest = self._changes[device][change]
            acts.append(first)
            self._running[device] = rest
            self._begun[device] = self._begun.get(device, 0) + 1
            self._open -= self._covers(moment, device, change)
        self.stages.append(Stage(moment, tuple(acts), tuple(begins)))


def _needs_api(act: Act) -> bool:
    return any(isinstance(one, PatchObject) for one in act.fault.actions)


# What a run covered.

_NAMES = 8
"""Devices that a summary names; there can be 32."""


def covered(evidence: Evidence) -> dict[str, tuple[str, ...]]:
    """The values of each dimension that the plan of a run covered, in their order; empty for a run without a plan."""
    stages = [one.what for one in evidence.of(FaultStage)]
    if not stages:
        return {}
    devices = list(dict.fromkeys(chain.from_iterable(one.devices for one in stages)))
    more = (f"and {len(devices) - _NAMES} more",) if len(devices) > _NAMES else ()
    seen: dict[str, tuple[str, ...]] = {"device": (*devices[:_NAMES], *more)}
    if apis := tuple(dict.fromkeys(chain.from_iterable(one.health_apis for one in stages))):
        seen["health API"] = apis
    streams = {name for one in stages for name in one.subscribers}
    named = {
        "subscriber": streams,
        "stream": streams,
        "moment": {one.moment for one in stages},
        "change": {change for one in stages for change in one.changes},
    }
    for one in SPACES[evidence.header.subject].dimensions:
        if one.name in named:
            seen[one.name] = tuple(value for value in one.values if value in named[one.name])
    return seen


def not_caused(evidence: Evidence) -> tuple[str, ...]:
    """What the plan of a run could not cause, each with the reason; also why there was no plan."""
    gaps = (one.what for one in evidence.of(FaultGap))
    found = [f"{one.dimension} {one.value}: {one.reason}" for one in gaps]
    if any(evidence.of(FaultStage)) or found:
        return tuple(dict.fromkeys(found))
    if evidence.header.level == "check":
        found.append("faults: `drahealth check` breaks no device; `drahealth certify` does, with a driver profile")
    else:
        ends = (one for one in evidence.of(ExperimentEnded) if one.experiment in PLANS)
        found += [f"{one.experiment}: {one.what.reason}" for one in ends if one.what.reason]
    return tuple(found)
