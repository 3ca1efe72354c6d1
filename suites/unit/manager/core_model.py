"""The pure core in other words: nothing is kept but what was said and when, and every question is answered by a search.

Written from the texts: KEP-4680 ("Health Information Cache", "PodStatus Update"), the design document 3.1 and the facts
H-01 to H-18, H-23, P-03, P-07 to P-14. Slow, and meant to be read beside them. What differs by release is a `Rules`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from drahealth.manager.profile import Profile
from drahealth.proto.values import ClaimUse, DeviceHealth, DeviceId, Health, PreparedDevice

Shown = tuple[Health, str]
UNKNOWN: Shown = (Health.UNKNOWN, "")


@dataclass(frozen=True)
class Rules:
    """What the model is asked to hold to."""

    knows_messages: bool = True
    knows_timeouts: bool = True
    tells_recovery: bool = False
    """A device that read Unknown for its age and reports the health it had is a change."""
    forgets_stale: bool = False
    joins_names: bool = False
    """Devices of one text `pool/device` are one."""
    hears_each: bool = False
    """Of a device that is named twice in a report each word is heard; else the last alone."""
    limit: int | None = None
    ids: str = "driver/pool/device"
    names_requests: bool = False
    """A container that uses a whole claim has an entry for each request that the driver names."""
    worst_shows: bool = False
    """Of devices with one id in an entry; else the first."""


KEP_RULES = Rules(tells_recovery=True, names_requests=True, worst_shows=True)
RULES_SINCE = {
    "1.34": Rules(joins_names=True, hears_each=True, knows_messages=False, knows_timeouts=False, ids="cdi"),
    "1.35": Rules(joins_names=True, hears_each=True, knows_messages=False, ids="cdi"),
    "1.36": Rules(joins_names=True, hears_each=True, ids="cdi"),
    "1.37": Rules(joins_names=True, hears_each=True, forgets_stale=True, limit=16384, ids="cdi"),
}
"""The rules of releases, by the first release that has them, oldest first."""


NEXT_RULES = replace([*RULES_SINCE.values()][-1], tells_recovery=True)
"""The rules of the newest release with the fixes that are open in Kubernetes."""


def rules_of(profile: Profile) -> Rules:
    """The rules of the KEP, or those that a release has."""
    if profile.name == "next":
        return NEXT_RULES
    known = [rules for since, rules in RULES_SINCE.items() if profile.release and since <= profile.release]
    return known[-1] if known else KEP_RULES


@dataclass(frozen=True)
class Word:
    """What was last said of a device: by its driver, or by the manager that found it stale."""

    at: float
    health: Health
    message: str
    timeout: float
    name: DeviceId
    """What the driver called it."""

    @property
    def content(self) -> tuple[Health, str, float]:
        return self.health, self.message, self.timeout


@dataclass
class Knowledge:
    """All words, by device; the last one counts. `limit` is about how many devices a driver has."""

    rules: Rules
    words: dict[DeviceId, list[Word]] = field(default_factory=dict)

    def copy(self) -> "Knowledge":
        return Knowledge(self.rules, {device: list(words) for device, words in self.words.items()})

    def shows(self, device: DeviceId, now: float) -> Shown:
        known = self._known(device)
        if not self.words.get(known):
            return UNKNOWN
        word = self.words[known][-1]
        return UNKNOWN if now - word.at > word.timeout else (word.health, word.message)

    def report(self, driver: str, devices: Iterable[DeviceHealth], now: float) -> tuple[set[DeviceId], int, bool]:
        """The devices that changed, the number of rejected devices, and whether anything but times changed."""
        said: list[Word] = []
        for d in devices:
            timeout = d.timeout if self.rules.knows_timeouts and d.timeout > 0 else 30
            message = d.message if self.rules.knows_messages else ""
            said.append(Word(now, d.health, message, timeout, DeviceId(driver, d.pool, d.device)))
        changed, refused = set(), 0
        for word in said if self.rules.hears_each else {word.name: word for word in said}.values():
            device = self._known(word.name)
            mine = [known for known in self.words if known.driver == driver]
            if device not in self.words and self.rules.limit is not None and len(mine) >= self.rules.limit:
                refused += 1
                continue
            before = self.words.get(device, [])
            recovers = before and self._is_stale(device, now) and word.health is not Health.UNKNOWN
            if not before or before[-1].content != word.content or (recovers and self.rules.tells_recovery):
                changed.add(word.name)
            self.words[device] = [*before, word]
        stale = [device for device in self.words if device.driver == driver and self._is_stale(device, now)]
        for device in stale:
            last = self.words[device][-1]
            if last.health is not Health.UNKNOWN:
                changed.add(last.name)
            self.words[device].append(Word(now, Health.UNKNOWN, "", last.timeout, last.name))
            if self.rules.forgets_stale or last.health is Health.UNKNOWN:  # what is told of once is not kept for ever
                del self.words[device]
        return changed, refused, bool(changed or stale)

    def _known(self, device: DeviceId) -> DeviceId:
        """Which device that is."""
        return DeviceId(device.driver, "", f"{device.pool}/{device.device}") if self.rules.joins_names else device

    def clear(self, driver: str) -> None:
        self.words = {device: words for device, words in self.words.items() if device.driver != driver}

    def _is_stale(self, device: DeviceId, now: float) -> bool:
        word = self.words[device][-1]
        return now - word.at > word.timeout


@dataclass
class Holdings:
    """The devices of each claim, and the pods that hold it."""

    devices: dict[str, tuple[PreparedDevice, ...]] = field(default_factory=dict)
    pods: set[tuple[str, str]] = field(default_factory=set)
    """Claim and pod."""

    def pods_with(self, devices: Iterable[DeviceId]) -> set[str]:
        wanted = set(devices)
        return {pod for claim, pod in self.pods if wanted & {device.id for device in self.devices[claim]}}

    def release(self, claim: str, pod: str) -> None:
        self.pods.discard((claim, pod))
        if claim not in {held for held, _ in self.pods}:
            del self.devices[claim]


def entries(
    uses: Iterable[ClaimUse], holdings: Holdings, known: Knowledge, now: float
) -> list[tuple[str, list[tuple[str, Shown]]]]:
    """A container's `allocatedResourcesStatus`: the name of each entry, and each device's id, health and message."""
    found: list[tuple[str, list[tuple[str, Shown]]]] = []
    for use in uses:
        devices = holdings.devices.get(use.claim_uid, ())
        named = [request for device in devices for request in device.requests]
        whole = dict.fromkeys(named) if known.rules.names_requests and named else [""]
        for request in [use.request] if use.request else whole:
            name = f"claim:{use.name}/{request}" if request else f"claim:{use.name}"
            serving = [device for device in devices if _serves(device, request)]
            listed = [(_id(device, known.rules), known.shows(device.id, now)) for device in serving]
            if listed and name not in [other for other, _ in found]:
                found.append((name, _each_id_once(listed, known.rules)))
    return found


def _serves(device: PreparedDevice, request: str) -> bool:
    """Devices have requests without their subrequests; a container's request is held against these."""
    return not request or not device.requests or request.split("/")[0] in device.requests


def _id(device: PreparedDevice, rules: Rules) -> str:
    cdi = device.cdi_ids[:1] if rules.ids == "cdi" else ()
    return cdi[0] if cdi else f"{device.id.driver}/{device.id.pool}/{device.id.device}"


def _each_id_once(listed: list[tuple[str, Shown]], rules: Rules) -> list[tuple[str, Shown]]:
    once = []
    for name in dict.fromkeys(name for name, _ in listed):
        shown = [what for other, what in listed if other == name]
        order = (Health.UNHEALTHY, Health.UNKNOWN, Health.HEALTHY) if rules.worst_shows else (shown[0][0],)
        once.append((name, next(what for health in order for what in shown if what[0] is health)))
    return once
