"""What is wrong with groups of devices taken together: how many there are, and what they are called. Pure.

A group is taken here for what it is called, so that no other thing that is wrong with it hides this.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from drahealth.fakes.files.user_files import Finding, Place

MOST = 100_000
"""Devices that a file may describe."""
LONGEST = 63
"""Letters of a device's name in the resource.k8s.io API."""
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Named:
    """A group of devices, by name."""

    place: Place
    name: str
    count: int = 1
    parts: tuple["Named", ...] = ()

    @property
    def size(self) -> int:
        """Devices, with their partitions."""
        return self.count * (1 + sum(part.count for part in self.parts))

    def names(self) -> Iterator[str]:
        """What its whole devices are called."""
        return names_of(self.name, self.count)

    def all_names(self) -> Iterator[str]:
        """What its devices and their partitions are called in the API."""
        for name in self.names():
            yield name
            yield from (f"{name}-{part}" for group in self.parts for part in group.names())


def names_of(name: str, count: int) -> Iterator[str]:
    """What so many devices of that name are called."""
    yield from [name] if count == 1 else (f"{name}-{number}" for number in range(count))


def too_many(groups: Iterable[Named], place: Place) -> Iterator[Finding]:
    """That these are more than a file may describe."""
    if sum(group.size for group in groups) > MOST:
        yield place, f"these are more than {MOST} devices"


def given_away(groups: Sequence[Named]) -> list[str]:
    """What the devices are called that containers can get: whole ones, or the parts of those that are divided."""
    return [
        name
        for group in _few(groups)
        for whole in group.names()
        for name in ([f"{whole}-{part}" for parts in group.parts for part in parts.names()] or [whole])
    ]


def misnamed(groups: Sequence[Named]) -> Iterator[Finding]:
    """Names that two devices of a driver have, or that are too long; of each group, where it is."""
    seen = set[str]()
    for group in _few(groups):
        names = Counter(group.all_names())
        if twice := [name for name, count in names.items() if count > 1 or name in seen]:
            yield (
                group.place,
                f"two devices have one name: {', '.join(twice[:_SHOWN])}{', ...' * (len(twice) > _SHOWN)}",
            )
        if long := next((name for name in names if len(name) > LONGEST), None):
            yield group.place, f"a device has a name of at most {LONGEST} letters, not {long}"
        seen.update(names)


def _few(groups: Sequence[Named]) -> list[Named]:
    """Those that are looked at: of too many devices the smallest groups, so that no memory is filled."""
    left, chosen = MOST, set[int]()
    for number in sorted(range(len(groups)), key=lambda number: groups[number].size):
        left -= groups[number].size
        if left < 0:
            break
        chosen.add(number)
    return [group for number, group in enumerate(groups) if number in chosen]
