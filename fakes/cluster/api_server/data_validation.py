"""Validates ConfigMaps and Secrets: their keys, and the fields that an update cannot change. Pure.

Source: k8s.io/kubernetes, `pkg/apis/core/validation`.
"""

import re
from collections.abc import Iterator

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.refusals import FieldError

_KEY = r"[-._a-zA-Z0-9]+"
_WRONG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_KEY}')"
)
_FROZEN = "field is immutable when `immutable` is set"


def data_errors(kind: Kind, obj: Object) -> Iterator[FieldError]:
    """The errors in the keys of a ConfigMap or a Secret; none for other kinds."""
    if not _has_data(kind):
        return
    binary = obj.get("binaryData") or {}
    for field in ("data", "binaryData"):
        for key in sorted(obj.get(field) or {}):
            if not re.fullmatch(_KEY, key):
                yield refusals.invalid_value(f"{field}[{key}]", key, _WRONG_KEY)
            if field == "data" and key in binary:
                yield refusals.invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")


def frozen_errors(kind: Kind, new: Object, old: Object) -> Iterator[FieldError]:
    """The errors of an update that changes an immutable ConfigMap or Secret, or the type of a Secret."""
    if not _has_data(kind):
        return
    if kind.kind == "Secret" and new.get("type") != old.get("type"):
        yield refusals.invalid_value("type", new.get("type"), "field is immutable")
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield refusals.forbidden("immutable", _FROZEN)
    for field in ("data", "binaryData"):
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield refusals.forbidden(field, _FROZEN)


def _has_data(kind: Kind) -> bool:
    return (kind.api_version, kind.kind) in (("v1", "ConfigMap"), ("v1", "Secret"))
