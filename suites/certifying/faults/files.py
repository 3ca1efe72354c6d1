"""Adapters of files. Nothing here waits: a FIFO without a reader is an error."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from drahealth.suites.checking.subject.adapters import ActionFailed


def create(path: Path, text: str) -> None:
    """Creates a file. Raises ActionFailed, also if it exists, or if its folder does not."""
    _check_folder(path, "create")
    try:
        with path.open("x") as file:
            file.write(text)
    except OSError as error:
        raise ActionFailed(f"cannot create {path}: {error.strerror}") from None


def remove(path: Path) -> None:
    """Removes a file. Raises ActionFailed, also if it does not exist."""
    try:
        path.unlink()
    except OSError as error:
        raise ActionFailed(f"cannot remove {path}: {error.strerror}") from None


def write(path: Path, text: str) -> None:
    """Replaces the content of a file in one step. Raises ActionFailed, also if its folder does not exist.

    A device, a FIFO and a file that cannot be replaced, as in /sys, are written in place.
    """
    _check_folder(path, "write")
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            _write_in_place(path, text)
        else:
            _replace(path, text)
    except OSError as error:
        raise ActionFailed(f"cannot write {path}: {error.strerror}") from None


def _check_folder(path: Path, verb: str) -> None:
    """A new folder would hide a wrong path: no driver looks at files below it."""
    if not path.parent.is_dir():
        raise ActionFailed(f"cannot {verb} {path}: the folder {path.parent} does not exist")


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.drahealth")
    try:
        draft.write_text(text)
    except PermissionError:
        _write_in_place(path, text)
        return
    try:
        if path.exists():
            draft.chmod(stat.S_IMODE(path.stat().st_mode))
        draft.replace(path)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _write_in_place(path: Path, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_NONBLOCK | (os.O_TRUNC if path.is_file() else 0))
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
