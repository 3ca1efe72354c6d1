"""The space of wrong drivers: a fault model times the dimensions of what a kubelet can see. Pure.

Each wrong driver has one defect: what is wrong, for which device, over which health API, for which subscriber, at which
moment, and at which change of health. The model is made from the wire of drivers and from the KEP, not from the checks.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal, get_args

from drahealth.proto.health_apis import HEALTH_APIS, V1, V1ALPHA1, HealthApi
from drahealth.proto.values import DeviceHealth, Health

DEVICES = ("dev-0", "dev-1", "dev-2", "dev-3")
"""The devices of a wrong driver: enough for the first, the last, and each second one to differ."""

# The values of the dimensions, each with its words.

WHICH_DEVICE: dict[str, str] = {
    "first": "the first device",
    "inner": "the third device",
    "last": "the last device",
    "second": "each second device",
    "all": "each device",
}
OF_THE_FAULT: dict[str, str] = {"broken": "the broken device", "others": "all devices but the broken one"}
WHICH_API: dict[str, str] = {
    "v1": "over v1.DRAResourceHealth",
    "v1alpha1": "over v1alpha1.DRAResourceHealth",
    "all": "over all health APIs",
}
WHICH_SUBSCRIBER: dict[str, str] = {
    "any": "each subscriber",
    "first": "the first subscriber of a health API",
    "second": "each second subscriber of a health API",
    "alone": "a subscriber that was alone when it came",
    "beside": "a subscriber that came while there was another one",
    "before": "a subscriber that came while no device was broken",
    "during": "a subscriber that came while a device was broken",
    "after": "a subscriber that came after a recovery",
    "cancelled": "a subscriber that came after the end of another stream",
    "reregistered": "a subscriber that came after the second registration",
}
WHICH_MOMENT: dict[str, str] = {
    "start": "from the start",
    "later": "from 20 s after the start",
    "fault": "while a device is broken",
    "recovery": "after a device has recovered",
    "second": "from the second fault on",
    "prepare": "while NodePrepareResources is pending",
    "prepared": "while a claim is prepared",
    "unprepare": "after the first NodeUnprepareResources",
    "restart": "after a restart of the driver",
    "idle": "after 30 s without a subscriber",
    "reregistered": "after the second registration",
    "api-away": "while the API server does not answer",
}
WHICH_CHANGE: dict[str, str] = {
    "any": "each change",
    "unhealthy": "a change to Unhealthy",
    "unknown": "a change to Unknown",
    "healthy": "a change to Healthy",
    "message": "a change of only the message",
}

Family = Literal["change", "report", "stream", "claim", "slice", "taint", "process"]
WEIGHTS: dict[Family, int] = {
    "change": 35,
    "report": 18,
    "stream": 15,
    "claim": 12,
    "slice": 5,
    "taint": 8,
    "process": 7,
}
"""How many of 100 wrong drivers are of each family: most of what a driver says is health."""

WHAT: dict[str, tuple[Family, str]] = {
    # At a change of health, as a stream sees it.
    "lost": ("change", "the change is not reported until the next one"),
    "late": ("change", "the change is reported 20 s late"),
    "inverted": ("change", "Healthy and Unhealthy are interchanged"),
    "as-healthy": ("change", "Healthy is reported"),
    "as-unhealthy": ("change", "Unhealthy is reported"),
    "as-unknown": ("change", "Unknown is reported"),
    "old-message": ("change", "the message stays that of before the change"),
    "old-time": ("change", "the time stays that of the start of the driver"),
    "flaps": ("change", "each second report has the health of before the change"),
    "spreads": ("change", "the next device is reported with the same health"),
    "misdirected": ("change", "the next device is reported in place of the changed one"),
    "omitted": ("change", "the changed device is missing from the reports"),
    "ends": ("change", "the stream ends"),
    "fails": ("change", "the stream ends with an error"),
    "blocks": ("change", "the stream stays open without reports"),
    "crashes": ("change", "the driver exits"),
    # In the reports, while the moment lasts.
    "says-healthy": ("report", "the health is Healthy"),
    "says-unhealthy": ("report", "the health is Unhealthy"),
    "says-unknown": ("report", "the health is Unknown"),
    "left-out": ("report", "the device is missing"),
    "conflicting": ("report", "the device is listed twice, the second time with another health"),
    "other-pool": ("report", "the name of the pool is wrong"),
    "other-name": ("report", "the name of the device is wrong"),
    "no-name": ("report", "the name of the device is empty"),
    "future-time": ("report", "the time is an hour in the future"),
    "falling-time": ("report", "the time falls from report to report"),
    "milliseconds": ("report", "the time is in milliseconds"),
    "short-timeout": ("report", "the timeout is 1 s"),
    "long-message": ("report", "the message has 2,000 characters"),
    "counting-message": ("report", "the message has the number of the report"),
    "flickers": ("report", "the health is another one in each second report"),
    # Of a stream, if the moment is there when it opens, or while it is open.
    "refused": ("stream", "a new stream ends with an error"),
    "unimplemented": ("stream", "a new stream ends with Unimplemented"),
    "mute": ("stream", "a new stream has no reports"),
    "late-first": ("stream", "the first report comes after 8 s"),
    "empty-first": ("stream", "the first report lists no device"),
    "healthy-first": ("stream", "the first report lists each device as Healthy"),
    "unknown-first": ("stream", "the first report lists each device as Unknown"),
    "short-first": ("stream", "the first report lists only the first device"),
    "no-heartbeats": ("stream", "there is no report without a change"),
    "stops": ("stream", "the stream stays open, without reports from then on"),
    "closes": ("stream", "the stream ends at the next report"),
    "breaks": ("stream", "the stream ends with an error at the next report"),
    # Of claims, while the moment lasts.
    "prepare-other-name": ("claim", "NodePrepareResources returns another name for the device"),
    "prepare-other-pool": ("claim", "NodePrepareResources returns another pool for the device"),
    "prepare-drops": ("claim", "NodePrepareResources does not return the device"),
    "prepare-other-request": ("claim", "NodePrepareResources returns another request for the device"),
    "prepare-undefined-cdi": ("claim", "NodePrepareResources returns a CDI device ID that no CDI spec defines"),
    "prepare-shared-cdi": ("claim", "NodePrepareResources returns the CDI device ID of the first device"),
    "prepare-fails": ("claim", "NodePrepareResources returns an error for the claim"),
    "prepare-aborts": ("claim", "the NodePrepareResources call fails"),
    "prepare-hangs": ("claim", "NodePrepareResources does not return"),
    "prepare-no-result": ("claim", "NodePrepareResources has no result for the claim"),
    "unprepare-fails": ("claim", "NodeUnprepareResources returns an error for the claim"),
    "unprepare-aborts": ("claim", "the NodeUnprepareResources call fails"),
    "unprepare-hangs": ("claim", "NodeUnprepareResources does not return"),
    "unprepare-no-result": ("claim", "NodeUnprepareResources has no result for the claim"),
    "unprepare-keeps": ("claim", "NodeUnprepareResources succeeds, and the devices stay prepared"),
    # Of ResourceSlices, while the moment lasts.
    "slice-drops": ("slice", "the device is missing from the ResourceSlices"),
    "slice-churns": ("slice", "an attribute of the device changes each 3 s"),
    "slice-renames": ("slice", "the ResourceSlices have another name for the device"),
    "slice-deleted": ("slice", "the driver deletes its ResourceSlices"),
    # Of the taints in the ResourceSlices, while the moment lasts.
    "untainted": ("taint", "a broken device has no taint"),
    "late-taint": ("taint", "the taint comes 20 s late"),
    "taint-stays": ("taint", "the taint stays after the recovery"),
    "taint-spreads": ("taint", "the next device is tainted, too"),
    "other-key": ("taint", "the taint has another key"),
    "other-effect": ("taint", "the taint has another effect"),
    "taint-flaps": ("taint", "the taint is missing for 3 of 6 s"),
    # Of the process, while the moment lasts.
    "exits": ("process", "the driver exits"),
    "hangs": ("process", "the driver answers nothing"),
    "floods": ("process", "the driver writes 2 MiB of output each second"),
    "ignores-sigterm": ("process", "the driver ignores SIGTERM"),
    "leaves-sockets": ("process", "the driver leaves its sockets at its end"),
    "other-driver-name": ("process", "GetInfo has another driver name"),
    "other-type": ("process", "GetInfo has another type"),
    "no-versions": ("process", "GetInfo has no versions of the DRA service"),
    "notify-fails": ("process", "NotifyRegistrationStatus fails"),
    "no-registration-socket": ("process", "the registration socket is gone"),
}
"""What is wrong: the family, and the words."""
WITHOUT_DEVICE = frozenset({"slice-deleted"})
LATE = 20.0
"""Seconds of a late report of a change, and of a late taint."""
LATE_FIRST = 8.0
"""Seconds until a late first report."""
IDLE = 30.0
"""Seconds without a subscriber after which a driver was idle."""
LATER = 20.0
"""Seconds after the start of the moment `later`."""


@dataclass(frozen=True, slots=True)
class WrongDriver:
    """One wrong driver; empty for a dimension that its defect does not have. A right one has no defect."""

    what: str
    device: str = ""
    api: str = ""
    subscriber: str = ""
    moment: str = "start"
    change: str = ""

    @property
    def family(self) -> Family:
        """What the defect belongs to."""
        return WHAT[self.what][0] if self.what else "process"

    @property
    def name(self) -> str:
        """Names it, with the values of its dimensions."""
        return "/".join(value for value in asdict(self).values() if value)

    @property
    def sentence(self) -> str:
        """The defect, in a sentence."""
        parts = [
            f"at {WHICH_CHANGE[self.change]}" if self.change else "",
            f"of {(WHICH_DEVICE | OF_THE_FAULT)[self.device]}" if self.device else "",
            WHICH_API[self.api] if self.api else "",
            f"to {WHICH_SUBSCRIBER[self.subscriber]}" if self.subscriber else "",
            WHICH_MOMENT[self.moment],
        ]
        what = WHAT[self.what][1]
        return f"{what[0].upper()}{what[1:]}: {', '.join(filter(None, parts))}."

    def has(self, device: str, broken: frozenset[str]) -> bool:
        """Whether the defect is in this device."""
        index = DEVICES.index(device) if device in DEVICES else -1
        return {
            "": True,
            "all": True,
            "first": index == 0,
            "inner": index == 2,
            "last": index == len(DEVICES) - 1,
            "second": index % 2 == 1,
            "broken": device in broken,
            "others": bool(broken) and device not in broken,
        }[self.device]

    def is_over(self, api: HealthApi) -> bool:
        """Whether the defect is in this health API."""
        return self.api in ("", "all") or api is {"v1": V1, "v1alpha1": V1ALPHA1}[self.api]


DIMENSIONS: dict[str, tuple[str, dict[str, str]]] = {
    "device": ("all", WHICH_DEVICE),
    "api": ("all", WHICH_API),
    "subscriber": ("any", WHICH_SUBSCRIBER),
    "moment": ("start", WHICH_MOMENT),
    "change": ("any", WHICH_CHANGE),
}
"""Each dimension with the value that restricts nothing, and all values."""
OF_FAMILY: dict[Family, tuple[str, ...]] = {
    "change": ("device", "api", "subscriber", "moment", "change"),
    "report": ("device", "api", "subscriber", "moment"),
    "stream": ("api", "subscriber", "moment"),
    "claim": ("device", "moment"),
    "slice": ("device", "moment"),
    "taint": ("device", "moment"),
    "process": ("moment",),
}
"""The dimensions of a defect."""
CONDITIONS = {1: 50, 2: 35, 3: 10, 4: 5}
"""How many of 100 defects need this number of conditions at once.

