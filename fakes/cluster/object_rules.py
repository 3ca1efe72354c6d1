"""The rules for the shape and metadata of objects, which the server and each client check. Pure.

The metadata are names, labels, annotations, owners and finalizers.

Source: k8s.io/apimachinery, `pkg/api/validation/objectmeta.go` and `pkg/util/validation`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.refusals import FieldError


@dataclass(frozen=True, slots=True)
class _Rule:
    """A form of names: the regular expression as Kubernetes shows it, the longest name, and the text of the error."""

    pattern: str
    limit: int
    text: str
    examples: tuple[str, ...]

    def errors(self, name: str) -> Iterator[str]:
        if len(name) > self.limit:
            yield f"must be no more than {self.limit} characters"
        if not re.fullmatch(self.pattern, name):
            shown = ",  or ".join(f"'{example}'" for example in self.examples)
            yield f"{self.text} (e.g. {shown}, regex used for validation is '{self.pattern}')"


_ENDS = "and must start and end with an alphanumeric character"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_NAME = _Rule(
    _LABEL,
    63,
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}",
    ("my-name", "123-abc"),
)
_SUBDOMAIN = _Rule(
    rf"{_LABEL}(\.{_LABEL})*",
    253,
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}",
    ("example.com",),
)
_KEY_NAME = _Rule(
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    63,
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    ("MyName", "my.name", "123-abc"),
)
_VALUE = _Rule(
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    63,
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    ("MyValue", "my_value", "12345"),
)
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_ANNOTATIONS_LIMIT = 256 * 1024


def is_name(name: object, kind: Kind | None = None) -> bool:
    """Whether this is a valid name of an object: an RFC 1123 subdomain; for RBAC and Events, a part of a path."""
    return isinstance(name, str) and name != "" and not list(_name_errors(name, kind))


def metadata_errors(kind: Kind, metadata: Object) -> list[FieldError]:
    """The errors in the metadata of an object with a name."""
    prefix = str(metadata.get("generateName") or "")
    errors = [
        refusals.invalid_value("metadata.generateName", prefix, why)
        for why in (_name_errors(f"{prefix}a", kind) if prefix else ())
    ]
    errors += [
        refusals.invalid_value("metadata.name", metadata["name"], why) for why in _name_errors(metadata["name"], kind)
    ]
    for key, value in (metadata.get("labels") or {}).items():
        errors += [refusals.invalid_value("metadata.labels", key, why) for why in label_key_errors(key)]
        errors += [refusals.invalid_value("metadata.labels", value, why) for why in _VALUE.errors(value)]
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        errors += [refusals.invalid_value("metadata.annotations", key, why) for why in label_key_errors(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        errors.append(refusals.too_long("metadata.annotations", _ANNOTATIONS_LIMIT))
    return [*errors, *_owner_errors(metadata.get("ownerReferences") or ()), *_finalizer_errors(metadata)]


def _finalizer_errors(metadata: Object) -> Iterator[FieldError]:
    finalizers = metadata.get("finalizers") or ()
    for index, finalizer in enumerate(finalizers):
        errors = list(label_key_errors(str(finalizer)))
        yield from (refusals.invalid_value("metadata.finalizers", finalizer, why) for why in errors)
        if not errors and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield refusals.invalid_value(f"metadata.finalizers[{index}]", finalizer, why)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        yield refusals.invalid_value("metadata.finalizers", list(finalizers), why)


def _owner_errors(references: Sequence[Object]) -> Iterator[FieldError]:
    at = "metadata.ownerReferences"
    for index, reference in enumerate(references):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(key):
                yield refusals.required_value(f"{at}[{index}].{key}", "must not be empty")
        if (reference.get("apiVersion"), reference.get("kind")) == ("v1", "Event"):
            why = "/v1, Kind=Event is disallowed from being an owner"
            yield refusals.invalid_value(f"{at}[{index}]", dict(reference), why)
    controllers = [f"{one.get('kind')}/{one.get('name')}" for one in references if one.get("controller")]
    if len(controllers) > 1:
        found = f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        why = f"Only one reference can have Controller set to true. {found}"
        yield refusals.invalid_value(at, [dict(one) for one in references], why)


def label_name_errors(name: str) -> Iterator[str]:
    """The errors in a name that must be an RFC 1123 label."""
    return _LABEL_NAME.errors(name)


def subdomain_errors(name: str) -> Iterator[str]:
    """The errors in a name that must be an RFC 1123 subdomain."""
    return _SUBDOMAIN.errors(name)


def label_value_errors(value: str) -> Iterator[str]:
    """The errors in the value of a label."""
    return _VALUE.errors(value)


def new_finalizer_errors(metadata: Object, old: Object) -> list[FieldError]:
    """The error of a finalizer that is added while the object is being deleted."""
    if "deletionTimestamp" not in old:
        return []
    before = old.get("finalizers") or ()
    added = [one for one in metadata.get("finalizers") or () if one not in before]
    if not added:
        return []
    listed = ", ".join(json.dumps(one) for one in sorted(added))
    why = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
    return [refusals.forbidden("metadata.finalizers", why)]


def _name_errors(name: str, kind: Kind | None) -> Iterator[str]:
    if kind and (kind.api_version.startswith("rbac.") or kind.kind == "Event"):
        yield from (f"may not be '{name}'" for _ in range(name in (".", "..")))
        yield from (f"may not contain '{one}'" for one in "/%" if one in name)
    elif kind and kind.kind == "Namespace" and "." in name:
        yield "must not contain dots"
    else:
        yield from (_LABEL_NAME if kind and kind.kind == "Namespace" else _SUBDOMAIN).errors(name)


def label_key_errors(key: Any) -> Iterator[str]:
    """The errors in the key of a label, or another qualified name: an optional prefix, a slash, and a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif prefix:
        yield from (f"prefix part {why}" for why in _SUBDOMAIN.errors(prefix))
    if not name:
        yield "name part must be non-empty"
    yield from (f"name part {why}" for why in _KEY_NAME.errors(name))


def check_shape(kind: Kind, obj: Object) -> None:
    """`ApiError` 400 BadRequest for a malformed object."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        raise refusals.bad_request(f"a {kind.kind} must be an object with metadata, got {obj!r:.80}")
    given = (obj.get("kind") or kind.kind, obj.get("apiVersion") or kind.api_version)
    if given != (kind.kind, kind.api_version):
        raise refusals.other_kind(kind, *map(str, given))
    for key in ("labels", "annotations"):
        if not _is_text_map(obj["metadata"].get(key)):
            raise refusals.bad_request(f"metadata.{key} of a {kind.kind} must be an object of strings")
    for key in ("spec", "status"):
        if not isinstance(obj.get(key, {}), dict):
            raise refusals.bad_request(f"{key} of a {kind.kind} must be an object, got {type(obj[key]).__name__}")


def namespace_of(kind: Kind, obj: Object) -> str | None:
    """The object's namespace, None for kinds without one; `ApiError` 400 if it is missing."""
    return checked_namespace(kind, obj["metadata"].get("namespace"))


def checked_namespace(kind: Kind, namespace: str | None) -> str | None:
    """The namespace of one object of this kind, None for kinds without one; `ApiError` 400 if it is missing."""
    if not kind.namespaced:
        return None
    if not namespace:
        raise refusals.bad_request(
            f"an empty namespace may not be set for one object: name the {kind.kind}'s namespace"
        )
    return namespace


def _is_text_map(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(isinstance(text, str) for text in value.values()))
