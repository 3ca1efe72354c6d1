"""Bodies as objects with checked types: JSON, and Kubernetes' protobuf."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server.pod_statuses import FIELD
from drahealth.proto.kubernetes import (
    apps_v1_pb2,
    authentication_v1_pb2,
    authorization_v1_pb2,
    coordination_v1_pb2,
    core_v1_pb2,
    events_v1_pb2,
    meta_v1_pb2,
    policy_v1_pb2,
    resource_v1_pb2,
    resource_v1beta1_pb2,
)

# Parses JSON from clients: strict, and with a limit of its depth, because later code is recursive.

DEPTH_LIMIT = 100
"""Maximum depth of objects and lists. Kubernetes' own objects have less than 20."""


def parse_json(data: bytes) -> Any:
    """The value in UTF-8 text. Raises ValueError if it is not JSON or too deep."""
    try:
        value = json.loads(data, parse_constant=_reject_constant)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if not _is_flat(value, DEPTH_LIMIT):
        raise ValueError(_TOO_DEEP)
    return value


def duplicate_fields(data: bytes) -> list[str]:
    """The paths of fields that occur twice in an object of this JSON text, which `parse_json` accepts."""
    return list(_duplicates("", json.loads(data, object_pairs_hook=_Pairs)))


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object in JSON, with those that occur twice."""


def _duplicates(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set[str]()
        for key, item in value:
            at = f"{path}.{key}" if path else key
            if key in seen:
                yield at
            seen.add(key)
            yield from _duplicates(at, item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(f"{path}[{index}]", item)


_TOO_DEEP = f"nested too deep: the limit is {DEPTH_LIMIT} objects and lists"


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _is_flat(value: Any, limit: int) -> bool:
    """Whether the value has at most this depth."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return True
    return limit > 0 and all(_is_flat(item, limit - 1) for item in value)


# Kubernetes' protobuf bodies as objects in JSON form.
#
# Clients in Go send them for built-in kinds: the bytes `k8s\0`, then an envelope with apiVersion, kind and the
# message. Source: k8s.io/apimachinery, `pkg/runtime/serializer/protobuf`; fields and numbers:
# `drahealth.proto.kubernetes`.

MAGIC = b"k8s\0"

_CLAIM_KINDS = ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
_CORE_KINDS = (*("Binding", "ConfigMap", "Event", "Namespace", "Node", "Pod", "Secret", "Service", "ServiceAccount"),)
_FILES: tuple[tuple[str, FileDescriptor, tuple[str, ...]], ...] = (
    ("v1", core_v1_pb2.DESCRIPTOR, _CORE_KINDS),
    ("authentication.k8s.io/v1", authentication_v1_pb2.DESCRIPTOR, ("SelfSubjectReview",)),
    ("authorization.k8s.io/v1", authorization_v1_pb2.DESCRIPTOR, ("SelfSubjectAccessReview", "SelfSubjectRulesReview")),
    ("events.k8s.io/v1", events_v1_pb2.DESCRIPTOR, ("Event",)),
    ("apps/v1", apps_v1_pb2.DESCRIPTOR, ("ReplicaSet",)),
    ("coordination.k8s.io/v1", coordination_v1_pb2.DESCRIPTOR, ("Lease",)),
    ("policy/v1", policy_v1_pb2.DESCRIPTOR, ("Eviction", "PodDisruptionBudget")),
    ("resource.k8s.io/v1", resource_v1_pb2.DESCRIPTOR, _CLAIM_KINDS),
    ("resource.k8s.io/v1beta2", resource_v1_pb2.DESCRIPTOR, _CLAIM_KINDS),
    ("resource.k8s.io/v1beta1", resource_v1beta1_pb2.DESCRIPTOR, _CLAIM_KINDS),
)
_META = meta_v1_pb2.DESCRIPTOR
_INLINE: Any = _META.extensions_by_name["inline"]
_EPOCH = datetime.fromtimestamp(0, UTC)

MESSAGES: Mapping[tuple[str, str], Descriptor] = MappingProxyType(
    {(version, kind): file.message_types_by_name[kind] for version, file, kinds in _FILES for kind in kinds}
)
"""The message of each object, by apiVersion and kind. DeleteOptions have the apiVersion of their client."""


def is_inline(field: FieldDescriptor) -> bool:
    """Whether the fields of this message are in the JSON object of its parent."""
    return bool(field.GetOptions().Extensions[_INLINE])


