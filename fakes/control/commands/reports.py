"""The commands about what a driver reports, whatever the state of its devices."""

from collections.abc import Sequence

from drahealth.fakes.control.commands.arguments import Devices, Kind, argument
from drahealth.fakes.control.commands.definition import DRIVER, Command, command
from drahealth.fakes.control.commands.devices import DEVICE
from drahealth.fakes.control.commands.surface import Control, Method
from drahealth.proto.values import DeviceHealth, Health


@command("set_health", DRIVER, ctl="", step="")
class SetHealth(Command[None]):
    """Override the reported health of devices, even of devices with faults."""

    device: Devices = argument(DEVICE, Kind.DEVICES)
    health: Health | None = argument("Healthy, Unhealthy or Unknown; default: unchanged.")
    message: str | None = argument("The message; default: unchanged.", default="")
    timeout: int | None = argument("Whole seconds; 0: the kubelet's default; default: unchanged.", default=None)


@command("play", DRIVER, ctl="", step="")
class Play(Command[None]):
    """Report changes in their order, each in its own complete report, as fast as possible."""

    changes: Sequence[DeviceHealth] = argument("The changes, in their order.", Kind.DATA)


@command("report", DRIVER, ctl="", step="")
class Report(Command[None]):
    """Send this report, independent of the state of the devices: a partial, empty or invalid report."""

    devices: Sequence[DeviceHealth] = argument("The devices of the report.", Kind.DATA)


class DriverReports(Control):
    """The methods of drivers."""

    set_health = Method(SetHealth)
    play = Method(Play)
    report = Method(Report)
