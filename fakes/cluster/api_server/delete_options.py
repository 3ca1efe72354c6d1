"""The options of delete requests: read and checked as a real API server does. Pure.

Source: k8s.io/apimachinery, `pkg/apis/meta/v1`, DeleteOptions, and `validation`, ValidateDeleteOptions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.refusals import FieldError

_NONE: Mapping[str, str] = MappingProxyType({})
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete an object. `grace` in seconds; `propagation` is what happens to objects that it owns."""

    grace: int | None = None
    preconditions: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """The `uid` and the `resourceVersion` that the object must have."""
    propagation: str | None = None
    dry_run: bool = False
    accepted_if_waiting: bool = False
    """The answer is 202 if the object is not removed at once: `orphanDependents` is false."""


def delete_options(body: Object, query: Mapping[str, str]) -> DeleteOptions:
    """The options in the body of a request, or in its query if the body is empty. `ApiError` 400 or 422 if wrong."""
    given = _of_body(body) if body else _of_query(query)
    orphan, policy = given.get("orphanDependents"), given.get("propagationPolicy")
    dry_run = given.get("dryRun") or []
    if errors := [*_policy_errors(orphan, policy), *refusals.dry_run_errors(dry_run)]:
        raise refusals.invalid_options("DeleteOptions", errors)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = {key: value for key, value in (given.get("preconditions") or {}).items() if value is not None}
    grace = given.get("gracePeriodSeconds")
    return DeleteOptions(grace, preconditions, policy, bool(dry_run), accepted_if_waiting=orphan is False)


def _policy_errors(orphan: bool | None, policy: str | None) -> list[FieldError]:
    if orphan is not None and policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        return [refusals.invalid_value("propagationPolicy", policy, detail)]
    if policy is not None and policy not in _POLICIES:
        return [refusals.unsupported_value("propagationPolicy", policy, (*_POLICIES, "nil"))]
    return []


_TYPES: Mapping[str, tuple[type, str]] = {
    "gracePeriodSeconds": (int, "an integer"),
    "orphanDependents": (bool, "true or false"),
    "propagationPolicy": (str, "a string"),
    "preconditions": (dict, "an object"),
    "dryRun": (list, "a list"),
}


def _of_body(body: Object) -> Object:
    if (kind := body.get("kind") or "DeleteOptions") != "DeleteOptions":
        raise refusals.unregistered_kind(kind, body.get("apiVersion") or "v1")
    for name, (type_, words) in _TYPES.items():
        value = body.get(name)
        if value is not None and (not isinstance(value, type_) or (type_ is int and isinstance(value, bool))):
            raise refusals.bad_request(f"{name} must be {words}, got {value!r:.80}")
    for name, value in (body.get("preconditions") or {}).items():
        if not isinstance(value, str | None):
            raise refusals.bad_request(f"preconditions.{name} must be a string, got {value!r:.80}")
    return body


def _of_query(query: Mapping[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if text := query.get("gracePeriodSeconds"):
        given["gracePeriodSeconds"] = _number(text)
    if text := query.get("orphanDependents"):
        given["orphanDependents"] = text.lower() not in ("false", "0")
    if text := query.get("propagationPolicy"):
        given["propagationPolicy"] = text
    if text := query.get("dryRun"):
        given["dryRun"] = [text]
    return given


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{text:.80}": invalid syntax') from None
