"""What Kubernetes 1.37 checks in a pod status that is written: the rules A-08 to A-15 of its API validation.

Checked are the container statuses' `allocatedResourcesStatus` alone. Not checked, as there: names that occur twice, the
length of the list, what a resourceID looks like, empty `resources`, whether a claim exists (A-15).
"""

import re
from collections.abc import Iterator
from typing import Any

from drahealth.fakes.api import PODS, Object
from drahealth.fakes.api_server import refusals
from drahealth.fakes.api_server.gates import STATUS_LISTS
from drahealth.fakes.api_server.refusals import FieldError
from drahealth.proto.values import MESSAGE_LIMIT, Health

_CLAIM_NAME = (
    "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when "
    "container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"
)
_RESOURCE_NAME = "must match one of the container's resource requests"
_HEALTHS = sorted(Health)
_ZERO = re.compile(r"[+-]?[0.]+([A-Za-z].*)?")


def validate_status(pod: Object) -> None:
    """Raises `ApiError`: 400 BadRequest if the status is not shaped like one, 422 Invalid if it breaks a rule."""
    _check_shape(pod["status"])
    if errors := list(_errors(pod)):
        raise refusals.invalid(PODS, pod["metadata"]["name"], errors)


def _errors(pod: Object) -> Iterator[FieldError]:
    spec, status = pod.get("spec", {}), pod["status"]
    extended = status.get("extendedResourceClaimStatus") or {}
    for field, containers in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        by_name = {container["name"]: container for container in spec.get(containers) or ()}
        for i, one in enumerate(status.get(field) or ()):
            yield from _status_errors(f"status.{field}[{i}]", one, by_name.get(one.get("name")), extended)
    for i, one in enumerate(status.get("ephemeralContainerStatuses") or ()):
        if one.get("allocatedResourcesStatus"):
            path = f"status.ephemeralContainerStatuses[{i}].allocatedResourcesStatus"
            yield refusals.forbidden(path, "must not be specified in container status")


def _status_errors(path: str, status: Object, container: Object | None, extended: Object) -> Iterator[FieldError]:
    """A status whose container is not in the spec is spared the check of names alone (A-10)."""
    for j, entry in enumerate(status.get("allocatedResourcesStatus") or ()):
        entry_path = f"{path}.allocatedResourcesStatus[{j}]"
        if container is not None:
            yield from _name_errors(f"{entry_path}.name", entry.get("name") or "", container, extended)
        yield from _resource_errors(f"{entry_path}.resources", entry.get("resources") or ())


def _name_errors(path: str, name: str, container: Object, extended: Object) -> Iterator[FieldError]:
    resources = container.get("resources") or {}
    if name.startswith("claim:"):
        if name not in _claim_names(resources) and not _is_extended(name, container, extended):
            yield refusals.invalid_value(path, name, _CLAIM_NAME)
    elif name not in (resources.get("requests") or {}):
        yield refusals.invalid_value(path, name, _RESOURCE_NAME)


def _claim_names(resources: Object) -> set[str]:
    claims = resources.get("claims") or ()
    return {f"claim:{c['name']}" + (f"/{c['request']}" if c.get("request") else "") for c in claims}


def _is_extended(name: str, container: Object, extended: Object) -> bool:
    """An extended resource that a claim stands behind: `claim:<object>/<request>`, mapped to this container (A-08)."""
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
    """A real API server refuses what it cannot decode before any rule is asked."""
    extended = _object(
        "extendedResourceClaimStatus", _object("status", status).get("extendedResourceClaimStatus") or {}
    )
    _objects("extendedResourceClaimStatus.requestMappings", extended.get("requestMappings"))
    for name in STATUS_LISTS:
        for one in _objects(f"status.{name}", status.get(name)):
            _texts(f"status.{name}", one, "name")
            for entry in _objects("allocatedResourcesStatus", one.get("allocatedResourcesStatus")):
                _texts("allocatedResourcesStatus", entry, "name")
                for resource in _objects("resources", entry.get("resources")):
                    _texts("resources", resource, "resourceID", "health", "message")


def _object(field: str, value: Any) -> Object:
    if not isinstance(value, dict):
        raise refusals.bad_request(f"{field} is not an object but {type(value).__name__}")
    return value


def _objects(field: str, value: Any) -> list[Object]:
    if not isinstance(value, list | None):
        raise refusals.bad_request(f"{field} is not a list but {type(value).__name__}")
    return [_object(f"an element of {field}", item) for item in value or ()]


def _texts(field: str, obj: Object, *names: str) -> None:
    for name in names:
        if not isinstance(obj.get(name), str | None):
            raise refusals.bad_request(f"{name} of an element of {field} is not a string but {obj[name]!r}")