def is_map(field: FieldDescriptor) -> bool:
    """Whether the field is a map; its entries are messages with `key` and `value`."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


class UnknownKindError(Exception):
    """The body is an object that is not in `MESSAGES`; `api_version` and `kind` as sent."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f"apiVersion {api_version[:80]!r}, kind {kind[:80]!r}")
        self.api_version = api_version
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object in JSON form, and the fields that have no name in Kubernetes 1.37, such as `Device field 99`."""

    object: Object
    unknown: tuple[str, ...] = ()


def decode(body: bytes) -> Decoded:
    """The object of a body. Raises `UnknownKindError`; ValueError for an unreadable body."""
    if not body.startswith(MAGIC):
        raise ValueError(r"a protobuf body must start with the bytes k8s\0")
    envelope: Any = _parsed(_META.message_types_by_name["Envelope"], body[len(MAGIC) :])
    if envelope.contentEncoding:
        raise ValueError(f"contentEncoding must be empty, got {envelope.contentEncoding[:80]!r}")
    api_version, kind = envelope.typeMeta.apiVersion, envelope.typeMeta.kind
    message = _parsed(_descriptor(api_version, kind), envelope.raw)
    unknown: dict[str, None] = {}
    fields = _Reader(unknown).fields(message)
    return Decoded({"apiVersion": api_version, "kind": kind, **fields}, tuple(unknown))


def _descriptor(api_version: str, kind: str) -> Descriptor:
    if kind == "DeleteOptions":
        return _META.message_types_by_name[kind]
    try:
        return MESSAGES[api_version, kind]
    except KeyError:
        raise UnknownKindError(api_version, kind) from None


def _parsed(descriptor: Descriptor, data: bytes) -> Message:
    try:
        return GetMessageClass(descriptor).FromString(data)
    except DecodeError as error:
        raise ValueError(f"the {descriptor.name} cannot be decoded: {error}") from None


class _Reader:
    """Messages as JSON values; unknown fields are added to `unknown`."""

    def __init__(self, unknown: dict[str, None]) -> None:
        self._unknown = unknown

    def fields(self, message: Message) -> Object:
        """The JSON object of a message. A field without presence is absent while it has its zero value."""
        unknown: Any = UnknownFieldSet(message)
        for found in unknown:
            self._unknown[f"{message.DESCRIPTOR.name} field {found.field_number}"] = None
        obj: Object = {}
        for field, value in message.ListFields():
            obj.update(self._entries(field, value))
        return obj

    def _entries(self, field: FieldDescriptor, value: Any) -> Iterator[tuple[str, Any]]:
        """The entries of the parent's JSON object that a field makes."""
        if field.message_type is None:
            yield field.name, _scalars(value)
        elif is_map(field):
            yield field.name, {key: self._value(item) for key, item in value.items()}
        elif not isinstance(value, Message):
            yield field.name, [self._value(item) for item in value]
        elif is_inline(field):
            yield from self.fields(value).items()
        elif (one := self._value(value)) is not None:
            yield field.name, one

    def _value(self, value: Any) -> Any:
        if not isinstance(value, Message):
            return _scalars(value)
        convert = _SPECIAL.get(value.DESCRIPTOR.name)
        return convert(value) if convert else self.fields(value)


