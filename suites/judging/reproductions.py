"""What runs on real kubelets showed of the known issues that nobody has reported to Kubernetes."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from drahealth.suites.judging.ledger import KnownIssue, every_known_issue

FILE = "reproductions.json"
"""Written by `ci/docs/generate --reproductions`."""


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A check that failed because of the issue."""

    requirement: str
    assertion: str
    """Name of the check in the scenario."""
    expected: str
    seen: str


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The scenario that shows an issue, and what it showed on a real kubelet."""

    release: str
    """The newest release that showed the issue, such as 1.37.2."""
    scenario: str
    """Name of the scenario: the shortest one of those with the fewest other issues."""
    checks: tuple[FailedCheck, ...] = ()
    """What failed because of the issue; empty, as all fields below, if only the outcome was recorded."""
    history: str = ""
    """All events of the scenario, as text."""
    started: str = ""
    """Start of the run, RFC 3339."""
    drahealth: str = ""
    system: str = ""
    """Operating system and machine."""
    lines: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By source of the ledger, the first and the last line of the function in this release."""


def unreported() -> dict[str, tuple[KnownIssue, ...]]:
    """The entries of each known issue without a thread in kubernetes/kubernetes, by ID."""
    found: dict[str, tuple[KnownIssue, ...]] = {}
    for issue in every_known_issue():
        if not issue.threads:
            found[issue.id] = (*found.get(issue.id, ()), issue)
    return found


@cache
def reproductions() -> dict[str, Reproduction]:
    """All of them by the ID of the known issue."""
    content = json.loads(resources.files("drahealth.suites.judging").joinpath(FILE).read_text(encoding="utf-8"))
    return {name: _read(one) for name, one in content.items()}


def _read(content: Mapping[str, Any]) -> Reproduction:
    checks = tuple(FailedCheck(**one) for one in content["checks"])
    lines = {source: tuple(numbers) for source, numbers in content["lines"].items()}
    return Reproduction(**{**content, "checks": checks, "lines": lines})


def to_text(found: Mapping[str, Reproduction], order: Iterable[str]) -> str:
    """The content of the file."""
    return json.dumps({name: asdict(found[name]) for name in order}, indent=1, ensure_ascii=False) + "\n"
