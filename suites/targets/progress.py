"""How long work shows that it goes on."""

from typing import Protocol


class Progress(Protocol):
    """Told what is being done now, at least every ten seconds while there is something to wait for."""

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        """`stage` is a phrase for people; `done` and `total` are bytes, None where they are not known."""


def silent(stage: str, done: int | None = None, total: int | None = None) -> None:
    """The progress that nobody watches."""
