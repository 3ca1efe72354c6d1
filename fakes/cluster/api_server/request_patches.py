"""Reads the patch in the body of a request as a change of an object."""

from aiohttp import web

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.apply_patches import ApplyOptions, apply_patch
from drahealth.fakes.cluster.api_server.field_types import unknown_fields
from drahealth.fakes.cluster.api_server.json_patch import json_patch
from drahealth.fakes.cluster.api_server.managed_fields import Writer, keyed_path
from drahealth.fakes.cluster.api_server.merged_lists import merged_lists
from drahealth.fakes.cluster.api_server.patches import (
    APPLY,
    JSON_PATCH,
    Change,
    check_patch_type,
    patch_change,
    read_operations,
)
from drahealth.fakes.cluster.api_server.request_bodies import read_json


async def read_patch(request: web.Request, kind: Kind, *, status: bool, time: str) -> Change:
    """The change that the request asks for, of the status or of the rest of the object; `time` as RFC 3339.

    Raises `ApiError` 415 for an unsupported type of patch, and as `read_body`. Apply patches must be JSON.
    """
    check_patch_type(request.content_type)
    if request.content_type == JSON_PATCH:
        operations = read_operations(await read_json(request))
        return lambda old: json_patch(old, operations)
    body = await read_json(request)
    if not isinstance(body, dict):
        raise refusals.wrong_patch(body)
    if request.content_type != APPLY:
        return patch_change(kind, request.content_type, body)
    if not body.get("apiVersion") or not body.get("kind"):
        raise refusals.bad_request(
            f"invalid object type: /{body.get('apiVersion') or ''}, Kind={body.get('kind') or ''}"
        )
    lists = merged_lists(kind)
    if unknown := unknown_fields(kind, body):
        raise refusals.untyped_patch(body, f"{keyed_path(unknown[0], body, lists)}: field not declared in schema")
    options = ApplyOptions(request.query.get("fieldManager", ""), status, time, force=wants_force(request))
    return lambda old: apply_patch(old, body, lists, options)


def is_apply(request: web.Request) -> bool:
    """Whether the request applies; this creates an object that does not exist."""
    return request.content_type == APPLY


def empty_object(request: web.Request, kind: Kind) -> Object:
    """The object of the path without any field, to apply a patch to; the patch has the name."""
    place = {key: request.match_info[key] for key in ("namespace",) if key in request.match_info}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": place}


def wants_force(request: web.Request) -> bool:
    """Whether an apply patch takes fields over from other managers."""
    return request.query.get("force", "").lower() in ("true", "1")


def writer_of(request: web.Request, time: str, *, status: bool = False) -> Writer:
    """The manager of the fields that the request changes; by default, the name of the client. `time` as RFC 3339."""
    name = request.query.get("fieldManager") or request.headers.get("User-Agent", "").partition("/")[0]
    return Writer(name[:128] or "unknown", "status" if status else "", time)
