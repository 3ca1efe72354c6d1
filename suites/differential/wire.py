"""A report of a script as bytes: what the fake driver's own reports cannot say too, such as a health of no number."""

from google.protobuf.message import DecodeError

from drahealth.proto.health_v1_pb2 import DeviceHealth, NodeWatchResourcesResponse
from drahealth.suites.differential.script import Said

LONGEST = 4 * 1024 * 1024
"""Bytes of a message that a kubelet takes (B-16)."""


def encode(says: tuple[Said, ...]) -> bytes:
    """The message of a health stream, the same for v1 and v1alpha1."""
    return NodeWatchResourcesResponse(
        devices=[_device(said, name) for said in says for name in names(said)]
    ).SerializeToString()


def names(said: Said) -> list[str]:
    """The devices' names that it stands for."""
    return [said.device] + [f"{said.device}-{number}" for number in range(1, said.count)]


def _device(said: Said, name: str) -> DeviceHealth:
    device = DeviceHealth(
        last_updated_time=said.updated,
        health_check_timeout_seconds=said.timeout,
        message=said.message,
    )
    device.health = said.health  # type: ignore[assignment]  # an open enum: other numbers pass
    if said.identified:
        device.device.pool_name, device.device.device_name = said.pool, name
    return device


def decode(payload: bytes) -> tuple[Said, ...]:
    """What a message says; nothing if it is none."""
    try:
        message = NodeWatchResourcesResponse.FromString(payload)
    except DecodeError:
        return ()
    return tuple(
        Said(
            device.device.pool_name,
            device.device.device_name,
            device.health,
            device.message,
            device.health_check_timeout_seconds,
        )
        for device in message.devices
    )
