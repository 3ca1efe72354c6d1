"""The kinds and versions that the API server serves. It stores each object in one version and converts it for clients.

In `resource.k8s.io`, v1beta2 has the fields of v1. In v1beta1 a device has its fields in `basic`, and a request has the
fields of `exactly` itself (k8s.io/api, `resource/v1beta1`). Events of both groups are the same objects.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import (
    BUDGETS,
    CLAIM_TEMPLATES,
    CLAIMS,
    CRDS,
    DATA_KINDS,
    DEVICE_CLASSES,
    EVENTS,
    KINDS,
    OTHER_KINDS,
    SLICES,
    Kind,
    Object,
    is_of_kubernetes,
    plural_of,
)
from drahealth.fakes.hints import near

Convert = Callable[[Any], Any]

_BETA_2, _BETA_1 = "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind in one version: as clients name it, as it is stored, and the conversions of an object's fields.

    The types of the fields must be right (`body_decoding`).
    """

    kind: Kind
    stored: Kind
    _to_stored: Convert = lambda obj: obj
    _to_served: Convert = lambda obj: obj

    def store(self, obj: Object) -> Object:
        """An object of a client as it is stored."""
        if self.kind == self.stored:
            return obj
        return {**self._to_stored(obj), "apiVersion": self.stored.api_version}

    def serve(self, obj: Object) -> Object:
        """A stored object as clients of this version read it."""
        if self.kind == self.stored:
            return obj
        return {**self._to_served(obj), "apiVersion": self.kind.api_version}


def _slice_to_stored(obj: Object) -> Object:
    return _with(obj, "spec", lambda spec: _with_each(spec, "devices", _device_to_stored))


def _slice_to_served(obj: Object) -> Object:
    return _with(obj, "spec", lambda spec: _with_each(spec, "devices", _device_to_served))


def _device_to_stored(device: Object) -> Object:
    return {**{key: value for key, value in device.items() if key != "basic"}, **device.get("basic", {})}


def _device_to_served(device: Object) -> Object:
    name = {key: value for key, value in device.items() if key == "name"}
    return {**name, "basic": {key: value for key, value in device.items() if key != "name"}}


def _claim_to_stored(obj: Object) -> Object:
    return _with(obj, "spec", lambda spec: _with_requests(spec, _request_to_stored))


def _claim_to_served(obj: Object) -> Object:
    return _with(obj, "spec", lambda spec: _with_requests(spec, _request_to_served))


def _template_to_stored(obj: Object) -> Object:
    return _with(obj, "spec", _claim_to_stored)


def _template_to_served(obj: Object) -> Object:
    return _with(obj, "spec", _claim_to_served)


def _with_requests(spec: Object, convert: Convert) -> Object:
    return _with(spec, "devices", lambda devices: _with_each(devices, "requests", convert))


def _request_to_stored(request: Object) -> Object:
    outer = {key: value for key, value in request.items() if key in ("name", "firstAvailable")}
    inner = {key: value for key, value in request.items() if key not in outer}
    return {**outer, "exactly": inner} if inner else outer


def _request_to_served(request: Object) -> Object:
    return {**{key: value for key, value in request.items() if key != "exactly"}, **(request.get("exactly") or {})}


