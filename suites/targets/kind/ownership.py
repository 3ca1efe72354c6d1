"""The owner of a cluster: marks, records, and the removal of our unused clusters."""

import asyncio
import contextlib
import fcntl
import json
import operator
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import platformdirs
from tenacity import RetryError, Retrying, retry_if_result, stop_after_attempt, wait_fixed

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine import Engine, find_engine
from drahealth.suites.targets.kind.program import Kind, Stages, find_kind
from drahealth.suites.targets.progress import Progress, silent

# The mark on the nodes of our clusters: a mount whose path names the run that made them.
#
# kind has no option for labels on its containers, and anybody may use a name. A mount exists as long as the
# container, on every engine, and cannot be added or removed later.

_PREFIX = "/kind/made-by-drahealth-"
_RUN_ID = re.compile(r"[0-9a-f]{4,64}")
HOST_PATH = "/dev/null"
"""The mounted file: every machine has it, and it holds no data."""


def mark(run_id: str) -> str:
    """The path of the mount in the node. Raises ValueError if the run's id is not lower-case hexadecimal."""
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"{run_id!r} is no run id: 4 to 64 lower-case hexadecimal digits are wanted")
    return _PREFIX + run_id


def is_mark(path: str) -> bool:
    """Whether the path of a mount begins like a mark, valid or not."""
    return path.startswith(_PREFIX)


def run_id_of(mounts: Iterable[str]) -> str | None:
    """The run that made a container with these mounts; None if it has no mark, or more than one."""
    marks = [path.removeprefix(_PREFIX) for path in mounts if is_mark(path)]
    return marks[0] if len(marks) == 1 and _RUN_ID.fullmatch(marks[0]) else None


# The containers of kind clusters: each is a node.

CLUSTER_LABEL = "io.x-k8s.kind.cluster"
"""The label of every container that `kind` makes for a node; its value is the name of the cluster."""
ROLE_LABEL = "io.x-k8s.kind.role"


@dataclass(frozen=True, slots=True)
class Container:
    """The container of a node of any kind cluster; `id` is the full one."""

    id: str
    name: str
    cluster: str
    role: str
    mounts: tuple[str, ...]

    @classmethod
    def of(cls, found: dict[str, Any]) -> "Container":
        """From one element of the output of `container inspect`."""
        labels = found["Config"]["Labels"] or {}
        return cls(
            id=found["Id"],
            name=found["Name"].removeprefix("/"),
            cluster=labels.get(CLUSTER_LABEL, ""),
            role=labels.get(ROLE_LABEL, ""),
            mounts=tuple(sorted(mount["Destination"] for mount in found.get("Mounts") or [])),
        )


async def node_containers(engine: Engine) -> list[Container]:
    """The nodes of all kind clusters, also stopped ones and those of others."""
    return [Container.of(found) for found in await engine.containers(CLUSTER_LABEL)]


# Records of the clusters that runs of this user made: a folder for each run, locked while the cluster is used.
#
#     <state>/clusters/<run id>/record    JSON; locked (flock(2)) by all users of the cluster
#     <state>/clusters/<run id>/kept      empty; the cluster is to be kept
#     <state>/clusters/<run id>/...       other files of the cluster, such as its kubeconfig
#
# A lock ends with its process. So an unlocked record that is not marked as kept is that of an interrupted run. A record
# is locked before it is written.

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
        folder, lock = base / record.run_id, -1
        try:
            base.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
            lock = os.open(folder / "record", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            kept = {"cluster": record.cluster, "engine": record.engine, "made": record.made}
            os.write(lock, json.dumps(kept).encode())  # others ignore a file without a record
            return cls(record, folder, lock)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
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
        try:
            (self.folder / "kept").touch()
        except OSError as error:
            raise HarnessError(
                f"cannot mark the cluster {self.cluster} as kept in {self.folder}: {error}", _ROOM
            ) from error
        self.record = replace(self.record, kept=True)

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
    """All records of this user, oldest first. Raises HarnessError if the folder cannot be read."""
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


UNFINISHED = 60.0
"""Seconds after which a folder without a record belongs to a process that was killed while it made the record."""


def _read(base: Path) -> Iterator[Record]:
    for folder in base.iterdir() if base.is_dir() else ():
        if _is_unfinished(folder):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError, ValueError):
            record = _parse(folder)
            if claim := _lock(folder, fcntl.LOCK_EX):
                record = claim.record  # read under the lock: the last user may have marked the cluster as kept
                claim.release()
            yield replace(record, in_use=claim is None)


