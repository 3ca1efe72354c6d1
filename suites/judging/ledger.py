"""The ledger: requirements and known issues of released kubelets, as data.

Both are TOML files in this folder. Comments at their top define the columns.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from drahealth.suites.targets.capabilities import Capability, named


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement of the ledger."""

    id: str
    level: Literal["MUST", "SHOULD", "MAY"]
    applies_to: str
    """The component that must meet it: kubelet, api-server or driver."""
    sentence: str
    source: str
    judged: Literal["scenario", "invariant"]
    needs: tuple[Capability, ...] = ()
    """The capabilities that a target must have for it."""
    needs_fields: tuple[str, ...] = ()
    """The fields of DeviceHealth that a health API must carry for it."""
    readings: tuple[str, ...] = ()
    """The readings that it depends on (`readings`)."""

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> "Requirement":
        """From the ledger's entry. Raises ValueError, which names the entry and the key."""
        if "not_on" in entry:
            raise ValueError(f"{name}: unknown key `not_on`; use `needs`, which lists capabilities of targets")
        try:
            needs = named(entry.get("needs", ()))
        except ValueError as error:
            raise ValueError(f"{name}, `needs`: {error}; for fields of a health API use `needs_fields`") from None
        lists = {key: tuple(entry.get(key, ())) for key in ("needs_fields", "readings")}
        return cls(id=name, **{**entry, **lists, "needs": needs})


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """A known difference of released kubelets: the assertion of a requirement that fails, and the releases."""

    id: str
    requirement: str
    assertion: str
    releases: tuple[str, ...]
    happens: Literal["always", "sometimes"]
    settings: str
    link: str
    what: str
    scenario: str = ""
    """The title of the only scenario that shows the issue; "" for all scenarios with the assertion."""

    def covers(self, requirement: str, assertion: str, scenario: str) -> bool:
        """Whether this issue explains a failure of this assertion in this scenario."""
        return (self.requirement, self.assertion) == (requirement, assertion) and self.scenario in ("", scenario)


@cache
def requirements() -> dict[str, Requirement]:
    """All requirements by ID, in the order of the file."""
    entries = _load("requirements.toml").items()
    return {name: Requirement.of(name, entry) for name, entry in entries}


@cache
def known_issues(profile: str) -> tuple[KnownIssue, ...]:
    """The known issues of a profile, by its name. Profile `kep` has none."""
    return tuple(issue for issue in every_known_issue() if profile in issue.releases)


def every_known_issue() -> tuple[KnownIssue, ...]:
    """The known issues of all releases, in the order of the file."""
    entries = _load("known_issues.toml")["issue"]
    return tuple(KnownIssue(**{**entry, "releases": tuple(entry["releases"])}) for entry in entries)


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("drahealth.suites.judging").joinpath(name).read_text())
