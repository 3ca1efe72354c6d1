"""Validates a pod status as Kubernetes 1.37 does: the rules A-08 to A-15.

Only `allocatedResourcesStatus` is validated. As in Kubernetes, the following is not: duplicate names, the length of the
list, the form of a resourceID, empty `resources`, and the existence of a claim (A-15). The extensions of KEP-4680, the
pod's own field and an entry for each request, have names as in the KEP and otherwise the same rules.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from drahealth.fakes.cluster.api import PODS, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.gates import FIELD, STATUS_LISTS, FieldRules
from drahealth.fakes.cluster.api_server.refusals import FieldError
from drahealth.proto.values import MESSAGE_LIMIT, Health

_CLAIM_NAME = (
    "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when "
    "container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"
)
_POD_CLAIM_NAME = (
    "must match one of the pod's resource claims as 'claim:<claimName>/<requestName>', "
    "or 'claim:<claimName>' where its driver names no request"
)
_RESOURCE_NAME = "must match one of the container's resource requests"
_HEALTHS = sorted(Health)
_ZERO = re.compile(r"[+-]?[0.]+([A-Za-z].*)?")


def validate_status(pod: Object, rules: FieldRules) -> None:
    """Raises `ApiError`: 400 BadRequest for a malformed status, 422 Invalid if it breaks a rule."""
    _check_shape(pod["status"])
    if errors := list(_errors(pod, rules)):
        raise refusals.invalid(PODS, pod["metadata"]["name"], errors)


def _errors(pod: Object, rules: FieldRules) -> Iterator[FieldError]:
    spec, status = pod.get("spec", {}), pod["status"]
    extended = status.get("extendedResourceClaimStatus") or {}
    for field, containers in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        by_name = {container["name"]: container for container in spec.get(containers) or ()}
        for i, one in enumerate(status.get(field) or ()):
            container = by_name.get(one.get("name"))
            wrong_name = partial(_wrong_name, container, extended, rules) if container else _not_in_the_spec
            yield from _status_errors(f"status.{field}[{i}]", one, wrong_name)
    yield from _status_errors("status", status, partial(_wrong_pod_name, spec))
    for i, one in enumerate(status.get("ephemeralContainerStatuses") or ()):
        if one.get(FIELD):
            path = f"status.ephemeralContainerStatuses[{i}].{FIELD}"
            yield refusals.forbidden(path, "must not be specified in container status")


def _status_errors(path: str, status: Object, wrong_name: Callable[[str], str]) -> Iterator[FieldError]:
    for j, entry in enumerate(status.get(FIELD) or ()):
        entry_path, name = f"{path}.{FIELD}[{j}]", entry.get("name") or ""
        if complaint := wrong_name(name):
            yield refusals.invalid_value(f"{entry_path}.name", name, complaint)
        yield from _resource_errors(f"{entry_path}.resources", entry.get("resources") or ())


def _not_in_the_spec(name: str) -> str:
    """Names are not validated for a container that is not in the spec (A-10)."""
    return ""


def _wrong_name(container: Object, extended: Object, rules: FieldRules, name: str) -> str:
    resources = container.get("resources") or {}
    if not name.startswith("claim:"):
        return "" if name in (resources.get("requests") or {}) else _RESOURCE_NAME
    claims = resources.get("claims") or ()
    is_used = any(_names_use(name, claim, rules) for claim in claims) or _is_extended(name, container, extended)
    return "" if is_used else _CLAIM_NAME


def _names_use(name: str, claim: Object, rules: FieldRules) -> bool:
    """Whether the entry refers to this element of the container's `resources.claims`."""
    whole = f"claim:{claim['name']}"
    if claim.get("request"):
        return name == f"{whole}/{claim['request']}"
    return name == whole or (rules.names_every_request and _is_request_of(name, whole))


def _wrong_pod_name(spec: Object, name: str) -> str:
    """The pod's own field exists only in KEP-4680 (PodStatus.AllocatedResourcesStatus; ResourceStatus, Name)."""
    claims = [f"claim:{claim['name']}" for claim in spec.get("resourceClaims") or ()]
    return "" if any(name == claim or _is_request_of(name, claim) for claim in claims) else _POD_CLAIM_NAME


def _is_request_of(name: str, claim: str) -> bool:
    return name.startswith(f"{claim}/") and name != f"{claim}/"


def _is_extended(name: str, container: Object, extended: Object) -> bool:
    """Whether an extended resource is backed by a claim: `claim:<object>/<request>`, mapped to this container
    (A-09).
    """
    claim, slash, request = name.removeprefix("claim:").partition("/")
    if not slash or not request or claim != extended.get("resourceClaimName"):
        return False
    requests = (container.get("resources") or {}).get("requests") or {}
    return any(
        mapping.get("containerName") == container["name"]
        and mapping.get("requestName") == request
        and not _ZERO.fullmatch(str(requests.get(mapping.get("resourceName"), 0)))
        for mapping in extended.get("requestMappings") or ()
    )


def _resource_errors(path: str, resources: Any) -> Iterator[FieldError]:
    seen = set()
    for k, resource in enumerate(resources):
        health, resource_id = resource.get("health") or "", resource.get("resourceID") or ""
        if health not in _HEALTHS:
            yield refusals.unsupported_value(f"{path}[{k}].health", health, _HEALTHS)
        yield from _message_errors(f"{path}[{k}].message", resource.get("message"))
        if resource_id in seen:
            yield refusals.duplicate_value(f"{path}[{k}].resourceID", resource_id)
        seen.add(resource_id)


def _message_errors(path: str, message: str | None) -> Iterator[FieldError]:
    if message == "":
        yield refusals.required_value(path, "must be non-empty if specified")
    elif message is not None and len(message.encode(errors="surrogatepass")) > MESSAGE_LIMIT:
        yield refusals.too_long(path, MESSAGE_LIMIT)


def _check_shape(status: Any) -> None:
    """A real API server rejects an object that it cannot decode, before it validates."""
    extended = _object(
        "extendedResourceClaimStatus", _object("status", status).get("extendedResourceClaimStatus") or {}
    )
    _objects("extendedResourceClaimStatus.requestMappings", extended.get("requestMappings"))
    _check_entries(status)
    for name in STATUS_LISTS:
        for one in _objects(f"status.{name}", status.get(name)):
            _texts(f"status.{name}", one, "name")
            _check_entries(one)


def _check_entries(status: Object) -> None:
    for entry in _objects(FIELD, status.get(FIELD)):
        _texts(FIELD, entry, "name")
        for resource in _objects("resources", entry.get("resources")):
            _texts("resources", resource, "resourceID", "health", "message")


def _object(field: str, value: Any) -> Object:
    if not isinstance(value, dict):
        raise refusals.bad_request(f"{field} must be an object, got {type(value).__name__}")
    return value


def _objects(field: str, value: Any) -> list[Object]:
    if not isinstance(value, list | None):
        raise refusals.bad_request(f"{field} must be a list, got {type(value).__name__}")
    return [_object(f"an element of {field}", item) for item in value or ()]


def _texts(field: str, obj: Object, *names: str) -> None:
    for name in names:
        if not isinstance(obj.get(name), str | None):
            raise refusals.bad_request(f"{name} of an element of {field} must be a string, got {obj[name]!r}")
