"""Reports of a script as bytes. They can hold values that the fake driver does not send, such as an unknown health."""

from google.protobuf.message import DecodeError

from drahealth.proto.health_v1_pb2 import DeviceHealth, NodeWatchResourcesResponse
from drahealth.suites.differential.script import Reading

LONGEST = 4 * 1024 * 1024
"""Maximum size in bytes of a message that a kubelet accepts (B-16)."""


def encode(says: tuple[Reading, ...]) -> bytes:
    """The message of a health stream. It is the same for v1 and v1alpha1."""
    return NodeWatchResourcesResponse(
        devices=[_device(reading, name) for reading in says for name in names(reading)]
    ).SerializeToString()


def names(reading: Reading) -> list[str]:
    """The names of all devices of a reading."""
    return [reading.device] + [f"{reading.device}-{number}" for number in range(1, reading.count)]


def _device(reading: Reading, name: str) -> DeviceHealth:
    device = DeviceHealth(
        last_updated_time=reading.updated,
        health_check_timeout_seconds=reading.timeout,
        message=reading.message,
    )
    device.health = reading.health  # type: ignore[assignment]  # an open enum: other numbers pass
    if reading.identified:
        device.device.pool_name, device.device.device_name = reading.pool, name
    return device


def decode(payload: bytes) -> tuple[Reading, ...]:
    """The readings of a message; none if the bytes are not a message."""
    try:
        message = NodeWatchResourcesResponse.FromString(payload)
    except DecodeError:
        return ()
    return tuple(
        Reading(
            device.device.pool_name,
            device.device.device_name,
            device.health,
            device.message,
            device.health_check_timeout_seconds,
        )
        for device in message.devices
    )
