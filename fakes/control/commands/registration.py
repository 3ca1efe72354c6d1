"""The command about the registration of a driver: calls that fail."""

from drahealth.fakes.control.commands.arguments import argument
from drahealth.fakes.control.commands.definition import DRIVER, Command, command
from drahealth.fakes.control.commands.surface import Control, Method

CALLS = ("GetInfo", "NotifyRegistrationStatus")


@command("fail_registration", DRIVER, ctl="", step="")
class FailRegistration(Command[None]):
    """Answer all such calls of the kubelet with an error. With an empty error, the calls succeed again."""

    call: str = argument("GetInfo or NotifyRegistrationStatus.", choices=CALLS)
    error: str = argument("The error; empty: none.", default="")

    def __post_init__(self) -> None:
        if self.call not in CALLS:
            raise ValueError(f"call must be GetInfo or NotifyRegistrationStatus, got {self.call!r}")


class DriverRegistration(Control):
    """The methods of drivers."""

    fail_registration = Method(FailRegistration)
