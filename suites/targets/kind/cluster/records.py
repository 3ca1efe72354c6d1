"""What this user's runs have made on container engines: a folder per run, locked while somebody uses the cluster.

    <state>/clusters/<run id>/record    lines of JSON, of which the last one holds; locked (flock(2)) by all who use it
    <state>/clusters/<run id>/...       what else goes with the cluster, such as its kubeconfig

The lock dies with its process, so a record that is not locked, and says nothing of being kept, is that of a run which
did not come to its end. The folder appears whole, with its lock held.
"""

import contextlib
import fcntl
import json
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

from drahealth.suites.errors import HarnessError

_DRAFT = "."
_DRAFT_LASTS = 60.0
"""Seconds after which a folder that never got its name counts as dead."""
_ATTEMPTS = 50
_ROOM = "make room there, or set XDG_STATE_HOME to a folder that can be written"
_PAUSE = 0.01
"""Seconds between attempts for a lock that somebody else only looks at."""


@dataclass(frozen=True, slots=True)
class Record:
    """A run's cluster: its name, the engine it is on (`Engine.identity`), when it was made (UTC, ISO 8601)."""

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
    """A hold on a record: while there is one, no sweep touches the cluster. `folder` is for the cluster's files."""

    def __init__(self, record: Record, folder: Path, lock: int) -> None:
        self.record = record
        self.folder = folder
        self._lock = lock

    @property
    def run_id(self) -> str:
        """What the cluster's nodes are marked with."""
        return self.record.run_id

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self.record.cluster

    @classmethod
    def make(cls, cluster: str, engine: str, base: Path | None = None) -> "Claim":
        """A new record, to be made before the cluster is; `engine` is its identity. HarnessError if it cannot be."""
        base = default_base() if base is None else base
        run_id = secrets.token_hex(6)
        record = Record(run_id, cluster, engine, datetime.now(UTC).isoformat(timespec="seconds"))
        try:
            return cls._make(record, base)
        except OSError as error:
            raise HarnessError(f"It cannot be written down in {base} which cluster is made: {error}", _ROOM) from error

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
        """A hold on a cluster that another run has made. HarnessError if its record is gone or it is being removed."""
        base = default_base() if base is None else base
        for _ in range(_ATTEMPTS):
            if (claim := _lock(base / run_id, fcntl.LOCK_SH)) is not None:
                return claim
            if not (base / run_id).exists():
                raise HarnessError(f"There is no record of the run {run_id} in {base}", "make a cluster anew")
            time.sleep(_PAUSE)
        raise HarnessError(f"The cluster of the run {run_id} is being removed", "make a cluster anew")

    def keep(self) -> None:
        """From now on the cluster stays when it is no longer used. HarnessError if that cannot be written down."""
        kept = replace(self.record, kept=True)
        try:
            _write(self._lock, kept)
        except OSError as error:
            raise HarnessError(
                f"It cannot be written down in {self.folder} that the cluster {self.cluster} is kept: {error}", _ROOM
            ) from error
        self.record = kept

    def release(self) -> None:
        """Lets go of the cluster and leaves its record; doing so again is no error."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def discard(self) -> None:
        """Removes the record and its folder, where nothing is left of the cluster, and lets go."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.release()


def default_base() -> Path:
    """Where the user's records are."""
    return platformdirs.user_state_path("drahealth").absolute() / "clusters"


def records(base: Path | None = None) -> list[Record]:
    """All records of this user, oldest first; folders of runs that died while they made theirs are removed.

    HarnessError if nobody lets us look.
    """
    base = default_base() if base is None else base
    try:
        return sorted(_read(base), key=lambda record: (record.made, record.run_id))
    except OSError as error:
        raise HarnessError(
            f"What clusters there are cannot be read in {base}: {error}", "see whose the folder is"
        ) from error


def seize(record: Record, base: Path | None = None) -> Claim | None:
    """The only hold on a cluster, for its removal; None if somebody else has one."""
    return _lock((default_base() if base is None else base) / record.run_id, fcntl.LOCK_EX)


def _read(base: Path) -> Iterator[Record]:
    for folder in base.iterdir() if base.is_dir() else ():
        if folder.name.startswith(_DRAFT):
            _remove_dead_draft(folder)
            continue
        with contextlib.suppress(OSError, ValueError):
            record = _parse(folder)
            if claim := _lock(folder, fcntl.LOCK_EX):
                record = claim.record  # read under the lock: who let go of it just now may have kept the cluster
                claim.release()
            yield replace(record, in_use=claim is None)


def _lock(folder: Path, how: int) -> Claim | None:
    """None if another hold forbids it, or the record is gone."""
    lock = -1
    try:
        lock = os.open(folder / "record", os.O_RDWR | os.O_APPEND)
        fcntl.flock(lock, how | fcntl.LOCK_NB)
        return Claim(_parse(folder), folder, lock)  # reads by name: who got the lock of a removed file finds none
    except (OSError, ValueError):
        if lock >= 0:
            os.close(lock)
        return None


def _parse(folder: Path) -> Record:
    """ValueError if it is not a record."""
    lines = (folder / "record").read_text(encoding="utf-8").splitlines()
    found = next((said for said in map(_json, reversed(lines)) if said is not None), {})
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
