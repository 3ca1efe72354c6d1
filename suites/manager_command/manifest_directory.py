"""The directory of manifests: reads new and changed files, and reports errors in them.

It is level-triggered: after each event, and once a second, it scans the directory. A file is read when it has not
changed for a moment, so that an editor can finish writing. An unreadable or invalid file changes nothing: the objects
of its last valid content stay.
"""

import asyncio
import logging
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchfiles import awatch

from drahealth.suites.manager_command.manifest import Key, Manifest, parse
from drahealth.suites.yaml_tree import Malformed

SUFFIXES = (".yaml", ".yml", ".json")
STATUS_SUFFIX = ".status.yaml"
LARGEST = 1 << 20
"""Bytes of a file."""
SETTLED = 0.2
"""Seconds without a change after which a file counts as written."""

_RESCAN = 1000  # milliseconds

log = logging.getLogger(__name__)

Signature = tuple[int, int, int]
"""Inode, time of the last change in nanoseconds, size: another one for another content."""


@dataclass(slots=True)
class _File:
    """The state of one file. `asks_for` is None until the file was valid once."""

    seen: Signature | None
    since: float
    taken: Signature | None = None
    asks_for: tuple[Manifest, ...] | None = None
    problem: str = ""
    is_blocked: bool = False
    """Another file asks for the same object."""


def is_manifest(name: str) -> bool:
    """Whether a file with this name is read."""
    return name.endswith(SUFFIXES) and not name.startswith(".") and not name.endswith(STATUS_SUFFIX)


class ManifestDirectory:
    """Follows `path`. Calls `changed()` after each change, and `refused(file, line, problem)` for errors."""

    def __init__(
        self, path: Path, node_name: str, changed: Callable[[], None], refused: Callable[[str, int, str], None]
    ) -> None:
        self.path = path
        self._node_name = node_name
        self._changed = changed
        self._refused = refused
        self._files: dict[str, _File] = {}
        self._problem = ""
        self._now = 0.0
        self.is_read = False
        """It was read once, so that what is not wanted is known not to be."""

    @property
    def wanted(self) -> Mapping[Key, tuple[str, Manifest]]:
        """All objects with their file names; if two files have the same object, the first one counts."""
        wanted: dict[Key, tuple[str, Manifest]] = {}
        for name, file in self._files.items():
            for manifest in file.asks_for or ():
                wanted.setdefault(manifest.key, (name, manifest))
        return wanted

    @property
    def unread(self) -> frozenset[str]:
        """Existing files that were never valid."""
        return frozenset(name for name, file in self._files.items() if file.asks_for is None)

    async def read(self) -> None:
        """Reads all files that are complete now."""
        await self._look()

    async def follow(self) -> None:
        """Reads changed files until cancelled."""
        while True:
            try:
                async for _ in awatch(
                    self.path,
                    watch_filter=lambda _, path: is_manifest(Path(path).name),
                    recursive=False,
                    debounce=50,
                    step=5,
                    rust_timeout=_RESCAN,
                    yield_on_timeout=True,
                ):
                    await self._look_until_settled()
            except (OSError, RuntimeError) as error:  # no inotify watches left, or the directory itself has gone
                self._complain(f"it cannot be watched, reading it once a second instead: {error}")
            await self._look_until_settled()
            await asyncio.sleep(_RESCAN / 1000)

    async def _look_until_settled(self) -> None:
        is_moving = True
        while is_moving:
            is_moving = await self._look()
            await asyncio.sleep(SETTLED / 2 if is_moving else 0)

    async def _look(self) -> bool:
        """Scans all files once; returns whether a file must be scanned again soon."""
        found = self._signatures()
        if found is None:
            return False
        self._see(found)
        settled = [name for name in sorted(self._files) if self._is_due(name)]
        is_changed = not self.is_read
        for name in [name for name in settled if self._files[name].seen is None]:
            del self._files[name]
            settled.remove(name)
            is_changed = True
        for name in settled:
            is_changed |= await self._take(name)
        while is_changed and (blocked := [name for name, file in self._files.items() if file.is_blocked]):
            if not any([await self._take(name) for name in blocked]):
                break
        self.is_read = True
        if is_changed:
            self._changed()
        return any(file.seen != file.taken for file in self._files.values())

    def _see(self, found: Mapping[str, Signature]) -> None:
        self._now = time.monotonic()
        for name in found.keys() | self._files.keys():
            file = self._files.setdefault(name, _File(found.get(name), self._now))
            if file.seen != found.get(name):
                file.seen, file.since = found.get(name), self._now

    def _is_due(self, name: str) -> bool:
        """Whether the file has changed since it was read, and has not changed for a moment."""
        file = self._files[name]
        written = time.time() - file.seen[1] / 1e9 if file.seen else 0.0
        return file.seen != file.taken and max(written, self._now - file.since) >= SETTLED

    def _signatures(self) -> dict[str, Signature] | None:
        """The existing manifest files; None if the directory cannot be read, which does not mean that they are
        deleted.
        """
        found = {}
        try:
            for path in self.path.iterdir():
                if is_manifest(path.name) and (signature := _signature(path)):
                    found[path.name] = signature
        except OSError as error:
            self._complain(f"it cannot be read: {error.strerror}; its previous objects stay")
            return None
        return found

    async def _take(self, name: str) -> bool:
        """Reads the file. Returns True if its objects are known now."""
        file = self._files[name]
        file.taken, file.is_blocked = file.seen, False
        try:
            asks_for = await asyncio.to_thread(_read, self.path / name, self._node_name)
            self._check_unique(name, asks_for)
        except Malformed as error:
            self._refuse(name, error.line, error.problem)
            return False
        except OSError as error:
            self._refuse(name, 0, f"it cannot be read: {error.strerror}")
            return False
        file.asks_for, file.problem = asks_for, ""
        return True

    def _refuse(self, name: str, line: int, problem: str) -> None:
        """Reports an error of the file, once until it changes."""
        if self._files[name].problem != problem:
            self._files[name].problem = problem
            self._refused(name, line, problem)

    def _check_unique(self, name: str, asks_for: tuple[Manifest, ...]) -> None:
        wanted = self.wanted
        for manifest in asks_for:
            other = wanted.get(manifest.key, (name, manifest))[0]
            if other != name:
                self._files[name].is_blocked = True
                raise Malformed(f"{manifest} is already in {other}", 1)

    def _complain(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("%s: %s", self.path, problem)
        self._problem = problem


def _signature(path: Path) -> Signature | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size) if stat.S_ISREG(found.st_mode) else None


def _read(path: Path, node_name: str) -> tuple[Manifest, ...]:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Malformed(f"it must have at most {LARGEST} bytes; split it", 1)
    return parse(data, node_name)
