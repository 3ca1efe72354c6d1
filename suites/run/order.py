"""The order of scenarios that a seed draws. Pure."""

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import TypeVar

T = TypeVar("T")


def drawn_order(items: Iterable[T], name_of: Callable[[T], str], seed: int) -> list[T]:
    """The same seed gives the same order on each machine.

    The order of two items does not depend on the others, so a selection (`-k`) keeps the order of the whole run.
    """
    return sorted(items, key=lambda item: sha256(f"{seed}/{name_of(item)}".encode()).digest())
