"""Objects in JSON form as Kubernetes' protobuf bodies, and random objects, by the descriptors of the messages."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server.body_decoding import MAGIC, MESSAGES
from drahealth.proto.kubernetes import meta_v1_pb2

_META = meta_v1_pb2.DESCRIPTOR
_INLINE: Any = _META.extensions_by_name["inline"]
_TEXT = st.text(min_size=1, max_size=4)


def body(api_version: str, kind: str, raw: bytes, encoding: str = "") -> bytes:
    """A body with this message."""
    envelope: Any = new(_META.message_types_by_name["Envelope"])
    envelope.typeMeta.apiVersion, envelope.typeMeta.kind = api_version, kind
    envelope.raw, envelope.contentEncoding = raw, encoding
    return MAGIC + bytes(envelope.SerializeToString())


def encode(obj: Object) -> bytes:
    """The body of an object of `MESSAGES`, or of DeleteOptions."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    options = _META.message_types_by_name["DeleteOptions"]
    message = new(options if kind == "DeleteOptions" else MESSAGES[api_version, kind])
    _fill(message, {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")})
    return body(api_version, kind, message.SerializeToString())


def new(descriptor: Descriptor) -> Message:
    return GetMessageClass(descriptor)()


def objects(api_version: str, kind: str) -> st.SearchStrategy[Object]:
    """Random objects of a kind, with few fields each."""
    message = MESSAGES[api_version, kind]
    return _fields(message, 6).map(lambda fields: {"apiVersion": api_version, "kind": kind, **fields})


def _fill(message: Any, values: Object) -> None:
    message.SetInParent()
    for field in message.DESCRIPTOR.fields:
        if is_inline(field):
            inner = {one.name: values[one.name] for one in message_of(field).fields if one.name in values}
            if inner:
                _fill(getattr(message, field.name), inner)
        elif field.name in values:
            _set(message, field, values[field.name])


def _set(message: Any, field: FieldDescriptor, value: Any) -> None:
    target = getattr(message, field.name)
    if field.message_type is None:
        if isinstance(value, list):
            target.extend(value)
        else:
            setattr(message, field.name, base64.b64decode(value) if field.type == field.TYPE_BYTES else value)
    elif is_map(field):
        for key, item in value.items():
            inner = field.message_type.fields_by_name["value"]
            if isinstance(item, str) and inner.message_type is None:
                target[key] = base64.b64decode(item) if inner.type == inner.TYPE_BYTES else item
            else:
                _fill_one(target[key], item)
    elif isinstance(target, Message):
        _fill_one(target, value)
    else:
        for item in value:
            _fill_one(target.add(), item)


def _fill_one(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.name
    message.SetInParent()
    if name in ("Time", "MicroTime"):
        at = datetime.fromisoformat(value)
        message.seconds, message.nanos = int(at.replace(microsecond=0).timestamp()), at.microsecond * 1000
    elif name == "Quantity":
        message.string = value
    elif name == "IntOrString":
        message.type = int(isinstance(value, str))
        setattr(message, "strVal" if isinstance(value, str) else "intVal", value)
    elif name == "ExtraValue":
        message.items.extend(value)
    elif name in ("FieldsV1", "RawExtension"):
        message.raw = json.dumps(value).encode()
    else:
        _fill(message, value)


def is_inline(field: FieldDescriptor) -> bool:
    return bool(field.GetOptions().Extensions[_INLINE])


def message_of(field: FieldDescriptor) -> Descriptor:
    assert field.message_type is not None
    return field.message_type


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


_EMBEDDED = st.dictionaries(_TEXT, st.none() | st.booleans() | st.integers() | st.lists(_TEXT, max_size=2), max_size=2)
_TIMES = st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 2))
_SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "ExtraValue": st.lists(_TEXT, max_size=2),
    "FieldsV1": _EMBEDDED,
    "IntOrString": st.integers(-(2**31), 2**31 - 1) | st.text(max_size=3),
    "MicroTime": _TIMES.map(lambda at: f"{at.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"),
    "Quantity": st.from_regex(r"[0-9]{1,9}(Ki|Mi|k|m)?", fullmatch=True),
    "RawExtension": _EMBEDDED,
    "Time": _TIMES.map(lambda at: f"{at.replace(tzinfo=None).isoformat(timespec='seconds')}Z"),
}


def _fields(message: Descriptor, depth: int) -> st.SearchStrategy[Object]:
    """Objects of a message; without nested messages at depth 0."""
    fields = [field for field in message.fields if depth or field.message_type is None]
    return (
        st.lists(st.sampled_from(fields), max_size=3, unique_by=lambda field: field.number).flatmap(
            lambda chosen: st.tuples(*(_entry(field, depth - 1) for field in chosen)).map(_merged)
        )
        if fields
        else st.just({})
    )


def _merged(entries: tuple[Object, ...]) -> Object:
    return {key: value for entry in entries for key, value in entry.items()}


def _entry(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Object]:
    if is_inline(field):
        return _fields(message_of(field), depth)
    return _values(field, depth).map(lambda value: {field.name: value})


def _values(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if is_map(field):
        value = _one(message_of(field).fields_by_name["value"], depth, zero=True)
        return st.dictionaries(_TEXT, value, min_size=1, max_size=2)
    parent = field.containing_type
    assert parent is not None
    if isinstance(getattr(new(parent), field.name), str | bytes | int | Message):
        return _one(field, depth, zero=field.has_presence)
    return st.lists(_one(field, depth, zero=True), min_size=1, max_size=2)


def _one(field: FieldDescriptor, depth: int, *, zero: bool) -> st.SearchStrategy[Any]:
    """One value of a field; not the zero value where that means absent."""
    if field.message_type is not None:
        special = _SPECIAL.get(field.message_type.name)
        return _fields(field.message_type, depth) if special is None else special
    if field.type == field.TYPE_BOOL:
        return st.booleans() if zero else st.just(True)
    if field.type == field.TYPE_STRING:
        return st.text(min_size=not zero, max_size=4)
    if field.type == field.TYPE_BYTES:
        return st.binary(min_size=1, max_size=4).map(lambda data: base64.b64encode(data).decode())
    limit = 2 ** (31 if field.type == field.TYPE_INT32 else 63)
    numbers = st.integers(-limit, limit - 1)
    return numbers if zero else numbers.filter(bool)