Kuhn, Wallace and Gallo counted it for failures of programs: "Software Fault Interactions and Implications for Software
Testing", IEEE Transactions on Software Engineering 30 (6), 2004.
"""


def _drawn(source: random.Random) -> WrongDriver:
    family = source.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    what = source.choice([name for name, (of, _) in WHAT.items() if of == family])
    own = [name for name in OF_FAMILY[family] if not (name == "device" and what in WITHOUT_DEVICE)]
    values = {name: DIMENSIONS[name][0] for name in own}
    conditions = source.choices(list(CONDITIONS), list(CONDITIONS.values()))[0]
    for name in source.sample(own, min(conditions, len(own))):
        free, known = DIMENSIONS[name]
        more = OF_THE_FAULT if name == "device" and family == "report" else {}
        values[name] = source.choice([value for value in (*known, *more) if value != free])
    return WrongDriver(what, **values)


@dataclass(frozen=True, slots=True)
class Sample:
    """Wrong drivers of a seed."""

    drivers: tuple[WrongDriver, ...]
    equivalent: int
    """Those that were drawn, and that nobody can tell from a right driver."""


def sample(count: int, seed: int) -> Sample:
    """Different wrong drivers; the same for the same seed, and those of a smaller count come first."""
    source = random.Random(seed)
    found: dict[WrongDriver, None] = {}
    equivalent = set[WrongDriver]()
    while len(found) < count:
        drawn = _drawn(source)
        if drawn in found or drawn in equivalent:
            continue
        if is_visible(drawn):
            found[drawn] = None
        else:
            equivalent.add(drawn)
    return Sample(tuple(found), len(equivalent))


def why_survives(name: str, reasons: Mapping[str, str]) -> str:
    """Why a wrong driver survives, from `driver-survivors.toml`; empty without a reason."""
    return next((reason for pattern, reason in reasons.items() if fnmatchcase(name, pattern)), "")


# What a wrong driver knows, and what its streams show.


@dataclass
class Situation:
    """What has happened to a driver."""

    restarted: bool = False
    now: float = 0.0
    """Seconds since its start."""
    broken: frozenset[str] = frozenset()
    breaks: int = 0
    recovered: bool = False
    preparing: int = 0
    prepared: bool = False
    unprepared: bool = False
    registrations: int = 0
    api_away: bool = False
    open_streams: int = 0
    closed_at: float | None = None
    """When the last stream was closed, if none is open."""
    was_idle: bool = False

    def is_at(self, moment: str) -> bool:
        """Whether the driver is at this moment."""
        return {
            "start": True,
            "later": self.now >= LATER,
            "fault": bool(self.broken),
            "recovery": self.recovered,
            "second": self.breaks >= 2,
            "prepare": self.preparing > 0,
            "prepared": self.prepared,
            "unprepare": self.unprepared,
            "restart": self.restarted,
            "idle": self.was_idle,
            "reregistered": self.registrations >= 2,
            "api-away": self.api_away,
        }[moment]

    def sees(self, health: Mapping[str, Health]) -> None:
        """Takes over which devices are broken."""
        broken = frozenset(name for name, one in health.items() if one is not Health.HEALTHY)
        self.breaks += len(broken - self.broken)
        self.recovered = self.recovered or bool(self.broken - broken)
        self.broken = broken


Act = Literal["send", "skip", "end", "fail", "unimplemented", "block", "crash", "wait"]
Reported = tuple[Act, tuple[DeviceHealth, ...]]


@dataclass
class Memory:
    """The changes that a driver has seen: those of one stream, or of a health API for all its streams."""

    before: dict[str, DeviceHealth] = field(default_factory=dict)
    wrong: dict[str, tuple[DeviceHealth, float]] = field(default_factory=dict)
    """The devices whose last change is reported wrongly, with what was before, and when it changed."""


@dataclass
class View:
    """One health stream of a wrong driver."""

    driver: WrongDriver
    api: HealthApi
    is_chosen: bool
    """Whether it is one of the subscribers of the defect."""
    opens_wrong: bool
    """Whether the moment of the defect was there when it opened."""
    memory: Memory
    started: int
    """The Unix time of the driver's start."""
    number: int = 0
    sent: tuple[tuple[str, Health, str], ...] = ()

    def report(self, truth: Sequence[DeviceHealth], now: Situation) -> Reported:
        """What the stream does when a report is due."""
        number, self.number = self.number, self.number + 1
        if not self.is_chosen:
            return "send", tuple(truth)
        if self.driver.family == "stream":
            return self._streamed(truth, now, number)
        if self.driver.family == "report":
            if now.is_at(self.driver.moment):
                return "send", tuple(_field(self.driver, truth, now, number))
            return "send", tuple(truth)
        if self.driver.family == "change":
            observe(self.driver, self.memory, truth, now)
            return _changed(self.driver, self.memory, truth, now, number, self.started)
        return "send", tuple(truth)

    def _streamed(self, truth: Sequence[DeviceHealth], now: Situation, number: int) -> Reported:
        what, shown = self.driver.what, tuple(truth)
        known = tuple((one.device, one.health, one.message) for one in truth)
        is_change, self.sent = known != self.sent, known
        if number == 0 and self.opens_wrong:
            firsts: dict[str, Callable[[], Reported]] = {
                "refused": lambda: ("fail", ()),
                "unimplemented": lambda: ("unimplemented", ()),
                "mute": lambda: ("block", ()),
                "late-first": lambda: ("wait", shown),
                "empty-first": lambda: ("send", ()),
                "healthy-first": lambda: ("send", tuple(_as(one, Health.HEALTHY) for one in shown)),
                "unknown-first": lambda: ("send", tuple(_as(one, Health.UNKNOWN) for one in shown)),
                "short-first": lambda: ("send", shown[:1]),
            }
            if what in firsts:
                return firsts[what]()
        if number and now.is_at(self.driver.moment):
            if what == "no-heartbeats" and not is_change:
                return "skip", ()
            acts: dict[str, Act] = {"stops": "block", "closes": "end", "breaks": "fail"}
            if what in acts:
                return acts[what], ()
        return "send", shown


