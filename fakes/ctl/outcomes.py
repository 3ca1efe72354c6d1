"""What `drahealth ctl` prints of a command that is done, and the exit code, for commands that reply something."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from drahealth.fakes.control.commands.definition import Command
from drahealth.fakes.ctl.driver import Driver
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import as_called
from drahealth.proto.quoting import printable

if TYPE_CHECKING:
    from drahealth.fakes.control.commands.devices import Clear, Inject, Recover, UntaintDevices
    from drahealth.fakes.control.commands.life import Upgrade


def show_outcome(driver: Driver, command: Command[Any], reply: Any) -> None:
    """Prints it. Raises CommandError or Exit for an exit code of its own."""
    if show := _SHOWN.get(command.verb):
        show(driver, command, reply)


def _injected(driver: Driver, command: "Inject", reply: Any) -> None:
    if reply:
        stay = "stays" if len(reply) == 1 else "stay"
        reason = as_called(f"`drahealth faults show {command.fault}` gives the health by policy")
        typer.echo(f"{printable(_words(reply))} {stay} Healthy; {reason}")


def _untainted(driver: Driver, command: "UntaintDevices", reply: Any) -> None:
    if not reply:
        taint = f"{command.key}:{command.effect}" if command.effect else command.key
        raise CommandError(f"{_words(command.device)} did not have the taint {taint}", 1)


def _cleared(driver: Driver, command: "Clear", reply: Any) -> None:
    if not reply:
        raise CommandError(f"{_words(command.device)} did not have {command.fault}", 1)


def _recovered(driver: Driver, command: "Recover", reply: Any) -> None:
    after = f" in {reply['takes']:g} s" if reply["takes"] else ""
    left = "claimed to be cleared" if command.claimed else "left"
    for word, faults in (("cleared", reply["cleared"]), (left, reply["left"])):
        for fault in faults:
            typer.echo(f"{word}{after}: {printable(fault)}")
    if not (reply["cleared"] or reply["left"]):
        typer.echo(f"there is nothing to recover{f' on {_words(command.device)}' if command.device else ''}")
    if reply["left"] and not (command.fails or command.claimed):
        raise typer.Exit(1)


def _upgraded(driver: Driver, command: "Upgrade", reply: Any) -> None:
    from drahealth.fakes.control.commands.without_subcommand import GetState  # only here: `ctl` starts without it

    typer.echo(f"upgraded to instance {printable(driver.do(GetState())['instance'])}")


_SHOWN: dict[str, Callable[[Driver, Any, Any], None]] = {
    "inject": _injected,
    "clear": _cleared,
    "recover": _recovered,
    "untaint": _untainted,
    "upgrade": _upgraded,
}
"""By the name of the command, so that `ctl` imports only the definition that it uses."""


def _words(devices: Any) -> str:
    return devices if isinstance(devices, str) else ", ".join(devices)
