"""The command about the claims of a driver: calls that fail."""

from drahealth.fakes.control.commands.arguments import Kind, argument
from drahealth.fakes.control.commands.definition import DRIVER, Command, command
from drahealth.fakes.control.commands.surface import Control, Method

CALLS = ("prepare", "unprepare")


@command("fail_claims", DRIVER, ctl="", step="")
class FailClaims(Command[None]):
    """Let NodePrepareResources or NodeUnprepareResources fail: answer each claim with an error, or omit the claims.

    If `error` is empty and `omit` is not set, the calls succeed again.
    """

    call: str = argument("prepare or unprepare.", choices=CALLS)
    error: str = argument("Error for each claim; empty: no error.", default="")
    omit: bool = argument("Leave the claims out of the answer.", Kind.FLAG, default=False)

    def __post_init__(self) -> None:
        if self.call not in CALLS:
            raise ValueError(f"call must be prepare or unprepare, got {self.call!r}")
        if self.error and self.omit:
            raise ValueError("set error or omit, not both: an omitted claim has no error")


class DriverClaims(Control):
    """The methods of drivers."""

    fail_claims = Method(FailClaims)
