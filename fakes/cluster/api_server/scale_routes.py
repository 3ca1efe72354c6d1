"""The subresource `scale` of ReplicaSets.

Source: k8s.io/kubernetes, `pkg/registry/apps/replicaset/storage`, ScaleREST.
"""

from dataclasses import replace

from aiohttp import web

from drahealth.fakes.cluster.api import REPLICA_SETS, Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.answers import json_answer
from drahealth.fakes.cluster.api_server.patches import Change
from drahealth.fakes.cluster.api_server.request_reading import read_body, read_patch, wants_dry_run, writer_of
from drahealth.fakes.cluster.api_server.versioned_server import VersionedServer

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
