"""Kubernetes' protobuf bodies as objects in JSON form.

Clients in Go send them for built-in kinds: the bytes `k8s\\0`, then an envelope with apiVersion, kind and the message.
Source: k8s.io/apimachinery, `pkg/runtime/serializer/protobuf`; fields and numbers: `drahealth.proto.kubernetes`.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server.json_values import parse_json
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
