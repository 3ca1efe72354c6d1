"""Validates the specs of Pods: containers, volumes, and the claims that they name. Pure."""

import re
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.object_rules import (
    label_key_errors,
    label_name_errors,
    label_value_errors,
    subdomain_errors,
)
from drahealth.fakes.cluster.refusals import FieldError
from drahealth.proto.values import is_extended_resource

# Validates the claim names of a Pod: each container uses claims that the Pod declares, each once.
#
# A container cannot name a subrequest: its request must be an RFC 1123 label, which has no slash. Source: kubernetes
# 1.37, `pkg/apis/core/validation`, `validateResourceClaimNames` and `validatePodResourceClaims`.

_REQUEST_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_RULE = (
    "must be an RFC 1123 label: at most 63 lower case letters, digits or '-', with a letter or digit at both ends"
)


def claim_errors(spec: Object, at: str) -> Iterator[FieldError]:
    """The errors in the claims that a Pod's spec at this path declares."""
    declared = set[str]()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        here, name = f"{at}.resourceClaims[{index}]", claim.get("name") or ""
        if not name:
            yield refusals.required_value(f"{here}.name")
        elif name in declared:
            yield refusals.duplicate_value(f"{here}.name", name)
        else:
            yield from (refusals.invalid_value(f"{here}.name", name, why) for why in label_name_errors(name))
        declared.add(name)
        yield from _source_errors(claim, here)


def _source_errors(claim: Object, at: str) -> Iterator[FieldError]:
    claim_name, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
    shown = {"Name": claim.get("name") or "", "ResourceClaimName": claim_name, "ResourceClaimTemplateName": template}
    if claim_name is not None and template is not None:
        why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield refusals.invalid_value(at, shown, why)
    if claim_name is None and template is None:
        why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        yield refusals.invalid_value(at, shown, why)
    for key in ("resourceClaimName", "resourceClaimTemplateName"):
        if claim.get(key) is not None:
            yield from (refusals.invalid_value(f"{at}.{key}", claim[key], why) for why in subdomain_errors(claim[key]))


