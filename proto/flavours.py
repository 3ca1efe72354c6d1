"""The health APIs, each a row: what it is called, how it is called, what it carries, how it maps to the values.

`carries` names the fields of DeviceHealth that survive the wire; decoding gives the defaults for the others.
A scenario that needs more than a flavour carries does not apply to it, by this data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from drahealth.proto import services
from drahealth.proto.health_v1_pb2 import DeviceHealth as ShippedHealth
from drahealth.proto.health_v1alpha1_pb2 import DeviceHealth as ShippedAlphaHealth
from drahealth.proto.node_health_pb2 import DeviceHealth as DrawnHealth
from drahealth.proto.values import DeviceHealth, Health, Report

_NUMBERS = {Health.UNKNOWN: 0, Health.HEALTHY: 1, Health.UNHEALTHY: 2}
_HEALTHS = {number: health for health, number in _NUMBERS.items()}


@dataclass(frozen=True)
class Flavour:
    """One health API: `name` is the string that a plugin advertises for it."""

    name: str
    method: services.ServerStream[Any, Any]
    carries: frozenset[str]
    encode_device: Callable[[DeviceHealth], Any]
    decode_device: Callable[[Any], DeviceHealth]

    def encode(self, devices: Iterable[DeviceHealth]) -> Any:
        """The response message that reports `devices`."""
        return self.method.response(devices=[self.encode_device(device) for device in devices])

    def decode(self, response: Any) -> Report:
        """The devices that a response message reports, in its order; nothing is validated (H-09, H-10)."""
        return tuple(self.decode_device(device) for device in response.devices)


def _shipped(name: str, method: services.ServerStream[Any, Any], message: type[Any]) -> Flavour:
    def encode(device: DeviceHealth) -> Any:
        return message(
            device={"pool_name": device.pool, "device_name": device.device},
            health=_NUMBERS[device.health],
            last_updated_time=device.updated,
            health_check_timeout_seconds=device.timeout,
            message=device.message,
        )

    def decode(device: Any) -> DeviceHealth:
        return DeviceHealth(
            pool=device.device.pool_name,
            device=device.device.device_name,
            health=_HEALTHS.get(device.health, Health.UNKNOWN),
            message=device.message,
            timeout=device.health_check_timeout_seconds,
            updated=device.last_updated_time,
        )

    carries = frozenset({"pool", "device", "health", "message", "timeout", "updated"})
    return Flavour(name, method, carries, encode, decode)


def _encode_drawn(device: DeviceHealth) -> DrawnHealth:
    return DrawnHealth(
        pool_name=device.pool,
        device_name=device.device,
        health_status=str(device.health),
        last_updated_timestamp=device.updated,
        health_check_timeout_seconds=device.timeout,
    )


def _decode_drawn(device: DrawnHealth) -> DeviceHealth:
    known = device.health_status in Health.__members__.values()
    return DeviceHealth(
        pool=device.pool_name,
        device=device.device_name,
        health=Health(device.health_status) if known else Health.UNKNOWN,
        timeout=device.health_check_timeout_seconds,
        updated=device.last_updated_timestamp,
    )


V1 = _shipped("v1.DRAResourceHealth", services.WATCH_HEALTH_V1, ShippedHealth)
V1ALPHA1 = _shipped(
    "v1alpha1.DRAResourceHealth",
    services.WATCH_HEALTH_V1ALPHA1,
    ShippedAlphaHealth,
)
NODE_HEALTH = Flavour(
    "v1alpha1.NodeHealth",
    services.WATCH_NODE_HEALTH,
    frozenset({"pool", "device", "health", "timeout", "updated"}),
    _encode_drawn,
    _decode_drawn,
)

FLAVOURS = {flavour.name: flavour for flavour in (V1, V1ALPHA1, NODE_HEALTH)}
"""Every health API by its advertised name, in the order in which a kubelet prefers them (W-18)."""
