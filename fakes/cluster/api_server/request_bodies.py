"""Reads the body of a request, JSON or Kubernetes' protobuf, as an object. Every unreadable body gets an `ApiError`."""

import json
from typing import Any

from aiohttp import web

from drahealth.fakes.cluster.api import ApiError, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.json_values import parse_json
from drahealth.fakes.cluster.api_server.rejection_log import RejectionLog

BODY_LIMIT = 3 * 2**20
"""Maximum size of a request body in bytes, as in a real API server."""

PROTOBUF = "application/vnd.kubernetes.protobuf"

REJECTIONS = web.AppKey("rejections", RejectionLog)
"""The log of a server's rejected requests."""


async def read_body(request: web.Request, *, optional: bool = False) -> Object:
    """The object in the body. Raises `ApiError` 400, 413 for a large body, 415 for an unknown kind in protobuf.

    An empty body is an error, unless it is `optional`.
    """
    body = await _read(request)
    if optional and not body:
        return {}
    obj = _from_protobuf(body, request) if request.content_type == PROTOBUF else _from_text(body, request)
    if not isinstance(obj, dict):
        raise refusals.bad_request(f"the body must be an object, got {type(obj).__name__}")
    return obj


async def read_json(request: web.Request) -> Any:
    """The JSON value in the body, which can be YAML. Raises `ApiError` as `read_body`."""
    return _from_text(await _read(request), request)


async def _read(request: web.Request) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise refusals.too_large(BODY_LIMIT) from None
    except web.RequestPayloadError as error:
        raise refusals.bad_request(f"the body cannot be read: {error}") from None


async def not_served(request: web.Request) -> ApiError:
    """The error for a path that is not served: 415 for a protobuf body of an unknown kind, else 404 (logged here)."""
    if request.content_type == PROTOBUF and request.can_read_body:
        try:
            await read_body(request)
        except ApiError as error:
            return error
    request.app[REJECTIONS].not_served(_client(request), _name(request))
    return refusals.no_such_resource()


def log_rejected(request: web.Request, error: ApiError) -> None:
    """Logs a rejected request if it could not be read, once for each client and cause."""
    request.app[REJECTIONS].rejected(_client(request), _name(request), error)


def _client(request: web.Request) -> str:
    return request.headers.get("User-Agent", "a client without User-Agent")[:120]


def _name(request: web.Request) -> str:
    return f"{request.method} {request.path[:200]}"


def _from_text(body: bytes, request: web.Request) -> Any:
    """The value in JSON, or in YAML if the content type says so."""
    if not request.content_type.endswith("yaml") or body.lstrip().startswith(b"{"):
        return _from_json(body)
    import yaml  # slow import; most clients send JSON

    try:
        return parse_json(json.dumps(yaml.safe_load(body)).encode())
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise refusals.bad_request(f"the body is not YAML: {str(error).splitlines()[0]}") from None


def _from_json(body: bytes) -> Any:
    try:
        return parse_json(body)
    except ValueError as error:
        raise refusals.bad_request(f"the body is not JSON: {error}") from None


def _from_protobuf(body: bytes, request: web.Request) -> Object:
    from drahealth.fakes.cluster.api_server.protobuf_bodies import UnknownKindError, decode  # slow import

    try:
        decoded = decode(body)
    except UnknownKindError as error:
        raise refusals.unsupported_kind(error.api_version, error.kind) from None
    except ValueError as error:
        raise refusals.bad_request(f"the body is not a protobuf object: {error}") from None
    if decoded.unknown:
        request.app[REJECTIONS].ignored(_client(request), _name(request), decoded.unknown)
    return decoded.object
