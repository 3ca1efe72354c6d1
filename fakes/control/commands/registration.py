"""The command about the registration of a driver: calls that fail."""

from drahealth.fakes.control.commands.arguments import argument
from drahealth.fakes.control.commands.definition import DRIVER, Command, command
from drahealth.fakes.control.commands.surface import Control, Method

CALLS = ("GetInfo", "NotifyRegistrationStatus")


@command("fail_registration", DRIVER, ctl="", step="")
class FailRegistration(Command[None]):
    """Answer each GetInfo or each NotifyRegistrationStatus with an error, until a command with an empty error."""

    call: str = argument("GetInfo or NotifyRegistrationStatus.", choices=CALLS)
    error: str = argument("The error; empty: none.", default="")

    def __post_init__(self) -> None:
        if self.call not in CALLS:
            raise ValueError(f"call must be GetInfo or NotifyRegistrationStatus, got {self.call!r}")


class DriverRegistration(Control):
    """The methods of drivers."""

    fail_registration = Method(FailRegistration)