def _scalars(value: Any) -> Any:
    """One scalar or a list of them."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if isinstance(value, str | int | float) else [_scalars(item) for item in value]


def _time(message: Any) -> str | None:
    return _moment(message, "seconds")


def _micro_time(message: Any) -> str | None:
    return _moment(message, "microseconds")


def _moment(message: Any, precision: str) -> str | None:
    """A time in the form of the API; None for the zero time, a message without fields."""
    if not message.ListFields():
        return None
    try:
        at = _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        raise ValueError(f"time out of range: {message.seconds} s since 1970") from None
    return at.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def _embedded(message: Any) -> Any:
    """JSON inside a message, such as the parameters of a driver."""
    try:
        return parse_json(message.raw) if message.raw else None
    except ValueError as error:
        raise ValueError(f"the raw bytes of a {message.DESCRIPTOR.name} are not JSON: {error}") from None


_SPECIAL: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "ExtraValue": lambda message: [*message.items],
        "FieldsV1": _embedded,
        "IntOrString": lambda message: message.strVal if message.type else message.intVal,
        "MicroTime": _micro_time,
        "Quantity": lambda message: message.string or "0",
        "RawExtension": _embedded,
        "Time": _time,
    }
)
"""The messages of the file meta_v1 with a JSON form of their own."""


# Objects with checked types, as the decoder of a real API server makes them, by the messages of their kind.
#
# The code behind the API server can rely on them. Fields that a message does not have are dropped.

_OWN_FORMS: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        "ExtraValue": (list,),
        "FieldsV1": (object,),
        "IntOrString": (int, str),
        "MicroTime": (str,),
        "Quantity": (str, int, float),
        "RawExtension": (object,),
        "Time": (str,),
    }
)
"""The types of messages with a JSON form of their own."""

_SCALARS: Mapping[int, type] = MappingProxyType(
    {
        FieldDescriptor.TYPE_BOOL: bool,
        FieldDescriptor.TYPE_BYTES: str,
        FieldDescriptor.TYPE_INT32: int,
        FieldDescriptor.TYPE_INT64: int,
        FieldDescriptor.TYPE_STRING: str,
    }
)

_NAMES = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "an integer",
    list: "a list",
    str: "a string",
}


def typed(kind: Kind, obj: Object) -> Object:
    """A copy of the object without null, empty lists and unknown fields.

    Raises `ApiError` 400, naming the first field with a wrong type.
    """
    return _object("", obj, MESSAGES[kind.api_version, kind.kind])


def unknown_fields(kind: Kind, obj: Object) -> list[str]:
    """The paths of fields that the kind does not have in Kubernetes 1.37, without the extensions of KEP-4680."""
    message = MESSAGES.get((kind.api_version, kind.kind))
    found = list(_unknown("", obj, message)) if message else []
    return [path for path in found if path not in _ENVELOPE and path.rpartition(".")[2] != FIELD]


_ENVELOPE = ("apiVersion", "kind")


def _unknown(path: str, obj: Object, message: Descriptor) -> Iterator[str]:
    fields = fields_of_message(message)
    for name, value in obj.items() if isinstance(obj, dict) else ():
        at, field = f"{path}.{name}" if path else name, fields.get(name)
        if field is None:
            yield at
        elif (inner := field.message_type) is not None and inner.name not in _OWN_FORMS:
            yield from _unknown_inside(at, value, field, inner)


def _unknown_inside(path: str, value: Any, field: FieldDescriptor, message: Descriptor) -> Iterator[str]:
    if is_map(field):
        item = message.fields_by_name["value"].message_type
        if item is not None and item.name not in _OWN_FORMS:
            for key, one in value.items() if isinstance(value, dict) else ():
                yield from _unknown(f"{path}.{key}", one, item)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _unknown(f"{path}[{index}]", one, message)
    elif value is not None:
        yield from _unknown(path, value, message)


def _object(path: str, obj: Object, message: Descriptor) -> Object:
    fields = fields_of_message(message)
    result: Object = {}
    for name, value in obj.items():
        field = fields.get(name)
        if value is None or (field is None and name not in _KEPT):
            continue
        typed_value = _value(f"{path}.{name}" if path else name, value, field) if field else value
        if not _is_omitted(typed_value, field):
            result[name] = typed_value
    return result


_KEPT = ("apiVersion", "kind", FIELD)
"""The fields that are kept although a message does not have them."""


def _is_omitted(value: Any, field: FieldDescriptor | None) -> bool:
    """Whether Kubernetes leaves out the field: an empty list or map, unless it must be there."""
    is_plural = field is not None and (is_map(field) or field.default_value == [])
    return is_plural and value in ([], {}) and field is not None and field.name not in _REQUIRED_LISTS


_REQUIRED_LISTS = ("containers", "resourceAttributes", "nodeSelectorTerms")


@cache
def fields_of_message(message: Descriptor) -> dict[str, FieldDescriptor]:
    """The fields in the JSON object of a message, by name."""
    fields: dict[str, FieldDescriptor] = {}
    for field in message.fields:
        if field.message_type and is_inline(field):
            fields.update(fields_of_message(field.message_type))
        else:
            fields[field.name] = field
    return fields


def _value(path: str, value: Any, field: FieldDescriptor) -> Any:
    if field.message_type and is_map(field):
        item = field.message_type.fields_by_name["value"]
        return {key: _one(f"{path}[{key}]", one, item) for key, one in _expect(path, value, dict).items()}
    if field.default_value == []:  # a list
        return [_one(f"{path}[{index}]", one, field) for index, one in enumerate(_expect(path, value, list))]
    return _one(path, value, field)


def _one(path: str, value: Any, field: FieldDescriptor) -> Any:
    message = field.message_type
    if message is None:
        _check_size(path, _expect(path, value, _SCALARS[field.type]), field)
    elif message.name in _OWN_FORMS:
        _expect(path, value, *_OWN_FORMS[message.name])
    else:
        return _object(path, _expect(path, value, dict), message)
    return value


def _check_size(path: str, value: Any, field: FieldDescriptor) -> None:
    bits = {FieldDescriptor.TYPE_INT32: 31, FieldDescriptor.TYPE_INT64: 63}.get(field.type)
    if bits and not -(2**bits) <= value < 2**bits:
        raise refusals.bad_request(f"{path} must have at most {bits + 1} bits, got {value!r:.80}")


def _expect(path: str, value: Any, *types: type) -> Any:
    """The value, if it has one of these types. A bool is no number."""
    is_one = isinstance(value, types) and (not isinstance(value, bool) or bool in types or object in types)
    if not is_one:
        wanted = " or ".join(_NAMES[one] for one in types)
        raise refusals.bad_request(f"{path} must be {wanted}, got {value!r:.80}")
    return value
