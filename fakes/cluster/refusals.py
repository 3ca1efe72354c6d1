"""The errors of an API server: each function returns the `ApiError`, with the wording of Kubernetes 1.37.

Source: k8s.io/apimachinery, `pkg/api/errors` and `pkg/util/validation/field`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.cluster.api import ApiError, Kind, Object


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in an object: the path of the field, the reason as in the causes of a `Status`, and its text."""

    field: str
    reason: str
    body: str

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"

    @property
    def cause(self) -> Object:
        """The error as one of the causes of a `Status`."""
        return {"reason": self.reason, "message": self.body, "field": self.field}


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {_quoted(value)}: {detail}")


def unsupported_value(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    names = ", ".join(_quoted(name) for name in supported)
    body = f"Unsupported value: {_quoted(value)}: supported values: {names}"
    return FieldError(field, "FieldValueNotSupported", body)


def duplicate_value(field: str, value: Any) -> FieldError:
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {_quoted(value)}")


def not_in(field: str, value: Any, detail: str = "") -> FieldError:
    """A name that refers to nothing."""
    body = f"Not found: {_quoted(value)}"
    return FieldError(field, "FieldValueNotFound", f"{body}: {detail}" if detail else body)


def required_value(field: str, detail: str = "") -> FieldError:
    return FieldError(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def too_long(field: str, limit: int) -> FieldError:
    """`limit` in bytes."""
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def dry_run_errors(values: Sequence[str]) -> list[FieldError]:
    """The errors of the option `dryRun`, whose only value is All."""
    if set(values) <= {"All"}:
        return []
    return [unsupported_value("dryRun", list(values), ("All",))]


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422 for an object whose fields are wrong; every error is in the message."""
    return _invalid(kind.kind, group_of(kind), name, errors)


def invalid_options(kind: str, errors: Sequence[FieldError]) -> ApiError:
    """422 for wrong options of a request, such as DeleteOptions."""
    return _invalid(kind, "meta.k8s.io", "", errors)


def _invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    texts = list(dict.fromkeys(str(error) for error in errors))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{_dotted(kind, group)} "{name}" is invalid: {listed}'
    causes = [error.cause for error in errors]
    return ApiError(422, "Invalid", message, {**_details(kind, group, name), "causes": causes})


def not_found(kind: Kind, name: str) -> ApiError:
    message = f'{_qualified(kind.plural, kind)} "{name}" not found'
    return ApiError(404, "NotFound", message, _resource_details(kind, name))


def no_such_resource() -> ApiError:
    """The error for a path that is not served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def unknown_kind(api_version: str, kind: str, hint: str) -> ApiError:
    """The error for a kind that no API server of Kubernetes has."""
    return ApiError(404, "NotFound", f"{api_version} has no kind {kind!r:.80}; {hint}")


def already_exists(kind: Kind, name: str) -> ApiError:
    message = f'{_qualified(kind.plural, kind)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _resource_details(kind, name))


def conflict(kind: Kind, name: str, why: str) -> ApiError:
    return _conflict(kind.plural, group_of(kind), name, why)


def conflict_of_kind(kind: Kind, name: str, why: str) -> ApiError:
    """The conflict of a precondition of a deletion, which names the kind instead of the resource."""
    return _conflict(kind.kind, group_of(kind), name, why)


def unfit_for_binding(pod: str, why: str) -> ApiError:
    """The error for a binding of a pod that cannot be bound."""
    return _conflict("pods/binding", "", pod, why)


def wrong_target(error: FieldError) -> ApiError:
    """The error for the target of a binding, which Kubernetes reports as a server error."""
    return ApiError(500, "InternalServerError", str(error))


def unfit_patch(text: str, why: str) -> ApiError:
    """422 for a patch whose result, this JSON text, is not an object of the kind."""
    return _invalid("", "", "", [invalid_value("patch", text, why)])


def _conflict(what: str, group: str, name: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {_dotted(what, group)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(what, group, name))


def apply_conflict(text: str, causes: list[Object]) -> ApiError:
    """The error for an apply patch that changes fields of other managers."""
    return ApiError(409, "Conflict", f"Apply failed with {text}", {"causes": causes})


def other_name(name: str, wanted: str) -> ApiError:
    """The error for an object whose name is not that of the path."""
    if not name:
        return bad_request(f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided")
    return bad_request(f"the name of the object ({name}) does not match the name on the URL ({wanted})")


def other_namespace() -> ApiError:
    return bad_request("the namespace of the provided object does not match the namespace sent on the request")


def wrong_revision(revision: str) -> ApiError:
    """The error for a list at a revision that is not a number."""
    return bad_request(f"invalid resource version: {_not_a_number(revision)}")


def wrong_watch_revision(revision: str) -> ApiError:
    """The error for a watch from a revision that is not a number, which Kubernetes reports as a server error."""
    return ApiError(500, "InternalServerError", _not_a_number(revision))


def _not_a_number(revision: str) -> str:
    return f'resourceVersion: Invalid value: "{revision}": strconv.ParseUint: parsing "{revision}": invalid syntax'


def other_object(kind: Kind, obj: Object, uid: str) -> ApiError:
    """The error for an update of an object that has another UID."""
    metadata = obj["metadata"]
    folder = {"nodes": "minions"}.get(kind.plural, kind.plural)
    key = "/".join(part for part in ("/registry", folder, metadata.get("namespace"), metadata["name"]) if part)
    why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
    what = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    return conflict(kind, metadata["name"], what)


def unconditional(kind: Kind, name: str) -> ApiError:
    """The error for an update without a revision of a kind that needs it."""
    error = FieldError(
        "metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0: must be specified for an update"
    )
    return _invalid(kind.plural, group_of(kind), name, [error])


def stale(kind: Kind, name: str) -> ApiError:
    """The error for an outdated resourceVersion."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def terminating(kind: Kind, name: str, namespace: str) -> ApiError:
    what = f'{_qualified(kind.plural, kind)} "{name}" is forbidden'
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
    details = {**_resource_details(kind, name), "causes": [{**cause, "field": "metadata.namespace"}]}
    return ApiError(403, "Forbidden", f"{what}: {why}", details)


def several_budgets() -> ApiError:
    """The error for an eviction of a Pod that several budgets select, which Kubernetes reports as a server error."""
    message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    return ApiError(500, "InternalServerError", message)


def over_budget(cause: str) -> ApiError:
    """The error for an eviction that a PodDisruptionBudget forbids."""
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, "TooManyRequests", message, {"causes": [{"reason": "DisruptionBudget", "message": cause}]})


def unprocessed_budget(name: str) -> ApiError:
    """The error for an eviction while the status of a budget is not the one of its spec."""
    error = over_budget(f"The disruption budget {name} is still being processed by the server.")
    return ApiError(error.status, error.reason, error.message, {**(error.details or {}), "retryAfterSeconds": 10})


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def strict_decoding(kind: Kind, problems: Sequence[str]) -> ApiError:
    """400 for an object with unknown or duplicate fields, in a request with strict validation."""
    version = kind.api_version.rpartition("/")[2]
    what = f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}'
    return bad_request(f"{what}: strict decoding error: {', '.join(problems)}")


def strict_patch(patched: Object, problems: Sequence[str]) -> ApiError:
    """422 for a patch whose result has such fields."""
    text = json.dumps(patched, ensure_ascii=False, separators=(",", ":"))
    return _invalid("", "", "", [invalid_value("patch", text, f"strict decoding error: {', '.join(problems)}")])


def wrong_quantity(kind: Kind) -> ApiError:
    """400 for an object with an amount of a resource that is not a quantity."""
    version = kind.api_version.rpartition("/")[2]
    form = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
    what = f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}'
    return bad_request(f"{what}: quantities must match the regular expression '{form}'")


def unregistered_kind(kind: str, api_version: str) -> ApiError:
    """400 for an object of a kind that is not the expected one."""
    return bad_request(f'no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"')


def other_kind(wanted: Kind, kind: str, api_version: str) -> ApiError:
    """400 for an object of another kind than that of the path."""
    version, why = wanted.api_version.rpartition("/")[2], unregistered_kind(kind, api_version).message
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {wanted.kind}: {why}')


_SCHEME = "pkg/runtime/scheme.go:111"
"""The place in Kubernetes 1.37 that its errors name."""


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def foreign(what: str, value: str) -> ApiError:
    """The error for a request for another host, or from a page of another origin."""
    return ApiError(403, "Forbidden", f"{what} {value!r:.100} is not of this server; use the URL in the kubeconfig")


def unsupported_media_type() -> ApiError:
    types = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    message = f"the body of the request was in an unknown format - accepted media types include: {types}"
    return ApiError(415, "UnsupportedMediaType", message)


def not_acceptable() -> ApiError:
    """The error for an answer in a form that the server does not have."""
    types = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    message = f"406: Not Acceptable\n\nAvailable representations: {types}"
    return ApiError(406, "NotAcceptable", message, {})


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def no_object_with_uid(kind: Kind, name: str, uid: str) -> ApiError:
    """The error for an apply patch with the UID of an object that does not exist."""
    why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    return conflict(kind, name, why)


def unknown_form() -> ApiError:
    """The error for an answer in a form of `meta.k8s.io` that does not exist."""
    types = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {types}")


def unsupported_custom_patch() -> ApiError:
    """The error for a strategic merge patch of an object of a custom kind."""
    types = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    message = f"the body of the request was in an unknown format - accepted media types include: {types}"
    return ApiError(415, "UnsupportedMediaType", message)


def failed_patch() -> ApiError:
    """The error for a JSON patch with an operation that cannot be done."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def too_new(revision: int, current: int) -> ApiError:
    """The error for a revision that the server does not have yet."""
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return ApiError(504, "Timeout", message, {**details, "retryAfterSeconds": 1})


def expired_page(revision: int) -> ApiError:
    """The error for a list, or a page of it, at a revision that is no longer in the history."""
    message = f"The provided continue parameter is too old to display a consistent list result: {revision}"
    return ApiError(410, "Expired", message)


def unknown_directive(directive: str, patch: Object) -> ApiError:
    """The error for an unknown `$patch` in a strategic merge patch, which Kubernetes reports as a server error."""
    message = f"unknown patch type: {directive} in map: {_go_map(patch)}"
    return ApiError(500, "InternalServerError", message)


def no_merge_key(element: object, key: str) -> ApiError:
    """The error for an element without its key in a strategic merge patch: Kubernetes reports a server error."""
    message = f"map: {_go_map(element)} does not contain declared merge key: {key}"
    return ApiError(500, "InternalServerError", message)


def _go_map(value: object) -> str:
    """An object as Go prints it."""
    if not isinstance(value, dict):
        return str(value)
    return f"map[{' '.join(f'{name}:{_go_map(value[name])}' for name in sorted(value))}]"


def wrong_patch(patch: object) -> ApiError:
    """The error for a patch that is not an object."""
    what = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(patch), "number")
    return bad_request(
        f"error decoding patch: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
    )


def too_large(limit: int) -> ApiError:
    """`limit` in bytes."""
    return ApiError(413, "RequestEntityTooLarge", f"the body is too large: the limit is {limit} bytes")


def unsupported_kind(api_version: str, kind: str) -> ApiError:
    """The error for a protobuf body of a kind that is not served."""
    what = f"kind {kind[:80]!r} of apiVersion {api_version[:80]!r} is not supported"
    return ApiError(415, "UnsupportedMediaType", f"{what}: use a real API server for it")


def unsupported_patch() -> ApiError:
    """The error for a content type that is not that of a patch."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def no_field_manager() -> ApiError:
    """The error for an apply patch without the query parameter `fieldManager`."""
    return invalid_options("PatchOptions", [required_value("fieldManager", "is required for apply patch")])


def untyped_patch(patch: Object, problem: str) -> ApiError:
    """The error for an apply patch that does not fit its kind, which Kubernetes reports as a server error."""
    group, kind = patch["apiVersion"], patch["kind"]
    metadata = patch.get("metadata") or {}
    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    version = group if "/" in group else f"/{group}"
    message = f"failed to create typed patch object ({name}; {version}, Kind={kind}): {problem}"
    return ApiError(500, "InternalServerError", message)


def versioned_at_creation() -> ApiError:
    """The error for a resourceVersion at creation, which Kubernetes reports as a server error."""
    message = "resourceVersion should not be set on objects to be created"
    return ApiError(500, "InternalServerError", message)


def expired(since: int, oldest: int) -> ApiError:
    """The error for a watch from a revision that is no longer in the history."""
    return ApiError(410, "Expired", f"too old resource version: {since} ({oldest})")


def unavailable() -> ApiError:
    return ApiError(503, "ServiceUnavailable", "the server is currently unable to handle the request")


def not_stored(kind: Kind, name: str, error: OSError) -> ApiError:
    """The error if the storage cannot store the object."""
    message = f'{_qualified(kind.plural, kind)} "{name}" cannot be stored: {error.strerror or error}'
    return ApiError(503, "ServiceUnavailable", message)


def group_of(kind: Kind) -> str:
    """The group of a kind; empty for the core group."""
    group, slash, _ = kind.api_version.partition("/")
    return group if slash else ""


def _resource_details(kind: Kind, name: str) -> Object:
    return _details(kind.plural, group_of(kind), name)


def deleted_details(kind: Kind, obj: Object) -> Object:
    """The details of the answer to a deletion that does not return the object."""
    return {**_resource_details(kind, obj["metadata"]["name"]), "uid": obj["metadata"]["uid"]}


def _details(kind: str, group: str, name: str) -> Object:
    """The details of a `Status`, without empty fields."""
    return {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}


def _qualified(word: str, kind: Kind) -> str:
    return _dotted(word, group_of(kind))


def _dotted(word: str, group: str) -> str:
    return f"{word}.{group}" if group else word


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
