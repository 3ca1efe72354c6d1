"""Records of the clusters that runs of this user made: a folder for each run, locked while the cluster is used.

    <state>/clusters/<run id>/record    JSON Lines, of which the last one is valid; locked (flock(2)) by all users
    <state>/clusters/<run id>/...       other files of the cluster, such as its kubeconfig

A lock ends with its process. So an unlocked record that is not marked as kept is that of an interrupted run. The folder
appears complete and locked.
"""

import contextlib
import fcntl
import json
import operator
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import platformdirs
from tenacity import RetryError, Retrying, retry_if_result, stop_after_attempt, wait_fixed

from drahealth.suites.errors import HarnessError

_DRAFT = "."
_DRAFT_LASTS = 60.0
"""Seconds after which an unfinished folder is removed."""
_ATTEMPTS = 50
_ROOM = "free some disk space there, or set XDG_STATE_HOME to a folder that can be written"
_PAUSE = 0.01
"""Seconds between attempts for a lock that another process holds while it reads."""


@dataclass(frozen=True, slots=True)
class Record:
    """The cluster of a run: its name, its engine (`Engine.identity`), and when it was made (UTC, ISO 8601)."""

    run_id: str
    cluster: str
    engine: str
    made: str
    kept: bool = False
    in_use: bool = False

    def age(self, now: datetime) -> float:
        """Seconds since it was made."""
        return (now - datetime.fromisoformat(self.made).astimezone(UTC)).total_seconds()


class Claim:
    """A shared lock on a record: meanwhile no run removes the cluster. `folder` is for the files of the cluster."""

    def __init__(self, record: Record, folder: Path, lock: int) -> None:
        self.record = record
        self.folder = folder
        self._lock = lock

    @property
    def run_id(self) -> str:
        """The id in the marks of the nodes."""
        return self.record.run_id

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self.record.cluster

    @classmethod
    def make(cls, cluster: str, engine: str, base: Path | None = None) -> "Claim":
        """A new record, made before the cluster; `engine` is the identity of the engine. Raises HarnessError."""
        base = default_base() if base is None else base
        run_id = secrets.token_hex(6)
        record = Record(run_id, cluster, engine, datetime.now(UTC).isoformat(timespec="seconds"))
        try:
            return cls._make(record, base)
        except OSError as error:
            raise HarnessError(f"cannot write the record of the cluster in {base}: {error}", _ROOM) from error

    @classmethod
    def _make(cls, record: Record, base: Path) -> "Claim":
        draft, lock = base / f"{_DRAFT}{record.run_id}", -1
        try:
            base.mkdir(parents=True, exist_ok=True)
            draft.mkdir(mode=0o700)
            lock = os.open(draft / "record", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            _write(lock, record)
            return cls(record, draft.rename(base / record.run_id), lock)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if lock >= 0:
                os.close(lock)
            raise

    @classmethod
    def attach(cls, run_id: str, base: Path | None = None) -> "Claim":
        """A claim on a cluster of another run. Raises HarnessError if its record is gone or it is being removed."""
        base = default_base() if base is None else base

        def locked() -> "Claim | None":
            if (claim := _lock(base / run_id, fcntl.LOCK_SH)) is not None:
                return claim
            if not (base / run_id).exists():
                raise HarnessError(f"there is no record of the run {run_id} in {base}", "make a new cluster")
            return None

        polling = Retrying(
            retry=retry_if_result(operator.not_), wait=wait_fixed(_PAUSE), stop=stop_after_attempt(_ATTEMPTS)
        )
        try:
            claim = polling(locked)
        except RetryError:
            raise HarnessError(f"the cluster of the run {run_id} is being removed", "make a new cluster") from None
        assert claim
        return claim

    def keep(self) -> None:
        """Marks the cluster as kept. Raises HarnessError if the record cannot be written."""
        kept = replace(self.record, kept=True)
        try:
            _write(self._lock, kept)
        except OSError as error:
            raise HarnessError(
                f"cannot mark the cluster {self.cluster} as kept in {self.folder}: {error}", _ROOM
            ) from error
        self.record = kept

    def release(self) -> None:
        """Releases the cluster and leaves its record; harmless if it is released."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def discard(self) -> None:
        """Removes the record and its folder after the cluster was removed, and releases the lock."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.release()


def default_base() -> Path:
    """The folder of the records of the user. No node of `drahealth up` can have its name."""
    return platformdirs.user_state_path("drahealth").absolute() / "kind_clusters"


def records(base: Path | None = None) -> list[Record]:
    """All records of this user, oldest first. Removes unfinished folders.

    Raises HarnessError if the folder cannot be read.
    """
    base = default_base() if base is None else base
    try:
        return sorted(_read(base), key=lambda record: (record.made, record.run_id))
    except OSError as error:
        raise HarnessError(
            f"cannot read the records of clusters in {base}: {error}", "check who owns the folder"
        ) from error


def seize(record: Record, base: Path | None = None) -> Claim | None:
    """An exclusive claim on a cluster, for its removal; None if another process has a claim."""
    return _lock((default_base() if base is None else base) / record.run_id, fcntl.LOCK_EX)


def _read(base: Path) -> Iterator[Record]:
    for folder in base.iterdir() if base.is_dir() else ():
        if folder.name.startswith(_DRAFT):
            _remove_dead_draft(folder)
            continue
        with contextlib.suppress(OSError, ValueError):
            record = _parse(folder)
            if claim := _lock(folder, fcntl.LOCK_EX):
                record = claim.record  # read under the lock: the last user may have marked the cluster as kept
                claim.release()
            yield replace(record, in_use=claim is None)


def _lock(folder: Path, how: int) -> Claim | None:
    """None if another claim prevents it, or the record is gone."""
    lock = -1
    try:
        lock = os.open(folder / "record", os.O_RDWR | os.O_APPEND)
        fcntl.flock(lock, how | fcntl.LOCK_NB)
        return Claim(_parse(folder), folder, lock)  # reads by name: fails if the locked file was removed
    except (OSError, ValueError):
        if lock >= 0:
            os.close(lock)
        return None


def _parse(folder: Path) -> Record:
    """Raises ValueError if it is not a record."""
    lines = (folder / "record").read_text(encoding="utf-8").splitlines()
    found = next((entry for entry in map(_json, reversed(lines)) if entry is not None), {})
    try:
        datetime.fromisoformat(found["made"])
        return Record(folder.name, str(found["cluster"]), str(found["engine"]), found["made"], bool(found["kept"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder} holds no record") from error


def _json(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _write(lock: int, record: Record) -> None:
    kept = {name: value for name, value in asdict(record).items() if name not in ("run_id", "in_use")}
    os.write(lock, json.dumps(kept).encode() + b"\n")


def _remove_dead_draft(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime > _DRAFT_LASTS:
            shutil.rmtree(folder)
