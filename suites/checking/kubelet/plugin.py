"""A registered DRA driver. A value."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plugin:
    """A registered driver, from GetInfo."""

    driver: str
    socket: Path
    """The registration socket."""
    endpoint: Path
    """The socket of its DRA and health services."""
    versions: tuple[str, ...]
