"""Random timelines, and random disruptions of the node. The same seed and round give the same ones. Pure."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from drahealth.fakes.faults.catalogue import catalogue
from drahealth.fakes.inventory.file import DeviceGroup, inventory_of
from drahealth.fakes.program.user_files import FileError
from drahealth.fakes.timelines.build import When, checked, driver, inject, plugin, pod, recover, set_, stream, timeline
from drahealth.fakes.timelines.model import Step, Timeline, Workload
from drahealth.fakes.timelines.play import Story
from drahealth.proto.values import Health
from drahealth.suites.targets.capabilities import Capability

CATALOGUE = "nvidia"
_ACTIONS = ("app-restart", "gpu-reset", "reboot", "replace")
_MESSAGES = ("", "hot", "ecc errors: 3", "名前 😀", "fallen off the bus", "x" * 1000)
_TIMEOUTS = ("2s", "5s", "60s", "1h")
_CODES = ("OK", "UNAVAILABLE", "INTERNAL", "CANCELLED", "RESOURCE_EXHAUSTED", "UNKNOWN")
_MALFORMED = ("ff", "0a05", "0affffffff0f", "0a020aff")
_STREAM_FAULTS: tuple[dict[str, Any], ...] = (
    {"stall": True},
    {"delay": "1s"},
    {"drop": "50%"},
    {"duplicate": "50%"},
    {"reorder": "50%"},
    {"partial": True},
    {"skew": "-5m"},
)
_STOPPED = 3.0
"""Seconds for which a driver or a device plugin is stopped, at most."""

Disruption = Literal["restart the kubelet", "stop the kubelet", "stop the API server", "start a Pod"]
_NEEDS: dict[Disruption, Capability] = {
    "restart the kubelet": Capability.RESTART_KUBELET,
    "stop the kubelet": Capability.STOP_KUBELET,
    "stop the API server": Capability.STOP_API_SERVER,
}


@dataclass(frozen=True, slots=True)
class Disrupted:
    """Something that happens to the whole node."""

    at: float
    """Seconds after the start of the round."""
    what: Disruption
    seconds: float
    """For how long something is stopped, or how long a Pod runs."""


@dataclass(frozen=True, slots=True)
class Round:
    """What is played in one round: a timeline for each driver, all at the same time."""

    number: int
    stories: tuple[Story, ...]
    disruptions: tuple[Disrupted, ...]

    @property
    def plugins(self) -> int:
        """The number of device plugins."""
        return sum(story.plan.has_plugin for story in self.stories)

    @property
    def steps(self) -> int:
        """The number of actions of all timelines, and of disruptions."""
        return sum(len(story.plan.actions) for story in self.stories) + len(self.disruptions)

    @property
    def seconds(self) -> float:
        """How long it lasts, at least."""
        ends = [action.at for story in self.stories for action in story.plan.actions]
        return max([*ends, *(one.at + one.seconds for one in self.disruptions)], default=0.0)

    @property
    def title(self) -> str:
        """What is in it."""
        return (
            f"round {self.number}: {len(self.stories)} drivers, {self.plugins} device plugins, {self.steps} steps"
            + "".join(f", {one.what}" for one in self.disruptions if one.what in _NEEDS)
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the rounds of a target go on."""

    pause: float
    """Mean seconds between two steps of a driver."""
    restarts: int
    """In one of so many rounds the kubelet restarts, and in another one the API server stops."""


REAL = Pace(2.0, 40)
"""A kubelet must run for some rounds and minutes before its leaks can be judged."""
SIMULATED = Pace(15.0, 8)


def round_of(seed: int, number: int, pace: Pace, can: Collection[Capability]) -> Round:
    """The round with this number, from 1. `can` are the capabilities of the target: it is disrupted only so."""
    random = Random(f"{seed}/{number}")
    made = [_story(random, number, crew, pace.pause) for crew in range(random.randint(3, 5))]
    lasts = max(one.plan.actions[-1].at for one in made)
    disruptions = _disruptions(random, number % pace.restarts, pace.restarts, lasts, can)
    return Round(number, tuple(made), tuple(sorted(disruptions, key=lambda one: one.at)))


