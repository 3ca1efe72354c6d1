"""Catalogues of faults, one for each vendor, and policies that map faults to health.

A fault describes what happened: the devices it affects and the action that recovers it. A policy describes what it
means. They are separate TOML files in this folder, because vendors disagree about the meaning.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Literal, get_args

from drahealth.fakes.durations import Duration
from drahealth.fakes.hints import near
from drahealth.proto.values import Health

Action = Literal["app-restart", "gpu-reset", "reboot", "replace"]
"""Recovery actions, from the weakest to the strongest; a stronger action is always sufficient."""

ACTIONS: tuple[Action, ...] = get_args(Action)
CATALOGUES = ("nvidia", "amd", "intel", "nic", "tpu")

Reach = Literal["instance", "device", "parent", "peers", "node"]


class UnknownName(ValueError):
    """An unknown fault, policy, catalogue or action; the message lists the known or similar names."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A defect that a device can have."""

    id: str
    """Id, such as xid/48."""
    kind: str
    """app, bus, fabric, firmware, follow-on, hang, info, init, link, media, memory, power or thermal."""
    means: str
    """A description in our words."""
    message: str
    """The message that the driver reports; `{device}` is the device's name."""
    reaches: Reach
    """Affected devices. instance: the named partition, or the named device with its partitions · device: only the named
    one · parent: the whole device with all its partitions · peers: also devices that share a link · node: all."""
    recovery: Literal["none", "itself"] | Action
    """The weakest sufficient action. `itself`: the fault clears after some time, and by any action; `none`: no recovery
    is needed, and any action clears the fault."""
    takes: Duration
    """Duration of the recovery, or time until the fault clears by itself."""
    source: str
    """Source of the facts; [est] marks an estimated time, for which no source exists."""
    then: str = ""
    """The fault that follows it."""
    may_fail: bool = False
    """The sufficient action can fail."""
    vanishes: bool = False
    """The driver reports the fault once, and then omits the device until the fault is cleared."""
    silent: bool = False
    """The driver does not report the fault: the device appears Healthy, and work on it hangs."""

    def is_recovered_by(self, action: Action) -> bool:
        """Whether this action is sufficient."""
        if self.recovery in ("none", "itself"):
            return True
        return ACTIONS.index(action) >= ACTIONS.index(self.recovery)

    def message_for(self, device: str) -> str:
        """The message of a device with this fault."""
        return self.message.replace("{device}", device)


@dataclass(frozen=True, slots=True)
class Policy:
    """The faults that make a device Unhealthy. Any other fault leaves it Healthy."""

    name: str
    about: str
    source: str
    unhealthy: tuple[str, ...]
    """Names of faults, or patterns of them."""
    ignored: tuple[str, ...]

    def health(self, fault: str) -> Health:
        """The health of a device with this fault."""
        named = fault not in self.ignored and any(fnmatchcase(fault, pattern) for pattern in self.unhealthy)
        return Health.UNHEALTHY if named else Health.HEALTHY

    def knows(self, fault: str) -> bool:
        """Whether the policy names this fault."""
        return any(fnmatchcase(fault, pattern) for pattern in (*self.unhealthy, *self.ignored))


@cache
def catalogue(name: str) -> Mapping[str, Fault]:
    """The faults of a vendor by id, in the file's order. Raises UnknownName."""
    _one_of("catalogue", name, CATALOGUES)
    return {
        id_: Fault(id_, **{**entry, "takes": Duration.parse(entry["takes"])})
        for id_, entry in tomllib.loads(_text(f"{name}.toml")).items()
    }


def every_fault() -> Iterable[str]:
    """The ids of the faults of all catalogues."""
    return dict.fromkeys(fault for name in CATALOGUES for fault in catalogue(name))


@cache
def policies() -> Mapping[str, Policy]:
    """All policies by name."""
    return {
        name: Policy(name, entry["about"], entry["source"], tuple(entry["unhealthy"]), tuple(entry["ignored"]))
        for name, entry in tomllib.loads(_text("policies.toml")).items()
    }


def fault(catalogue_name: str, fault_id: str) -> Fault:
    """A fault of a catalogue, by id. Raises UnknownName."""
    faults = catalogue(catalogue_name)
    _one_of("fault", fault_id, tuple(faults), f" in the catalogue {catalogue_name}")
    return faults[fault_id]


def policy(name: str) -> Policy:
    """A policy by name. Raises UnknownName."""
    _one_of("policy", name, tuple(policies()))
    return policies()[name]


def action(name: str) -> Action:
    """The recovery action of this name. Raises UnknownName."""
    _one_of("recovery action", name, ACTIONS)
    return name  # type: ignore[return-value]


def _one_of(what: str, name: str, known: tuple[str, ...], where: str = "") -> None:
    if name not in known:
        raise UnknownName(f"unknown {what} {name!r}{where}; {near(name, known, '`drahealth faults list`')}")


def _text(name: str) -> str:
    return resources.files("drahealth.fakes.faults").joinpath(name).read_text(encoding="utf-8")
