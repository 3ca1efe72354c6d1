"""The fault model of a kubelet: what goes wrong at each seam, for which object, when, and at which change. Pure.

It does not come from the scenarios, and not from the source of the reference: each seam is a place where a kubelet
takes, keeps or shows health, and `SEAMS` lists what can happen to health there. A wrong reference is one fault, drawn
from the product of the four lists. `wrong_reference` makes it.
"""

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from drahealth.proto.values import Health

# When a fault happens. Each names the whole rest of a scenario after something has happened on its node.

RESTART = "after a restart of the kubelet"
EXPIRY = "after the expiry of a device"
REREGISTRATION = "after a driver has registered again"
STREAM_END = "after the end of a stream"
DELETED_POD = "after a Pod was deleted"
FIRST, SECOND, ALWAYS = "the first time", "the second time", "always"
MOMENTS = (ALWAYS, FIRST, SECOND, RESTART, EXPIRY, REREGISTRATION, STREAM_END, DELETED_POD)

# For what it happens.

_ORDINALS = ("the first", "the second")
_OWNERS = tuple(f"{ordinal} {owner}" for owner in ("driver", "Pod", "container") for ordinal in _ORDINALS)
DEVICES = ("any device", "the first device", "the second device", "the last device", "the second claim", *_OWNERS)
DRIVERS = ("any driver", "the first driver", "the second driver")
SHOWN = ("any device", *(f"{o} {w}" for w in ("device", "entry", "container", "Pod") for o in _ORDINALS))
PODS = ("any Pod", *(f"{ordinal} {owner}" for owner in ("Pod", "container") for ordinal in _ORDINALS))
CLAIMS = ("any claim", *(f"{ordinal} {owner}" for owner in ("claim", "driver", "Pod") for ordinal in _ORDINALS))
ALLOCATIONS = ("any allocation", *_OWNERS)

# At which change of the health it happens.

ANY = "any change"
PAIRS = tuple(f"{before} to {after}" for before in Health for after in Health if before != after)
LISTED = ("Healthy to Unhealthy", "Unhealthy to Healthy")
HEALTHS = tuple(str(health) for health in Health)
KNOWN = ("Healthy", "Unhealthy")
MESSAGE = "only the message changes"
SAME = "nothing changes"
LONGER, SHORTER, NO_TIMEOUT = "a longer timeout", "a shorter timeout", "no timeout after one"
TIMEOUTS = (LONGER, SHORTER, NO_TIMEOUT)


@dataclass(frozen=True, slots=True)
class Seam:
    """A place in a kubelet. `whats` has what can happen there, and the changes at which it can happen."""

    whats: Mapping[str, Sequence[str]]
    which: Sequence[str]
    moments: Sequence[str] = MOMENTS


def _to_another(health: Health, changes: Sequence[str]) -> list[str]:
    """The changes at which this health is wrong."""
    return [change for change in changes if change.rpartition(" ")[2] != health]


_EACH = (ANY, *PAIRS)
_AS = {f"it counts as {health}": _to_another(health, _EACH) for health in Health}
_IN_ENTRY = {f"it shows {health}": _to_another(health, (ANY, *HEALTHS)) for health in Health}
_IN_FILE = {f"it is {health}": _to_another(health, (ANY, *HEALTHS)) for health in Health}
_FILED = {
    "it is left out": (ANY, *HEALTHS),
    "its message is left out": (ANY, *HEALTHS),
    "its timeout is left out": (ANY,),
    "its time is that of now": (ANY, *KNOWN),
    "it has the health of the next device": (ANY, *HEALTHS),
    **_IN_FILE,
}
_NOTIFIED = {
    "no Pod is synced": _EACH,
    "only the first Pod is synced": _EACH,
    "only the last Pod is synced": _EACH,
    "the Pods are synced 20 s late": _EACH,
}
_WITHOUT_EXPIRY = tuple(moment for moment in MOMENTS if moment != EXPIRY)
_LOADS = (ALWAYS, FIRST, SECOND, REREGISTRATION, STREAM_END, DELETED_POD)
"""Files are read after a restart, so each fault of them happens after one."""

