"""The folder of one run: short, private, and locked while it is used; waiting for locks of files; the cache folder."""

import contextlib
import fcntl
import os
import secrets
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import platformdirs

from drahealth.fakes.waiting import poll
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets import removal

# Waits for a lock of an open file, flock(2), without blocking the event loop.


async def lock(file: int, how: int, interval: float) -> None:
    """Locks the file, with `fcntl.LOCK_SH` or `fcntl.LOCK_EX`. Tries again every `interval` seconds, without limit."""

    def is_locked() -> bool:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    await poll(is_locked, interval)


# Holds the lock of a file, and tells while it waits for another process. The lock ends with its process.

POLL = 0.1
"""Seconds between two attempts."""


@contextmanager
def held(lock: filelock.BaseFileLock, waiting: Callable[[float], None], again: float) -> Iterator[None]:
    """Holds the lock in the block. Waits for it without a limit.

    While another process has it, `waiting` gets the seconds so far: at once, and then every `again` seconds; -1: only
    at once. Raises OSError.
    """
    since, patience = time.monotonic(), 0.0
    while True:
        try:
            lock.acquire(timeout=patience, poll_interval=POLL)
            break
        except filelock.Timeout:
            patience = again
            waiting(time.monotonic() - since)
    try:
        yield
    finally:
        lock.release()


# The cache folder: Kubernetes binaries, and packages for images.


def default_root() -> Path:
    """The folder that DRAHEALTH_CACHE names, or the user's cache folder."""
    return Path(os.environ.get("DRAHEALTH_CACHE") or platformdirs.user_cache_path("drahealth")).absolute()


# The folder of one run: short, private, and locked while it is used.
#
# It contains the sockets of plugins. The path of a unix socket has at most 107 bytes, so the folder is
# `/tmp/dh-XXXXXX` if TMPDIR is long. The process that made it, or the keeper that inherited the lock, locks its file
# `lock`. The next run removes folders that are not locked. A folder can have a process that removes it if its run is
# killed.

LONGEST_BASE = 20
"""The longest base folder in bytes. It leaves 48 bytes for the name of a driver in the path of its socket."""

_PREFIX = "dh-"
_DRAFT = ".dh-"
_DRAFT_LASTS = 60.0
"""Seconds after which an unfinished folder is removed."""


class RunDirectory:
    """A locked folder: `create` one, `remove` it at the end."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.lock = lock
        self._remover: subprocess.Popen[bytes] | None = None
        self._held = -1

    @classmethod
    def create(cls, base: Path | None = None) -> "RunDirectory":
        """A new folder of mode 0700; removes unused ones first. Raises HarnessError if the base cannot be written."""
        base = default_base() if base is None else base
        try:
            sweep(base)
            return cls._create(base, secrets.token_hex(3))
        except OSError as error:
            raise HarnessError(
                f"cannot make a run folder in {base}: {error}",
                "free some disk space there, or set TMPDIR to a short path",
            ) from error

    @classmethod
    def _create(cls, base: Path, name: str) -> "RunDirectory":
        draft = base / f"{_DRAFT}{name}"
        draft.mkdir(mode=0o700)
        lock = os.open(draft / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return cls(draft.rename(base / f"{_PREFIX}{name}"), lock)

    def remove_if_killed(self) -> None:
        """Starts a process that removes the folder when this process ends in any way, until `remove`."""
        watched, self._held = os.pipe()
        try:
            self._remover = subprocess.Popen(
                [sys.executable, "-I", "-S", removal.__file__, str(watched), str(self.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(watched, self.lock),
                start_new_session=True,
            )
        finally:
            os.close(watched)

    def remove(self) -> None:
        """Removes the folder, if the keeper has not, and releases the lock."""
        removal.remove_folder(self.path)
        if self._remover:
            self._remover.kill()
            self._remover.wait()
            os.close(self._held)
            self._remover = None
        self.release()

    def keep(self) -> None:
        """Releases the folder without removing it; no later run removes it."""
        (self.path / "lock").unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Releases the lock; harmless if it is released."""
        if self.lock >= 0:
            os.close(self.lock)
        self.lock = -1


def default_base() -> Path:
    """TMPDIR if the sockets' paths fit below it, /tmp otherwise."""
    base = Path(tempfile.gettempdir()).absolute()
    return base if len(os.fsencode(base)) <= LONGEST_BASE else Path("/tmp")


def sweep(base: Path) -> list[Path]:
    """Removes this user's unused run folders. Returns them."""
    dead = [path for path in _own_folders(base) if _is_dead(path)]
    for path in dead:
        removal.remove_folder(path)
    return dead


def _own_folders(base: Path) -> Iterator[Path]:
    for path in [*base.glob(f"{_PREFIX}*"), *base.glob(f"{_DRAFT}*")]:
        with contextlib.suppress(OSError):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700:
                yield path


def _is_dead(path: Path) -> bool:
    try:
        if path.name.startswith(_DRAFT):
            return time.time() - path.stat().st_mtime > _DRAFT_LASTS
        return is_unlocked(path)
    except OSError:
        return False


def is_unlocked(folder: Path) -> bool:
    """Whether the run of this folder has ended. Raises OSError if its lock cannot be opened."""
    lock = os.open(folder / "lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