def _disruptions(
    random: Random, turn: int, turns: int, lasts: float, can: Collection[Capability]
) -> Iterator[Disrupted]:
    for _ in range(random.randint(1, 3)):
        yield Disrupted(random.uniform(0, lasts), "start a Pod", random.uniform(1, max(2.0, lasts / 2)))
    draws: list[Disruption] = []
    if turn == 0:
        draws = [random.choice(("restart the kubelet", "stop the kubelet"))]
    elif turn == turns // 2:
        draws = ["stop the API server"]
    for what in draws:
        if _NEEDS[what] in can:
            yield Disrupted(random.uniform(0, lasts), what, random.uniform(0.5, 4))


def _story(random: Random, number: int, crew: int, pause: float) -> Story:
    group = DeviceGroup(name=f"gpu-{'abcde'[crew]}", count=random.randint(2, 4))
    inventory = inventory_of((group,))
    replicas = random.random() < 0.4
    # Unhealthy devices of a device plugin are not allocatable, so a replacement may never start.
    has_plugin = not replicas and random.random() < 0.8
    # A replacement of a Pod needs devices that the Pod before it still holds.
    held = max(1, group.count // 2) if replicas else random.randint(1, group.count)
    ends: list[Step] = [driver("start"), *([plugin("start")] if has_plugin else [])]
    while True:
        steps = list(_steps(random, list(group.names()), pause, has_plugin=has_plugin, replicas=replicas))
        made: Timeline = timeline(
            f"round {number}, driver {crew + 1}",
            steps,
            always=ends,
            seed=random.randrange(2**31),
            inventory=(group,),
            workload=Workload(kind="ReplicaSet" if replicas else "Pod", devices=held),
        )
        with suppress(FileError):  # a step that can have no effect, such as one on a device that a fault has removed
            return Story(made, inventory, checked(made, inventory))


def _steps(random: Random, devices: list[str], pause: float, *, has_plugin: bool, replicas: bool) -> Iterator[Step]:
    kinds = ["fault"] * 5 + ["recover"] * 3 + ["set"] * 5 + ["timeout"] * 2 + ["close", "malformed"]
    kinds += ["silence", "stream"] * 2 + ["restart", "upgrade", "crash", "stop", "unregister"]
    kinds += ["plugin health"] * 4 + ["plugin list", "plugin restart", "plugin crash"] if has_plugin else []
    kinds += ["replace"] * 2 if replicas else []
    faults = [(fault, device) for fault in catalogue(CATALOGUE) for device in devices]
    random.shuffle(faults)
    at, first = 0.0, True
    faulty = set[str]()
    for _ in range(random.randint(4, 9)):
        at += random.expovariate(1 / pause)
        device = random.choice(devices)
        kind = random.choice(kinds)
        if first and has_plugin:  # a timeline has a device plugin only if a step of it needs one
            kind = "plugin health"
        if kind == "recover" and not faulty:  # `validation` rejects a step that can do nothing
            kind = "fault"
        first = False
        when: When = {"at": _time(at)}
        later: When = {"at": _time(at + random.uniform(0.2, _STOPPED))}
        match kind:
            case "fault":
                fault, device = faults.pop()
                faulty.add(device)
                yield inject(fault, device, **when)
            case "recover":
                device = random.choice(sorted(faulty))
                faulty.remove(device)
                yield recover(random.choice(_ACTIONS), device, **when)
            case "set":
                yield set_(device, when=when, health=random.choice([*Health]), message=random.choice(_MESSAGES))
            case "timeout":
                yield set_(device, when=when, timeout=random.choice(_TIMEOUTS))
            case "close":
                yield stream(when, close=random.choice(_CODES))
            case "malformed":
                yield stream(when, send={"raw": random.choice(_MALFORMED)})
            case "silence":
                yield stream(when, silence=_time(random.uniform(1, 3 * pause)))
            case "stream":
                yield stream({**when, "for_": _time(random.uniform(1, 2 * pause))}, **random.choice(_STREAM_FAULTS))
            case "restart":
                yield driver("restart", **when)
            case "upgrade":
                yield driver({"upgrade": {"overlap": "1s"}}, **when)
                at += 2
            case "crash" | "stop" | "unregister":
                yield driver(kind, **when)
                yield driver("start", **later)
                at += _STOPPED
            case "plugin health":
                yield plugin({"health": random.choice(("Healthy", "Unhealthy"))}, device, **when)
            case "plugin list":
                yield plugin({"listed": False}, device, **when)
                yield plugin({"listed": True}, device, **later)
                at += _STOPPED
            case "plugin restart":
                yield plugin("restart", **when)
            case "plugin crash":
                yield plugin("crash", **when)
                yield plugin("start", **later)
                at += _STOPPED
            case "replace":
                yield pod("deleted", **when)


def _time(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
