"""The answers of the API server: objects, tables, metadata alone, and errors as `Status`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aiohttp import web

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import ApiError, Object
from drahealth.fakes.cluster.api_server.tables import Column

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
