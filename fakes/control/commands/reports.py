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
    message: str | None = argument("Message of the report; None leaves it as it is.", default="")
    timeout: int | None = argument(
        "Timeout in whole seconds. 0 means the default of the kubelet, None leaves it as it is.", default=None
    )


@command("play", DRIVER, ctl="", step="")
class Play(Command[None]):
    """Report these changes in their order, as fast as possible. Each change has its own complete report."""

    changes: Sequence[DeviceHealth] = argument("The changes, in their order.", Kind.DATA)


@command("report", DRIVER, ctl="", step="")
class Report(Command[None]):
    """Send this report, whatever the state of the devices is. It can be partial, empty or invalid."""

    devices: Sequence[DeviceHealth] = argument("The devices of the report.", Kind.DATA)


class DriverReports(Control):
    """The methods of drivers."""

    set_health = Method(SetHealth)
    play = Method(Play)
    report = Method(Report)
