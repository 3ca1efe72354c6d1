"""The rules of an API server for Pod statuses, and the effect of feature gates on `allocatedResourcesStatus`."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import PODS, Object
from drahealth.fakes.cluster.refusals import FieldError
from drahealth.proto.values import MESSAGE_GATE, MESSAGE_LIMIT, STATUS_GATE, Health

# The rules of an API server for `allocatedResourcesStatus`, and the effect of the feature gates on a pod.
#
# Two texts, two sets of rules, handed in as data. KEP-4680 (newest revision, "Feature Enablement and Rollback"):
# while the gate is off the field is dropped when serving and may be wiped by the next write. Kubernetes 1.36 and
# 1.37: reads are never filtered, and a write keeps the field if the old object has it (A-04 to A-06, docs/facts.md).


STATUS_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
"""The fields of a pod's status with container statuses."""

FIELD = "allocatedResourcesStatus"


@dataclass(frozen=True, slots=True)
class FieldRules:
    """Rules of one API server. The first two apply while a gate is off."""

    filters_reads: bool
    """Reads and watch events omit stored values."""
    keeps_what_was_there: bool
    """A write keeps the field if the old object has it anywhere; otherwise (or if False) the field is dropped."""
    has_pod_field: bool
    """The server knows the pod's own field; otherwise it drops it silently, like every unknown field."""
    names_every_request: bool
    """A container that uses a whole claim can have an entry for each request, `claim:NAME/REQUEST`."""


KEP_RULES = FieldRules(filters_reads=True, keeps_what_was_there=False, has_pod_field=True, names_every_request=True)
"""The newest revision of the KEP."""


@dataclass(frozen=True, slots=True)
class HealthFields:
    """The two gates as set at the start of a component, and their effect on the fields."""

    rules: FieldRules
    status: bool = True
    message: bool = True

    @classmethod
    def at_start(cls, rules: FieldRules, gates: Mapping[str, bool]) -> "HealthFields":
        """Gates by name, enabled by default. ValueError for an unknown gate, or only the status gate off (A-03)."""
        for name in gates:
            if name not in (STATUS_GATE, MESSAGE_GATE):
                raise ValueError(f"unknown feature gate {name!r}; valid: {STATUS_GATE}, {MESSAGE_GATE}")
        status, message = gates.get(STATUS_GATE, True), gates.get(MESSAGE_GATE, True)
        if message and not status:
            raise ValueError(f"{MESSAGE_GATE} depends on {STATUS_GATE}, which is disabled; disable both")
        return cls(rules, status, message)

    def written(self, pod: Object, old: Object | None) -> Object:
        """The pod to store when a client writes it over `old`."""
        if not self.rules.has_pod_field:
            pod = _without_pod_field(pod)
        kept = old if self.rules.keeps_what_was_there else None
        if not self.status and not (kept and _has_field(kept)):
            pod = _changed(pod, _without_field)
        if not self.message and not (kept and _has_message(kept)):
            pod = _changed(pod, _without_messages)
        return pod

    def served(self, pod: Object) -> Object:
        """The stored pod as clients read it."""
        if not self.rules.filters_reads or (self.status and self.message):
            return pod
        return _changed(pod, _without_messages if self.status else _without_field)


def _statuses(pod: Object) -> Iterator[Object]:
    """All objects that can have the field: the pod's status and its container statuses."""
    status = pod.get("status") or {}
    yield status
    for name in STATUS_LISTS:
        yield from status.get(name) or ()


def _has_field(pod: Object) -> bool:
    return any(status.get(FIELD) for status in _statuses(pod))


def _has_message(pod: Object) -> bool:
    return any(
        resource.get("message") is not None
        for status in _statuses(pod)
        for entry in status.get(FIELD) or ()
        for resource in entry.get("resources") or ()
    )


def _changed(pod: Object, change: Callable[[Object], Object]) -> Object:
    if not (status := pod.get("status")):
        return pod
    lists = {name: [change(one) for one in status[name]] for name in STATUS_LISTS if status.get(name)}
    return {**pod, "status": {**change(status), **lists}}


def _without_pod_field(pod: Object) -> Object:
    return {**pod, "status": _without_field(pod["status"])} if FIELD in (pod.get("status") or {}) else pod


def _without_field(status: Object) -> Object:
    return {name: value for name, value in status.items() if name != FIELD}


def _without_messages(status: Object) -> Object:
    if not status.get(FIELD):
        return status
    entries = []
    for entry in status[FIELD]:
        resources = [{k: v for k, v in resource.items() if k != "message"} for resource in entry.get("resources") or ()]
        entries.append({**entry, "resources": resources} if "resources" in entry else entry)
    return {**status, FIELD: entries}


# Validates a pod status as Kubernetes 1.37 does: the rules.
#
# Only `allocatedResourcesStatus` is validated. As in Kubernetes, the following is not: duplicate names, the length of
# the list, the form of a resourceID, empty `resources`, and the existence of a claim. The extensions of
# KEP-4680, the pod's own field and an entry for each request, have names as in the KEP and otherwise the same rules.

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
