"""The catalogues of faults, one for each vendor, and the policies that define which faults make a device Unhealthy.

Faults (what they affect, what clears them) and policies (what they mean) are separate files, because vendors disagree
about policies. The files are TOML, next to this module.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Literal, get_args

from drahealth.fakes.durations import Duration
from drahealth.proto.values import Health

Action = Literal["app-restart", "gpu-reset", "reboot", "replace"]
"""What one can do to recover a device, from the weakest to the strongest; a stronger one is always enough."""

ACTIONS: tuple[Action, ...] = get_args(Action)
CATALOGUES = ("nvidia", "amd", "intel", "nic", "tpu")

Reach = Literal["instance", "device", "parent", "peers", "node"]


class UnknownName(ValueError):
    """Unknown fault, policy, catalogue or action; the message lists valid or similar names."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a device."""

    id: str
    """Id of the fault, such as xid/79."""
    kind: str
    """app, bus, fabric, firmware, follow-on, hang, info, init, link, media, memory, power or thermal."""
    means: str
    """What went wrong, in our words."""
    message: str
    """What the driver reports; `{device}` is the device's name."""
    reaches: Reach
    """instance: the partition that is named, or the whole device with its partitions if that is named · device: the
    one that is named · parent: the whole device with all its partitions · peers: what shares a link with it, too ·
    node: all devices."""
    recovery: Literal["none", "itself"] | Action
    """The weakest action that is enough; `itself`: it heals in time, and by any action; `none`: there is nothing to
    recover from, any action ends it."""
    takes: Duration
    """How long the recovery takes, or until it heals by itself."""
    source: str
    """Where the facts are from; [est] marks a time that nobody has published."""
    then: str = ""
    """The fault that follows it."""
    may_fail: bool = False
    """Even the action that should be enough does not always help."""
    vanishes: bool = False
    """The driver tells of it once, and does not list the device any more while it lasts."""
    silent: bool = False
    """Nothing is reported of it: the device seems healthy, and work on it hangs."""

    def is_recovered_by(self, action: Action) -> bool:
        """Whether this action clears the fault."""
        if self.recovery in ("none", "itself"):
            return True
        return ACTIONS.index(action) >= ACTIONS.index(self.recovery)

    def says(self, device: str) -> str:
        """The message of a device with the fault."""
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
        """Whether the policy mentions this fault."""
        return any(fnmatchcase(fault, pattern) for pattern in (*self.unhealthy, *self.ignored))


@cache
def catalogue(name: str) -> Mapping[str, Fault]:
    """The faults of a vendor by id, in the file's order. Raises UnknownName."""
    _one_of("catalogue", name, CATALOGUES)
    return {
        id_: Fault(id_, **{**entry, "takes": Duration.parse(entry["takes"])})
        for id_, entry in tomllib.loads(_text(f"{name}.toml")).items()
    }


@cache
def policies() -> Mapping[str, Policy]:
    """All policies by name."""
    return {
        name: Policy(name, entry["about"], entry["source"], tuple(entry["unhealthy"]), tuple(entry["ignored"]))
        for name, entry in tomllib.loads(_text("policies.toml")).items()
    }


def fault(catalogue_name: str, fault_id: str) -> Fault:
    """Raises UnknownName."""
    faults = catalogue(catalogue_name)
    _one_of(f"fault in the catalogue {catalogue_name}", fault_id, tuple(faults))
    return faults[fault_id]


def policy(name: str) -> Policy:
    """Raises UnknownName."""
    _one_of("policy", name, tuple(policies()))
    return policies()[name]


def action(name: str) -> Action:
    """Raises UnknownName."""
    _one_of("recovery action", name, ACTIONS)
    return name  # type: ignore[return-value]


def _one_of(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        near = get_close_matches(name, known, 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known[:12])}"
        raise UnknownName(f"there is no {what} {name!r}; {hint}")


def _text(name: str) -> str:
    return resources.files("drahealth.fakes.faults").joinpath(name).read_text(encoding="utf-8")