SEAMS: Mapping[str, Seam] = {
    "report of a driver": Seam(
        {
            "it is lost": _EACH,
            "the report before it counts": _EACH,
            "it counts 20 s late": _EACH,
            "it counts for the next device": _EACH,
            "it counts for the next driver": _EACH,
            **_AS,
            "its message is lost": (*_EACH, MESSAGE),
            "the message before it stays": (*_EACH, MESSAGE),
            "an empty message does not replace the one before": (*_EACH, MESSAGE),
            "it gets the message of the next device": (*_EACH, MESSAGE),
            "its timeout is lost": (ANY, LONGER, SHORTER),
            "the timeout before it stays": (ANY, *TIMEOUTS),
            "its timeout is twice as long": (ANY, LONGER, SHORTER),
            "it gets the timeout of the next device": (ANY, *TIMEOUTS),
            "it does not renew the time of the last report": (ANY, SAME),
            "devices that it omits are forgotten": (ANY,),
        },
        DEVICES,
    ),
    "expiry": Seam(
        {
            "the device never expires": (ANY, *KNOWN),
            "it expires after twice its timeout": (ANY, *KNOWN),
            "it expires after half of its timeout": (ANY, *KNOWN),
            "it expires only at the next report": (ANY, *KNOWN),
            "it keeps its message": (ANY, *KNOWN),
            "it shows Unhealthy": (ANY, "Healthy"),
            "the next report of the device is lost": (ANY, *KNOWN),
            "nobody is told of the return of the same health": (ANY, *KNOWN),
        },
        DEVICES,
    ),
    "end of a health stream": Seam(
        {
            "the health stays": (ANY,),
            "the health is cleared 20 s late": (ANY,),
            "the health of the next driver is cleared instead": (ANY,),
            "the health of the next driver is cleared, too": (ANY,),
            "only the first device is cleared": (ANY,),
            "the last device is not cleared": (ANY,),
            **{f"{health} devices stay": (ANY,) for health in KNOWN},
        },
        DRIVERS,
    ),
    "start of a health stream": Seam(
        {
            "it is not opened": (ANY,),
            "it is opened 20 s late": (ANY,),
            "its first report is ignored": (ANY,),
            "its second report is ignored": (ANY,),
        },
        DRIVERS,
    ),
    "notification of claims": Seam(_NOTIFIED, DEVICES),
    "notification of extended resources": Seam(_NOTIFIED, [one for one in DEVICES if "claim" not in one]),
    "entries of a status": Seam(
        {
            "the device is left out": (ANY, *HEALTHS),
            **_IN_ENTRY,
            "it shows its health before": (ANY, *HEALTHS),
            "its message is lost": (ANY, *HEALTHS),
            "it shows its message before": (ANY, *HEALTHS),
            "it has the health of the first device of the entry": (ANY, *HEALTHS),
            "it changes its place with the next device": (ANY, *HEALTHS),
            "the entry is left out": (ANY, *HEALTHS),
            "the entry is in the next container": (ANY, *HEALTHS),
            "the entry changes its place with the next one": (ANY, *HEALTHS),
        },
        SHOWN,
    ),
    "write of a status": Seam(
        {
            "the health is not written": (ANY, *HEALTHS),
            "the health is written 20 s late": (ANY, *HEALTHS),
            "the messages before are written": (ANY, *HEALTHS),
        },
        PODS,
    ),
    "written health": Seam(_FILED, DEVICES),
    "read health": Seam(_FILED, DEVICES, _LOADS),
    "read claims": Seam(
        {
            "the claim is lost": (ANY,),
            "it has only its first Pod": (ANY,),
            "it has only its last Pod": (ANY,),
            "its last device is lost": (ANY,),
            "its devices have another order": (ANY,),
            "its requests are lost": (ANY,),
        },
        CLAIMS,
        _LOADS,
    ),
    "read allocations": Seam(
        {
            "the allocation is lost": (ANY,),
            "its last device is lost": (ANY,),
            "its devices have another order": (ANY,),
            "the next container has it": (ANY,),
        },
        ALLOCATIONS,
        _LOADS,
    ),
    "registration of a driver": Seam(
        {
            "it is ignored": (ANY,),
            "its removal is ignored": (ANY,),
            "the next driver is removed instead": (ANY,),
            "the instance before it stays watched, too": (ANY,),
            "after its removal the instance before it is not watched": (ANY,),
            "after its removal the oldest instance is watched": (ANY,),
        },
        DRIVERS,
    ),
    "registration of a device plugin": Seam(
        {"it is ignored": (ANY,), "its list is not read": (ANY,), "its removal is ignored": (ANY,)},
        DRIVERS,
        _WITHOUT_EXPIRY,
    ),
    "list of a device plugin": Seam(
        {
            "the device keeps its health": (ANY, *LISTED),
            "it counts 20 s late": (ANY, *LISTED),
            "its health is that of the next device": (ANY, *LISTED),
            "it counts for the next resource": (ANY, *LISTED),
            **{f"it counts as {health}": _to_another(Health(health), (ANY, *LISTED)) for health in KNOWN},
            "a device that it omits stays": (ANY,),
        },
        [one for one in DEVICES if "claim" not in one],
        _WITHOUT_EXPIRY,
    ),
    "end of the list of a device plugin": Seam(
        {
            "the health stays": (ANY,),
            "the health is cleared 20 s late": (ANY,),
            "only the first device is cleared": (ANY,),
            "the last device is not cleared": (ANY,),
            "the next resource is cleared, too": (ANY,),
            **{f"{health} devices stay": (ANY,) for health in KNOWN},
        },
        DRIVERS,
        _WITHOUT_EXPIRY,
    ),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong reference."""

    seam: str
    what: str
    which: str
    moment: str
    change: str

    @property
    def key(self) -> str:
        """What names it among all wrong references; also its sentence."""
        return f"{self.seam}: {self.what}; {self.which}, {self.moment}, {self.change}"

    @property
    def trial_key(self) -> str:
        """What names its result: other code of the wrong references makes other ones."""
        return f"fault {self.key} {_code()}"

    def __str__(self) -> str:
        return self.key

    @classmethod
    def of(cls, key: str) -> "Fault":
        """The fault with this key, also one without an effect. Raises KeyError if the model has none."""
        return _by_key()[key]


@cache
def _code() -> str:
    return hashlib.sha256(Path(__file__).with_name("wrong_reference.py").read_bytes()).hexdigest()[:8]


def every_fault() -> Iterator[Fault]:
    """All faults of the model, but those without an effect."""
    return (fault for fault in _product() if not why_equivalent(fault))


@cache
def _by_key() -> Mapping[str, Fault]:
    return {fault.key: fault for fault in _product()}


def _product() -> Iterator[Fault]:
    for name, seam in SEAMS.items():
        for what, changes in seam.whats.items():
            for which in seam.which:
                for moment in seam.moments:
                    yield from (Fault(name, what, which, moment, change) for change in changes)


_ONE_OF_A_PLUGIN = ("the first device", "the second device", "the last device", "the first Pod", "the second Pod")
_AT_ITS_FIRST_REPORT = ("any device", *DEVICES[1:4], *DRIVERS[1:])


def why_equivalent(fault: Fault) -> str:
    """Why nobody can see the fault, whatever a scenario does; empty if somebody can."""
    is_first = (fault.moment, fault.change) == (FIRST, ANY)
    match fault:
        case Fault(what="it changes its place with the next device" | "the entry changes its place with the next one"):
            is_fixed = (fault.moment, fault.change) == (ALWAYS, ANY)
            return "an order that is always the other one is an order" if is_fixed else ""
        case Fault(which="the first device", what="it has the health of the first device of the entry"):
            return "it is that device"
        case Fault(seam="read claims", what="it has only its first Pod" | "it has only its last Pod"):
            return "a kubelet adds each Pod to its claims again when it syncs the Pod after its start"
        case Fault(seam="notification of extended resources", what=what) if what.startswith("only the "):
            return "a device of a device plugin belongs to one Pod" if fault.which in _ONE_OF_A_PLUGIN else ""
        case Fault(seam="entries of a status", what="it shows its health before" | "it shows its message before"):
            return "its first status has none before it" if is_first else ""
        case Fault(
            seam="report of a driver",
            what="an empty message does not replace the one before" | "it does not renew the time of the last report",
        ):
            return "no report is before the first one" if is_first and fault.which in _AT_ITS_FIRST_REPORT else ""
    return ""


def sample(count: int, seed: int) -> list[Fault]:
    """This many faults, drawn at random. Every kind of fault at every seam has the same share, as far as it goes."""
    draw = random.Random(seed)
    kinds: dict[tuple[str, str], list[Fault]] = {}
    for fault in every_fault():
        kinds.setdefault((fault.seam, fault.what), []).append(fault)
    for faults in kinds.values():
        draw.shuffle(faults)
    found: list[Fault] = []
    while len(found) < count and kinds:
        order = list(kinds)
        draw.shuffle(order)
        for kind in order[: count - len(found)]:
            found.append(kinds[kind].pop())
            if not kinds[kind]:
                del kinds[kind]
    return found
