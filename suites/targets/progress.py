"""Progress of long work, for people."""

from typing import Protocol


class Progress(Protocol):
    """Gets the current stage, at least every ten seconds during a wait."""

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        """`stage` is a phrase for people; `done` and `total` are bytes, None if unknown."""


def silent(stage: str, done: int | None = None, total: int | None = None) -> None:
    """Ignores progress."""
