"""Applies the manifests of `drahealth manager` to its API server."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path

from drahealth.fakes.cluster.allocation import consumers
from drahealth.fakes.cluster.api import CLAIMS, NAMESPACES, PODS, ApiError, ControlPlaneApi, Kind, Object
from drahealth.suites.manager_command.manifests import (
    KINDS,
    Key,
    Manifest,
    ManifestDirectory,
    Rejected,
    described,
    is_manifest,
    parse,
)

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

log = logging.getLogger(__name__)


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
