"""What a timeline's `send` says, as a report or, where no report could say it, as bytes. Pure."""

from typing import Any

from drahealth.fakes.control.commands.definition import Command
from drahealth.fakes.control.commands.reports import Report
from drahealth.fakes.control.commands.streams import StreamSend
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.model import DeviceMessage, Message
from drahealth.proto.health_apis import HEALTH_NUMBERS
from drahealth.proto.health_v1_pb2 import DeviceHealth as ShippedHealth
from drahealth.proto.health_v1_pb2 import NodeWatchResourcesResponse
from drahealth.proto.values import DeviceHealth, Health


def command_of(message: DeviceMessage | Message, pool: str, wall: float, inventory: Inventory) -> Command[None]:
    """The command that sends it now."""
    given = report_of(message, pool, wall, inventory)
    return StreamSend(given) if isinstance(given, str) else Report(given)


def report_of(
    message: DeviceMessage | Message, pool: str, wall: float, inventory: Inventory
) -> list[DeviceHealth] | str:
    """A report of the devices, or hexadecimal bytes: those that it has, or those of DRAResourceHealth if a health is a
    number that nobody knows."""
    if isinstance(message, Message) and message.raw is not None:
        return message.raw
    devices = (message,) if isinstance(message, DeviceMessage) else message.devices or ()
    if all(isinstance(device.health, Health) for device in devices):
        return [_device(device, pool, wall, inventory) for device in devices]
    shipped = NodeWatchResourcesResponse(devices=[_shipped(device, pool, wall, inventory) for device in devices])
    return shipped.SerializeToString().hex()


def _device(given: DeviceMessage, pool: str, wall: float, inventory: Inventory) -> DeviceHealth:
    known = inventory.find(given.device)
    return DeviceHealth(
        pool=given.pool if given.pool is not None else (known and known.pool) or pool,
        device=known.name if known else given.device,  # what the API knows it by; another's name as it is
        health=given.health if isinstance(given.health, Health) else Health.UNKNOWN,
        message=given.message if isinstance(given.message, str) else "x" * given.message.length,
        timeout=int(given.timeout or 0),
        updated=int(wall + given.updated) if given.updated is not None else 0,
    )


def _shipped(given: DeviceMessage, pool: str, wall: float, inventory: Inventory) -> Any:
    known = _device(given, pool, wall, inventory)
    number: Any = HEALTH_NUMBERS[given.health] if isinstance(given.health, Health) else given.health
    return ShippedHealth(
        device={"pool_name": known.pool, "device_name": known.device},
        health=number,
        last_updated_time=known.updated,
        health_check_timeout_seconds=known.timeout,
        message=known.message,
    )
