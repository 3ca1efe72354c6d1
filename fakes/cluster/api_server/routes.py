"""The REST API of the in-memory API server: paths, watches as JSON lines, errors as `Status` objects."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, aclosing, suppress
from datetime import datetime

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from drahealth.fakes.cluster.api import KINDS, ApiError, Kind, Object, WatchEvent
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.delete_options import delete_options
from drahealth.fakes.cluster.api_server.deletion import answers_with_object
from drahealth.fakes.cluster.api_server.discovery import aggregated, aggregated_version, documents
from drahealth.fakes.cluster.api_server.field_selectors import field_selector
from drahealth.fakes.cluster.api_server.field_validation import FieldValidation, wants_dry_run
from drahealth.fakes.cluster.api_server.label_selectors import label_selector
from drahealth.fakes.cluster.api_server.openapi import ROOT, openapi_documents
from drahealth.fakes.cluster.api_server.pod_routes import pod_routes, review_routes
from drahealth.fakes.cluster.api_server.rejection_log import RejectionLog
from drahealth.fakes.cluster.api_server.representations import TABLE, Representation, requested_form
from drahealth.fakes.cluster.api_server.request_bodies import (
    BODY_LIMIT,
    REJECTIONS,
    log_rejected,
    not_served,
    read_body,
)
from drahealth.fakes.cluster.api_server.request_checks import RequestChecks
from drahealth.fakes.cluster.api_server.request_patches import empty_object, is_apply, read_patch, writer_of
from drahealth.fakes.cluster.api_server.selected_changes import Matches
from drahealth.fakes.cluster.api_server.served_kinds import SERVED
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.api_server.versioned_server import VersionedServer

_STATUS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
_DISCOVERY = ("/version", "/api", "/apis", "/api/v1", "/apis/{group}", "/apis/{group}/{version}")
"""The paths of discovery documents. The official client for Python asks for them with a slash at the end."""
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


def application(server: ApiServer, checks: RequestChecks) -> web.Application:
    """The server's paths, which answer requests that pass the checks, while the application is served."""
    app = web.Application(middlewares=[_refusing, _checking(checks)], client_max_size=BODY_LIMIT)
    app[REJECTIONS] = RejectionLog()
    for path in (*_DISCOVERY, *(f"{path}/" for path in _DISCOVERY), ROOT, ROOT + "/{path:.+}"):
        app.router.add_get(path, _discovery(server))
    for path in ("/readyz", "/livez", "/healthz"):
        app.router.add_get(path, _health(server))
    versioned = VersionedServer(server)
    app.add_routes(pod_routes(versioned))
    app.add_routes(review_routes(versioned))
    for served in SERVED:
        app.add_routes(_Resource(versioned, served.kind).routes())
    for version in ("v1", "{group}/{version}"):
        for namespaced in (True, False):
            routes = _Resource(versioned, _any_kind(version, namespaced=namespaced)).routes()
            app.add_routes([_of_any_kind(versioned, route) for route in routes])
    return app


