"""The commands that only ask."""

from drahealth.fakes.control.commands.definition import DEVICE_PLUGIN, DRIVER, Command, command
from drahealth.fakes.control.commands.surface import Control, Method
from drahealth.fakes.control.replies import DriverState, ListedDevice, PluginState
from drahealth.proto.values import DeviceHealth


@command("devices", DRIVER, changes=False, ctl="", step="")
class GetDevices(Command[tuple[DeviceHealth, ...]]):
    """Return each device with the health that the driver would report now."""


@command("state", DRIVER, changes=False, ctl="", step="")
class GetState(Command[DriverState]):
    """Return the state of the driver."""


@command("devices", DEVICE_PLUGIN, changes=False, ctl="", step="")
class GetListedDevices(Command[tuple[ListedDevice, ...]]):
    """Return each device as the device plugin lists it now."""


@command("state", DEVICE_PLUGIN, changes=False, ctl="", step="")
class GetPluginState(Command[PluginState]):
    """Return the state of the device plugin."""


class DriverQuestions(Control):
    """The methods of drivers."""

    devices = Method(GetDevices)
    state = Method(GetState)


class DevicePluginQuestions(Control):
    """The methods of device plugins."""

    devices = Method(GetListedDevices)
    state = Method(GetPluginState)
