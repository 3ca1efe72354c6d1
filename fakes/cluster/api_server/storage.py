"""The objects of the in-memory API server, their revisions, changes and files."""

import asyncio
import json
import logging
import pickle
from collections import defaultdict, deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, cast

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import ApiError, Key, Kind, Object, key_of
from drahealth.fakes.cluster.api_server import strategies
from drahealth.fakes.cluster.object_rules import check_shape, is_name
from drahealth.fakes.program.private_files import replace_file

# Objects in files, so that they outlive the API server's process: one JSON file each, `FOLDER/PLURAL/NAMESPACE/NAME`.
#
# The files replace etcd. Kinds without a namespace use `_`. An invalid file is logged once and left unchanged; its
# object does not exist.

_NO_NAMESPACE = "_"
_SCRATCH = "drafts"

log = logging.getLogger(__name__)


class ObjectFiles:
    """The files of these kinds below `folder`; objects of other kinds are not stored."""

    def __init__(self, folder: Path, kinds: Collection[Kind]) -> None:
        self._folder = folder
        self._kinds = tuple(kinds)
        self._scratch = folder / _SCRATCH

    def load(self) -> list[tuple[Kind, Object]]:
        """All stored objects. Raises OSError if the folder cannot be created or read."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        for draft in self._scratch.iterdir():
            draft.unlink()
        return [(kind, obj) for kind in self._kinds for obj in self._load(kind)]

    def put(self, kind: Kind, obj: Object) -> None:
        """Writes the object. Raises `ApiError` 503 on failure; then the old file is unchanged."""
        if kind in self._kinds:
            path = self._path(kind, obj)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, json.dumps(obj).encode(), self._scratch)
            except OSError as error:
                raise refusals.not_stored(kind, obj["metadata"]["name"], error) from error

    def remove(self, kind: Kind, obj: Object) -> None:
        """Removes the object's file. Raises `ApiError` 503 on failure."""
        if kind in self._kinds:
            try:
                self._path(kind, obj).unlink(missing_ok=True)
            except OSError as error:
                raise refusals.not_stored(kind, obj["metadata"]["name"], error) from error

    def _path(self, kind: Kind, obj: Object) -> Path:
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace") or _NO_NAMESPACE, metadata["name"]
        return self._folder / kind.plural / str(namespace) / str(name)

    def _load(self, kind: Kind) -> Iterator[Object]:
        for path in sorted((self._folder / kind.plural).glob("*/*")):
            try:
                obj = json.loads(path.read_bytes())
                _check(kind, obj)
                if self._path(kind, obj) != path:
                    raise ValueError("its path does not match its namespace and name")
            except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, ApiError) as error:
                log.error("ignoring invalid object file %s: %s", path.relative_to(self._folder), error)
            else:
                yield obj


def _check(kind: Kind, obj: Any) -> None:
    """Raises an error if no API server can have stored this object."""
    check_shape(kind, obj)
    metadata, status = obj["metadata"], obj.get("status", {})
    name, namespace = metadata["name"], metadata.get("namespace")
    fresh = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    strategies.created(kind, {**obj, "metadata": fresh}, strategies.ServerFields("", ""))
    if not is_name(name) or bool(namespace) != kind.namespaced:
        raise ValueError("invalid metadata.name or metadata.namespace")
    texts = [metadata["uid"], metadata["creationTimestamp"], metadata["resourceVersion"], namespace or ""]
    if not all(isinstance(text, str) for text in texts) or not metadata["resourceVersion"].isdecimal():
        raise ValueError("invalid metadata.uid, creationTimestamp or resourceVersion")
    if not isinstance(status, dict):
        raise ValueError("status must be an object")
    for field in ("finalizers", "ownerReferences"):
        if not isinstance(metadata.get(field, []), list):
            raise ValueError(f"metadata.{field} must be a list")


# The objects of the in-memory API server, their revisions, and the changes for watchers.
#
# A stored object never changes: a write stores a new object, and a watcher's queue holds the same objects. So a
# snapshot or a queue costs one reference for each object; copies are made with `copied`.

HISTORY = 4096
"""Number of changes kept for watches that start at an earlier revision."""

RESTART_GAP = 1_000_000
"""Revisions skipped after a load from files, so that a revision of an earlier process is never reused."""

_LEAVES = frozenset({str, int, bool, float, type(None)})

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Change:
    """One change, with the stored object after it (its last state for DELETED)."""

    revision: int
    kind: Kind
    type: ChangeType
    object: Object
    before: Object | None = None
    """The stored object before it; None for ADDED."""


Changes = asyncio.Queue[Change | None]
"""The queue of a watcher; None marks the end."""


