"""Unknown fields of a request: rejected, reported or ignored, as its parameter `fieldValidation` says.

Source: k8s.io/apimachinery, `pkg/apis/meta/v1`, `FieldValidationStrict`, `FieldValidationWarn`; the default is Warn.
"""

import json
from collections.abc import Sequence

from aiohttp import web

from drahealth.fakes.cluster.api import ApiError, Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.answers import json_answer
from drahealth.fakes.cluster.api_server.field_types import typed, unknown_fields
from drahealth.fakes.cluster.api_server.json_values import duplicate_fields
from drahealth.fakes.cluster.api_server.patches import APPLY, JSON_PATCH, MERGE, Change
from drahealth.fakes.cluster.api_server.protobuf_bodies import MESSAGES
from drahealth.fakes.cluster.api_server.refusals import FieldError
from drahealth.fakes.cluster.api_server.request_bodies import PROTOBUF, read_body

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