def _is_unfinished(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        with_record = (folder / "record").exists() and (folder / "record").stat().st_size > 0
        return not with_record and time.time() - folder.stat().st_mtime > UNFINISHED
    return False


def _lock(folder: Path, how: int) -> Claim | None:
    """None if another claim prevents it, or the record is gone."""
    lock = -1
    try:
        lock = os.open(folder / "record", os.O_RDWR)
        fcntl.flock(lock, how | fcntl.LOCK_NB)
        return Claim(_parse(folder), folder, lock)  # reads by name: fails if the locked file was removed
    except (OSError, ValueError):
        if lock >= 0:
            os.close(lock)
        return None


def _parse(folder: Path) -> Record:
    """Raises ValueError if it is not a record."""
    try:
        found = json.loads((folder / "record").read_text(encoding="utf-8"))
        datetime.fromisoformat(found["made"])
        return Record(folder.name, found["cluster"], found["engine"], found["made"], (folder / "kept").exists())
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder} holds no record") from error


# The owner of a cluster, and the removal of our unused clusters.
#
# A cluster is ours if its nodes have the mark of a run with a record on this machine. Its name proves nothing.

_LATE = 120.0
"""Seconds after a record was made in which the engine may still make containers for an interrupted kind."""
_AGAIN = 1.0
"""Seconds until such containers are visible."""
_REMOVE_LIMIT = 120.0
_LOAD_BALANCER = "external-load-balancer"


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """The clusters of this user on one engine. All records but `gone` and `elsewhere` have a node there."""

    abandoned: tuple[Record, ...] = ()
    kept: tuple[Record, ...] = ()
    in_use: tuple[Record, ...] = ()
    gone: tuple[Record, ...] = ()
    """Unused, without containers."""
    elsewhere: tuple[Record, ...] = ()
    """On another engine."""
    unknown: tuple[str, ...] = ()
    """Names of drahealth clusters without a record here: those of another user or machine."""


async def survey(engine: Engine) -> ClusterSurvey:
    """The clusters that exist now: the records of this user, sorted by the containers of their clusters."""
    found = records()  # first, so that it has no cluster that is made after it
    return holdings(found, await node_containers(engine), engine.identity)


def holdings(found: Iterable[Record], containers: Sequence[Container], engine: str) -> ClusterSurvey:
    """Sorts the records by the containers; `engine` is the identity of the engine."""
    marks = {run_id_of(container.mounts) for container in containers}
    sorts: dict[str, list[Record]] = {}
    for record in found:
        if record.in_use:
            sort = "in_use"
        elif record.engine != engine:
            sort = "elsewhere"
        elif record.run_id not in marks:
            sort = "gone"
        else:
            sort = "kept" if record.kept else "abandoned"
        sorts.setdefault(sort, []).append(record)
    known = {None, *(record.run_id for those in sorts.values() for record in those)}
    strange = {c.cluster for c in containers if run_id_of(c.mounts) not in known}
    return ClusterSurvey(**{sort: tuple(those) for sort, those in sorts.items()}, unknown=tuple(sorted(strange)))


async def sweep(engine: Engine, kind: Kind | None, progress: Progress = silent, *, kept: bool = False) -> list[str]:
    """Removes the unused clusters of our runs, with `kept` also kept ones. Returns lines that say what was removed.

    Continues after a failed removal. Raises the HarnessError of the first one at the end.
    """
    there = await survey(engine)
    if any(map(_is_young, there.gone)):
        await asyncio.sleep(_AGAIN)
        there = await survey(engine)
    for record in there.gone:
        if not _is_young(record) and (claim := seize(record)):
            claim.discard()
    removed, failures = [], []
    for record in (*there.abandoned, *(there.kept if kept else ())):
        if claim := seize(record):
            try:
                if kept or not claim.record.kept:  # its run may have ended and kept it since the survey
                    await remove(claim, engine, kind, progress)
                    removed.append(f"removed the cluster {record.cluster}, made {record.made}")
            except HarnessError as error:
                failures.append(error)
            finally:
                claim.release()
    if failures:
        raise failures[0]
    return removed


