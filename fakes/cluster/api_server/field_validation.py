"""Unknown fields of a request: rejected, reported or ignored, as its parameter `fieldValidation` says.

Source: k8s.io/apimachinery, `pkg/apis/meta/v1`, `FieldValidationStrict`, `FieldValidationWarn`; the default is Warn.
"""

import json

from aiohttp import web

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.field_types import unknown_fields
from drahealth.fakes.cluster.api_server.patches import Change

_LEVELS = ("Ignore", "Warn", "Strict")
_MOST_WARNINGS = 20


def wants_dry_run(request: web.Request, options: str) -> bool:
    """Whether the request shall have no effect. Raises `ApiError` 422, which names these options, for a wrong value."""
    values = request.query.getall("dryRun", [])
    if errors := refusals.dry_run_errors(values):
        raise refusals.invalid_options(options, errors)
    return bool(values)


class FieldValidation:
    """The validation that a request asks for. Raises `ApiError` 400 for an unknown value of `fieldValidation`."""

    def __init__(self, request: web.Request, kind: Kind) -> None:
        self._level = request.query.get("fieldValidation") or "Warn"
        if self._level not in _LEVELS:
            raise refusals.bad_request(f"fieldValidation must be one of {', '.join(_LEVELS)}, got {self._level[:40]!r}")
        self._kind = kind
        self._unknown: list[str] = []

    def checked(self, obj: Object) -> Object:
        """The same object. Raises `ApiError` 400 for unknown fields if the request is strict."""
        self._unknown = [] if self._level == "Ignore" else unknown_fields(self._kind, obj)
        if self._unknown and self._level == "Strict":
            raise refusals.unknown_fields(self._kind, self._unknown)
        return obj

    def change(self, change: Change) -> Change:
        """The change of a patch, whose result is checked."""
        return lambda old: self.checked(change(old))

    def response(self, obj: Object, status: int = 200) -> web.Response:
        """The answer with this object, with a warning for each unknown field (RFC 9111, 5.5)."""
        response = web.json_response(obj, status=status)
        for path in self._unknown[:_MOST_WARNINGS]:
            text = json.dumps(f'unknown field "{path[:200]}"')
            response.headers.add("Warning", f"299 - {text}")
        return response
