"""The paths of the in-memory API server; `resource_requests` handles those of objects."""

import json
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from drahealth.fakes.cluster.api import KINDS, ApiError, Kind
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.answers import json_answer, status_response
from drahealth.fakes.cluster.api_server.discovery import aggregated, aggregated_version, documents
from drahealth.fakes.cluster.api_server.openapi import ROOT, openapi_documents
from drahealth.fakes.cluster.api_server.pod_routes import pod_routes, review_routes
from drahealth.fakes.cluster.api_server.rejection_log import RejectionLog
from drahealth.fakes.cluster.api_server.request_bodies import BODY_LIMIT, REJECTIONS, log_rejected, not_served
from drahealth.fakes.cluster.api_server.request_checks import RequestChecks
from drahealth.fakes.cluster.api_server.resource_requests import Resource
from drahealth.fakes.cluster.api_server.scale_routes import scale_routes
from drahealth.fakes.cluster.api_server.served_kinds import SERVED
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.api_server.versioned_server import VersionedServer

_DISCOVERY = ("/version", "/api", "/apis", "/api/v1", "/apis/{group}", "/apis/{group}/{version}")
"""The paths of discovery documents. The official client for Python asks for them with a slash at the end."""


_SERVER = web.AppKey("server", ApiServer)


def application(server: ApiServer, checks: RequestChecks) -> web.Application:
    """The server's paths, which answer requests that pass the checks, while the application is served."""
    app = web.Application(middlewares=[_refusing, _checking(checks)], client_max_size=BODY_LIMIT)
    app[REJECTIONS] = RejectionLog()
    app[_SERVER] = server
    for path in (*_DISCOVERY, *(f"{path}/" for path in _DISCOVERY), ROOT, ROOT + "/{path:.+}"):
        app.router.add_get(path, _discovery(server))
    for path in ("/readyz", "/livez", "/healthz"):
        app.router.add_get(path, _health(server))
    versioned = VersionedServer(server)
    for one in (pod_routes(versioned), review_routes(versioned), scale_routes(versioned)):
        app.add_routes(_with_slash(one))
    for served in SERVED:
        app.add_routes(_with_slash(Resource(versioned, served.kind).routes()))
    for version in ("v1", "{group}/{version}"):
        for namespaced in (True, False):
            routes = Resource(versioned, _any_kind(version, namespaced=namespaced)).routes()
            app.add_routes(_with_slash([_of_any_kind(versioned, route) for route in routes]))
    return app


def _with_slash(routes: list[web.RouteDef]) -> list[web.RouteDef]:
    """The routes, and the same ones with a slash at the end of the path, which Kubernetes ignores."""
    return [*routes, *(web.RouteDef(route.method, f"{route.path}/", route.handler, route.kwargs) for route in routes)]


def _is_served(request: web.Request) -> bool:
    """Whether the path is in a group and version that the server has."""
    versions = {served.kind.api_version for served in request.app[_SERVER].kinds}
    roots = tuple(f"/{'apis' if '/' in version else 'api'}/{version}/" for version in versions)
    return f"{request.path}/".startswith(roots)


@web.middleware
async def _refusing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers errors with a `Status`; paths outside of the served groups with text, as Kubernetes does."""
    try:
        return await handler(request)
    except ApiError as error:
        refusal = error
    except web.HTTPNotFound:
        refusal = await not_served(request)
    except web.HTTPMethodNotAllowed:
        refusal = refusals.method_not_allowed()
    except web.HTTPException as error:
        reason = error.reason.replace(" ", "")
        refusal = ApiError(error.status, reason, f"{request.method} {request.path}: {error.reason}")
    log_rejected(request, refusal)
    if refusal.status == 404 and refusal.details == {} and not _is_served(request):
        return web.Response(text="404 page not found\n", status=404)
    return status_response(refusal)


def _checking(checks: RequestChecks) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        checks.check(request.headers, has_body=request.can_read_body)
        return await handler(request)

    return check


def _any_kind(api_version: str, *, namespaced: bool) -> Kind:
    """The placeholder of all kinds at these paths."""
    return Kind("", "{plural}", api_version, namespaced, has_status=True)


def _of_any_kind(server: VersionedServer, route: web.RouteDef) -> web.RouteDef:
    """A route of the placeholder, which finds the kind when a request comes: kinds can be added at any time."""
    handler = getattr(Resource, route.handler.__name__)

    async def handle(request: web.Request) -> web.StreamResponse:
        response: web.StreamResponse = await handler(Resource(server, await _kind_at(server, request)), request)
        return response

    return web.RouteDef(route.method, route.path, handle, route.kwargs)


async def _kind_at(server: VersionedServer, request: web.Request) -> Kind:
    """The kind of a request. Raises `ApiError` 404, and HTTPMethodNotAllowed."""
    place, resource = request.match_info, request.match_info.route.resource
    assert resource
    has_namespace, is_status = "namespace" in place, resource.canonical.rstrip("/").endswith("/status")
    version = f"{place['group']}/{place['version']}" if "group" in place else "v1"
    kind = server.kinds.at(version, place["plural"])
    if kind is None or (has_namespace and not kind.namespaced) or (is_status and not kind.has_status):
        raise await not_served(request)
    if kind.namespaced and not has_namespace and ("name" in place or request.method != "GET"):
        raise refusals.method_not_allowed()
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
        return json_answer(found[path])

    return answer


def _health(server: ApiServer) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        await server.list(KINDS[0], "default")
        return web.Response(text="ok")

    return answer