async def remove(claim: Claim, engine: Engine, kind: Kind | None, progress: Progress = silent) -> None:
    """Removes the cluster of a claim, and the claim; harmless if the cluster does not exist.

    Removes only containers with the mark of the claim. Raises HarnessError if one remains; then the record remains too.
    """
    progress(f"Removing the cluster {claim.cluster}")
    await _remove_nodes(claim, engine, kind, progress)
    if _is_young(claim.record):
        await asyncio.sleep(_AGAIN)
        await _remove_nodes(claim, engine, kind, progress)
    claim.discard()


async def clean(kept: bool = False, progress: Progress = silent) -> tuple[list[str], list[str]]:
    """Removes the clusters that interrupted runs left. Lines for people: what was removed, and what was not.

    With `kept` also the clusters that were to be kept. Images stay.
    """
    removed: list[str] = []
    left: list[str] = []
    if records():
        engine = await find_engine()
        kind = await _kind_or_none(engine)
        clusters = await sweep(engine, kind, progress, kept=kept)
        left = _left(await survey(engine))
        removed = [*clusters, "images are not removed"] if clusters else []
    return removed, left


def _is_young(record: Record) -> bool:
    return record.age(datetime.now(UTC)) < _LATE


def _left(there: ClusterSurvey) -> list[str]:
    reasons = [(record, "is kept; pass --kept to remove it") for record in there.kept]
    reasons += [(record, "is in use") for record in there.in_use]
    reasons += [(record, f"is on another engine ({record.engine})") for record in there.elsewhere]
    lines = [f"not removed: the cluster {record.cluster}, created {record.made}, {why}" for record, why in reasons]
    return lines + [f"not removed: the cluster {name}, which has no record here" for name in there.unknown]


async def _remove_nodes(claim: Claim, engine: Engine, kind: Kind | None, progress: Progress) -> None:
    """Removes the cluster by name if all nodes with that name are ours, then the remaining containers one by one."""
    nodes = await node_containers(engine)
    ours = owned(nodes, claim.run_id)
    names = {container.cluster for container in ours}
    if kind is not None and all(container in ours for container in nodes if container.cluster in names):
        with contextlib.suppress(HarnessError, OSError):  # the engine may still finish it
            for name in names:
                await kind.delete(name, progress)
        ours = owned(await node_containers(engine), claim.run_id) if ours else []
    if not ours:
        return
    stages = Stages(f"Removing the cluster {claim.cluster}", progress)
    why = "the engine reported no error, but the nodes still exist"
    try:
        ids = (container.id for container in ours)
        await engine.run("rm", "-f", "-v", *ids, limit=_REMOVE_LIMIT, on_line=stages)
    except HarnessError as error:
        why = error.message
    if left := " ".join(container.name for container in owned(await node_containers(engine), claim.run_id)):
        raise HarnessError(f"cannot remove the nodes {left}: {why}", f"try `{engine.name} rm -f -v {left}`")


def owned(nodes: Sequence[Container], run_id: str) -> list[Container]:
    """The containers of a run's cluster: those with its mark, and the load balancer of kind.

    The load balancer has no mounts, so it is included only if all other containers of the cluster have the mark.
    """
    marked = [node for node in nodes if run_id_of(node.mounts) == run_id]
    names = {node.cluster for node in marked}
    others = [node for node in nodes if node.cluster in names and node not in marked]
    return marked + (others if all(node.role == _LOAD_BALANCER for node in others) else [])


async def _kind_or_none(engine: Engine) -> Kind | None:
    try:
        return await find_kind(engine)
    except HarnessError:
        return None
