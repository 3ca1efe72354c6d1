"""The commands about the registration of a driver: calls that fail, and an endpoint that is not served."""

from drahealth.fakes.control.commands.arguments import argument
from drahealth.fakes.control.commands.definition import DRIVER, Command, command
from drahealth.fakes.control.commands.surface import Control, Method

CALLS = ("GetInfo", "NotifyRegistrationStatus")


@command("fail_registration", DRIVER, ctl="", step="")
class FailRegistration(Command[None]):
    """Answer each GetInfo or each NotifyRegistrationStatus with an error, until you repeat the command with an empty
    error.
    """

    call: str = argument("GetInfo or NotifyRegistrationStatus.", choices=CALLS)
    error: str = argument("The error; empty: no error.", default="")

    def __post_init__(self) -> None:
        if self.call not in CALLS:
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
