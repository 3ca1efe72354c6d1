"""The commands about the devices of a device plugin: the health word that it lists, and whether it lists them."""

from drahealth.fakes.control.commands.arguments import Devices, Kind, argument
from drahealth.fakes.control.commands.definition import DEVICE_PLUGIN, Command, command
from drahealth.fakes.control.commands.devices import DEVICE, DeviceControl
from drahealth.fakes.control.commands.surface import Method


@command("set_health", DEVICE_PLUGIN, ctl="", step="")
class SetListedHealth(Command[None]):
    """List devices with this health from now on, in any word; kubelets take all but `Healthy` for Unhealthy."""

    device: Devices = argument(DEVICE, Kind.DEVICES)
    health: str = argument("Any word.")


@command("remove", DEVICE_PLUGIN, ctl="", step="")
class Remove(Command[None]):
    """Take devices out of the list. A device that is not in it is rejected."""

    device: Devices = argument(DEVICE, Kind.DEVICES)


@command("restore", DEVICE_PLUGIN, ctl="", step="")
class Restore(Command[None]):
    """Put devices back in the list, as they are. A device that is in it is rejected."""

    device: Devices = argument(DEVICE, Kind.DEVICES)


class ListedDevices(DeviceControl):
    """The methods of device plugins."""

    set_health = Method(SetListedHealth)
    remove = Method(Remove)
    restore = Method(Restore)
