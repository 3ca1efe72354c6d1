"""Statements of the texts, and what judges each of them. statements.toml has the columns."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from drahealth.suites.judging import readings

TEXTS = {
    **readings.TEXTS,
    "kubeletplugin": "the documentation of the Go package kubeletplugin",
    "drahealth": "the goals of this project",
}
"""The texts that a statement can be from, with their meaning."""

VERDICTS = {
    "covered": "A scenario judges the statement, or the reading that replaces it. Each mutant of the row makes a "
    "scenario fail.",
    "tested": "A test that is not a scenario judges the statement.",
    "weak": "The scenarios judge only a part of the statement.",
    "no obligation": "The statement requires no behavior of a kubelet or an API server.",
    "other work": "The statement is about drivers, upgrades, version skew, long runs, resource use, or clusters that "
    "drahealth does not support.",
}
"""The verdicts on a statement, with their meaning."""

_LISTS = ("requirements", "scenarios", "mutants", "tests")
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "covered": ("requirements", "scenarios", "mutants"),
    "tested": ("requirements", "tests", "why"),
}


@dataclass(frozen=True, slots=True)
class JudgedStatement:
    """A statement of a text, and what judges it. The fields are the columns of the file."""

    id: str
    text: str
    section: str
    says: str
    verdict: str
    requirements: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    why: str = ""

    def __post_init__(self) -> None:
        if self.text not in TEXTS:
            raise ValueError(f"{self.id}: unknown text {self.text!r}; the texts are {', '.join(TEXTS)}")
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.id}: unknown verdict {self.verdict!r}; the verdicts are {', '.join(VERDICTS)}")
        for needed in _NEEDED.get(self.verdict, ("why",)):
            if not getattr(self, needed):
                raise ValueError(f"{self.id}: the verdict {self.verdict!r} needs `{needed}`")

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> "JudgedStatement":
        """From an entry of the file. Raises ValueError, which names the entry."""
        lists = {key: tuple(entry[key]) for key in _LISTS if key in entry}
        try:
            return cls(name, **{**entry, **lists})
        except TypeError as error:
            raise ValueError(f"{name}: unknown or missing keys: {error}") from None


@cache
def statements() -> dict[str, JudgedStatement]:
    """All statements by id, in the order of the file."""
    text = resources.files("drahealth.suites.judging").joinpath("statements.toml").read_text()
    return {name: JudgedStatement.of(name, entry) for name, entry in tomllib.loads(text).items()}
