"""The differences between the answers of two servers, and those that are accepted, each with its reason. Pure."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from drahealth.suites.api_answers.normal import shown

ACCEPTED = Path(__file__).with_name("accepted.toml")
"""The accepted differences."""

ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs: `request` is SCENARIO/LABEL, `at` the path in the answer."""

    request: str
    at: str
    memory: Any
    real: Any

    def __str__(self) -> str:
        return f"{self.request}  {self.at}\n    memory: {shown(self.memory)}\n    real:   {shown(self.real)}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """Differences that are right: patterns of requests and of a path, and the reason."""

    requests: str
    at: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        return fnmatchcase(difference.request, self.requests) and fnmatchcase(difference.at, self.at)


def accepted(path: Path = ACCEPTED) -> list[Accepted]:
    """The accepted differences of the file. Raises OSError, ValueError and TypeError for a wrong file."""
    return [Accepted(**entry) for entry in tomllib.loads(path.read_text())["difference"]]


def differences(request: str, memory: Any, real: Any, at: str = "") -> Iterator[Difference]:
    """The smallest parts of two answers that differ."""
    if isinstance(memory, dict) and isinstance(real, dict):
        for key in sorted({*memory, *real}):
            path = f"{at}.{key}" if at else key
            yield from differences(request, memory.get(key, ABSENT), real.get(key, ABSENT), path)
    elif isinstance(memory, list) and isinstance(real, list) and len(memory) == len(real):
        for index, (one, other) in enumerate(zip(memory, real, strict=True)):
            yield from differences(request, one, other, f"{at}.{index}")
    elif memory != real or type(memory) is not type(real):
        yield Difference(request, at, memory, real)


def unexplained(found: Sequence[Difference], known: Sequence[Accepted]) -> list[Difference]:
    """The differences without a reason."""
    return [one for one in found if not any(entry.covers(one) for entry in known)]


def unused(found: Sequence[Difference], known: Sequence[Accepted]) -> list[Accepted]:
    """The accepted differences that no longer occur."""
    return [entry for entry in known if not any(entry.covers(one) for one in found)]
