"""Removal of a folder that any process may have written to."""

import contextlib
import os
import shutil
from pathlib import Path


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
