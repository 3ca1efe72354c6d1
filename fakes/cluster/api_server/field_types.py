"""Objects with checked types, as the decoder of a real API server makes them, by the messages of their kind.

The code behind the API server can rely on them. Fields that a message does not have are dropped.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.gates import FIELD
from drahealth.fakes.cluster.api_server.protobuf_bodies import MESSAGES, is_inline, is_map

_SPECIAL: Mapping[str, tuple[type, ...]] = MappingProxyType(
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
        elif (inner := field.message_type) is not None and inner.name not in _SPECIAL:
            yield from _unknown_inside(at, value, field, inner)


def _unknown_inside(path: str, value: Any, field: FieldDescriptor, message: Descriptor) -> Iterator[str]:
    if is_map(field):
        item = message.fields_by_name["value"].message_type
        if item is not None and item.name not in _SPECIAL:
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
    elif message.name in _SPECIAL:
        _expect(path, value, *_SPECIAL[message.name])
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
