"""Convert protobuf messages to plain data, including unknown enum numbers and unknown fields."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from drahealth.proto.events import Undecoded
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.values import Health, Report

UNKNOWN = "unknown"
"""Key for fields that the message type does not have."""


def plain(message: Message) -> dict[str, Any]:
    """The set fields by name: enums as numbers, bytes in hexadecimal.

    `unknown` has unknown fields as lists of number, wire type and value.
    """
    found = {field.name: _value(value) for field, value in message.ListFields()}
    if unknown := _unknown(message):
        found[UNKNOWN] = unknown
    return found


def has_unknown_fields(message: Message) -> bool:
    """Whether the message or a nested message has unknown fields. Copies the message; faster than `plain`."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() != message.ByteSize()


def undecoded(api: HealthApi, response: Message, report: Report) -> tuple[Undecoded, ...]:
    """The parts of a message that its report does not contain: unknown health values, unknown or unused fields."""
    has_unknown = api.prepared_only or has_unknown_fields(response)
    suspect = [index for index, decoded in enumerate(report) if has_unknown or decoded.health is Health.UNKNOWN]
    devices: Any = response.devices if suspect else ()  # type: ignore[attr-defined]
    found = (Undecoded(i, plain(devices[i])) for i in suspect if api.encode_device(report[i], None) != devices[i])
    return (*_of_message(response, has_unknown), *found)


def undecoded_list(response: Message) -> tuple[Undecoded, ...]:
    """The parts of a device plugin's list besides id and health."""
    has_unknown = has_unknown_fields(response)
    devices = enumerate(response.devices)  # type: ignore[attr-defined]
    found = (Undecoded(index, plain(device)) for index, device in devices if has_unknown or device.HasField("topology"))
    return (*_of_message(response, has_unknown), *(one for one in found if one.fields.keys() - {"ID", "health"}))


def _of_message(response: Message, has_unknown: bool) -> Iterator[Undecoded]:
    if has_unknown and (unknown := _unknown(response)):
        yield Undecoded(-1, {UNKNOWN: unknown})


def _unknown(message: Message) -> list[Any]:
    return [[field.field_number, field.wire_type, _raw(field.data)] for field in _fields(message)]


def _fields(message: Message) -> Iterable[Any]:
    found: Any = UnknownFieldSet(message)
    return cast("Iterable[Any]", found)


def _raw(data: Any) -> Any:
    if isinstance(data, bytes):
        return data.hex()
    if isinstance(data, int):
        return data
    return [[field.field_number, field.wire_type, _raw(field.data)] for field in data]  # a group


def _value(value: Any) -> Any:
    match value:
        case Message():
            return plain(value)
        case bytes():
            return value.hex()
        case str() | int() | float():
            return value
        case Mapping():
            return {str(key): _value(one) for key, one in value.items()}
        case _:
            return [_value(one) for one in value]
