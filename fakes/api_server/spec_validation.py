"""What a spec must say at least: the names that a scheduler and a kubelet take for granted."""

from collections.abc import Iterator
from typing import Any

from drahealth.fakes.api import CLAIM_TEMPLATES, CLAIMS, PODS, SLICES, Kind, Object
from drahealth.fakes.api_server import refusals
from drahealth.fakes.api_server.refusals import FieldError

_REQUESTS = ("devices.requests[].name", "devices.requests[].firstAvailable[].name")

_REQUIRED: dict[Kind, tuple[str, ...]] = {
    PODS: ("spec.containers[].name", "spec.initContainers[].name", "spec.resourceClaims[].name"),
    CLAIMS: tuple(f"spec.{path}" for path in _REQUESTS),
    CLAIM_TEMPLATES: tuple(f"spec.spec.{path}" for path in _REQUESTS),
    SLICES: ("spec.driver", "spec.pool.name", "spec.devices[].name"),
}
"""Paths of names that must be given; `[]` stands for each element of a list, which may be missing itself."""

_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def validate_spec(kind: Kind, obj: Object) -> None:
    """Raises `ApiError`: 400 BadRequest for what is no spec of this kind at all, 422 Invalid for what it lacks."""
    errors = [error for path in _REQUIRED.get(kind, ()) for error in _missing(obj, path.split("."), "")]
    if kind == PODS:
        errors += _source_errors(obj.get("spec", {}).get("resourceClaims") or ())
    if errors:
        raise refusals.invalid(kind, str(obj["metadata"].get("name", "")), errors)


def _missing(value: Any, parts: list[str], at: str) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        raise refusals.bad_request(f"{at} is not an object but {type(value).__name__}")
    name, rest = parts[0].removesuffix("[]"), parts[1:]
    field, inner = f"{at}.{name}".lstrip("."), value.get(name)
    if parts[0].endswith("[]"):
        if not isinstance(inner, list | None):
            raise refusals.bad_request(f"{field} is not a list but {type(inner).__name__}")
        for index, item in enumerate(inner or ()):
            yield from _missing(item, rest, f"{field}[{index}]")
    elif rest:
        yield from _missing({} if inner is None else inner, rest, field)
    elif not isinstance(inner, str | None):
        raise refusals.bad_request(f"{field} is not a string but {type(inner).__name__}")
    elif not inner:
        yield refusals.required_value(field)


def _source_errors(entries: Any) -> list[FieldError]:
    detail = f"must specify exactly one of: {', '.join(_SOURCES)}"
    return [
        refusals.invalid_value(f"spec.resourceClaims[{index}]", entry, detail)
        for index, entry in enumerate(entries)
        if len([source for source in _SOURCES if entry.get(source)]) != 1
    ]