def observe(driver: WrongDriver, memory: Memory, truth: Sequence[DeviceHealth], now: Situation) -> None:
    """Remembers the changes since the last time."""
    for one in truth:
        before = memory.before.get(one.device)
        memory.before[one.device] = one
        if before is None or (before.health, before.message) == (one.health, one.message):
            continue
        is_chosen = driver.change in ("any", kind_of_change(before, one)) and driver.has(one.device, now.broken)
        if is_chosen and now.is_at(driver.moment):
            memory.wrong[one.device] = before, now.now
        else:
            memory.wrong.pop(one.device, None)


def kind_of_change(before: DeviceHealth, after: DeviceHealth) -> str:
    """The value of the dimension for a change."""
    return after.health.lower() if before.health is not after.health else "message"


_MESSAGES = {Health.HEALTHY: "", Health.UNHEALTHY: "failed", Health.UNKNOWN: "no answer"}


def _as(one: DeviceHealth, health: Health) -> DeviceHealth:
    return one if one.health is health else replace(one, health=health, message=_MESSAGES[health])


_OPPOSITE = {Health.HEALTHY: Health.UNHEALTHY, Health.UNHEALTHY: Health.HEALTHY, Health.UNKNOWN: Health.HEALTHY}
_ACTS: dict[str, Act] = {"ends": "end", "fails": "fail", "blocks": "block", "crashes": "crash"}
_HEALTHS = {"as-healthy": Health.HEALTHY, "as-unhealthy": Health.UNHEALTHY, "as-unknown": Health.UNKNOWN}


