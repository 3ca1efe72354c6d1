"""The requests and answers of the API server.

It reads from a request its body, its patch, and the validation that it asks for. It answers with objects, tables,
metadata alone, and errors as `Status`.
"""

import json
import logging
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import APPLY, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.apply_patches import ApplyOptions, Writer, apply_change
from drahealth.fakes.cluster.api_server.body_decoding import (
    MESSAGES,
    duplicate_fields,
    parse_json,
    typed,
    unknown_fields,
)
from drahealth.fakes.cluster.api_server.patches import (
    JSON_PATCH,
    MERGE,
    Change,
    check_patch_type,
    json_patch,
    patch_change,
    read_operations,
)
from drahealth.fakes.cluster.api_server.tables import Column
from drahealth.fakes.cluster.refusals import FieldError

# The forms of an answer: the object itself, its metadata alone, or a table. The header Accept selects the form.
#
# Source: k8s.io/apiserver, `pkg/endpoints/handlers/response.go`; k8s.io/apimachinery, `pkg/apis/meta/v1`, Table.

_META = "meta.k8s.io"
TABLE = "Table"
"""The kind of tables, which `kubectl get` asks for."""

_METADATA, _METADATA_LIST = "PartialObjectMetadata", "PartialObjectMetadataList"
_KINDS, _VERSIONS = (TABLE, _METADATA, _METADATA_LIST), ("v1", "v1beta1")
_MEDIA_TYPES = (*("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "*/*"),)
_INCLUDES = ("None", "Metadata", "Object")
_CONDITIONS: Mapping[str, Object] = {
    "Succeeded": {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    },
    "Failed": {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."},
}


@dataclass(frozen=True, slots=True)
class Form:
    """The form that a client asks for: a kind of the group `meta.k8s.io`, or "" for the object itself."""

    kind: str = ""
    version: str = "v1"
    include: str = "Metadata"
    """What a row of a table has of its object: `None`, `Metadata` or `Object`."""


def requested_form(accept: str, include: str) -> Form:
    """The form for a header Accept and the parameter `includeObject`. An answer is always JSON.

    `ApiError` 400 for an unknown value of `includeObject`, 406 if the server has none of the accepted forms.
    """
    if include not in ("", *_INCLUDES):
        raise refusals.bad_request(f"includeObject must be one of {', '.join(_INCLUDES)}, got {include[:40]!r}")
    for media_type, parameters in map(_media_range, accept.split(",") if accept.strip() else ["*/*"]):
        form = Form(parameters.get("as", ""), parameters.get("v", "v1"), include or "Metadata")
        is_known = form.kind in _KINDS and parameters.get("g") == _META and form.version in _VERSIONS
        if media_type in _MEDIA_TYPES and (is_known or "as" not in parameters):
            return form
    if ";as=" in accept.replace(" ", ""):
        raise refusals.unknown_form()
    raise refusals.not_acceptable()


def _media_range(text: str) -> tuple[str, dict[str, str]]:
    media_type, *parameters = (part.strip() for part in text.split(";"))
    return media_type.lower(), {key: value for key, _, value in (one.partition("=") for one in parameters)}


class Representation:
    """Objects in the requested form. The headers of a table are in the first table only.

    `columns` are those of the kind. `stored` gives the object whose fields the columns name.
    """

    def __init__(
        self, form: Form, columns: Sequence[Column], now: datetime, stored: Callable[[Object], Object] = lambda obj: obj
    ) -> None:
        self._form = form
        self._columns = columns
        self._now = now
        self._stored = stored
        self._has_headers = False

    def one(self, obj: Object) -> Object:
        """One object."""
        if self._form.kind == TABLE:
            version = obj["metadata"].get("resourceVersion", "")
            return self._table({"resourceVersion": version}, [obj])
        if self._form.kind:
            return self._partial(obj)
        return obj

    def listed(self, found: Object) -> Object:
        """A list of objects."""
        if self._form.kind == TABLE:
            return self._table(found["metadata"], found["items"])
        if self._form.kind:
            head = {"kind": _METADATA_LIST, "apiVersion": self._version, "metadata": found["metadata"]}
            return {**head, "items": [self._partial(obj) for obj in found["items"]]}
        return found

    @property
    def _version(self) -> str:
        return f"{_META}/{self._form.version}"

    def _partial(self, obj: Object) -> Object:
        return {"kind": _METADATA, "apiVersion": self._version, "metadata": obj["metadata"]}

    def _table(self, metadata: Object, objects: Sequence[Object]) -> Object:
        headers = None if self._has_headers else [_definition(column) for column in self._columns]
        self._has_headers = True
        rows = [self._row(obj) for obj in objects]
        head = {"kind": TABLE, "apiVersion": self._version, "metadata": metadata}
        return {**head, "columnDefinitions": headers, "rows": rows}

    def _row(self, obj: Object) -> Object:
        stored = self._stored(obj)
        row: dict[str, Any] = {"cells": [column.cell(stored, self._now) for column in self._columns]}
        if obj.get("kind") == "Pod" and (ended := _CONDITIONS.get((obj.get("status") or {}).get("phase", ""))):
            row["conditions"] = [ended]
        included = {"None": None, "Metadata": self._partial(obj), "Object": obj}[self._form.include]
        return {**row, "object": included}


def _definition(column: Column) -> Object:
    shown = {"name": column.name, "type": column.type, "format": column.format, "description": ""}
    return {**shown, "priority": column.priority}


# The answers of the API server: JSON without a charset, and errors as `Status` objects.

STATUS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
"""The head of every `Status`."""


def json_answer(value: Any, status: int = 200) -> web.Response:
    """An answer with a JSON value. As in Kubernetes, the content type has no charset."""
    return web.Response(body=json.dumps(value).encode(), status=status, content_type="application/json")


def status_of(error: ApiError) -> Object:
    """The error as the API's `Status` object. An unexpected error has no reason."""
    reason = {} if error.reason == "InternalServerError" else {"reason": error.reason}
    details = {} if error.details is None else {"details": error.details}
    return {**STATUS, "status": "Failure", "message": error.message, **reason, **details, "code": error.status}


def status_response(error: ApiError) -> web.Response:
    """The answer to a rejected request."""
    return json_answer(status_of(error), status=error.status)


# Log lines about requests that the API server cannot read. Clients retry forever, so each cause is logged once.

STATUSES = frozenset({400, 401, 405, 413, 415})
"""The HTTP statuses of requests that cannot be read or are not supported."""

_REMEMBERED = 1000
_RESOURCE = re.compile(r" /(?:api|apis)/(v1|[^/]+/[^/]+)/(?:namespaces/[^/]+/)?([^/]+)")

log = logging.getLogger(__name__)


class RejectionLog:
    """Logs each cause once for each client. It remembers the last 1000 pairs."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()

    def rejected(self, client: str, request: str, error: ApiError) -> None:
        """Logs a rejected request, such as `POST /api/v1/nodes`, if it could not be read."""
        if error.status in STATUSES and self._is_new(client, _cause(request, error)):
            log.warning("rejected %s from %s: %s %s", request, client, error.status, error.message)

    def not_served(self, client: str, request: str) -> None:
        """Logs a request for a resource that is not served; other unknown paths are probes of kubectl."""
        if (found := _RESOURCE.search(request)) and self._is_new(client, found.expand(r"\1/\2")):
            log.warning(
                "rejected %s from %s: 404, %s of %s are not served; use a real API server for them",
                request,
                client,
                found[2],
                found[1],
            )

    def ignored(self, client: str, request: str, fields: tuple[str, ...]) -> None:
        """Logs the unknown fields of a request that was accepted without them."""
        names = ", ".join(fields[:10])
        if self._is_new(client, names):
            log.warning("ignored unknown fields of %s from %s: %s", request, client, names)

    def _is_new(self, client: str, cause: str) -> bool:
        is_new = (client, cause) not in self._seen
        self._seen[client, cause] = None
        self._seen.move_to_end((client, cause))
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return is_new


def _cause(request: str, error: ApiError) -> str:
    """What is wrong, without the names and numbers that differ in each request."""
    what = request.partition(" ")[0] if error.status == 405 else error.message.partition(":")[0]
    return f"{error.status} {what}"


# The logger of a web server. Malformed HTTP causes one warning instead of a traceback for each request.


class ServerLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs what aiohttp logs. aiohttp answers malformed HTTP with 400 itself."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger(__name__))
        self._rejections = RejectionLog()

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        given = options.get("exc_info")
        error = given if isinstance(given, BaseException) else sys.exception() if given else None
        if isinstance(error, HttpProcessingError):
            text = " ".join(error.message.split())
            refusal = ApiError(400, "BadRequest", f"malformed HTTP: {text}")
            self._rejections.rejected("an unknown client", "a request", refusal)
        else:
            super().log(level, msg, *args, **options)


# Reads the body of a request, JSON or Kubernetes' protobuf, as an object. Every unreadable body gets an `ApiError`.

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
    from drahealth.fakes.cluster.api_server.body_decoding import UnknownKindError, decode  # slow import

    try:
        decoded = decode(body)
    except UnknownKindError as error:
        raise refusals.unsupported_kind(error.api_version, error.kind) from None
    except ValueError as error:
        raise refusals.bad_request(f"the body is not a protobuf object: {error}") from None
    if decoded.unknown:
        request.app[REJECTIONS].ignored(_client(request), _name(request), decoded.unknown)
    return decoded.object


# Unknown fields of a request: rejected, reported or ignored, as its parameter `fieldValidation` says.
#
# Source: k8s.io/apimachinery, `pkg/apis/meta/v1`, `FieldValidationStrict`, `FieldValidationWarn`; the default is
# Warn.

_LEVELS = ("", "Ignore", "Strict", "Warn")
_LONGEST_MANAGER = 128
_MOST_WARNINGS = 20


def wants_dry_run(request: web.Request, options: str) -> bool:
    """Whether the request shall have no effect. Raises `ApiError` 422, which names these options, for wrong ones."""
    if errors := _errors(request, options):
        raise refusals.invalid_options(options, errors)
    return bool(request.query.getall("dryRun", []))


def _errors(request: web.Request, options: str) -> list[FieldError]:
    query, errors = request.query, list[FieldError]()
    manager, level = query.get("fieldManager", ""), query.get("fieldValidation", "")
    if options == "PatchOptions":
        is_apply = request.content_type == APPLY
        if is_apply and not manager:
            errors.append(refusals.required_value("fieldManager", "is required for apply patch"))
        if "force" in query and not is_apply:
            errors.append(refusals.forbidden("force", "may not be specified for non-apply patch"))
    if len(manager.encode(errors="surrogatepass")) > _LONGEST_MANAGER:
        errors.append(refusals.too_long("fieldManager", _LONGEST_MANAGER))
    errors += refusals.dry_run_errors(query.getall("dryRun", []))
    if level not in _LEVELS:
        errors.append(refusals.unsupported_value("fieldValidation", level, _LEVELS))
    return errors


class FieldValidation:
    """The validation that a request asks for; `options` is the name of its options, such as CreateOptions.

    Raises `ApiError` 422 for wrong options.
    """

    def __init__(self, request: web.Request, kind: Kind, options: str) -> None:
        self.dry_run = wants_dry_run(request, options)
        self._level = request.query.get("fieldValidation") or "Warn"
        self._kind = kind
        self._options = options
        self._media_type = request.content_type
        self._problems: list[str] = []

    async def read(self, request: web.Request) -> Object:
        """The checked object in the body of a request. Raises `ApiError` as `read_body`, and 400 as `checked`."""
        obj = await read_body(request)
        if self._level == "Ignore":
            return obj
        data = await request.read()
        is_json = request.content_type != PROTOBUF and data.lstrip().startswith(b"{")
        twice = [f'duplicate field "{path}"' for path in duplicate_fields(data)] if is_json else []
        return self.checked(obj, twice)

    def checked(self, obj: Object, problems: Sequence[str] = ()) -> Object:
        """The same object. Raises `ApiError` for unknown fields and these problems, if the request is strict."""
        if self._level == "Ignore":
            return obj
        self._problems = [*(f'unknown field "{path}"' for path in unknown_fields(self._kind, obj)), *problems]
        if self._problems and self._level == "Strict":
            if self._options == "PatchOptions":
                raise refusals.strict_patch(obj, self._problems)
            raise refusals.strict_decoding(self._kind, self._problems)
        return obj

    def change(self, change: Change) -> Change:
        """The change of a patch, whose result is checked."""
        if self._media_type not in (MERGE, JSON_PATCH) or (self._kind.api_version, self._kind.kind) not in MESSAGES:
            return lambda old: self.checked(change(old))

        def checked(old: Object) -> Object:
            new = change(old)
            try:
                typed(self._kind, new)
            except ApiError as error:
                text = json.dumps(new, ensure_ascii=False, separators=(",", ":"))
                raise refusals.unfit_patch(text, error.message) from None
            return self.checked(new)

        return checked

    def response(self, obj: Object, status: int = 200) -> web.Response:
        """The answer with this object, with a warning for each unknown field (RFC 9111, 5.5)."""
        response = json_answer(obj, status=status)
        for problem in self._problems[:_MOST_WARNINGS]:
            text = json.dumps(problem[:220])
            response.headers.add("Warning", f"299 - {text}")
        return response


# Reads the patch in the body of a request as a change of an object.


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
    options = ApplyOptions(request.query.get("fieldManager", ""), status, time, force=wants_force(request))
    return apply_change(kind, body, options)


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
