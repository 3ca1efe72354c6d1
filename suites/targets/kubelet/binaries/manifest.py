"""The record of what a folder of programs must contain, and a check that costs nothing while nobody touched the files.

A file whose size and modification time are those of its last full check is taken as good; any other is read and its
SHA-256 compared. `manifest.json` lies in the folder itself, so a folder can be copied or restored as it is.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One file at its last full check; `origin` says for people where it came from."""

    sha256: str
    size: int
    mtime_ns: int
    origin: str


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record(path: Path, origin: str) -> Recorded:
    """Reads the file as it is now."""
    stat = path.stat()
    return Recorded(sha256_of(path), stat.st_size, stat.st_mtime_ns, origin)


def read(folder: Path) -> dict[str, Recorded]:
    """The folder's records by file name; none where there is no manifest or a damaged one."""
    try:
        entries = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        return {name: Recorded(**entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write(folder: Path, records: dict[str, Recorded]) -> None:
    """Replaces the manifest at once."""
    text = json.dumps({name: asdict(entry) for name, entry in sorted(records.items())}, indent=1)
    draft = folder / f".{_NAME}.{os.getpid()}"
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(folder / _NAME)


def good(folder: Path, names: Iterable[str]) -> dict[str, Recorded]:
    """Those of the named files that are what the manifest says, with their records."""
    records = read(folder)
    kept = {name: entry for name in names if (entry := _checked(folder / name, records.get(name))) is not None}
    if any(entry != records[name] for name, entry in kept.items()):
        with contextlib.suppress(OSError):  # a read-only cache is checked in full every time
            write(folder, records | kept)
    return kept


def _checked(path: Path, entry: Recorded | None) -> Recorded | None:
    try:
        stat = path.stat()
        if entry is None or stat.st_size != entry.size:
            return None
        if stat.st_mtime_ns == entry.mtime_ns:
            return entry
        return again if (again := record(path, entry.origin)).sha256 == entry.sha256 else None
    except OSError:
        return None
