"""The record of a folder of programs, and a check that is fast for unchanged files.

A file with the size and modification time of its last full check is good. Of any other file the SHA-256 is compared.
`manifest.json` is in the folder itself, so a folder can be copied or restored as it is.
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
    """One file at its last full check; `origin` is a text for people."""

    sha256: str
    size: int
    mtime_ns: int
    origin: str


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record(path: Path, origin: str) -> Recorded:
    """The record of the file as it is now."""
    stat = path.stat()
    return Recorded(sha256_of(path), stat.st_size, stat.st_mtime_ns, origin)


def read(folder: Path) -> dict[str, Recorded]:
    """The records of the folder by file name; none if the manifest is missing or damaged."""
    try:
        entries = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        return {name: Recorded(**entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write(folder: Path, records: dict[str, Recorded]) -> None:
    """Replaces the manifest atomically."""
    text = json.dumps({name: asdict(entry) for name, entry in sorted(records.items())}, indent=1)
    draft = folder / f".{_NAME}.{os.getpid()}"
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(folder / _NAME)


def good(folder: Path, names: Iterable[str]) -> dict[str, Recorded]:
    """The named files that match the manifest, with their records."""
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
