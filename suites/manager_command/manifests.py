"""The manifests of `drahealth manager`: read from files, followed in the directory, and applied to the API."""

import asyncio
import json
import logging
import re
import stat
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from watchfiles import awatch

from drahealth.fakes.cluster.allocation import consumers
from drahealth.fakes.cluster.api import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    PODS,
    ApiError,
    ControlPlaneApi,
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


# Creates, changes, deletes and recreates the API server's objects so that they match the manifests.
#
# It is level-triggered: each pass compares all wanted objects with all existing ones. The name of the file is the
# field manager of its objects, so that a later program knows them. Objects from other clients are not touched. A change
# that the API does not allow is a deletion, followed by a creation.

RETRY = 1.0
"""Seconds until a rejected write is retried."""
MERGED = "drahealth-manager"
"""The field manager of a namespace that exists without its manifest, and stays without it."""
_NEW = "drahealth-check-of-a-manifest"
"""The name of an object that is checked as a new one. It is never stored."""
_INVALID = (400, 422, 500)
"""Statuses for invalid objects. Kubernetes answers 500 to an apply patch with an unknown field."""


class Applier:
    """Applies a directory of manifests while `run` runs; calls `refused(file, line, problem)` for each error."""

    def __init__(
        self, api: ControlPlaneApi, folder: Path, node_name: str, refused: Callable[[str, int, str], None]
    ) -> None:
        self._api = api
        self._directory = ManifestDirectory(folder, self.read, self.wake, refused)
        self._node_name = node_name
        self._refused = refused
        self._woken = asyncio.Event()
        self._told: dict[Key, str] = {}
        self._applied: dict[Key, tuple[Manifest, str]] = {}
        """The manifests that their objects have, and the uids of the objects."""

    async def start(self) -> None:
        """Applies all files that are complete now."""
        await self._directory.read()
        await self.apply()

    def wake(self) -> None:
        """Requests a pass. Several requests before a pass are combined."""
        self._woken.set()

    async def run(self) -> None:
        """Applies changes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._directory.follow(), name="manifests")
            for kind in (PODS, CLAIMS, NAMESPACES):
                tasks.create_task(self._follow(kind), name=f"manifests and {kind.plural}")
            while True:
                await self._woken.wait()
                self._woken.clear()
                try:
                    await self.apply()
                except ApiError as error:
                    log.warning("manifests cannot be applied: %s; retrying", error)
                    self._wake_later()

    async def apply(self) -> None:
        """One pass. A rejection is logged once and retried."""
        wanted = self._directory.wanted
        self._told = {key: problem for key, problem in self._told.items() if key in wanted}
        for key in await self._unwanted(wanted.keys()):
            await self._delete(key)
        for file, manifest in sorted(wanted.values(), key=lambda pair: KINDS.index(pair[1].kind)):
            try:
                await self._settle(file, manifest)
                self._told.pop(manifest.key, None)
            except ApiError as error:
                self._wake_later()
                problem = manifest.rejected(error)
                if self._told.get(manifest.key) != problem:
                    self._told[manifest.key] = problem
                    self._refused(file, 0, problem)

    async def read(self, file: str, data: bytes) -> tuple[Manifest, ...]:
        """The objects of a file. Raises Rejected for an object that the API server would reject."""
        manifests = await asyncio.to_thread(parse, data, self._node_name)
        for manifest in manifests:
            try:
                there = await self._get(manifest.key)
                if there is None and not await self._has_namespace(file, manifest.key[1]):
                    continue
                if there is None or _files(there):  # another object is reported when it is applied
                    await self._check(file, manifest, there)
            except ApiError as error:
                if error.status not in _INVALID:
                    raise
                self.wake()  # a namespace that was made for the object is not wanted
                raise Rejected(manifest.rejected(error)) from None
        return manifests

    async def _check(self, file: str, manifest: Manifest, there: Object | None) -> None:
        """Raises ApiError for an object that the API server rejects as a change and as a new object."""
        kind, _, name = manifest.key
        try:
            await self._api.apply(kind, manifest.named(name), file, dry_run=True)
        except ApiError as error:
            if there is None or error.reason != "Invalid":
                raise
            await self._api.apply(kind, manifest.named(_NEW), file, dry_run=True)

    async def _follow(self, kind: Kind) -> None:
        """Requests a pass after foreign changes: a deleted object may be needed again, or a claim may be free."""
        while True:
            try:
                async with aclosing(self._api.watch(kind)) as events:
                    async for event in events:
                        if event.type == "DELETED" or (event.type == "MODIFIED" and kind == CLAIMS):
                            self.wake()
            except ApiError as error:
                log.debug("%s cannot be watched: %s", kind.plural, error)
            await asyncio.sleep(RETRY)

    def _wake_later(self) -> None:
        asyncio.get_running_loop().call_later(RETRY, self.wake)

    async def _unwanted(self, wanted: Iterable[Key]) -> list[Key]:
        """Our objects without a manifest; pods before their claims. A namespace stays while a manifest is in it."""
        kept = {*wanted, *((NAMESPACES, "", namespace) for _, namespace, _ in wanted)}
        there = [(kind, obj) for kind in reversed(KINDS) for obj in await self._api.list(kind)]
        ours = [
            (kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            for kind, obj in there
            if (files := _files(obj)) and not files & self._directory.unread
            if "deletionTimestamp" not in obj["metadata"]
        ]
        return [key for key in ours if key not in kept]

    async def _delete(self, key: Key) -> None:
        kind, namespace, name = key
        try:
            await self._api.delete(kind, name, namespace or None)
        except ApiError as error:
            log.warning("%s cannot be deleted: %s; retrying", described(key), error.message)
            self._wake_later()

    async def _settle(self, file: str, manifest: Manifest) -> None:
        kind, namespace, name = manifest.key
        there = await self._get(manifest.key)
        files = frozenset({file}) if there is None else _files(there)
        if there is None and not await self._has_namespace(file, namespace):
            return
        if there is not None and "deletionTimestamp" in there["metadata"]:
            return  # made again once it is gone
        if not files and kind != NAMESPACES:
            raise ApiError(409, "AlreadyExists", "it already exists, and was not created from a manifest")
        if there is None or self._applied.get(manifest.key) != (manifest, there["metadata"]["uid"]):
            if there is not None and files and await self._needs_new_object(file, manifest, there):
                log.info("%s cannot be changed in place: deleting and creating it again", manifest)
                await self._api.delete(kind, name, namespace or None)
                return
            there = await self._api.apply(kind, manifest.object, file if files else MERGED)
            for other in files - {file}:  # that file had the object before
                metadata = {key: there["metadata"][key] for key in ("name", "namespace") if key in there["metadata"]}
                there = await self._api.apply(kind, {"metadata": metadata}, other)
            self._applied[manifest.key] = manifest, there["metadata"]["uid"]
        if manifest.allocation is not None and _allocation(there) is None and not consumers(there):
            await self._api.apply_status(CLAIMS, manifest.named(name), file)

    async def _needs_new_object(self, file: str, manifest: Manifest, there: Object) -> bool:
        """Whether the object cannot be changed in place."""
        try:
            new = await self._api.apply(manifest.kind, manifest.object, file, dry_run=True)
        except ApiError as error:
            if error.reason != "Invalid":
                raise
            return True
        if manifest.kind == PODS:  # the API allows another image, but containers that run would go on with the old one
            return _images(new) != _images(there)
        found = _allocation(there)
        is_ours = manifest.allocation is not None or bool(_files(there, "status"))
        return manifest.kind == CLAIMS and is_ours and found not in (None, manifest.allocation)

    async def _get(self, key: Key) -> Object | None:
        kind, namespace, name = key
        try:
            return await self._api.get(kind, name, namespace or None)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def _has_namespace(self, file: str, namespace: str) -> bool:
        """Makes the namespace of an object, if it is missing. False while it is being deleted."""
        if not namespace:
            return True
        found = await self._get((NAMESPACES, "", namespace))
        try:
            found = found or await self._api.apply(NAMESPACES, {"metadata": {"name": namespace}}, file)
        except ApiError as error:
            if error.reason != "Invalid":
                raise
            raise ApiError(422, "Invalid", f"invalid namespace {namespace!r}") from None
        return "deletionTimestamp" not in found["metadata"]


def _files(obj: Object, subresource: str = "") -> frozenset[str]:
    """The names of the manifests from which the object was applied."""
    entries: Iterable[Mapping[str, str]] = obj["metadata"].get("managedFields") or ()
    applied = [entry for entry in entries if entry["operation"] == "Apply"]
    named = [entry["manager"] for entry in applied if entry.get("subresource", "") == subresource]
    return frozenset(name for name in named if is_manifest(name))


def _allocation(claim: Object) -> Object | None:
    found: Object | None = (claim.get("status") or {}).get("allocation")
    return found


def _images(pod: Object) -> list[object]:
    lists = (pod["spec"].get(name) or () for name in ("containers", "initContainers"))
    return [container.get("image") for containers in lists for container in containers]
