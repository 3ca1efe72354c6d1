"""What a node may leave behind."""

from pathlib import Path


def leftovers(base: Path) -> list[str]:
    """The files in the folder, and the sockets that are open in it."""
    sockets = [line for line in Path("/proc/net/unix").read_text().splitlines() if f" {base}/" in line]
    return [*sockets, *map(str, base.iterdir())]