def _changed(
    driver: WrongDriver,
    memory: Memory,
    truth: Sequence[DeviceHealth],
    now: Situation,
    number: int,
    started: int,
) -> Reported:
    """The report of a driver that is wrong at changes."""
    what, shown = driver.what, {one.device: one for one in truth}
    for name, (before, since) in memory.wrong.items():
        if name not in shown:
            continue
        if what in _ACTS:
            memory.wrong.clear()
            return _ACTS[what], ()
        one = shown[name]
        old = replace(before, updated=one.updated)
        following = DEVICES[(DEVICES.index(name) + 1) % len(DEVICES)]
        match what:
            case "lost":
                shown[name] = old
            case "late":
                shown[name] = old if now.now < since + LATE else one
            case "inverted":
                shown[name] = _as(one, _OPPOSITE[one.health])
            case "as-healthy" | "as-unhealthy" | "as-unknown":
                shown[name] = _as(one, _HEALTHS[what])
            case "old-message":
                shown[name] = replace(one, message=before.message)
            case "old-time":
                shown[name] = replace(one, updated=started)
            case "flaps":
                shown[name] = old if number % 2 else one
            case "omitted":
                del shown[name]
            case "spreads" | "misdirected" if following in shown:
                shown[following] = replace(shown[following], health=one.health, message=one.message)
                if what == "misdirected":
                    shown[name] = old
    return "send", tuple(shown.values())


