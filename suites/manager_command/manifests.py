"""The manifests of `drahealth manager`: the objects of a file, and the directory that is followed."""

import asyncio
import json
import logging
import re
import stat
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from watchfiles import awatch

from drahealth.fakes.cluster.api import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    PODS,
    ApiError,
    Kind,
    Object,
)
from drahealth.fakes.cluster.object_rules import is_name
from drahealth.fakes.program.user_files import Document, FileError, documents, read
from drahealth.proto.quoting import one_line, quoted

# Reads the objects of a manifest file: all of them, or none. The API server validates the objects.

KINDS = (NAMESPACES, DEVICE_CLASSES, CLAIM_TEMPLATES, CLAIMS, PODS)
"""The kinds of manifests, in the order in which objects are made."""

_SERVERS_OWN = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers"),
)
"""Fields of metadata that a manifest from a cluster contains and that the server sets for a new object."""

_MESSAGE_LIMIT = 1000
"""Characters of an error of the API server."""

Key = tuple[Kind, str, str]
"""Kind, namespace ("" for kinds without one) and name."""


class Rejected(Exception):
    """An invalid manifest: `problem` at `line`, which starts at 1; 0 if unknown."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem, line)
        self.problem = problem
        self.line = line


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file; `object` has no status."""

    kind: Kind
    object: Object
    allocation: Object | None = None
    """Of a claim that is allocated already."""

    @property
    def key(self) -> Key:
        metadata = self.object["metadata"]
        return self.kind, metadata.get("namespace", ""), metadata["name"]

    def named(self, name: str) -> Object:
        """The whole object, with this name."""
        status = {"status": {"allocation": self.allocation}} if self.allocation is not None else {}
        return {**self.object, "metadata": {**self.object["metadata"], "name": name}, **status}

    def rejected(self, error: ApiError) -> str:
        """The sentence of an error about this object."""
        text = re.sub(
            r'^\w+ "[^"]*" is invalid: |^failed to create typed patch object \([^)]*\): \.?', "", error.message
        )
        return f"{self}: {one_line(text, _MESSAGE_LIMIT)}"

    def __str__(self) -> str:
        return described(self.key)


def described(key: Key) -> str:
    """A short description of the object."""
    kind, namespace, name = key
    return f"{kind.kind} {namespace}/{name}" if namespace else f"{kind.kind} {name}"


def parse(data: bytes, node_name: str) -> tuple[Manifest, ...]:
    """The objects of a file, for the node with this name. Raises Rejected for an invalid or empty file."""
    try:
        found = list(documents(data, ""))
    except FileError as error:
        raise Rejected(error.problems[0].what, error.problems[0].line) from None
    if not found:
        raise Rejected("the file is empty; to delete its objects, delete the file", 1)
    manifests: dict[Key, Manifest] = {}
    for document in found:
        manifest = _manifest(document, node_name)
        if manifest.key in manifests:
            raise Rejected(f"duplicate object {manifest}", document.line(()))
        manifests[manifest.key] = manifest
    return tuple(manifests.values())


def _manifest(document: Document, node_name: str) -> Manifest:
    obj: Object = document.data
    if not isinstance(obj, dict):
        raise Rejected("a manifest must be a mapping with apiVersion, kind, metadata and spec", document.line(()))
    kind = _kind(document)
    try:
        json.dumps(obj, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise Rejected("it has a number or a text that JSON does not have", document.line(())) from None
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if metadata is None or not isinstance(name, str) or not is_name(name, kind):
        raise Rejected(f"invalid metadata.name of a {kind.kind}: {quoted(name)}", document.line(("metadata", "name")))
    metadata = {key: value for key, value in metadata.items() if key not in (*_SERVERS_OWN, "namespace")}
    if kind.namespaced:
        metadata["namespace"] = obj["metadata"].get("namespace") or "default"
        if not isinstance(metadata["namespace"], str):
            raise Rejected("metadata.namespace must be a string", document.line(("metadata", "namespace")))
    spec, status = obj.get("spec"), obj.get("status")
    if kind == PODS and isinstance(spec, dict):  # the scheduler binds the pod, so that its claims are reserved for it
        spec = dict(spec)
        if (wanted := spec.pop("nodeName", None) or node_name) != node_name:
            raise Rejected(
                f"nodeName must be {node_name}, got {wanted}; remove it", document.line(("spec", "nodeName"))
            )
    whole = {**obj, "apiVersion": kind.api_version, "metadata": metadata, "spec": {} if spec is None else spec}
    whole.pop("status", None)
    allocation = status.get("allocation") if kind == CLAIMS and isinstance(status, dict) else None
    return Manifest(kind, whole, _without_nothing(allocation))


def _kind(document: Document) -> Kind:
    name, version = document.data.get("kind"), document.data.get("apiVersion")
    kind = next((kind for kind in KINDS if kind.kind == name), None)
    if kind is None:
        kinds = ", ".join(kind.kind for kind in reversed(KINDS))
        wrong = f"unsupported kind {name!r}" if name else "kind is missing"
        raise Rejected(f"{wrong}; supported kinds: {kinds}", document.line(("kind",)))
    if kind.api_version != version:
        wrong = f"apiVersion of a {name} must be {kind.api_version}, got {version or 'none'!r}"
        raise Rejected(wrong, document.line(("apiVersion",)))
    return kind


def _without_nothing(value: Any) -> Any:
    """The value without null and empty lists, as the API server stores it."""
    if isinstance(value, dict):
        return {key: _without_nothing(inner) for key, inner in value.items() if inner not in (None, [])}
    return [_without_nothing(inner) for inner in value] if isinstance(value, list) else value


# The directory of manifests: reads new and changed files, and reports errors in them.
#
# It is level-triggered: after each event, and once a second, it scans the directory. A file is read when it has not
# changed for a moment, so that an editor can finish writing. An unreadable or invalid file changes nothing: the
# objects of its last valid content stay.

SUFFIXES = (".yaml", ".yml", ".json")
STATUS_SUFFIX = ".status.yaml"
SETTLED = 0.2
"""Seconds without a change after which a file counts as written."""

_RESCAN = 1000  # milliseconds

log = logging.getLogger(__name__)

Read = Callable[[str, bytes], Awaitable[tuple[Manifest, ...]]]
"""Reads the objects of the file with this name and content. Raises Rejected, or ApiError to be called again."""

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
        self, path: Path, read: Read, changed: Callable[[], None], refused: Callable[[str, int, str], None]
    ) -> None:
        self.path = path
        self._read = read
        self._changed = changed
        self._refused = refused
        self._files: dict[str, _File] = {}
        self._problem = ""
        self._now = 0.0

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
        is_changed = False
        for name in [name for name in settled if self._files[name].seen is None]:
            del self._files[name]
            settled.remove(name)
            is_changed = True
        for name in settled:
            is_changed |= await self._take(name)
        while is_changed and (blocked := [name for name, file in self._files.items() if file.is_blocked]):
            if not any([await self._take(name) for name in blocked]):
                break
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
            asks_for = await self._read(name, read(self.path / name))
            self._check_unique(name, asks_for)
        except Rejected as error:
            self._refuse(name, error.line, error.problem)
            return False
        except FileError as error:
            self._refuse(name, 0, error.problems[0].what)
            return False
        except ApiError as error:
            log.debug("%s cannot be checked: %s; retrying", name, error)
            file.taken = None
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
                raise Rejected(f"{manifest} is already in {other}")

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
