"""The directory of manifests: what is read from it, applied to the API server, and written beside it."""

import asyncio
import io
import logging
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from watchfiles import awatch

from drahealth.fakes.cluster.api import CLAIMS, NAMESPACES, PODS, Api, ApiError, Kind, Object
from drahealth.fakes.cluster.scheduling.claims import consumers
from drahealth.fakes.program.private_files import replace_file
from drahealth.proto.clock import Clock
from drahealth.suites.manager_command.manifests import DIGEST, FILE, SCHEMAS, Key, Manifest, described, parse
from drahealth.suites.yaml_tree import Malformed

# The directory of manifests: reads new and changed files, and reports errors in them.
#
# It is level-triggered: after each event, and once a second, it scans the directory. A file is read when it has not
# changed for a moment, so that an editor can finish writing. An unreadable or invalid file changes nothing: the
# objects of its last valid content stay.

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


# The statuses of the pods, in files beside their manifests: `NAMESPACE.POD.status.yaml`, each replaced as a whole.
#
# A namespace has no dot in its name, so file names are unique. Files with another first line are not touched. A
# failed write or removal is retried until it works or the pod has a newer status.

HEADER = "# Status of a pod. drahealth manager writes this file after each change, and never reads it.\n"
GATHERING = 0.05
"""Seconds in which the changes of a pod become one."""
AGAIN = 1.0
"""Seconds from a failure to the next attempt."""


def file_name(pod: Object) -> str:
    """The name of the pod's file."""
    return f"{pod['metadata']['namespace']}.{pod['metadata']['name']}{STATUS_SUFFIX}"