def copied(value: Any) -> Any:
    """A copy of JSON values without shared mutable parts; much faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: item if type(item) in _LEAVES else copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [item if type(item) in _LEAVES else copied(item) for item in value]
    return value


def fast_copy(stored: Object) -> Object:
    """A copy of a stored object; tuples stay tuples. Three times as fast as `copied`."""
    return cast("Object", pickle.loads(pickle.dumps(stored, pickle.HIGHEST_PROTOCOL)))


def _owners(obj: Object | None) -> set[str]:
    """The UIDs of the owners of an object."""
    references = obj["metadata"].get("ownerReferences") or () if obj else ()
    return {str(reference.get("uid")) for reference in references}


@dataclass(frozen=True, eq=False, slots=True)
class _Watcher:
    namespace: str | None
    changes: Changes

    def notify(self, change: Change) -> None:
        if self.namespace in (None, change.object["metadata"].get("namespace")):
            self.changes.put_nowait(change)


class Storage:
    """Objects by kind and key with increasing revisions; loads and stores those of `files`.

    A write that the files cannot store raises `ApiError` 503 and has no effect. Raises OSError if the files cannot be
    used.
    """

    def __init__(self, files: ObjectFiles | None = None) -> None:
        self.revision = 0
        self.is_dry_run = False
        self._files = files
        self._objects: dict[Kind, dict[Key, Object]] = defaultdict(dict)
        self._dependents: dict[str, set[tuple[Kind, Key]]] = defaultdict(set)
        """The objects that have a reference to an owner, by its UID."""
        for kind, obj in files.load() if files else ():
            self._objects[kind][key_of(obj)] = obj
            self._index(kind, None, obj)
            self.revision = max(self.revision, int(obj["metadata"]["resourceVersion"]) + RESTART_GAP)
        self._watchers: dict[Kind, list[_Watcher]] = defaultdict(list)
        self._history: deque[Change] = deque(maxlen=HISTORY)

    @contextmanager
    def dry_run(self, wanted: bool = True) -> Iterator[None]:
        """No write takes effect; a written object keeps its revision, and a new one has none."""
        before, self.is_dry_run = self.is_dry_run, wanted
        try:
            yield
        finally:
            self.is_dry_run = before

    def get(self, kind: Kind, key: Key) -> Object | None:
        return self._objects[kind].get(key)

    def objects(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """All objects of the kind in the order of their keys."""
        return [obj for key, obj in sorted(self._objects[kind].items()) if namespace in (None, key[0])]

    def dependents(self, owner: Object) -> list[tuple[Kind, Object]]:
        """The objects with a reference to this owner. An owner in a namespace has no dependents in another one."""
        found = sorted(self._dependents.get(owner["metadata"]["uid"], ()), key=lambda one: (one[0].plural, one[1]))
        namespace = owner["metadata"].get("namespace")
        return [(kind, self._objects[kind][key]) for kind, key in found if namespace in (None, key[0])]

    def objects_at(self, kind: Kind, namespace: str | None, revision: int) -> list[Object]:
        """All objects of the kind as they were at this revision. Raises `ApiError` 410 if it is too old."""
        if revision < self._oldest() - 1:
            raise refusals.expired_page(revision)
        objects = dict(self._objects[kind])
        for change in takewhile(lambda change: change.revision > revision, reversed(self._history)):
            if change.kind == kind and change.before is None:
                objects.pop(key_of(change.object), None)
            elif change.kind == kind and change.before is not None:
                objects[key_of(change.object)] = change.before
        return [obj for key, obj in sorted(objects.items()) if namespace in (None, key[0])]

    def _oldest(self) -> int:
        """The revision of the oldest known change."""
        return self._history[0].revision if self._history else self.revision + 1

    def put(self, kind: Kind, obj: Object) -> Object:
        """Stores the object with the next revision, notifies the watchers, and returns the stored object."""
        before = self._objects[kind].get(key_of(obj))
        if self.is_dry_run:
            return obj
        stored = self._stamped(obj)
        if self._files:
            self._files.put(kind, stored)
        self._objects[kind][key_of(obj)] = stored
        self._index(kind, before, stored)
        self._notify(Change(self.revision, kind, "MODIFIED" if before else "ADDED", stored, before))
        return stored

    def remove(self, kind: Kind, obj: Object) -> Object:
        """Removes the object and sends its last state to the watchers, with the next revision. Returns this state."""
        if self.is_dry_run:
            return obj
        if self._files:
            self._files.remove(kind, obj)
        before = self._objects[kind].pop(key_of(obj))
        self._index(kind, before, None)
        last = self._stamped(obj)
        self._notify(Change(self.revision, kind, "DELETED", last, before))
        return last

    @contextmanager
    def watching(self, kind: Kind, namespace: str | None, since: int | None) -> Iterator[Changes]:
        """A queue of all changes after the existing objects or, with `since`, after that revision.

        Raises `ApiError` 410 Expired if the history no longer has `since`.
        """
        watcher = _Watcher(namespace, asyncio.Queue())
        for change in self._existing(kind) if since is None else self._changes_since(kind, since):
            watcher.notify(change)
        self._watchers[kind].append(watcher)
        try:
            yield watcher.changes
        finally:
            if watcher in self._watchers[kind]:
                self._watchers[kind].remove(watcher)

    def end_watches(self) -> None:
        """Ends every watch after its pending changes."""
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.changes.put_nowait(None)
            watchers.clear()

    def _existing(self, kind: Kind) -> list[Change]:
        return [Change(self.revision, kind, "ADDED", obj) for obj in self.objects(kind)]

    def _changes_since(self, kind: Kind, since: int) -> list[Change]:
        oldest = self._oldest()
        if since < oldest - 1:
            raise refusals.expired(since, oldest)
        # Most watches continue close to the end of a long history.
        newer = list(takewhile(lambda change: change.revision > since, reversed(self._history)))
        return [change for change in reversed(newer) if change.kind == kind]

    def _index(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Records the owners of an object after a change."""
        was, now = _owners(before), _owners(after)
        for uid in now - was:
            self._dependents[uid].add((kind, key_of(cast("Object", after))))
        for uid in was - now:
            self._dependents[uid].discard((kind, key_of(cast("Object", before))))
            if not self._dependents[uid]:
                del self._dependents[uid]

    def _stamped(self, obj: Object) -> Object:
        self.revision += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}

    def _notify(self, change: Change) -> None:
        self._history.append(change)
        for watcher in self._watchers[change.kind]:
            watcher.notify(change)
