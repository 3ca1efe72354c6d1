"""The commands without a subcommand of `drahealth ctl`: reports, device lists, failing calls, and questions."""

from collections.abc import Sequence

from drahealth.fakes.control.commands import DEVICE, DeviceControl
from drahealth.fakes.control.definition import (
    DEVICE_PLUGIN,
    DRIVER,
    Command,
    Control,
    Devices,
    Kind,
    Method,
    argument,
    command,
)
from drahealth.fakes.control.replies import DriverState, ListedDevice, PluginState
from drahealth.proto.values import DeviceHealth, Health

# The commands about what a driver reports, whatever the state of its devices.


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


# The commands about the devices of a device plugin: the health word that it lists, and whether it lists them.


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


# The command about the claims of a driver: calls that fail.

CLAIM_CALLS = ("prepare", "unprepare")


@command("fail_claims", DRIVER, ctl="", step="")
class FailClaims(Command[None]):
    """Let NodePrepareResources or NodeUnprepareResources fail: answer each claim with an error, or omit the claims.

    If `error` is empty and `omit` is not set, the calls succeed again.
    """

    call: str = argument("prepare or unprepare.", choices=CLAIM_CALLS)
    error: str = argument("Error for each claim; empty: no error.", default="")
    omit: bool = argument("Leave the claims out of the answer.", Kind.FLAG, default=False)

    def __post_init__(self) -> None:
        if self.call not in CLAIM_CALLS:
            raise ValueError(f"call must be prepare or unprepare, got {self.call!r}")
        if self.error and self.omit:
            raise ValueError("set error or omit, not both: an omitted claim has no error")


class DriverClaims(Control):
    """The methods of drivers."""

    fail_claims = Method(FailClaims)


# The commands about the registration of a driver: calls that fail, and an endpoint that is not served.

REGISTRATION_CALLS = ("GetInfo", "NotifyRegistrationStatus")


@command("fail_registration", DRIVER, ctl="", step="")
class FailRegistration(Command[None]):
    """Answer each GetInfo or each NotifyRegistrationStatus with an error, until you repeat the command with an empty
    error.
    """

    call: str = argument("GetInfo or NotifyRegistrationStatus.", choices=REGISTRATION_CALLS)
    error: str = argument("The error; empty: no error.", default="")

    def __post_init__(self) -> None:
        if self.call not in REGISTRATION_CALLS:
            raise ValueError(f"call must be GetInfo or NotifyRegistrationStatus, got {self.call!r}")


@command("close_endpoint", DRIVER, ctl="", step="")
class CloseEndpoint(Command[None]):
    """Stop serving the plugin's socket, and remove it, until `open_endpoint`. The registration socket stays.

    If the driver stops and starts before `open_endpoint`, it registers without serving the plugin's socket. A driver
    that does not serve this socket cannot be upgraded. The command fails for a driver that serves all its services on
    the registration socket (`DriverOptions.one_socket`).
    """


@command("open_endpoint", DRIVER, ctl="", step="")
class OpenEndpoint(Command[None]):
    """Serve the plugin's socket again after `close_endpoint`."""


class DriverRegistration(Control):
    """The methods of drivers."""

    fail_registration = Method(FailRegistration)
    close_endpoint = Method(CloseEndpoint)
    open_endpoint = Method(OpenEndpoint)


# The commands that only ask.


@command("devices", DRIVER, changes=False, ctl="", step="")
class GetDevices(Command[tuple[DeviceHealth, ...]]):
    """Return each device with the health that the driver would report now."""


@command("select", DRIVER, changes=False, ctl="", step="")
class SelectDevices(Command[Sequence[str]]):
    """Return the paths of the devices that match all conditions.

    With `percent`, the command draws this share of them, rounded up. The same devices, share and seed give the same
    result.
    """

    device: Devices = argument(f"{DEVICE} Default: all.", Kind.DEVICES, default="all")
    node: str = argument("Pattern of node names, such as fleet-1?; default: every node.", default="")
    rack: str = argument("Attribute `rack` of the devices; default: any.", default="")
    zone: str = argument("Attribute `zone` of the devices; default: any.", default="")
    percent: float = argument("Share of the devices in percent, above 0.", default=100.0)
    seed: int = argument("Seed of the draw.", Kind.INTEGER, default=0)

    def __post_init__(self) -> None:
        if not 0 < self.percent <= 100:
            raise ValueError(f"percent must be above 0 and at most 100, got {self.percent:g}")


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
    select = Method(SelectDevices)
    state = Method(GetState)


class DevicePluginQuestions(Control):
    """The methods of device plugins."""

    devices = Method(GetListedDevices)
    state = Method(GetPluginState)