def _field(driver: WrongDriver, truth: Sequence[DeviceHealth], now: Situation, number: int) -> Iterator[DeviceHealth]:
    """The report of a driver whose reports are wrong."""
    for one in truth:
        if not driver.has(one.device, now.broken):
            yield one
            continue
        match driver.what:
            case "says-healthy":
                yield _as(one, Health.HEALTHY)
            case "says-unhealthy":
                yield _as(one, Health.UNHEALTHY)
            case "says-unknown":
                yield _as(one, Health.UNKNOWN)
            case "flickers":
                yield _as(one, _OPPOSITE[one.health]) if number % 2 else one
            case "conflicting":
                yield one
                yield _as(one, _OPPOSITE[one.health])
            case "other-pool":
                yield replace(one, pool=f"{one.pool}-other")
            case "other-name":
                yield replace(one, device=f"{one.device}-other")
            case "no-name":
                yield replace(one, device="")
            case "future-time":
                yield replace(one, updated=one.updated + 3600)
            case "falling-time":
                yield replace(one, updated=one.updated - 100 * number)
            case "milliseconds":
                yield replace(one, updated=one.updated * 1000)
            case "short-timeout":
                yield replace(one, timeout=1)
            case "long-message":
                yield replace(one, message="x" * 2000)
            case "counting-message":
                yield replace(one, message=f"report {number}")