def text_of(pod: Object) -> str:
    """The content of the pod's file."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    shown = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": pod.get("status", {})}
    yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 1 << 20
    yaml.dump(shown, stream)
    return HEADER + stream.getvalue()


class StatusFiles:
    """Keeps the files in `folder` current while `run` runs."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._due: dict[str, Object | None] = {}
        self._failed: dict[str, Object | None] = {}
        self._woken = asyncio.Event()
        self._failing = asyncio.Event()
        self._told: set[str | None] = set()

    def change(self, pod: Object) -> None:
        """Sets the pod's status."""
        self._due[file_name(pod)] = pod
        self._woken.set()

    def delete(self, pod: Object) -> None:
        """Removes the pod's file."""
        self._due[file_name(pod)] = None
        self._woken.set()

    async def run(self) -> None:
        """Writes pending files until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_due(), name="status files")
            group.create_task(self._try_again(), name="status files, again")

    async def _write_due(self) -> None:
        while True:
            await self._woken.wait()
            await asyncio.sleep(GATHERING)
            self._woken.clear()
            for name in list(self._due):
                self._write(name, self._due.pop(name))
                await asyncio.sleep(0)

    async def _try_again(self) -> None:
        while True:
            await self._failing.wait()
            await self._clock.sleep(AGAIN)
            self._failing.clear()
            self._make_due()
            self._woken.set()

    def _make_due(self) -> None:
        """Schedules failed writes again, unless there is a newer status."""
        self._due = self._failed | self._due
        self._failed = {}

    def flush(self) -> None:
        """Writes all pending and failed files now."""
        self._make_due()
        while self._due:
            self._write(*self._due.popitem())

    def sweep(self) -> None:
        """Removes files of deleted pods that an earlier program left; writes those of existing pods again."""
        for path in self._ours():
            self._write(path.name, None)

    def _ours(self) -> Iterator[Path]:
        for path in self._folder.glob(f"*{STATUS_SUFFIX}"):
            with suppress(OSError):  # who cannot read it does not know whose it is
                if path.is_file() and _begins_as_ours(path):
                    yield path

    def _write(self, name: str, pod: Object | None) -> None:
        path = self._folder / name
        self._failed.pop(name, None)
        try:
            if pod is None:
                path.unlink(missing_ok=True)
            else:
                replace_file(path, text_of(pod).encode())
        except OSError as error:
            self._failed[name] = pod
            self._failing.set()
            if error.strerror not in self._told:
                log.error("%s cannot be written: %s; retrying each second", path, error.strerror)
            self._told.add(error.strerror)
        else:
            if not self._failed:
                self._told.clear()


def _begins_as_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER.encode()


# Creates, changes, deletes and recreates the API server's objects so that they match the manifests.
#
# It is level-triggered: each pass compares all wanted objects with all existing ones. Objects from other clients are
# not touched. A change that the API does not allow is a deletion, followed by a creation.

RETRY = 1.0
"""Seconds until a rejected write is retried."""

_FOR_OBJECTS = "drahealth/namespace-of-manifests"
"""Annotation of a namespace that was made for an object, before its own manifest was read."""


class Applier:
    """Follows a directory of manifests while `run` runs; calls `refused(file, line, problem)` for rejected objects."""

    def __init__(self, api: Api, directory: ManifestDirectory, refused: Callable[[str, int, str], None]) -> None:
        self._api = api
        self._directory = directory
        self._refused = refused
        self._woken = asyncio.Event()
        self._told: dict[Key, str] = {}

    def wake(self) -> None:
        """Requests a pass. Several requests before a pass are combined."""
        self._woken.set()

    async def run(self) -> None:
        """Applies changes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in (PODS, CLAIMS, NAMESPACES):
                tasks.create_task(self._follow(kind), name=f"manifests and {kind.plural}")
            while True:
                await self._woken.wait()
                self._woken.clear()
                try:
                    await self.apply()
                except ApiError as error:
                    log.warning("manifests cannot be applied: %s; retrying", error)
                    asyncio.get_running_loop().call_later(RETRY, self.wake)

    async def apply(self) -> None:
        """One pass. A rejection is logged once and retried."""
        if not self._directory.is_read:
            return
        wanted = self._directory.wanted
        self._told = {key: problem for key, problem in self._told.items() if key in wanted}
        for key in await self._unwanted(wanted):
            await self._delete(key)
        for file, manifest in sorted(wanted.values(), key=lambda pair: list(SCHEMAS).index(pair[1].kind)):
            try:
                await self._settle(file, manifest)
                self._told.pop(manifest.key, None)
            except ApiError as error:
                self._tell(file, manifest.key, error.message)

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

    def _tell(self, file: str, key: Key, problem: str) -> None:
        asyncio.get_running_loop().call_later(RETRY, self.wake)
        if self._told.get(key) != problem:
            self._told[key] = problem
            self._refused(file, 0, problem)

    async def _unwanted(self, wanted: Collection[Key]) -> list[Key]:
        """Our objects without a manifest; pods before their claims. A namespace stays while a manifest is in it."""
        unread = self._directory.unread
        there = [(kind, obj) for kind in reversed(SCHEMAS) for obj in await self._api.list(kind)]
        ours = [(kind, obj) for kind, obj in there if _file(obj) is not None and _file(obj) not in unread]
        keys = [_key(kind, obj) for kind, obj in ours if "deletionTimestamp" not in obj["metadata"]]
        used = {(NAMESPACES, "", namespace) for _, namespace, _ in wanted}
        return [key for key in keys if key not in wanted and key not in used]

    async def _delete(self, key: Key) -> None:
        kind, namespace, name = key
        try:
            await self._api.delete(kind, name, namespace or None)
        except ApiError as error:
            log.warning("%s cannot be deleted: %s; retrying", described(key), error.message)
            asyncio.get_running_loop().call_later(RETRY, self.wake)

    async def _settle(self, file: str, manifest: Manifest) -> None:
        kind, namespace, name = manifest.key
        there = await self._get(manifest.key)
        if there is None:
            await self._create(file, manifest)
        elif _file(there) is None and kind == NAMESPACES and _FOR_OBJECTS not in _annotations(there):
            await self._api.replace(NAMESPACES, _with_texts(there, manifest.object))  # stays without its manifest
        elif _file(there) is None and kind != NAMESPACES:
            raise ApiError(409, "AlreadyExists", f"{manifest} already exists, and was not created from a manifest")
        elif "deletionTimestamp" in there["metadata"]:
            return  # made again once it is gone
        elif _digest(there) == manifest.digest:
            await self._allocate(manifest, there)
        elif not await self._replace(file, manifest, there):
            log.info("%s cannot be changed in place: deleting and creating it again", manifest)
            await self._api.delete(kind, name, namespace or None)

    async def _get(self, key: Key) -> Object | None:
        kind, namespace, name = key
        try:
            return await self._api.get(kind, name, namespace or None)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def _create(self, file: str, manifest: Manifest) -> None:
        _, namespace, _ = manifest.key
        if namespace:
            found = await self._get((NAMESPACES, "", namespace))
            if found is None:
                metadata = {"name": namespace, "annotations": {_FOR_OBJECTS: ""}}
                await self._api.create(NAMESPACES, {"metadata": metadata})
            elif "deletionTimestamp" in found["metadata"]:
                return  # made again once it is gone
        await self._allocate(manifest, await self._api.create(manifest.kind, manifest.annotated(file)))

    async def _replace(self, file: str, manifest: Manifest, there: Object) -> bool:
        """Changes the object in place; returns False if that is not possible."""
        new = manifest.annotated(file)
        new["metadata"] |= _kept(there["metadata"], "finalizers")
        if manifest.kind == PODS:
            if _images(new) != _images(there):
                return False  # the API would allow it, but containers that run would go on with the old one
            new["spec"] = {**new["spec"], **_kept(there["spec"], "nodeName")}
        if manifest.kind == CLAIMS and consumers(there) and manifest.allocation != _allocation(there):
            return False
        try:
            changed = await self._api.replace(manifest.kind, new)
        except ApiError as error:
            if error.reason != "Invalid":
                raise
            return False
        await self._allocate(manifest, changed, again=True)
        return True

    async def _allocate(self, manifest: Manifest, there: Object, *, again: bool = False) -> None:
        """Sets the allocation of the manifest in a claim, unless the claim is in use."""
        wanted = manifest.allocation
        if wanted is None or wanted == _allocation(there) or consumers(there):
            return
        if again or _allocation(there) is None:
            await self._api.replace_status(
                CLAIMS, {**there, "status": {**there.get("status", {}), "allocation": wanted}}
            )


def _annotations(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def _file(obj: Object) -> str | None:
    return _annotations(obj).get(FILE)


def _digest(obj: Object) -> str | None:
    return _annotations(obj).get(DIGEST)


def _with_texts(there: Object, wanted: Object) -> Object:
    """The object with the labels and annotations of the wanted one as well."""
    texts = {
        key: {**(there["metadata"].get(key) or {}), **wanted["metadata"][key]}
        for key in ("labels", "annotations")
        if wanted["metadata"].get(key)
    }
    return {**there, "metadata": {**there["metadata"], **texts}}


def _key(kind: Kind, obj: Object) -> Key:
    return kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _kept(values: Object, key: str) -> Object:
    return {key: values[key]} if key in values else {}


def _allocation(claim: Object) -> Object | None:
    found: Object | None = (claim.get("status") or {}).get("allocation")
    return found


def _images(pod: Object) -> list[object]:
    lists = (pod["spec"].get(name) or () for name in ("containers", "initContainers"))
    return [container.get("image") for containers in lists for container in containers]