def use_errors(container: Object, spec: Object, at: str) -> Iterator[FieldError]:
    """The errors in the claims that a container at this path uses; `spec` is that of its Pod."""
    uses = (container.get("resources") or {}).get("claims") or []
    declared = sorted({claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")})
    return _use_errors(uses, declared, f"{at}.resources.claims")


def _use_errors(uses: list[Object], declared: list[str], at: str) -> Iterator[FieldError]:
    seen = dict[str, None]()
    listed = f": {', '.join(declared)}" if declared else " which is empty"
    for index, use in enumerate(uses):
        name, request = use.get("name") or "", use.get("request") or ""
        if not name:
            yield refusals.required_value(f"{at}[{index}]")
            continue
        whole = f"{name}/{request}" if request else name
        if request and name not in seen and not _REQUEST_NAME.fullmatch(request):
            yield refusals.invalid_value(f"{at}[{index}].request", request, _LABEL_RULE)
        parts = [one for one in seen if not request and one.startswith(f"{name}/")]
        for twice in [one for one in (name, whole, *parts) if one in seen][:1]:
            yield refusals.duplicate_value(f"{at}[{index}]", twice)
        seen[whole] = None
        if name not in declared:
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield refusals.not_in(f"{at}[{index}]", name, detail)


# Validates the containers in the spec of a Pod: names, images, ports, environment, mounts and resources. Pure.
#
# Source: Kubernetes 1.37, `pkg/apis/core/validation`. The containers have their defaults.

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_CONTAINER_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORT_NAME_LIMIT, _LAST_PORT = 15, 65535
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_STANDARD = (*_OF_CONTAINERS, "storage", "pods", "services", "secrets", "configmaps", "persistentvolumeclaims")
_ENV_NAME = re.compile(r"[ -<>-~]+")


def container_errors(spec: Object, at: str) -> Iterator[FieldError]:
    """The errors in the containers and init containers of a Pod's spec at this path."""
    names = set[str]()
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    containers = spec.get("containers") or ()
    if not containers:
        yield refusals.required_value(f"{at}.containers")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            here, name = f"{at}.{field}[{index}]", container.get("name") or ""
            yield from _errors(container, spec, volumes, here)
            if name and name in names:
                yield refusals.duplicate_value(f"{here}.name", name)
            names.add(name)
        if field == "containers":
            yield from _host_port_errors(containers, f"{at}.containers")


def _errors(container: Object, spec: Object, volumes: Collection[Any], at: str) -> Iterator[FieldError]:
    name, image = container.get("name") or "", container.get("image") or ""
    if not name:
        yield refusals.required_value(f"{at}.name")
    else:
        yield from (refusals.invalid_value(f"{at}.name", name, why) for why in label_name_errors(name))
    if not image:
        yield refusals.required_value(f"{at}.image")
    elif image != image.strip():
        yield refusals.invalid_value(f"{at}.image", image, "must not have leading or trailing whitespace")
    yield from enum_error(container, "terminationMessagePolicy", _MESSAGE_POLICIES, at)
    yield from _port_errors(container.get("ports") or (), f"{at}.ports")
    yield from _env_errors(container.get("env") or (), f"{at}.env")
    yield from _mount_errors(container.get("volumeMounts") or (), volumes, f"{at}.volumeMounts")
    yield from enum_error(container, "imagePullPolicy", _PULL_POLICIES, at)
    yield from _resource_errors(container.get("resources") or {}, f"{at}.resources")
    yield from use_errors(container, spec, at)
    yield from enum_error(container, "restartPolicy", _CONTAINER_RESTART_POLICIES, at)


def enum_error(obj: Object, key: str, supported: Sequence[str], at: str) -> Iterator[FieldError]:
    """The error of a field whose value is not one of these; none for a field without a value."""
    if obj.get(key) and obj[key] not in supported:
        yield refusals.unsupported_value(f"{at}.{key}", obj[key], supported)


def _port_errors(ports: Sequence[Object], at: str) -> Iterator[FieldError]:
    names = set[str]()
    for index, port in enumerate(ports):
        here, name = f"{at}[{index}]", port.get("name") or ""
        wrong = list(_port_name_errors(name)) if name else []
        yield from (refusals.invalid_value(f"{here}.name", name, why) for why in wrong)
        if not wrong and name and name in names:
            yield refusals.duplicate_value(f"{here}.name", name)
        names.add(name)
        if not port.get("containerPort"):
            yield refusals.required_value(f"{here}.containerPort")
        for key in ("containerPort", "hostPort"):
            if port.get(key) and not 1 <= port[key] <= _LAST_PORT:
                why = f"must be between 1 and {_LAST_PORT}, inclusive"
                yield refusals.invalid_value(f"{here}.{key}", port[key], why)
        yield from enum_error(port, "protocol", _PROTOCOLS, here)


def _port_name_errors(name: str) -> Iterator[str]:
    if len(name) > _PORT_NAME_LIMIT:
        yield f"must be no more than {_PORT_NAME_LIMIT} characters"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def _host_port_errors(containers: Sequence[Object], at: str) -> Iterator[FieldError]:
    seen = set[str]()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            text = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if text in seen:
                yield refusals.duplicate_value(f"{at}[{index}].ports[{place}].hostPort", text)
            seen.add(text)


def _env_errors(env: Sequence[Object], at: str) -> Iterator[FieldError]:
    for index, one in enumerate(env):
        here, name = f"{at}[{index}]", one.get("name") or ""
        if not name:
            yield refusals.required_value(f"{here}.name")
        elif not _ENV_NAME.fullmatch(name):
            why = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield refusals.invalid_value(f"{here}.name", name, why)
        if one.get("value") and one.get("valueFrom"):
            yield refusals.invalid_value(f"{here}.valueFrom", "", "may not be specified when `value` is not empty")


def _mount_errors(mounts: Sequence[Object], volumes: Collection[Any], at: str) -> Iterator[FieldError]:
    paths = set[str]()
    for index, mount in enumerate(mounts):
        here, name, path = f"{at}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield refusals.required_value(f"{here}.name")
        if name not in volumes:
            yield refusals.not_in(f"{here}.name", name)
        if not path:
            yield refusals.required_value(f"{here}.mountPath")
        if path in paths:
            yield refusals.invalid_value(f"{here}.mountPath", path, "must be unique")
        paths.add(path)
        part = mount.get("subPath") or ""
        if part.startswith("/"):
            yield refusals.invalid_value(f"{at}.subPath", part, "must be a relative path")
        if ".." in part.split("/"):
            yield refusals.invalid_value(f"{at}.subPath", part, "must not contain '..'")


def _resource_errors(resources: Object, at: str) -> Iterator[FieldError]:
    limits, requests = (_amounts(resources.get(key)) for key in ("limits", "requests"))
    for key, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in sorted(amounts.items()):
            yield from _name_errors(name, f"{at}.{key}[{name}]")
            yield from _amount_errors(name, amount, f"{at}.{key}[{name}]")
            if key == "requests":
                yield from _limit_errors(name, amount, limits.get(name), at)


def _amounts(found: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in (found or {}).items()}


def _name_errors(name: str, at: str) -> Iterator[FieldError]:
    wrong = list(label_key_errors(name))
    yield from (refusals.invalid_value(at, name, why) for why in wrong)
    if "/" in name:
        if not wrong and "kubernetes.io/" not in name and not is_extended_resource(name):
            yield refusals.invalid_value(at, name, "doesn't follow extended resource name standard")
        return
    is_large_page = name.startswith("hugepages-")
    if not wrong and name not in _STANDARD and not is_large_page:
        yield refusals.invalid_value(at, name, "must be a standard resource type or fully qualified")
    if name not in _OF_CONTAINERS and not is_large_page:
        yield refusals.invalid_value(at, name, "must be a standard resource for containers")


def _amount_errors(name: str, amount: str, at: str) -> Iterator[FieldError]:
    value = parse_quantity(amount)
    if value < 0:
        yield refusals.invalid_value(at, amount, "must be greater than or equal to 0")
    if is_extended_resource(name) and value != int(value):
        yield refusals.invalid_value(at, amount, "must be an integer")


def _limit_errors(name: str, amount: str, limit: str | None, at: str) -> Iterator[FieldError]:
    """Extended resources are not overcommitted: the request is the limit."""
    is_extended = is_extended_resource(name)
    if limit is None:
        if is_extended:
            yield refusals.required_value(f"{at}.limits", "Limit must be set for non overcommitable resources")
        return
    value, most = parse_quantity(amount), parse_quantity(limit)
    if is_extended and value != most:
        yield refusals.invalid_value(f"{at}.requests", amount, f"must be equal to {name} limit of {limit}")
    elif not is_extended and value > most:
        why = f"must be less than or equal to {name} limit of {limit}"
        yield refusals.invalid_value(f"{at}.requests", amount, why)


# Validates the spec of a Pod, or of a Pod template: what kube-apiserver rejects, with its messages. Pure.
#
# Source: Kubernetes 1.37, `pkg/apis/core/validation`, ValidatePodSpec. The spec has its defaults. Affinity, probes,
# security contexts and topology spread constraints are not validated.

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


# Amounts of resources in the form of Kubernetes, such as 500m or 2Gi. Pure.
#
# Source: k8s.io/apimachinery, `pkg/api/resource`.


_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def parse_quantity(text: str) -> Decimal:
    """The value of a quantity. Raises ValueError for another text."""
    if (match := _QUANTITY.fullmatch(text)) is None:
        raise ValueError(f"{text!r:.80} is not a quantity")
    number, exponent, suffix = match[1], match[2], match[3]
    if exponent:
        return Decimal(number).scaleb(max(min(int(exponent[1:]), 100), -100))
    if suffix in _BINARY:
        return Decimal(number) * Decimal(1024) ** (_BINARY.index(suffix) + 1)
    return Decimal(number).scaleb(_DECIMAL.get(suffix, 0))