@dataclass
class Streams:
    """The streams of a wrong driver, and what they remember."""

    driver: WrongDriver
    situation: Situation = field(default_factory=Situation)
    started: int = 0
    opened: dict[str, int] = field(default_factory=dict)
    """How many streams of each health API were opened."""
    open: dict[str, int] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)
    of_apis: dict[str, Memory] = field(default_factory=dict)

    def sees(self, truth: Mapping[str, Sequence[DeviceHealth]]) -> None:
        """Takes over the health of the devices, as each health API has it."""
        if self.driver.family == "change" and self.driver.subscriber == "any":
            for api, devices in truth.items():
                observe(self.driver, self.of_apis.setdefault(api, Memory()), devices, self.situation)
        self.situation.sees({one.device: one.health for devices in truth.values() for one in devices})

    def opens(self, api: HealthApi) -> View:
        """A new stream."""
        now, name = self.situation, api.name
        self.opened[name] = self.opened.get(name, 0) + 1
        is_subscriber = {
            "": True,
            "any": True,
            "first": self.opened[name] == 1,
            "second": self.opened[name] % 2 == 0,
            "alone": not self.open.get(name),
            "beside": bool(self.open.get(name)),
            "before": not now.broken,
            "during": bool(now.broken),
            "after": now.recovered,
            "cancelled": bool(self.closed.get(name)),
            "reregistered": now.registrations >= 2,
        }[self.driver.subscriber]
        memory = Memory()
        if self.driver.subscriber == "any":
            memory = self.of_apis.setdefault(name, memory)
        elif self.driver.subscriber == "during":  # its first report tells of a change
            memory.before = {one: DeviceHealth("", one, Health.HEALTHY) for one in DEVICES}
        if now.closed_at is not None and now.now - now.closed_at >= IDLE:
            now.was_idle = True
        self.open[name] = self.open.get(name, 0) + 1
        now.open_streams += 1
        now.closed_at = None
        chosen = is_subscriber and self.driver.is_over(api)
        return View(self.driver, api, chosen, now.is_at(self.driver.moment), memory, self.started)

    def closes(self, view: View) -> None:
        """A stream has ended."""
        name, now = view.api.name, self.situation
        self.open[name] -= 1
        self.closed[name] = self.closed.get(name, 0) + 1
        now.open_streams -= 1
        if not now.open_streams:
            now.closed_at = now.now


