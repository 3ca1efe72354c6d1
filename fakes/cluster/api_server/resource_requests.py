"""The requests for the objects of one kind: get, list, watch, create, replace, patch, delete."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

from aiohttp import web

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import (
    CRDS,
    NAMESPACES,
    PODS,
    STRATEGIC,
    ApiError,
    Kind,
    Object,
    Snapshot,
    WatchEvent,
    is_of_kubernetes,
)
from drahealth.fakes.cluster.api_server.apply_patches import Writer
from drahealth.fakes.cluster.api_server.body_decoding import MESSAGES, typed
from drahealth.fakes.cluster.api_server.deletion import DeleteOptions, Deletion, answers_with_object, delete_options
from drahealth.fakes.cluster.api_server.lists import (
    ListOptions,
    Matches,
    Page,
    Selector,
    everything,
    field_selector,
    label_selector,
    list_options,
)
from drahealth.fakes.cluster.api_server.messages import (
    STATUS,
    TABLE,
    FieldValidation,
    Representation,
    empty_object,
    is_apply,
    json_answer,
    read_body,
    read_patch,
    requested_form,
    status_of,
    writer_of,
)
from drahealth.fakes.cluster.api_server.patches import Change, check_patch_type
from drahealth.fakes.cluster.api_server.served_kinds import KindRegistry, ServedKind
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.api_server.strategies import PARTS, check_custom, is_created_by_update
from drahealth.fakes.cluster.api_server.tables import Column, columns_of, custom_columns
from drahealth.fakes.cluster.object_rules import check_shape

# The API server as clients see it: the same calls with a kind in any served version.


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


_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


class Resource:
    """The handlers of one kind in one version."""

    def __init__(self, server: VersionedServer, kind: Kind) -> None:
        self._server = server
        self._kind = kind

    def routes(self) -> list[web.RouteDef]:
        collection = self._kind.path("{namespace}")
        one = self._kind.path("{namespace}", "{name}")
        routes = [
            web.get(collection, self._list_or_watch, allow_head=False),
            web.post(collection, self._create),
            web.get(one, self._get, allow_head=False),
            web.put(one, self._replace),
            web.patch(one, self._patch),
            web.delete(one, self._delete),
            web.delete(collection, self._delete_collection),
        ]
        if self._kind.namespaced and self._kind.kind:
            routes.append(web.get(self._kind.path(), self._list_or_watch, allow_head=False))
        if self._kind.has_status:
            routes.append(web.get(one + "/status", self._get, allow_head=False))
            routes.append(web.put(one + "/status", self._replace_status))
            routes.append(web.patch(one + "/status", self._patch_status))
        if self._kind == PODS:
            for part in PARTS:
                routes.append(web.get(f"{one}/{part}", self._get, allow_head=False))
                routes.append(web.put(f"{one}/{part}", partial(self._change_part, part)))
                routes.append(web.patch(f"{one}/{part}", partial(self._change_part, part)))
        return routes

    async def _get(self, request: web.Request) -> web.Response:
        representation = await self._representation(request)
        self._server.check_revision(request.query.get("resourceVersion", ""))
        obj = await self._server.get(self._kind, request.match_info["name"], _namespace(request))
        return json_answer(representation.one(obj))

    async def _create(self, request: web.Request) -> web.Response:
        representation = await self._representation(request)
        fields = FieldValidation(request, self._kind, "CreateOptions")
        obj = self._in_place(request, await fields.read(request))
        with self._server.dry_run(fields.dry_run), self._writing(request):
            return fields.response(representation.one(await self._server.create(self._kind, obj)), status=201)

    async def _replace(self, request: web.Request) -> web.Response:
        representation = await self._representation(request)
        fields = FieldValidation(request, self._kind, "UpdateOptions")
        obj = self._in_place(request, await fields.read(request))
        with self._server.dry_run(fields.dry_run), self._writing(request):
            try:
                return fields.response(representation.one(await self._server.replace(self._kind, obj)))
            except ApiError as error:
                if error.status != 404 or not is_created_by_update(self._kind):
                    raise
            return fields.response(representation.one(await self._server.create(self._kind, obj)), status=201)

    async def _replace_status(self, request: web.Request) -> web.Response:
        representation = await self._representation(request)
        fields = FieldValidation(request, self._kind, "UpdateOptions")
        obj = self._in_place(request, await fields.read(request))
        with self._server.dry_run(fields.dry_run), self._writing(request, status=True):
            return fields.response(representation.one(await self._server.replace_status(self._kind, obj)))

    async def _patch(self, request: web.Request) -> web.Response:
        representation, fields, change = await self._read_patch(request, status=False)
        name, namespace = request.match_info["name"], _namespace(request)
        with self._server.dry_run(fields.dry_run), self._writing(request):
            try:
                return fields.response(
                    representation.one(await self._server.patch(self._kind, name, namespace, change))
                )
            except ApiError as error:
                if error.status != 404 or not is_apply(request):
                    raise
            new = change(empty_object(request, self._kind))
            if new["metadata"].get("name") != name:
                raise refusals.other_name(str(new["metadata"].get("name") or ""), name)
            if uid := new["metadata"].get("uid"):
                raise refusals.no_object_with_uid(self._kind, name, str(uid))
            return fields.response(representation.one(await self._server.create(self._kind, new)), status=201)

    async def _patch_status(self, request: web.Request) -> web.Response:
        representation, fields, change = await self._read_patch(request, status=True)
        name, namespace = request.match_info["name"], _namespace(request)
        with self._server.dry_run(fields.dry_run), self._writing(request, status=True):
            patched = await self._server.patch(self._kind, name, namespace, change, status=True)
            return fields.response(representation.one(patched))

    async def _change_part(self, part: str, request: web.Request) -> web.Response:
        """Replaces or patches a subresource of a Pod that is a part of its spec."""
        if request.method == "PATCH":
            representation, fields, change = await self._read_patch(request, status=False)
        else:
            representation = await self._representation(request)
            fields = FieldValidation(request, self._kind, "UpdateOptions")
            wanted = self._in_place(request, await fields.read(request))
            change = lambda _: wanted  # noqa: E731
        place = request.match_info
        with (
            self._server.dry_run(fields.dry_run),
            self._server.writing(
                None if is_apply(request) else replace(writer_of(request, self._server.time()), subresource=part)
            ),
        ):
            changed = await self._server.change_pod(place["name"], place["namespace"], part, change)
            return fields.response(representation.one(changed))

    def _writing(self, request: web.Request, *, status: bool = False) -> AbstractContextManager[None]:
        """The writes inside are those of the client; an apply patch has a record of its own."""
        writer = None if is_apply(request) else writer_of(request, self._server.time(), status=status)
        return self._server.writing(writer)

    async def _read_patch(
        self, request: web.Request, *, status: bool
    ) -> tuple[Representation, FieldValidation, Change]:
        check_patch_type(request.content_type)
        if request.content_type == STRATEGIC and not is_of_kubernetes(self._kind.api_version):
            raise refusals.unsupported_custom_patch()
        representation = await self._representation(request)
        fields = FieldValidation(request, self._kind, "PatchOptions")
        change = await read_patch(request, self._kind, status=status, time=self._server.time())
        return representation, fields, fields.change(self._of_kind(change))

    def _of_kind(self, change: Change) -> Change:
        """The change, whose result has the kind and the version of the path if it is of a custom kind."""
        if is_of_kubernetes(self._kind.api_version):
            return change

        def checked(old: Object) -> Object:
            new = change(old)
            check_custom(self._kind, new)
            return new

        return checked

    async def _delete(self, request: web.Request) -> web.Response:
        representation = await self._representation(request)
        options = await _delete_options(request)
        name, namespace = request.match_info["name"], _namespace(request)
        with self._server.dry_run(options.dry_run):
            deleted = await self._server.delete(self._kind, name, namespace, options)
        status = 202 if options.accepted_if_waiting and not deleted.removed else 200
        if deleted.waits or answers_with_object(self._kind):
            return json_answer(representation.one(deleted.object), status=status)
        details = refusals.deleted_details(self._kind, deleted.object)
        return json_answer({**STATUS, "status": "Success", "details": details}, status=status)

    async def _delete_collection(self, request: web.Request) -> web.Response:
        """Deletes the objects of a list, which is the answer. Namespaces are deleted one by one only."""
        if self._kind == NAMESPACES:
            raise refusals.method_not_allowed()
        representation, matches = await self._representation(request), self._selectors(request)
        page = list_options(request.query)
        options = await _delete_options(request)
        found = await self._server.page(self._kind, _namespace(request), matches, page)
        with self._server.dry_run(options.dry_run):
            for obj in found.objects:
                metadata = obj["metadata"]
                await self._server.delete(self._kind, metadata["name"], metadata.get("namespace"), options)
        return json_answer(self._list(found, representation))

    async def _list_or_watch(self, request: web.Request) -> web.StreamResponse:
        representation = await self._representation(request)
        options, matches = list_options(request.query), self._selectors(request)
        if options.watch:
            return await self._watch(request, matches, representation, options)
        found = await self._server.page(self._kind, _namespace(request), matches, options)
        return json_answer(self._list(found, representation))

    def _list(self, page: Page, representation: Representation) -> Object:
        """A list in the requested form. As in Kubernetes, objects of its own kinds have no kind in it."""
        metadata: Object = {"resourceVersion": page.revision}
        if page.next is not None:
            metadata["continue"] = page.next.token()
            if page.remaining is not None:
                metadata["remainingItemCount"] = page.remaining
        head: Object = {"kind": f"{self._kind.kind}List", "apiVersion": self._kind.api_version, "metadata": metadata}
        listed = representation.listed({**head, "items": page.objects})
        if listed["kind"] != head["kind"]:
            return listed
        if not is_of_kubernetes(self._kind.api_version):
            return {**listed, "metadata": {"continue": "", **metadata}}
        items = [{key: obj[key] for key in obj if key not in ("kind", "apiVersion")} for obj in page.objects]
        return {**head, "items": items}

    def _selectors(self, request: web.Request) -> Selector:
        labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        return Selector(label_selector(labels), field_selector(fields, self._kind), is_empty=not (labels or fields))

    async def _representation(self, request: web.Request) -> Representation:
        """The form of the answer that the request asks for."""
        form = requested_form(request.headers.get("Accept", ""), request.query.get("includeObject", ""))
        columns = await self._server.columns(self._kind) if form.kind == TABLE else ()
        now = datetime.fromisoformat(self._server.time())
        return Representation(form, columns, now, self._server.kinds[self._kind].store)

    async def _watch(
        self, request: web.Request, matches: Selector, representation: Representation, options: ListOptions
    ) -> web.StreamResponse:
        if options.revision and not options.revision.isdecimal():
            raise refusals.wrong_watch_revision(options.revision)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        with suppress(ConnectionError):  # the client has gone; the web server notices this later
            await response.prepare(request)
            lines = _for_seconds(options.timeout, self._lines(request, matches, options))
            async with aclosing(lines):
                async for line in lines:
                    if line["type"] != "ERROR":
                        line = {**line, "object": representation.one(line["object"])}
                    await response.write(json.dumps(line).encode() + b"\n")
        return response

    async def _lines(
        self, request: web.Request, matches: Selector, options: ListOptions
    ) -> AsyncGenerator[Object, None]:
        """The events, and the error of a watch that cannot start, because the response has already begun."""
        namespace, since = _namespace(request), options.revision
        try:
            if options.initial_events:
                objects, since = await self._server.snapshot(self._kind, namespace, matches)
                for obj in objects:
                    yield {"type": "ADDED", "object": obj}
                if options.bookmarks:
                    yield self._bookmark(since, _INITIAL_EVENTS_END)
            start = since if since not in ("", "0") else None
            async with aclosing(self._server.watch(self._kind, namespace, start, matches)) as watch:
                async for event in watch:
                    yield {"type": event.type, "object": event.object}
        except ApiError as error:
            yield {"type": "ERROR", "object": status_of(error)}

    def _bookmark(self, revision: str, annotations: Object) -> Object:
        metadata = {"resourceVersion": revision, "annotations": annotations}
        obj = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": metadata}
        return {"type": "BOOKMARK", "object": obj}

    def _in_place(self, request: web.Request, obj: Object) -> Object:
        """The object with the namespace of the path. `ApiError` 400 for another namespace or name."""
        if not is_of_kubernetes(self._kind.api_version):
            check_custom(self._kind, obj)
        elif (obj.get("kind") or self._kind.kind) != self._kind.kind:
            raise refusals.other_kind(
                self._kind, str(obj["kind"]), str(obj.get("apiVersion") or self._kind.api_version)
            )
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            return obj
        name, namespace = request.match_info.get("name"), _namespace(request)
        if name is not None and metadata.get("name") != name:
            raise refusals.other_name(str(metadata.get("name") or ""), name)
        if namespace is not None and (metadata.get("namespace") or namespace) != namespace:
            raise refusals.other_namespace()
        if namespace is not None:
            metadata["namespace"] = namespace
        elif not self._kind.namespaced:
            metadata.pop("namespace", None)
        return obj


async def _for_seconds(timeout: int | None, lines: AsyncGenerator[Object, None]) -> AsyncGenerator[Object, None]:
    """The lines until the timeout. Lines that are ready then still belong to it."""
    loop = asyncio.get_running_loop()
    end = None if timeout is None else loop.time() + timeout
    async with aclosing(lines):
        while True:
            step = asyncio.ensure_future(anext(lines, None))
            try:
                await asyncio.wait({step}, timeout=None if end is None else max(end - loop.time(), 0.01))
                if not step.done() or (line := step.result()) is None:
                    return
            finally:
                if not step.done():
                    step.cancel()
                    await asyncio.wait({step})
            yield line


async def _delete_options(request: web.Request) -> DeleteOptions:
    body = await read_body(request, optional=True) if request.can_read_body else {}
    return delete_options(body, request.query)


def _namespace(request: web.Request) -> str | None:
    return request.match_info.get("namespace")
