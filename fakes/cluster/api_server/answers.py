"""The answers of the API server: JSON without a charset, and errors as `Status` objects."""

import json
from typing import Any

from aiohttp import web

from drahealth.fakes.cluster.api import ApiError, Object

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
