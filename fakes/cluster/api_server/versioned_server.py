"""The API server as clients see it: the same calls with a kind in any served version."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import replace

from drahealth.fakes.cluster.api import CRDS, PODS, Kind, Object, Snapshot, WatchEvent, is_of_kubernetes
from drahealth.fakes.cluster.api_server.apply_patches import Writer
from drahealth.fakes.cluster.api_server.body_decoding import MESSAGES, typed
from drahealth.fakes.cluster.api_server.deletion import DeleteOptions, Deletion
from drahealth.fakes.cluster.api_server.lists import ListOptions, Matches, Page, Selector, everything
from drahealth.fakes.cluster.api_server.patches import Change
from drahealth.fakes.cluster.api_server.served_kinds import KindRegistry, ServedKind
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.api_server.strategies import check_shape
from drahealth.fakes.cluster.api_server.tables import Column, columns_of, custom_columns


class VersionedServer:
    """Calls the server with the stored kind and converts the objects; `kind` is one of its `kinds`."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    @property
    def kinds(self) -> KindRegistry:
        return self._server.kinds

    def dry_run(self, wanted: bool) -> AbstractContextManager[None]:
        return self._server.dry_run(wanted)

    def time(self) -> str:
        return self._server.time()

    async def columns(self, kind: Kind) -> Sequence[Column]:
        """The columns of a table with objects of this kind."""
        if is_of_kubernetes(kind.api_version):
            return columns_of(kind)
        return custom_columns(kind, await self._server.list(CRDS)) or columns_of(kind)

    async def create(self, kind: Kind, obj: Object) -> Object:
        served, stored = self._stored(kind, obj)
        return served.serve(await self._server.create(served.stored, stored))

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        served = self._server.kinds[kind]
        return served.serve(await self._server.get(served.stored, name, namespace))

    def check_revision(self, revision: str) -> None:
        self._server.check_revision(revision)

    async def snapshot(self, kind: Kind, namespace: str | None = None, matches: Matches = everything) -> Snapshot:
        served = self._server.kinds[kind]
        objects, revision = await self._server.snapshot(served.stored, namespace, matches)
        return Snapshot([served.serve(obj) for obj in objects], revision)

    async def page(self, kind: Kind, namespace: str | None, matches: Selector, options: ListOptions) -> Page:
        served = self._server.kinds[kind]
        found = await self._server.page(served.stored, namespace, matches, options)
        return replace(found, objects=[served.serve(obj) for obj in found.objects])

    async def replace(self, kind: Kind, obj: Object) -> Object:
        served, stored = self._stored(kind, obj)
        return served.serve(await self._server.replace(served.stored, stored))

    async def replace_status(self, kind: Kind, obj: Object) -> Object:
        served, stored = self._stored(kind, obj)
        return served.serve(await self._server.replace_status(served.stored, stored))

    async def patch(
        self, kind: Kind, name: str, namespace: str | None, change: Change, *, status: bool = False
    ) -> Object:
        served = self._server.kinds[kind]

        def stored(old: Object) -> Object:
            return self._stored(kind, change(served.serve(old)))[1]

        return served.serve(await self._server.patch(served.stored, name, namespace, stored, status=status))

    async def change_pod(self, name: str, namespace: str, part: str, change: Change) -> Object:
        return await self._server.change_pod(name, namespace, part, lambda old: typed(PODS, change(old)))

    async def delete(self, kind: Kind, name: str, namespace: str | None, options: DeleteOptions) -> Deletion:
        served = self._server.kinds[kind]
        deleted = await self._server.delete_with(served.stored, name, namespace, options)
        return replace(deleted, object=served.serve(deleted.object))

    def writing(self, writer: Writer | None) -> AbstractContextManager[None]:
        return self._server.writing(writer)

    async def evict(self, name: str, namespace: str, options: DeleteOptions) -> None:
        await self._server.evict(name, namespace, options)

    async def bind(self, name: str, namespace: str, binding: Object) -> None:
        await self._server.bind_with(name, namespace, binding["target"]["name"], binding["metadata"])

    async def watch(
        self, kind: Kind, namespace: str | None = None, since: str | None = None, matches: Matches = everything
    ) -> AsyncGenerator[WatchEvent, None]:
        served = self._server.kinds[kind]
        async with aclosing(self._server.watch(served.stored, namespace, since, matches)) as watch:
            async for event in watch:
                yield WatchEvent(event.type, served.serve(event.object))

    def _stored(self, kind: Kind, obj: Object) -> tuple[ServedKind, Object]:
        """The version, and the object as it is stored. `ApiError` 400 for another kind, version or type of a field."""
        check_shape(kind, obj)
        served = self._server.kinds[kind]
        return served, served.store(typed(kind, obj) if (kind.api_version, kind.kind) in MESSAGES else obj)