_EVENT_FIELDS: Mapping[str, str] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""The fields of an Event of `events.k8s.io` with another name in core/v1."""

_OLD_EVENT_FIELDS = {old: new for new, old in _EVENT_FIELDS.items()}


def _event_to_stored(event: Object) -> Object:
    return {_EVENT_FIELDS.get(key, key): value for key, value in event.items()}


def _event_to_served(event: Object) -> Object:
    return {_OLD_EVENT_FIELDS.get(key, key): value for key, value in event.items()}


def _with(obj: Object, field: str, convert: Convert) -> Object:
    """The object with this field converted, if it has it."""
    return {**obj, field: convert(obj[field])} if obj.get(field) else obj


def _with_each(obj: Object, field: str, convert: Convert) -> Object:
    """The object with each element of this list converted."""
    return _with(obj, field, lambda items: [convert(item) for item in items])


def _in_version(kind: Kind, version: str, store: Convert | None = None, serve: Convert | None = None) -> ServedKind:
    served = replace(kind, api_version=version)
    return ServedKind(served, kind, store, serve) if store and serve else ServedKind(served, kind)


SERVED: tuple[ServedKind, ...] = (
    *(ServedKind(kind, kind) for kind in KINDS),
    *(_in_version(kind, _BETA_2) for kind in (SLICES, CLAIMS, CLAIM_TEMPLATES, DEVICE_CLASSES)),
    _in_version(SLICES, _BETA_1, _slice_to_stored, _slice_to_served),
    _in_version(CLAIMS, _BETA_1, _claim_to_stored, _claim_to_served),
    _in_version(CLAIM_TEMPLATES, _BETA_1, _template_to_stored, _template_to_served),
    _in_version(DEVICE_CLASSES, _BETA_1),
    _in_version(EVENTS, "events.k8s.io/v1", _event_to_stored, _event_to_served),
)
"""All kinds in all versions; the stored version of a kind is the first."""


# The kinds that one API server serves: those of `served_kinds`, and others, whose objects are plain JSON.
#
# Objects of other kinds have no types, defaults or validation, and all versions of a kind have the same fields.


class KindRegistry:
    """The served kinds, each in all of its versions. Budgets, definitions and `DATA_KINDS` are always among them."""

    def __init__(self) -> None:
        self._served = {served.kind: served for served in SERVED}
        self._names: dict[tuple[str, str], Object] = {}
        for kind in (CRDS, BUDGETS, *DATA_KINDS):
            self.add([kind])

    def __iter__(self) -> Iterator[ServedKind]:
        return iter(self._served.values())

    def __getitem__(self, kind: Kind) -> ServedKind:
        return self._served[kind]

    @property
    def namespaced(self) -> list[Kind]:
        """The stored kinds that have a namespace."""
        return [kind for kind in self.stored if kind.namespaced]

    @property
    def stored(self) -> list[Kind]:
        """The kinds in the version in which they are stored."""
        return [served.stored for served in self if served.kind == served.stored]

    def at(self, api_version: str, plural: str) -> Kind | None:
        """The kind at this place of the API; None if it is not served."""
        places = (kind for kind in self._served if (kind.api_version, kind.plural) == (api_version, plural))
        return next(places, None)

    def names_of(self, kind: Kind) -> Object:
        """The names in the definition of a custom resource; empty for other kinds."""
        return self._names.get((kind.api_version.rpartition("/")[0], kind.kind), {})

    def add(self, kinds: Sequence[Kind], names: Object | None = None) -> None:
        """Serves versions of one kind; the first is the stored one. `names` are those of its definition."""
        for kind in kinds:
            if names:
                self._names[kind.api_version.rpartition("/")[0], kind.kind] = names
            self._served.setdefault(kind, ServedKind(kind, kinds[0]))

    def remove(self, kinds: Sequence[Kind]) -> None:
        """Serves these kinds no longer."""
        for kind in kinds:
            self._served.pop(kind, None)

    def kind_of(self, obj: Object) -> Kind:
        """The kind of an object, which is served from now on.

        Kinds of Kubernetes must be known. A kind of another group without a CustomResourceDefinition has its usual
        plural, and is namespaced if the object has a namespace. Raises `ApiError` 404.
        """
        version, name = str(obj.get("apiVersion")), str(obj.get("kind"))
        if found := next((one for one in self._served if (one.api_version, one.kind) == (version, name)), None):
            return found
        known = next((one for one in OTHER_KINDS if (one.api_version, one.kind) == (version, name)), None)
        if known is None and is_of_kubernetes(version):
            raise refusals.unknown_kind(version, name, near(name, kinds_in(version)))
        namespaced = "namespace" in obj.get("metadata", {})
        kind = known or Kind(name, plural_of(name), version, namespaced, has_status="status" in obj)
        if other := next((one.stored for one in self if _same(one.kind, kind)), None):
            kind = replace(other, api_version=version)
        self.add([other or kind, kind])
        return kind


def kinds_in(api_version: str) -> list[str]:
    """The names of Kubernetes' kinds in an apiVersion."""
    served = (one.kind for one in SERVED)
    return sorted({one.kind for one in (*served, *OTHER_KINDS) if one.api_version == api_version})


def _same(one: Kind, other: Kind) -> bool:
    """Whether these are versions of one kind."""
    groups = {kind.api_version.rpartition("/")[0] for kind in (one, other)}
    return len(groups) == 1 and one.kind == other.kind
