"""Removal of a folder that any process may have written to.

    python -I -S removal.py WATCHED FOLDER

As a program, it removes FOLDER when WATCHED closes. WATCHED is the reading end of a pipe. Only the caller has the
other end, so the pipe closes when the caller ends in any way. This module imports only what is fast.
"""

import contextlib
import os
import shutil
import sys
import time
from pathlib import Path

_LIMIT = 10.0
"""Seconds in which the processes of a killed run end. Until then, they can write to its folder again."""
_PAUSE = 0.5


def remove_folder(path: Path) -> None:
    """Removes a folder, even if folders in it have no permissions."""
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    for folder, names, _ in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                (Path(folder) / name).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def remove_after_end(watched: int, path: Path) -> None:
    """Removes a folder once the pipe is closed, until no process creates it again."""
    while os.read(watched, 1):
        pass
    end, looks = time.monotonic() + _LIMIT, 0
    while looks < 2 and time.monotonic() < end:
        looks = 0 if path.exists() else looks + 1
        remove_folder(path)
        time.sleep(_PAUSE)


if __name__ == "__main__":
    remove_after_end(int(sys.argv[1]), Path(sys.argv[2]))
