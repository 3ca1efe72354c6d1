"""The commands about the devices of a device plugin: the health word that it lists, and whether it lists them."""

from drahealth.fakes.control.commands.arguments import Devices, Kind, argument
from drahealth.fakes.control.commands.definition import DEVICE_PLUGIN, Command, command
from drahealth.fakes.control.commands.devices import DEVICE, DeviceControl
from drahealth.fakes.control.commands.surface import Method


@command("set_health", DEVICE_PLUGIN, ctl="", step="")
class SetListedHealth(Command[None]):
    """Set the health of devices in the list of the device plugin (ListAndWatch). The health can be any word.

    Kubelets treat every word except `Healthy` as Unhealthy.
    """

    device: Devices = argument(DEVICE, Kind.DEVICES)
    health: str = argument("Healthy, or any other word.")


@command("remove", DEVICE_PLUGIN, ctl="", step="")
class Remove(Command[None]):
    """Remove devices from the list. The command fails for a device that is not listed."""

    device: Devices = argument(DEVICE, Kind.DEVICES)


@command("restore", DEVICE_PLUGIN, ctl="", step="")
class Restore(Command[None]):
    """Add devices to the list again, with their current health. The command fails for a listed device."""

    device: Devices = argument(DEVICE, Kind.DEVICES)


@command("end_lists", DEVICE_PLUGIN, ctl="", step="")
class EndLists(Command[None]):
    """End every open ListAndWatch stream without an error. The device plugin keeps running."""


@command("hold_lists", DEVICE_PLUGIN, ctl="", step="")
class HoldLists(Command[None]):
    """Send no lists until `release_lists`, not even the first list of a new stream."""


@command("release_lists", DEVICE_PLUGIN, ctl="", step="")
class ReleaseLists(Command[None]):
    """Send the current list, and a list after each further change."""


class ListedDevices(DeviceControl):
    """The methods of device plugins."""

    set_health = Method(SetListedHealth)
    remove = Method(Remove)
    restore = Method(Restore)
    end_lists = Method(EndLists)
    hold_lists = Method(HoldLists)
    release_lists = Method(ReleaseLists)
