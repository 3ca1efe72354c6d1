"""Socket files below a directory."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def socket_files(directory: Path) -> Iterator[Path]:
    """All sockets below a directory, except hidden ones; none if it does not exist."""
    for folder, _, files in os.walk(directory):
        for name in files:
            path = Path(folder, name)
            with suppress(OSError):  # it was removed meanwhile
                if not name.startswith(".") and stat.S_ISSOCK(path.lstat().st_mode):
                    yield path
