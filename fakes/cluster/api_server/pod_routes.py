"""The paths of requests that no object is stored for: bindings and evictions of Pods, and reviews."""

from dataclasses import replace

from aiohttp import web

from drahealth.fakes.cluster.api import PODS, Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.answers import json_answer
from drahealth.fakes.cluster.api_server.bindings import check_target
from drahealth.fakes.cluster.api_server.delete_options import delete_options
from drahealth.fakes.cluster.api_server.field_types import typed
from drahealth.fakes.cluster.api_server.field_validation import wants_dry_run
from drahealth.fakes.cluster.api_server.protobuf_bodies import MESSAGES
from drahealth.fakes.cluster.api_server.request_bodies import read_body
from drahealth.fakes.cluster.api_server.self_reviews import REVIEWS, review_errors, reviewed
from drahealth.fakes.cluster.api_server.versioned_server import VersionedServer
from drahealth.fakes.cluster.other_kinds import BINDINGS, EVICTIONS

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
