"""Validates the spec of a Pod, or of a Pod template: what kube-apiserver rejects, with its messages. Pure.

Source: Kubernetes 1.37, `pkg/apis/core/validation`, ValidatePodSpec. The spec has its defaults. Affinity, probes,
security contexts and topology spread constraints are not validated.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.claim_names import claim_errors
from drahealth.fakes.cluster.api_server.container_validation import container_errors, enum_error
from drahealth.fakes.cluster.api_server.metadata_validation import (
    label_key_errors,
    label_name_errors,
    label_value_errors,
    subdomain_errors,
)
from drahealth.fakes.cluster.api_server.quantities import parse_quantity
from drahealth.fakes.cluster.api_server.refusals import FieldError

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LONGEST_DEADLINE = 2**31 - 1


def check_spec_shape(kind: Kind, spec: Any, at: str) -> None:
    """Raises `ApiError` 400 for a spec of a Pod, at this path, whose parts have wrong types or wrong quantities."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(_objects(spec.get(field), f"{at}.{field}")):
            here = f"{at}.{field}[{index}]"
            _texts(container, here, "name", "image")
            resources = _object(container.get("resources"), f"{here}.resources")
            _objects(resources.get("claims"), f"{here}.resources.claims")
            for key in ("limits", "requests"):
                for amount in _object(resources.get(key), f"{here}.resources.{key}").values():
                    _check_quantity(kind, amount)
    for index, claim in enumerate(_objects(spec.get("resourceClaims"), f"{at}.resourceClaims")):
        _texts(claim, f"{at}.resourceClaims[{index}]", "name", "resourceClaimName", "resourceClaimTemplateName")


def _check_quantity(kind: Kind, amount: Any) -> None:
    try:
        parse_quantity(str(amount))
    except ValueError:
        raise refusals.wrong_quantity(kind) from None


def _object(value: Any, at: str) -> Object:
    if not isinstance(value, dict | None):
        raise refusals.bad_request(f"{at} must be an object, got {type(value).__name__}")
    return value or {}


def _objects(value: Any, at: str) -> Sequence[Object]:
    if not isinstance(value, list | None):
        raise refusals.bad_request(f"{at} must be a list, got {type(value).__name__}")
    return [_object(item, f"{at}[{index}]") for index, item in enumerate(value or ())]


def _texts(obj: Object, at: str, *keys: str) -> None:
    for key in keys:
        if not isinstance(obj.get(key), str | None):
            raise refusals.bad_request(f"{at}.{key} must be a string, got {type(obj[key]).__name__}")


def pod_spec_errors(spec: Object, at: str) -> Iterator[FieldError]:
    """The errors in the spec of a Pod, which is at this path."""
    yield from _volume_errors(spec.get("volumes") or (), f"{at}.volumes")
    yield from claim_errors(spec, at)
    yield from container_errors(spec, at)
    yield from enum_error(spec, "restartPolicy", _RESTART_POLICIES, at)
    yield from enum_error(spec, "dnsPolicy", _DNS_POLICIES, at)
    yield from _selector_errors(spec.get("nodeSelector") or {}, f"{at}.nodeSelector")
    if spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig"):
        yield refusals.required_value(f"{at}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    yield from _gate_errors(spec, at)
    for key in ("serviceAccountName", "nodeName"):
        yield from (
            refusals.invalid_value(f"{at}.{key}", spec[key], why) for why in subdomain_errors(spec.get(key) or "a")
        )
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST_DEADLINE:
        why = f"must be between 1 and {_LONGEST_DEADLINE}, inclusive"
        yield refusals.invalid_value(f"{at}.activeDeadlineSeconds", deadline, why)
    for key in ("hostname", "subdomain"):
        yield from (
            refusals.invalid_value(f"{at}.{key}", spec[key], why) for why in label_name_errors(spec.get(key) or "a")
        )
    yield from _toleration_errors(spec.get("tolerations") or (), f"{at}.tolerations")


def _volume_errors(volumes: Sequence[Object], at: str) -> Iterator[FieldError]:
    names = set[str]()
    for index, volume in enumerate(volumes):
        here, name = f"{at}[{index}]", volume.get("name") or ""
        sources = [key for key, source in volume.items() if key != "name" and source is not None]
        yield from (
            refusals.forbidden(f"{here}.{key}", "may not specify more than 1 volume type") for key in sources[1:]
        )
        if not name:
            yield refusals.required_value(f"{here}.name")
            continue
        wrong = list(label_name_errors(name))
        yield from (refusals.invalid_value(f"{here}.name", name, why) for why in wrong)
        if not wrong and name in names:
            yield refusals.duplicate_value(f"{here}.name", name)
        names.add(name)


def _selector_errors(labels: Object, at: str) -> Iterator[FieldError]:
    for key, value in sorted(labels.items()):
        yield from (refusals.invalid_value(at, key, why) for why in label_key_errors(key))
        yield from (refusals.invalid_value(at, value, why) for why in label_value_errors(value))


def _gate_errors(spec: Object, at: str) -> Iterator[FieldError]:
    names = set[str]()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        here, name = f"{at}.schedulingGates[{index}]", gate.get("name") or ""
        yield from (refusals.invalid_value(here, name, why) for why in label_key_errors(name))
        if name in names:
            yield refusals.duplicate_value(here, name)
        names.add(name)


def _toleration_errors(tolerations: Sequence[Object], at: str) -> Iterator[FieldError]:
    for index, one in enumerate(tolerations):
        here, key, operator = f"{at}[{index}]", one.get("key") or "", one.get("operator") or ""
        value, effect = one.get("value") or "", one.get("effect") or ""
        if key:
            yield from (refusals.invalid_value(f"{here}.key", key, why) for why in label_key_errors(key))
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield refusals.invalid_value(f"{here}.operator", operator, why)
        if one.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield refusals.invalid_value(f"{here}.effect", effect, why)
        if operator in ("", "Equal"):
            yield from (refusals.invalid_value(f"{here}.operator", value, why) for why in label_value_errors(value))
        elif operator == "Exists" and value:
            why = "value must be empty when `operator` is 'Exists'"
            yield refusals.invalid_value(f"{here}.operator", value, why)
        yield from enum_error(one, "operator", _OPERATORS, here)
        yield from enum_error(one, "effect", _EFFECTS, here)
