"""Errors across groups of devices: their number and their names. Pure.

Only the names of a group count here, so that other errors in it do not hide these.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from drahealth.fakes.program.user_files import Finding, Place

MAX_DEVICES = 100_000
"""Maximum number of devices in a file."""
MAX_NAME = 63
"""Maximum length of a device name in the resource.k8s.io API."""
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """A group of devices, by name."""

    place: Place
    name: str
    count: int = 1
    parts: tuple["NamedGroup", ...] = ()

    @property
    def size(self) -> int:
        """The number of devices with their partitions."""
        return self.count * (1 + sum(part.count for part in self.parts))

    def names(self) -> Iterator[str]:
        """The names of its whole devices."""
        return names_of(self.name, self.count)

    def all_names(self) -> Iterator[str]:
        """The names of its devices and partitions in the API."""
        for name in self.names():
            yield name
            yield from (f"{name}-{part}" for group in self.parts for part in group.names())


def names_of(name: str, count: int) -> Iterator[str]:
    """The names of this many devices."""
    yield from [name] if count == 1 else (f"{name}-{number}" for number in range(count))


def count_errors(groups: Iterable[NamedGroup], place: Place) -> Iterator[Finding]:
    """The error for more devices than a file may have."""
    if sum(group.size for group in groups) > MAX_DEVICES:
        yield place, f"at most {MAX_DEVICES} devices are allowed"


def allocatable_names(groups: Sequence[NamedGroup]) -> list[str]:
    """The names of allocatable devices: whole ones, or the partitions of divided ones."""
    return [
        name
        for group in _checkable(groups)
        for whole in group.names()
        for name in ([f"{whole}-{part}" for parts in group.parts for part in parts.names()] or [whole])
    ]


def name_errors(groups: Sequence[NamedGroup]) -> Iterator[Finding]:
    """Duplicate names in a driver and names that are too long, with the place of each group."""
    seen = set[str]()
    for group in _checkable(groups):
        names = Counter(group.all_names())
        if twice := [name for name, count in names.items() if count > 1 or name in seen]:
            yield (
                group.place,
                f"duplicate device name: {', '.join(twice[:_SHOWN])}{', ...' * (len(twice) > _SHOWN)}",
            )
        if long := next((name for name in names if len(name) > MAX_NAME), None):
            yield group.place, f"a device name must have at most {MAX_NAME} characters, got {long}"
        seen.update(names)


def _checkable(groups: Sequence[NamedGroup]) -> list[NamedGroup]:
    """The groups to check: for too many devices only the smallest groups, to limit memory."""
    left, chosen = MAX_DEVICES, set[int]()
    for number in sorted(range(len(groups)), key=lambda number: groups[number].size):
        left -= groups[number].size
        if left < 0:
            break
        chosen.add(number)
    return [group for number, group in enumerate(groups) if number in chosen]
