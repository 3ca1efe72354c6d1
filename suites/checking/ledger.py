"""The ledger of requirements: `driver_requirements.toml` binds DRA drivers, another file binds device plugins."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, get_args

Family = Literal["plugin contract", "health", "Pod status", "faults", "device plugin"]
Level = Literal["check", "core", "full"]
"""How much of the ledger a run judges: that of `drahealth check`, or one of the two of `drahealth certify`."""
LEVELS: tuple[Level, ...] = get_args(Level)
"""All levels, from the smallest. Each judges what the levels before it judge, too."""
SubjectKind = Literal["dra-driver", "device-plugin"]
"""What a run judges: a DRA driver or a device plugin. A requirement binds one of them."""
SUBJECT_KINDS: tuple[SubjectKind, ...] = get_args(SubjectKind)


@dataclass(frozen=True, slots=True)
class DriverRequirement:
    """One requirement."""

    id: str
    level: Literal["MUST", "SHOULD", "MAY"]
    family: Family
    sentence: str
    source: str
    """Text and section."""
    link: str
    """URL of the source."""
    kubernetes: str
    """The Kubernetes minors that it holds for, such as 1.34-1.37."""
    apis: tuple[str, ...] = ()
    """The health APIs that it holds for; empty for all."""
    scope: Level = "check"
    """The smallest level that judges it."""
    binds: SubjectKind = "dra-driver"

    def is_judged_at(self, level: Level) -> bool:
        """Whether a run of this level judges it."""
        return includes(level, self.scope)

    def is_judged(self, level: Level, subject: SubjectKind = "dra-driver") -> bool:
        """Whether a run of this level on such a subject judges it."""
        return self.binds == subject and self.is_judged_at(level)


def includes(level: Level, scope: Level) -> bool:
    """Whether a run of the level has what is of this scope."""
    return LEVELS.index(scope) <= LEVELS.index(level)


_FILES = ("driver_requirements.toml", "device_plugins/device_plugin_requirements.toml")


@cache
def requirements() -> dict[str, DriverRequirement]:
    """All requirements by ID, in the order of the files."""
    folder = resources.files("drahealth.suites.checking")
    files = (tomllib.loads(folder.joinpath(file).read_text()) for file in _FILES)
    entries = {name: entry for file in files for name, entry in file.items()}
    return {
        name: DriverRequirement(id=name, **{**entry, "apis": tuple(entry.get("apis", ()))})
        for name, entry in entries.items()
    }