# Whether anybody can see a defect, in a history with all moments.

_HISTORY: tuple[tuple[int, Health, str], ...] = tuple(
    (index, health, message)
    for index in range(len(DEVICES))
    for health, message in (
        (Health.UNHEALTHY, "too hot"),
        (Health.UNHEALTHY, "no link"),
        (Health.UNKNOWN, "no answer"),
        (Health.HEALTHY, ""),
        (Health.UNKNOWN, "no answer"),
        (Health.UNHEALTHY, "too hot"),
        (Health.HEALTHY, ""),
    )
)


def is_visible(driver: WrongDriver) -> bool:
    """Whether somebody can tell the driver from a right one: by its streams, or by construction."""
    if _is_allowed(driver):
        return False
    if driver.family not in ("change", "report", "stream"):
        return True
    return any(mine != right for mine, right in _reports(driver))


def _is_allowed(driver: WrongDriver) -> bool:
    """Whether a right driver may do the same."""
    serves_one_api = driver == WrongDriver("unimplemented", api="v1alpha1", subscriber="any")
    publishes_fewer_devices = driver.what == "slice-drops" and driver.moment == "start" and driver.device != "all"
    cannot_publish = driver.family in ("slice", "taint") and driver.moment == "api-away"
    cannot_read_claims = driver.what.startswith("prepare-") and driver.moment == "api-away"
    return serves_one_api or publishes_fewer_devices or cannot_publish or cannot_read_claims


def _reports(driver: WrongDriver) -> Iterator[tuple[Reported, Reported]]:
    """The reports in a history with all moments, and those of a right driver."""
    now = Situation(restarted=True, preparing=1, prepared=True, unprepared=True, api_away=True)
    now.registrations, now.was_idle = 2, True
    streams = Streams(driver, now)
    health = dict.fromkeys(DEVICES, (Health.HEALTHY, ""))
    views: list[View] = []

    def step() -> Iterator[tuple[Reported, Reported]]:
        now.now += 4
        truth = [DeviceHealth("pool", name, *one, updated=1_000_000) for name, one in health.items()]
        streams.sees({api.name: truth for api in HEALTH_APIS.values()})
        for view in views:
            act, shown = view.report(truth, now)
            carried = view.api.all_as_carried
            yield (act, carried(shown)), ("send", carried(tuple(truth)))

    def add() -> Iterator[tuple[Reported, Reported]]:
        """New streams, each with its first report."""
        views.extend(streams.opens(api) for api in HEALTH_APIS.values())
        yield from step()

    yield from add()
    yield from add()
    for turn, (index, one, message) in enumerate(_HISTORY):
        health[DEVICES[index]] = one, message
        yield from step()
        if turn < 7:
            yield from add()
            streams.closes(views[0])
            streams.opens(views[0].api)
        yield from step()
        other = DEVICES[(index + 2) % len(DEVICES)]
        for state in ((Health.UNHEALTHY, "too hot"), (Health.HEALTHY, "")):
            health[other] = state
            yield from step()


assert set(get_args(Family)) == WEIGHTS.keys()
