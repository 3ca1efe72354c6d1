"""Validates the required parts of a spec: the names that a scheduler and a kubelet expect."""

import re
from collections.abc import Iterator
from typing import Any

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, EVENTS, PODS, REPLICA_SETS, SLICES, Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.claim_validation import request_errors
from drahealth.fakes.cluster.api_server.data_validation import data_errors
from drahealth.fakes.cluster.api_server.disruption_budgets import selects
from drahealth.fakes.cluster.api_server.pod_spec_validation import check_spec_shape, pod_spec_errors
from drahealth.fakes.cluster.api_server.refusals import FieldError
from drahealth.fakes.cluster.api_server.slice_validation import slice_errors
from drahealth.fakes.cluster.other_kinds import BUDGETS, CRDS

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


_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def check_spec(kind: Kind, obj: Object) -> None:
    """Raises `ApiError` 400 BadRequest for a malformed spec."""
    for path in _REQUIRED.get(kind, ()):
        list(_missing(obj, path.split("."), ""))
    if kind == PODS:
        check_spec_shape(kind, obj.get("spec") or {}, "spec")
    if kind == REPLICA_SETS:
        replicas = (obj.get("spec") or {}).get("replicas", 1)
        if isinstance(replicas, bool) or not isinstance(replicas, int):
            raise refusals.bad_request(f"spec.replicas must be an integer, got {replicas!r:.80}")
        template = (obj.get("spec") or {}).get("template") or {}
        check_spec_shape(kind, template.get("spec") or {}, "spec.template.spec")


def spec_errors(kind: Kind, obj: Object) -> list[FieldError]:
    """The errors in the spec of an object that has its defaults."""
    if kind == PODS:
        return [*pod_spec_errors(obj.get("spec") or {}, "spec"), *_gate_errors(obj.get("spec") or {})]
    if kind == REPLICA_SETS:
        return list(_set_errors(obj.get("spec") or {}))
    if kind == SLICES:
        return list(slice_errors(obj.get("spec") or {}))
    errors = [error for path in _REQUIRED.get(kind, ()) for error in _missing(obj, path.split("."), "")]
    if kind in (CLAIMS, CLAIM_TEMPLATES) and not errors:
        at, spec = ("spec", obj.get("spec")) if kind == CLAIMS else ("spec.spec", (obj.get("spec") or {}).get("spec"))
        errors += request_errors(spec or {}, at)
    if kind == EVENTS:
        about = (obj.get("involvedObject") or {}).get("namespace")
        if about and about != obj["metadata"].get("namespace"):
            errors.append(refusals.invalid_value("involvedObject.namespace", about, "does not match event.namespace"))
    if kind == BUDGETS:
        errors += _budget_errors(obj.get("spec", {}))
    errors += data_errors(kind, obj)
    if kind == CRDS and not errors:
        errors += _definition_errors(obj)
    return errors


def _set_errors(spec: Object) -> Iterator[FieldError]:
    replicas, template, selector = spec.get("replicas", 1), spec.get("template") or {}, spec.get("selector")
    if replicas < 0:
        yield refusals.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
    if selector is None:
        yield refusals.required_value("spec.selector")
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selects(selector, labels):
        why = "`selector` does not match template `labels`"
        yield refusals.invalid_value("spec.template.metadata.labels", labels or None, why)
    inner = template.get("spec") or {}
    yield from pod_spec_errors(inner, "spec.template.spec")
    if inner.get("restartPolicy") in ("Never", "OnFailure"):
        yield refusals.unsupported_value("spec.template.spec.restartPolicy", inner["restartPolicy"], ("Always",))


def _budget_errors(spec: Object) -> Iterator[FieldError]:
    policy, keys = spec.get("unhealthyPodEvictionPolicy"), ("minAvailable", "maxUnavailable")
    if all(spec.get(key) is not None for key in keys):
        fields = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {f"{key[0].upper()}{key[1:]}": spec.get(key) for key in fields}
        yield refusals.invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for key in keys:
        yield from _share_errors(f"spec.{key}", spec.get(key))
    if policy is not None and policy not in _EVICTION_POLICIES:
        yield refusals.unsupported_value("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)
    for index, one in enumerate((spec.get("selector") or {}).get("matchExpressions") or ()):
        if one.get("operator") not in _SELECTOR_OPERATORS:
            at = f"spec.selector.matchExpressions[{index}].operator"
            yield refusals.invalid_value(at, one.get("operator") or "", "not a valid selector operator")


def _share_errors(at: str, amount: Any) -> Iterator[FieldError]:
    """The errors of a number of Pods, or of a percentage."""
    if isinstance(amount, int) and amount < 0:
        yield refusals.invalid_value(at, amount, "must be greater than or equal to 0")
    if not isinstance(amount, str):
        return
    if not re.fullmatch(r"[0-9]+%", amount):
        form = "a valid percent string must be a numeric string followed by an ending '%'"
        why = f"{form} (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        yield refusals.invalid_value(at, amount, why)
    elif int(amount[:-1]) > 100:
        yield refusals.invalid_value(at, amount, "must not be greater than 100%")


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


def _gate_errors(spec: Object) -> Iterator[FieldError]:
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield refusals.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
