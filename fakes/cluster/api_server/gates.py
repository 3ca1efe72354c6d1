"""The rules of an API server for `allocatedResourcesStatus`, and the effect of the feature gates on a pod.

Two texts, two sets of rules, handed in as data. KEP-4680 (newest revision, "Feature Enablement and Rollback"): while
the gate is off the field is dropped when serving and may be wiped by the next write. Kubernetes 1.36 and 1.37: reads
are never filtered, and a write keeps the field if the old object has it (A-04 to A-06, docs/facts.md).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from drahealth.fakes.cluster.api import Object

STATUS_GATE = "ResourceHealthStatus"
MESSAGE_GATE = "ResourceHealthStatusMessage"

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
