"""The paths of the in-memory API server; `resource_requests` handles those of objects."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import BINDINGS, EVICTIONS, KINDS, PODS, REPLICA_SETS, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.body_decoding import MESSAGES, typed
from drahealth.fakes.cluster.api_server.deletion import delete_options
from drahealth.fakes.cluster.api_server.messages import (
    BODY_LIMIT,
    REJECTIONS,
    RejectionLog,
    json_answer,
    log_rejected,
    not_served,
    read_body,
    read_patch,
    status_response,
    wants_dry_run,
    writer_of,
)
from drahealth.fakes.cluster.api_server.patches import Change
from drahealth.fakes.cluster.api_server.pod_requests import check_target
from drahealth.fakes.cluster.api_server.request_checks import RequestChecks
from drahealth.fakes.cluster.api_server.resource_requests import Resource, VersionedServer
from drahealth.fakes.cluster.api_server.served_kinds import (
    REVIEWS,
    ROOT,
    SERVED,
    aggregated,
    aggregated_version,
    documents,
    openapi_documents,
    review_errors,
    reviewed,
)
from drahealth.fakes.cluster.api_server.server import ApiServer

# The paths of requests that no object is stored for: bindings and evictions of Pods, and reviews.

_DONE: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

_LOG_OPTIONS = Kind("PodLogOptions", "", "v1", namespaced=True)
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def pod_routes(server: VersionedServer) -> list[web.RouteDef]:
    """The subresources `binding`, `eviction` and `log` of Pods."""

    async def bind(request: web.Request) -> web.Response:
        binding = await _body(request, BINDINGS)
        name = _name(request, binding)
        if binding["metadata"].get("name") != name:
            raise refusals.bad_request("name in URL does not match name in Binding object")
        check_target(binding.get("target") or {})
        with server.dry_run(wants_dry_run(request, "CreateOptions")):
            await server.bind(name, request.match_info["namespace"], binding)
        return json_answer(_DONE, status=201)

    async def evict(request: web.Request) -> web.Response:
        eviction = await _body(request, EVICTIONS)
        options = delete_options(eviction.get("deleteOptions") or {}, {})
        name = _name(request, eviction)
        if eviction["metadata"].get("name") != name:
            raise refusals.bad_request("name in URL does not match name in Eviction object")
        with server.dry_run(options.dry_run or wants_dry_run(request, "CreateOptions")):
            await server.evict(name, request.match_info["namespace"], options)
        return json_answer(_DONE, status=201)

    async def log(request: web.Request) -> web.Response:
        """The log of a Pod that has not started is empty. The reference has no logs of containers."""
        name, query = request.match_info["name"], request.query
        if (query.get("tailLines") or "0").startswith("-"):
            error = refusals.invalid_value("tailLines", int(query["tailLines"]), "must be greater than or equal to 0")
            raise refusals.invalid(_LOG_OPTIONS, name, [error])
        pod = await server.get(PODS, name, request.match_info["namespace"])
        names = [one["name"] for key in _CONTAINERS for one in pod["spec"].get(key) or ()]
        if query.get("container") and query["container"] not in names:
            raise refusals.bad_request(f"container {query['container']:.80} is not valid for pod {name}")
        if pod["spec"].get("nodeName"):
            raise refusals.no_such_resource()
        return web.Response(status=204)

    pod = PODS.path("{namespace}", "{name}")
    return [
        web.post(f"{pod}/binding", bind),
        web.post(BINDINGS.path("{namespace}"), bind),
        web.post(f"{pod}/eviction", evict),
        web.get(f"{pod}/log", log, allow_head=False),
    ]


def review_routes(server: VersionedServer) -> list[web.RouteDef]:
    """The reviews of identities and permissions."""

    def answer(kind: Kind) -> web.RouteDef:
        async def review(request: web.Request) -> web.Response:
            body = await _body(request, kind)
            if kind.namespaced:
                body["metadata"] = {**body["metadata"], "namespace": request.match_info["namespace"]}
            if errors := list(review_errors(kind, body)):
                raise refusals.invalid(replace(kind, kind=""), "", errors)  # as in Kubernetes, without the kind
            return json_answer(reviewed(kind, body, server.time()), status=201)

        return web.post(kind.path("{namespace}") if kind.namespaced else kind.path(), review)

    async def no_list(_: web.Request) -> web.Response:
        raise refusals.method_not_allowed()

    posts = [answer(kind) for kind in REVIEWS]
    return [*posts, *(web.get(post.path, no_list, allow_head=False) for post in posts)]


async def _body(request: web.Request, kind: Kind) -> Object:
    """The body with checked types. `ApiError` 400 for another kind."""
    obj = await read_body(request)
    for key, wanted in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        if obj.get(key, wanted) != wanted:
            raise refusals.bad_request(f"the {key} of the body must be {wanted}, got {obj[key]!r:.80}")
    if (kind.api_version, kind.kind) in MESSAGES:
        obj = typed(kind, obj)
    elif not isinstance(obj.get("spec"), dict | None):
        raise refusals.bad_request(f"spec of a {kind.kind} must be an object, got {type(obj['spec']).__name__}")
    return {**obj, "metadata": obj.get("metadata") or {}}


def _name(request: web.Request, obj: Object) -> str:
    return str(request.match_info.get("name") or obj["metadata"].get("name") or "")


# The paths of the in-memory API server; `resource_requests` handles those of objects.

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


# The subresource `scale` of ReplicaSets.
#
# Source: k8s.io/kubernetes, `pkg/registry/apps/replicaset/storage`, ScaleREST.


SCALES = Kind("Scale", "scales", "autoscaling/v1", namespaced=True)
"""The kind Scale, which is not stored."""

_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_routes(server: VersionedServer) -> list[web.RouteDef]:
    """The requests for the scale of a ReplicaSet."""

    async def get(request: web.Request) -> web.Response:
        place = request.match_info
        return json_answer(scale_of(await server.get(REPLICA_SETS, place["name"], place["namespace"])))

    async def put(request: web.Request) -> web.Response:
        wanted = await read_body(request)
        if (name := (wanted.get("metadata") or {}).get("name")) != request.match_info["name"]:
            raise refusals.other_name(str(name or ""), request.match_info["name"])
        return await change_scale(request, lambda _: wanted, "UpdateOptions")

    async def patch(request: web.Request) -> web.Response:
        change = await read_patch(request, SCALES, status=False, time=server.time())
        return await change_scale(request, change, "PatchOptions")

    async def change_scale(request: web.Request, change: Change, options: str) -> web.Response:
        name, namespace = request.match_info["name"], request.match_info["namespace"]
        writer = replace(writer_of(request, server.time()), subresource="scale")
        with server.dry_run(wants_dry_run(request, options)), server.writing(writer):
            changed = await server.patch(REPLICA_SETS, name, namespace, lambda old: scaled(old, change(scale_of(old))))
        return json_answer(scale_of(changed))

    path = f"{REPLICA_SETS.path('{namespace}', '{name}')}/scale"
    return [web.get(path, get, allow_head=False), web.put(path, put), web.patch(path, patch)]


def scale_of(replica_set: Object) -> Object:
    """The scale of a ReplicaSet. As in Kubernetes, no wanted replicas are an absent field."""
    metadata, spec = replica_set["metadata"], replica_set["spec"]
    replicas = spec.get("replicas", 1)
    status = {"replicas": (replica_set.get("status") or {}).get("replicas", 0)}
    return {
        "kind": SCALES.kind,
        "apiVersion": SCALES.api_version,
        "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {**status, "selector": _selector_text(spec.get("selector") or {})},
    }


def scaled(replica_set: Object, scale: Object) -> Object:
    """The ReplicaSet with the replicas of a scale, whose revision is a precondition. `ApiError` 400 or 422."""
    metadata, replicas = replica_set["metadata"], (scale.get("spec") or {}).get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise refusals.bad_request(f"spec.replicas of a Scale must be an integer, got {replicas!r:.80}")
    if replicas < 0:
        error = refusals.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise refusals.invalid(SCALES, metadata["name"], [error])
    revision = (scale.get("metadata") or {}).get("resourceVersion") or ""
    spec = {**replica_set["spec"], "replicas": replicas}
    return {**replica_set, "metadata": {**metadata, "resourceVersion": revision}, "spec": spec}


def _selector_text(selector: Object) -> str:
    """A selector as a query has it."""
    texts = {key: f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()}
    for one in selector.get("matchExpressions") or ():
        key, values = one["key"], ",".join(sorted(one.get("values") or ()))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        texts[f"{key} {one['operator']}"] = forms.get(one["operator"], "")
    return ",".join(texts[key] for key in sorted(texts))