class _Resource:
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
        ]
        if self._kind.namespaced and self._kind.kind:
            routes.append(web.get(self._kind.path(), self._list_or_watch, allow_head=False))
        if self._kind.has_status:
            routes.append(web.get(one + "/status", self._get, allow_head=False))
            routes.append(web.put(one + "/status", self._replace_status))
            routes.append(web.patch(one + "/status", self._patch_status))
        return routes

    async def _get(self, request: web.Request) -> web.Response:
        representation = await self._representation(request)
        obj = await self._server.get(self._kind, request.match_info["name"], _namespace(request))
        return web.json_response(representation.one(obj))

    async def _create(self, request: web.Request) -> web.Response:
        fields = FieldValidation(request, self._kind)
        obj = fields.checked(await self._body(request))
        with self._server.dry_run(wants_dry_run(request, "CreateOptions")), self._writing(request):
            return fields.response(await self._server.create(self._kind, obj), status=201)

    async def _replace(self, request: web.Request) -> web.Response:
        fields = FieldValidation(request, self._kind)
        obj = fields.checked(await self._body(request))
        with self._server.dry_run(wants_dry_run(request, "UpdateOptions")), self._writing(request):
            return fields.response(await self._server.replace(self._kind, obj))

    async def _replace_status(self, request: web.Request) -> web.Response:
        obj = await self._body(request)
        with self._server.dry_run(wants_dry_run(request, "UpdateOptions")):
            return web.json_response(await self._server.replace_status(self._kind, obj))

    async def _patch(self, request: web.Request) -> web.Response:
        fields = FieldValidation(request, self._kind)
        change = fields.change(await read_patch(request, self._kind, status=False, time=self._server.time()))
        name, namespace = request.match_info["name"], _namespace(request)
        with self._server.dry_run(wants_dry_run(request, "PatchOptions")), self._writing(request):
            try:
                return fields.response(await self._server.patch(self._kind, name, namespace, change))
            except ApiError as error:
                if error.status != 404 or not is_apply(request):
                    raise
            new = change(empty_object(request, self._kind))
            return fields.response(await self._server.create(self._kind, new), status=201)

    async def _patch_status(self, request: web.Request) -> web.Response:
        change = await read_patch(request, self._kind, status=True, time=self._server.time())
        name, namespace = request.match_info["name"], _namespace(request)
        with self._server.dry_run(wants_dry_run(request, "PatchOptions")), self._writing(request, status=True):
            return web.json_response(await self._server.patch(self._kind, name, namespace, change, status=True))

    def _writing(self, request: web.Request, *, status: bool = False) -> AbstractContextManager[None]:
        """The writes inside are those of the client; an apply patch has a record of its own."""
        writer = None if is_apply(request) else writer_of(request, self._server.time(), status=status)
        return self._server.writing(writer)

    async def _delete(self, request: web.Request) -> web.Response:
        options = delete_options(await read_body(request) if request.can_read_body else {}, request.query)
        name, namespace = request.match_info["name"], _namespace(request)
        with self._server.dry_run(options.dry_run):
            deleted = await self._server.delete(self._kind, name, namespace, options)
        status = 202 if options.accepted_if_waiting and not deleted.removed else 200
        if deleted.waits or answers_with_object(self._kind):
            return web.json_response(deleted.object, status=status)
        details = refusals.deleted_details(self._kind, deleted.object)
        return web.json_response({**_STATUS, "status": "Success", "details": details}, status=status)

    async def _list_or_watch(self, request: web.Request) -> web.StreamResponse:
        matches, representation = _selectors(request), await self._representation(request)
        if request.query.get("watch", "").lower() in ("true", "1"):
            return await self._watch(request, matches, representation)
        objects, revision = await self._server.snapshot(self._kind, _namespace(request), matches)
        listed: Object = {"kind": f"{self._kind.kind}List", "apiVersion": self._kind.api_version}
        listed |= {"metadata": {"resourceVersion": revision}, "items": objects}
        return web.json_response(representation.listed(listed))

    async def _representation(self, request: web.Request) -> Representation:
        """The form of the answer that the request asks for."""
        form = requested_form(request.headers.get("Accept", ""), request.query.get("includeObject", ""))
        columns = await self._server.columns(self._kind) if form.kind == TABLE else ()
        now = datetime.fromisoformat(self._server.time())
        return Representation(form, columns, now, self._server.kinds[self._kind].store)

    async def _watch(
        self, request: web.Request, matches: Matches, representation: Representation
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        with suppress(ConnectionError):  # the client has gone; the web server notices this later
            await response.prepare(request)
            async with aclosing(self._lines(request, matches)) as lines:
                async for line in lines:
                    if line["type"] != "ERROR":
                        line = {**line, "object": representation.one(line["object"])}
                    await response.write(json.dumps(line).encode() + b"\n")
        return response

    async def _lines(self, request: web.Request, matches: Matches) -> AsyncGenerator[Object, None]:
        """The events, and the error of a watch that cannot start, because the response has already begun."""
        namespace, since = _namespace(request), request.query.get("resourceVersion", "")
        try:
            if request.query.get("sendInitialEvents") == "true":
                objects, since = await self._server.snapshot(self._kind, namespace, matches)
                for obj in objects:
                    yield {"type": "ADDED", "object": obj}
                yield self._bookmark(since)
            async with aclosing(self._server.watch(self._kind, namespace, _start(since), matches)) as watch:
                async for event in watch:
                    yield _event(event)
        except ApiError as error:
            yield {"type": "ERROR", "object": status_of(error)}

    def _bookmark(self, revision: str) -> Object:
        metadata = {"resourceVersion": revision, "annotations": _INITIAL_EVENTS_END}
        obj = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": metadata}
        return {"type": "BOOKMARK", "object": obj}

    async def _body(self, request: web.Request) -> Object:
        """The object of the request, with the name and namespace of the path."""
        obj = await read_body(request)
        metadata = obj.setdefault("metadata", {})
        for key in ("name", "namespace"):
            if (value := request.match_info.get(key)) is None:
                continue
            if not isinstance(metadata, dict) or metadata.setdefault(key, value) != value:
                raise refusals.bad_request(f"the {key} of the object must match that of the request, {value}")
        return obj


def status_of(error: ApiError) -> Object:
    """The error as the API's `Status` object."""
    status: Object = {**_STATUS, "status": "Failure", "message": error.message, "reason": error.reason}
    details = {} if error.details is None else {"details": error.details}
    return {**status, **details, "code": error.status}


def status_response(error: ApiError) -> web.Response:
    """The answer to a rejected request."""
    return web.json_response(status_of(error), status=error.status)


@web.middleware
async def _refusing(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        refusal = error
    except web.HTTPNotFound:
        refusal = await not_served(request)
    except web.HTTPException as error:
        reason = error.reason.replace(" ", "")
        refusal = ApiError(error.status, reason, f"{request.method} {request.path}: {error.reason}")
    log_rejected(request, refusal)
    return status_response(refusal)


def _checking(checks: RequestChecks) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        checks.check(request.headers, has_body=request.can_read_body)
        return await handler(request)

    return check


def _namespace(request: web.Request) -> str | None:
    return request.match_info.get("namespace")


def _selectors(request: web.Request) -> Matches:
    """Whether an object matches both selectors of the request."""
    labels = label_selector(request.query.get("labelSelector", ""))
    fields = field_selector(request.query.get("fieldSelector", ""))
    return lambda obj: labels(obj) and fields(obj)


def _start(revision: str) -> str | None:
    """No revision, and the revision 0 for "any", start with the existing objects."""
    return revision if revision not in ("", "0") else None


def _event(event: WatchEvent) -> Object:
    return {"type": event.type, "object": event.object}


def _any_kind(api_version: str, *, namespaced: bool) -> Kind:
    """The placeholder of all kinds at these paths."""
    return Kind("", "{plural}", api_version, namespaced, has_status=True)


def _of_any_kind(server: VersionedServer, route: web.RouteDef) -> web.RouteDef:
    """A route of the placeholder, which finds the kind when a request comes: kinds can be added at any time."""
    handler = getattr(_Resource, route.handler.__name__)

    async def handle(request: web.Request) -> web.StreamResponse:
        response: web.StreamResponse = await handler(_Resource(server, await _kind_at(server, request)), request)
        return response

    return web.RouteDef(route.method, route.path, handle, route.kwargs)


async def _kind_at(server: VersionedServer, request: web.Request) -> Kind:
    """The kind of a request. Raises `ApiError` 404, and HTTPMethodNotAllowed."""
    place, resource = request.match_info, request.match_info.route.resource
    assert resource
    has_namespace, is_status = "namespace" in place, resource.canonical.endswith("/status")
    version = f"{place['group']}/{place['version']}" if "group" in place else "v1"
    kind = server.kinds.at(version, place["plural"])
    if kind is None or (has_namespace and not kind.namespaced) or (is_status and not kind.has_status):
        raise await not_served(request)
    if kind.namespaced and not has_namespace and ("name" in place or request.method != "GET"):
        raise web.HTTPMethodNotAllowed(request.method, ["GET"])
    return kind


def _discovery(server: ApiServer) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        path = request.path.removesuffix("/")
        if path in ("/api", "/apis") and (version := aggregated_version(request.headers.get("Accept", ""))):
            form = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            document = aggregated(server.kinds, path, version)
            return web.Response(body=json.dumps(document).encode(), headers={"Content-Type": form})
        found = openapi_documents(server.kinds) if path.startswith(ROOT) else documents(server.kinds, request.host)
        if path not in found:
            raise refusals.no_such_resource()
        return web.json_response(found[path])

    return answer


def _health(server: ApiServer) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        await server.list(KINDS[0], "default")
        return web.Response(text="ok")

    return answer
