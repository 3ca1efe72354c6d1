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
    said = report_of(message, pool, wall, inventory)
    return StreamSend(said) if isinstance(said, str) else Report(said)


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


def _device(said: DeviceMessage, pool: str, wall: float, inventory: Inventory) -> DeviceHealth:
    known = inventory.find(said.device)
    return DeviceHealth(
        pool=said.pool if said.pool is not None else (known and known.pool) or pool,
        device=known.name if known else said.device,  # what the API knows it by; another's name as it is
        health=said.health if isinstance(said.health, Health) else Health.UNKNOWN,
        message=said.message if isinstance(said.message, str) else "x" * said.message.length,
        timeout=int(said.timeout or 0),
        updated=int(wall + said.updated) if said.updated is not None else 0,
    )


def _shipped(said: DeviceMessage, pool: str, wall: float, inventory: Inventory) -> Any:
    known = _device(said, pool, wall, inventory)
    number: Any = HEALTH_NUMBERS[said.health] if isinstance(said.health, Health) else said.health
    return ShippedHealth(
        device={"pool_name": known.pool, "device_name": known.device},
        health=number,
        last_updated_time=known.updated,
        health_check_timeout_seconds=known.timeout,
        message=known.message,
    )
