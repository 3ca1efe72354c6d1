"""What a timeline's `send` says, as a report or, where no report could say it, as bytes. Pure."""

from collections.abc import Mapping
from typing import Any

from drahealth.fakes.inventory.devices import Inventory
from drahealth.proto.health_v1_pb2 import DeviceHealth as ShippedHealth
from drahealth.proto.health_v1_pb2 import NodeWatchResourcesResponse
from drahealth.proto.values import DeviceHealth, Health

_NUMBERS = {Health.UNKNOWN: 0, Health.HEALTHY: 1, Health.UNHEALTHY: 2}


def report_of(said: Mapping[str, Any], pool: str, wall: float, inventory: Inventory) -> list[DeviceHealth] | str:
    """A report of the devices, or hexadecimal bytes of DRAResourceHealth if a health is a number that nobody knows."""
    devices = said.get("devices", [said])
    if all(not isinstance(device.get("health"), int) or isinstance(device["health"], Health) for device in devices):
        return [_device(device, pool, wall, inventory) for device in devices]
    message = NodeWatchResourcesResponse(devices=[_shipped(device, pool, wall, inventory) for device in devices])
    return message.SerializeToString().hex()


def _device(said: Mapping[str, Any], pool: str, wall: float, inventory: Inventory) -> DeviceHealth:
    message, known = said.get("message", ""), inventory.find(said["device"])
    return DeviceHealth(
        pool=said["pool"] if said.get("pool") is not None else (known and known.pool) or pool,
        device=known.name if known else said["device"],  # what the API knows it by; another's name as it is
        health=Health(said.get("health", Health.UNKNOWN)),
        message=message if isinstance(message, str) else "x" * message["length"],
        timeout=int(said.get("timeout") or 0),
        updated=int(wall + said["updated"]) if said.get("updated") is not None else 0,
    )


def _shipped(said: Mapping[str, Any], pool: str, wall: float, inventory: Inventory) -> Any:
    number: Any = said.get("health", 0)
    known = _device({**said, "health": Health.UNKNOWN}, pool, wall, inventory)
    return ShippedHealth(
        device={"pool_name": known.pool, "device_name": known.device},
        health=_NUMBERS.get(number, number),
        last_updated_time=known.updated,
        health_check_timeout_seconds=known.timeout,
        message=known.message,
    )
