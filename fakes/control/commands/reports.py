"""The commands about what a driver reports, whatever the state of its devices."""

from collections.abc import Sequence

from drahealth.fakes.control.commands.arguments import Devices, Kind, argument
from drahealth.fakes.control.commands.definition import DRIVER, Command, command
from drahealth.fakes.control.commands.devices import DEVICE
from drahealth.fakes.control.commands.surface import Control, Method
from drahealth.proto.values import DeviceHealth, Health


@command("set_health", DRIVER, ctl="", step="")
class SetHealth(Command[None]):
    """Report this health for devices, even for devices with faults."""

    device: Devices = argument(DEVICE, Kind.DEVICES)
    health: Health | None = argument("Healthy, Unhealthy or Unknown; None leaves the health as it is.")
    message: str | None = argument("Message of the report; None leaves the message as it is.", default="")
    timeout: int | None = argument(
        "Timeout in whole seconds. 0 means the default of the kubelet. None leaves the timeout as it is.", default=None
    )


@command("play", DRIVER, ctl="", step="")
class Play(Command[None]):
    """Change the health of devices in the order of the list `changes`, as fast as possible.

    Send a complete report after each change.
    """

    changes: Sequence[DeviceHealth] = argument(
        "List of DeviceHealth. Each one names a device, and has its new health.", Kind.DATA
    )


@command("report", DRIVER, ctl="", step="")
class Report(Command[None]):
    """Send this report, even if the devices have another state. The report can be partial, empty or invalid."""

    devices: Sequence[DeviceHealth] = argument(
        "List of DeviceHealth: the devices of the report, with their health.", Kind.DATA
    )


class DriverReports(Control):
    """The methods of drivers."""

    set_health = Method(SetHealth)
    play = Method(Play)
    report = Method(Report)
