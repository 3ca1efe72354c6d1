"""The paths of requests that no object is stored for: bindings and evictions of Pods, and reviews."""

from aiohttp import web

from drahealth.fakes.cluster.api import PODS, Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.answers import json_answer
from drahealth.fakes.cluster.api_server.bindings import check_target
from drahealth.fakes.cluster.api_server.delete_options import delete_options
from drahealth.fakes.cluster.api_server.field_types import typed
from drahealth.fakes.cluster.api_server.field_validation import wants_dry_run
from drahealth.fakes.cluster.api_server.request_bodies import read_body
from drahealth.fakes.cluster.api_server.self_reviews import REVIEWS, reviewed
from drahealth.fakes.cluster.api_server.versioned_server import VersionedServer
from drahealth.fakes.cluster.other_kinds import BINDINGS, EVICTIONS

_DONE: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def pod_routes(server: VersionedServer) -> list[web.RouteDef]:
    """The subresources `binding` and `eviction` of Pods."""

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

    pod = PODS.path("{namespace}", "{name}")
    return [
        web.post(f"{pod}/binding", bind),
        web.post(BINDINGS.path("{namespace}"), bind),
        web.post(f"{pod}/eviction", evict),
    ]


def review_routes(server: VersionedServer) -> list[web.RouteDef]:
    """The reviews of a client's own identity and permissions."""

    def answer(kind: Kind) -> web.RouteDef:
        async def review(request: web.Request) -> web.Response:
            return json_answer(reviewed(kind, await _body(request, kind), server.time()), status=201)

        return web.post(kind.path(), review)

    return [answer(kind) for kind in REVIEWS]


async def _body(request: web.Request, kind: Kind) -> Object:
    """The body with checked types. `ApiError` 400 for another kind."""
    obj = await read_body(request)
    for key, wanted in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        if obj.get(key, wanted) != wanted:
            raise refusals.bad_request(f"the {key} of the body must be {wanted}, got {obj[key]!r:.80}")
    return {**typed(kind, obj), "metadata": obj.get("metadata") or {}}


def _name(request: web.Request, obj: Object) -> str:
    return str(request.match_info.get("name") or obj["metadata"].get("name") or "")
