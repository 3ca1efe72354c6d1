"""Checks of output files and folders before a run starts, so that no results are lost."""

import tempfile
from pathlib import Path

from drahealth.suites.errors import ConfigurationError


def check_output_file(name: str | None) -> None:
    """Raises ConfigurationError for an unwritable file. Does not change an existing file."""
    if not name:
        return
    path = Path(name)
    try:
        is_there = path.exists()
        path.open("ab").close()
        if not is_there:
            path.unlink()
    except OSError as error:
        raise ConfigurationError(f"cannot write {name}: {error.strerror}", "choose another file") from None


def check_output_folder(name: str | None) -> None:
    """Create the folder if it does not exist. Raises ConfigurationError if it is unwritable."""
    if not name:
        return
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=name).close()
    except OSError as error:
        raise ConfigurationError(f"cannot write to folder {name}: {error.strerror}", "choose another folder") from None
