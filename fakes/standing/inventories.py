"""The drivers of an inventory file."""

from pathlib import Path
from typing import Any

from drahealth.fakes.hardware.control import DriverOptions
from drahealth.fakes.inventory_file import load_inventory

DRIVER = "gpu.example.com"


def drivers_of(
    path: Path, *, node: str, registry_dir: Path, plugins_dir: Path, driver: str, **options: Any
) -> list[DriverOptions]:
    """What makes them. Raises FileError for what is no inventory, OSError for what cannot be read, ValueError."""
    inventory = load_inventory(path)
    divided = {device.parent for device in inventory.devices if device.parent}
    devices = tuple(device.path for device in inventory.devices if device.path not in divided)
    linked = any(device.peers for device in inventory.devices)
    where: dict[str, Any] = {"node": node, "registry_dir": str(registry_dir), "data_dir": str(plugins_dir / driver)}
    return [DriverOptions(driver, devices=devices, linked=linked, **where, **options)]
