"""Validates the specs of objects: the names that a scheduler and a kubelet need, claims, slices and data. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import (
    BUDGETS,
    CLAIM_TEMPLATES,
    CLAIMS,
    CRDS,
    EVENTS,
    PODS,
    REPLICA_SETS,
    SLICES,
    Kind,
    Object,
)
from drahealth.fakes.cluster.api_server.pod_requests import selects
from drahealth.fakes.cluster.api_server.pod_spec_validation import check_spec_shape, pod_spec_errors
from drahealth.fakes.cluster.object_rules import (
    label_key_errors,
    label_name_errors,
    label_value_errors,
    subdomain_errors,
)
from drahealth.fakes.cluster.refusals import FieldError

# Validates ResourceSlices: their pool, node and devices, and the fields that an update cannot change. Pure.
#
# Source: Kubernetes 1.37, `pkg/apis/resource/validation`.

_LONGEST_POOL_NAME = 253
_TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")
_NODES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_OF = f"exactly one of {', '.join(f'`{name}`' for name in _NODES)} is required"


def slice_errors(spec: Object) -> Iterator[FieldError]:
    """The errors in the spec of a ResourceSlice."""
    yield from _name_errors(spec.get("driver") or "", "spec.driver")
    pool = spec.get("pool") or {}
    yield from _pool_name_errors(pool.get("name") or "")
    if pool.get("resourceSliceCount", 0) <= 0:
        count = pool.get("resourceSliceCount", 0)
        yield refusals.invalid_value("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if pool.get("generation", 0) < 0:
        yield refusals.invalid_value(
            "spec.pool.generation", pool["generation"], "must be greater than or equal to zero"
        )
    yield from _node_errors(spec)
    names = set[str]()
    for index, device in enumerate(spec.get("devices") or ()):
        at, name = f"spec.devices[{index}]", device.get("name") or ""
        if name in names:
            yield refusals.duplicate_value(at, name)
        names.add(name)
        yield from (refusals.invalid_value(f"{at}.name", name, why) for why in label_name_errors(name))
        for number, taint in enumerate(device.get("taints") or ()):
            yield from _taint_errors(taint, f"{at}.taints[{number}]")


def _taint_errors(taint: Object, at: str) -> Iterator[FieldError]:
    key, value, effect = (taint.get(name) or "" for name in ("key", "value", "effect"))
    yield from (refusals.invalid_value(f"{at}.key", key, why) for why in label_key_errors(key))
    yield from (refusals.invalid_value(f"{at}.value", value, why) for why in label_value_errors(value))
    if not effect:
        yield refusals.required_value(f"{at}.effect")
    elif effect not in _TAINT_EFFECTS:
        yield refusals.unsupported_value(f"{at}.effect", effect, _TAINT_EFFECTS)


def _pool_name_errors(name: str) -> Iterator[FieldError]:
    """The errors in the name of a pool: names with dots, joined by slashes."""
    at = "spec.pool.name"
    if not name:
        yield refusals.required_value(at)
        return
    if len(name) > _LONGEST_POOL_NAME:
        yield refusals.too_long(at, _LONGEST_POOL_NAME)
    for part in name.split("/"):
        yield from (refusals.invalid_value(at, part, why) for why in subdomain_errors(part))


def _name_errors(name: str, at: str) -> Iterator[FieldError]:
    if not name:
        yield refusals.required_value(at)
        return
    yield from (refusals.invalid_value(at, name, why) for why in subdomain_errors(name))


def _node_errors(spec: Object) -> Iterator[FieldError]:
    given = [name for name in _NODES if spec.get(name)]
    if spec.get("nodeName"):
        yield from _name_errors(spec["nodeName"], "spec.nodeName")
    if len(given) > 1:
        shown = f"{{{', '.join(f'`{name}`' for name in given)}}}"
        yield refusals.invalid_value("spec", shown, f"{_ONE_OF}, but multiple fields are set")
    if not given:
        yield refusals.required_value("spec", _ONE_OF)


def moved_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """The errors of an update of the spec that changes the driver, the pool or the node."""
    for path in ("driver", "pool.name", "nodeName"):
        wanted, before = _at(new, path), _at(old, path)
        if wanted != before:
            yield refusals.invalid_value(f"spec.{path}", wanted, "field is immutable")


def _at(spec: Object, path: str) -> object:
    outer, _, inner = path.partition(".")
    return (spec.get(outer) or {}).get(inner) if inner else spec.get(outer)


# Validates ResourceClaims: their requests, and the changes of their status. Pure.
#
# Source: Kubernetes 1.37, `pkg/apis/resource/validation`.

_MODES = ("All", "ExactCount")


def request_errors(spec: Object, at: str) -> Iterator[FieldError]:
    """The errors in the requests of the spec of a claim, which is at this path."""
    seen = set[str]()
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        path, exactly = f"{at}.devices.requests[{index}]", request.get("exactly")
        if request.get("name") in seen:
            yield refusals.duplicate_value(path, _with_defaults(request))
        seen.add(request.get("name", ""))
        if exactly is not None and request.get("firstAvailable"):
            why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
            yield refusals.invalid_value(path, None, why)
        elif exactly is not None:
            yield from _exact_errors(exactly, f"{path}.exactly")
        elif not request.get("firstAvailable"):
            yield refusals.required_value(path, "exactly one of `exactly` or `firstAvailable` is required")


def _with_defaults(request: Object) -> Object:
    exactly = request.get("exactly")
    if exactly is None or exactly.get("allocationMode") not in (None, "", "ExactCount"):
        return request
    return {**request, "exactly": {**exactly, "allocationMode": "ExactCount", "count": exactly.get("count", 1)}}


def _exact_errors(exactly: Object, at: str) -> Iterator[FieldError]:
    mode, count = exactly.get("allocationMode") or "ExactCount", exactly.get("count", 1)
    if not exactly.get("deviceClassName"):
        yield refusals.required_value(f"{at}.deviceClassName")
    if mode not in _MODES:
        yield refusals.unsupported_value(f"{at}.allocationMode", mode, _MODES)
    elif mode == "ExactCount" and count < 1:
        yield refusals.invalid_value(f"{at}.count", count, "must be greater than zero")


def status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """The errors of an update of the status: an allocation does not change, and a reserved claim is allocated."""
    allocation, before = new.get("allocation"), old.get("allocation")
    if allocation and before and _devices(allocation) != _devices(before):
        yield refusals.invalid_value("status.allocation", None, "field cannot be modified once set")
    if not allocation and new.get("reservedFor"):
        yield refusals.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")


def _devices(allocation: Object) -> Sequence[tuple[str, ...]]:
    keys = ("request", "driver", "pool", "device", "shareID")
    results = (allocation.get("devices") or {}).get("results") or ()
    return [tuple(str(result.get(key)) for key in keys) for result in results]


# Validates ConfigMaps and Secrets: their keys, and the fields that an update cannot change. Pure.
#
# Source: k8s.io/kubernetes, `pkg/apis/core/validation`.

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


# Validates the required parts of a spec: the names that a scheduler and a kubelet expect.

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
