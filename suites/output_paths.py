"""Checks of output files and folders before a run starts, so that no results are lost."""

import tempfile
from pathlib import Path

from drahealth.proto.history import is_history
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


def check_histories_folder(name: str | None) -> None:
    """As `check_output_folder`. Raises ConfigurationError also if a *.jsonl in it is no history: a run replaces such
    files. Other files do not matter, because a run writes no other ones."""
    check_output_folder(name)
    if name and (foreign := sorted(path.name for path in Path(name).glob("*.jsonl") if not _can_be_replaced(path))):
        raise ConfigurationError(
            f"folder {name} has a file that is not a history: {foreign[0]}",
            "choose another folder, so that the run overwrites no file of yours",
        )


def _can_be_replaced(path: Path) -> bool:
    """A history, or an empty file, which a killed run can leave."""
    try:
        return path.is_file() and (path.stat().st_size == 0 or is_history(path))
    except OSError:  # unreadable, so perhaps not ours
        return False
