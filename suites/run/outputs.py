"""Where the files of a run go: tried before anything is started, so that no run is lost for it."""

import tempfile
from pathlib import Path

from drahealth.suites.errors import ConfigurationError


def check_file(name: str | None) -> None:
    """Raises ConfigurationError for a file that cannot be written. What is there stays as it is."""
    if not name:
        return
    path = Path(name)
    try:
        is_there = path.exists()
        path.open("ab").close()
        if not is_there:
            path.unlink()
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be written: {error.strerror}", "name another file") from None


def check_folder(name: str | None) -> None:
    """Makes the folder if it is not there. Raises ConfigurationError where no files can be put."""
    if not name:
        return
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=name).close()
    except OSError as error:
        raise ConfigurationError(f"no files can be put into {name}: {error.strerror}", "name another folder") from None
