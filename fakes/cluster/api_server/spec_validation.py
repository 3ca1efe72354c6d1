"""Validates the required parts of a spec: the names that a scheduler and a kubelet expect."""

from collections.abc import Iterator
from typing import Any

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, EVENTS, PODS, REPLICA_SETS, SLICES, Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.claim_names import claim_name_errors
from drahealth.fakes.cluster.api_server.claim_validation import request_errors
from drahealth.fakes.cluster.api_server.data_validation import data_errors
from drahealth.fakes.cluster.api_server.refusals import FieldError
from drahealth.fakes.cluster.other_kinds import BUDGETS, CRDS
from drahealth.proto.extended_resources import is_extended_resource

_REQUESTS = ("devices.requests[].name", "devices.requests[].firstAvailable[].name")

_REQUIRED: dict[Kind, tuple[str, ...]] = {
    PODS: ("spec.containers[].name", "spec.initContainers[].name", "spec.resourceClaims[].name"),
    CLAIMS: tuple(f"spec.{path}" for path in _REQUESTS),
    CLAIM_TEMPLATES: tuple(f"spec.spec.{path}" for path in _REQUESTS),
    REPLICA_SETS: ("spec.template.spec.containers[].name",),
    CRDS: ("spec.group", "spec.scope", "spec.names.kind", "spec.names.plural", "spec.versions[].name"),
    SLICES: ("spec.driver", "spec.pool.name", "spec.devices[].name"),
}
"""Paths of required names; `[]` means each element of a list. The list itself can be missing."""

_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def validate_spec(kind: Kind, obj: Object) -> None:
    """Raises `ApiError`: 400 BadRequest for a malformed spec, 422 Invalid for missing fields."""
    errors = [error for path in _REQUIRED.get(kind, ()) for error in _missing(obj, path.split("."), "")]
    if kind == PODS:
        errors += _source_errors(obj.get("spec", {}).get("resourceClaims") or ())
        errors += _amount_errors(obj.get("spec", {}))
        errors += _gate_errors(obj.get("spec", {}))
        if not errors:
            errors += claim_name_errors(obj.get("spec", {}), "spec")
    if kind in (CLAIMS, CLAIM_TEMPLATES) and not errors:
        at, spec = ("spec", obj.get("spec")) if kind == CLAIMS else ("spec.spec", (obj.get("spec") or {}).get("spec"))
        errors += request_errors(spec or {}, at)
    if kind == EVENTS:
        about = (obj.get("involvedObject") or {}).get("namespace")
        if about and about != obj["metadata"].get("namespace"):
            errors.append(refusals.invalid_value("involvedObject.namespace", about, "does not match event.namespace"))
    if kind == REPLICA_SETS:
        errors += _set_errors(obj.get("spec", {}))
        if not errors:
            errors += claim_name_errors(obj["spec"]["template"]["spec"], "spec.template.spec")
    if kind == BUDGETS:
        errors += _budget_errors(obj.get("spec", {}))
    errors += data_errors(kind, obj)
    if kind == CRDS and not errors:
        errors += _definition_errors(obj)
    if errors:
        raise refusals.invalid(kind, str(obj["metadata"].get("name", "")), errors)


def _set_errors(spec: Object) -> Iterator[FieldError]:
    replicas = spec.get("replicas", 1)
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        yield refusals.invalid_value("spec.replicas", replicas, "must be an integer, 0 or more")
    if not ((spec.get("template") or {}).get("spec") or {}).get("containers"):
        yield refusals.required_value("spec.template.spec.containers")


def _budget_errors(spec: Object) -> Iterator[FieldError]:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield refusals.invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for key in ("minAvailable", "maxUnavailable"):
        if isinstance(amount := spec.get(key), int) and amount < 0:
            yield refusals.invalid_value(f"spec.{key}", amount, "must be greater than or equal to 0")


def _definition_errors(definition: Object) -> Iterator[FieldError]:
    spec, name = definition["spec"], definition["metadata"].get("name")
    wanted = f"{spec['names']['plural']}.{spec['group']}"
    if name != wanted:
        yield refusals.invalid_value("metadata.name", name, f'must be spec.names.plural+"."+spec.group, so {wanted}')
    if spec["scope"] not in ("Cluster", "Namespaced"):
        yield refusals.unsupported_value("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    if not spec.get("versions"):
        yield refusals.required_value("spec.versions")


def _missing(value: Any, parts: list[str], at: str) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        raise refusals.bad_request(f"{at} must be an object, got {type(value).__name__}")
    name, rest = parts[0].removesuffix("[]"), parts[1:]
    field, inner = f"{at}.{name}".lstrip("."), value.get(name)
    if parts[0].endswith("[]"):
        if not isinstance(inner, list | None):
            raise refusals.bad_request(f"{field} must be a list, got {type(inner).__name__}")
        for index, item in enumerate(inner or ()):
            yield from _missing(item, rest, f"{field}[{index}]")
    elif rest:
        yield from _missing({} if inner is None else inner, rest, field)
    elif not isinstance(inner, str | None):
        raise refusals.bad_request(f"{field} must be a string, got {type(inner).__name__}")
    elif not inner:
        yield refusals.required_value(field)


def _source_errors(entries: Any) -> list[FieldError]:
    detail = f"must specify exactly one of: {', '.join(_SOURCES)}"
    return [
        refusals.invalid_value(f"spec.resourceClaims[{index}]", entry, detail)
        for index, entry in enumerate(entries)
        if len([source for source in _SOURCES if entry.get(source)]) != 1
    ]


def _gate_errors(spec: Object) -> Iterator[FieldError]:
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield refusals.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _amount_errors(spec: Any) -> Iterator[FieldError]:
    """Extended resources are whole numbers, and requests equal limits."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            at = f"spec.{field}[{index}].resources"
            resources = _object(at, container.get("resources"))
            limits, requests = (_object(f"{at}.{key}", resources.get(key)) for key in ("limits", "requests"))
            for name, amount in {**requests, **limits}.items():
                if is_extended_resource(name):
                    yield from _extended_errors(at, name, str(amount), limits, requests)


def _extended_errors(at: str, name: str, amount: str, limits: Object, requests: Object) -> Iterator[FieldError]:
    if not amount.isdecimal():
        yield refusals.invalid_value(f"{at}.limits[{name}]", amount, "must be an integer")
    elif name not in limits:
        yield refusals.required_value(f"{at}.limits", "Limit must be set for non overcommitable resources")
    elif str(requests.get(name, amount)) != amount:
        yield refusals.invalid_value(f"{at}.requests", requests[name], f"must be equal to {name} limit of {amount}")


def _object(at: str, value: Any) -> Object:
    if not isinstance(value, dict | None):
        raise refusals.bad_request(f"{at} must be an object, got {type(value).__name__}")
    return value or {}
