"""The readings: where the texts of KEP-4680 disagree, which statement holds, and why. readings.toml has the columns."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

TEXTS = {
    "KEP": "the newest revision of KEP-4680, beta in 1.36",
    "KEP (2025)": "the revision of 2025, for the stage alpha2",
    "KEP (2024)": "the oldest revision, of 2024",
    "design": "the detailed design document of May 2025",
    "Kubernetes": "the released kubelets and APIs",
}
"""The texts that a statement can be from, with their meaning."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What one text says in one section."""

    text: str
    section: str
    says: str

    def __post_init__(self) -> None:
        if self.text not in TEXTS:
            raise ValueError(f"unknown text {self.text!r}; the texts are {', '.join(TEXTS)}")


@dataclass(frozen=True, slots=True)
class Reading:
    """A place where texts disagree, and the statement that holds."""

    id: str
    topic: str
    statements: tuple[Statement, ...]
    holds: str
    why: str
    requirements: tuple[str, ...]
    """The requirements that depend on it."""

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> "Reading":
        """From an entry of the file. Raises ValueError, which names the entry."""
        known = {field.name for field in fields(cls)} - {"id"}
        if wrong := entry.keys() ^ known:
            raise ValueError(f"{name}: unknown or missing keys: {', '.join(sorted(wrong))}")
        if len(entry["statements"]) < 2:
            raise ValueError(f"{name}: a reading needs at least 2 statements, got {len(entry['statements'])}")
        if not entry["requirements"]:
            raise ValueError(f"{name}: a reading needs at least 1 requirement, got 0")
        try:
            statements = tuple(Statement(**statement) for statement in entry["statements"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}, `statements`: {error}") from None
        return cls(name, entry["topic"], statements, entry["holds"], entry["why"], tuple(entry["requirements"]))


@cache
def readings() -> dict[str, Reading]:
    """All readings by id, in the order of the file."""
    text = resources.files("drahealth.suites.judging").joinpath("readings.toml").read_text()
    return {name: Reading.of(name, entry) for name, entry in tomllib.loads(text).items()}
