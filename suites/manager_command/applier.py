"""Creates, changes, deletes and recreates the API server's objects so that they match the manifests.

It is level-triggered: each pass compares all wanted objects with all existing ones. Objects from other clients are not
touched. A change that the API does not allow is a deletion, followed by a creation.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing

from drahealth.fakes.cluster.api import CLAIMS, NAMESPACES, PODS, Api, ApiError, Kind, Object
from drahealth.fakes.cluster.scheduling.claims import consumers
from drahealth.suites.manager_command.manifest import DIGEST, FILE, Key, Manifest, described
from drahealth.suites.manager_command.manifest_directory import ManifestDirectory
from drahealth.suites.manager_command.schema import SCHEMAS

RETRY = 1.0
"""Seconds until a rejected write is retried."""

_FOR_OBJECTS = "drahealth/namespace-of-manifests"
"""Annotation of a namespace that was made for an object, before its own manifest was read."""

log = logging.getLogger(__name__)


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
