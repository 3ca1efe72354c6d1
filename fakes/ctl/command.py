"""`drahealth ctl`. It imports its subcommands when one is used and builds only that one, so it starts at once."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand

from drahealth.fakes.control.socket_path import (
    DEFAULT_NODE,
    VARIABLE,
    control_socket_of,
    fleet_socket_of,
    nodes_with_fakes,
    used_path,
)
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import LazyGroup

_OWN = "drahealth.fakes.ctl.own_commands"
_STREAM = "stream"
SELECTION = ("--node", "--rack", "--zone", "--percent", "--seed")
"""The options of `ctl` that select devices of a fake."""
OWN_OPTIONS = ("--socket", "--name", "--driver", *SELECTION)
"""The options of `ctl` itself, which no subcommand has."""
_FLEET = "--fleet"
"""The one without a value."""


class DefinedGroup(LazyGroup):
    """Subcommands that are made from definitions; `words` come before their names there."""

    words = ""

    def list_commands(self, ctx: Any) -> list[str]:
        from drahealth.fakes.control.definition import subcommands

        defined = (words.rpartition(" ") for words in subcommands())
        return [*(name for group, _, name in defined if group == self.words), *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from drahealth.fakes.control.definition import widest, with_subcommand

        if found := super().get_command(ctx, cmd_name):
            return found
        definitions = with_subcommand(f"{self.words} {cmd_name}".lstrip())
        return TyperCommand(cmd_name, help=widest(definitions).help) if definitions else None

    def load(self, name: str) -> Any:
        from drahealth.fakes.control.definition import with_subcommand

        if found := super().load(name):
            return found
        definitions = with_subcommand(f"{self.words} {name}".lstrip())
        if not definitions:
            return None
        from drahealth.fakes.ctl.subcommands import subcommand

        return subcommand(name, definitions)


class StreamGroup(DefinedGroup):
    """`drahealth ctl stream`."""

    words = _STREAM


class CtlGroup(DefinedGroup):
    """`drahealth ctl`. Its other subcommands are made from definitions."""

    subcommands: ClassVar[Mapping[str, tuple[str, str]]] = {
        "set": (_OWN, "Report this health, message or timeout for devices, or set the time between heartbeats."),
        "watch": (_OWN, "Print events as they happen, until Ctrl-C, or until the process that serves the fakes ends."),
        "status": (_OWN, "Show the fakes, with their devices and faults."),
    }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses its own options, also those after the subcommand. Raises CommandError."""
        return super().parse_args(ctx, _own_options_first(args))


class Addressee(NamedTuple):
    """Whom the options of `ctl` name: a control socket, a fake there, and the conditions for its devices."""

    socket: Path
    driver: str
    selection: Mapping[str, str | float]


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 < value <= 100:
        raise CommandError(f"--percent must be above 0 and at most 100, got {text!r}")
    return value


def _value(option: str, left: Iterator[str]) -> Iterator[str]:
    value = next(left, None)
    if value is None:
        raise CommandError(f"{option} needs a value")
    yield value


def _own_options_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with the options of `ctl` before the subcommand. Text after `--` stays in its place."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own, others, left = list[str](), list[str](), iter(arguments[:end])
    for word in left:
        if word == _FLEET:
            own.append(word)
        elif word in OWN_OPTIONS:
            own += [word, *_value(word, left)]
        else:
            (own if word.partition("=")[0] in OWN_OPTIONS else others).append(word)
    return [*own, *others, *arguments[end:]]


app = typer.Typer(name="ctl", cls=CtlGroup, no_args_is_help=True, add_completion=False)
streams = typer.Typer(cls=StreamGroup, no_args_is_help=True, add_completion=False)
app.add_typer(streams, name=_STREAM, help="Add or clear a fault of the health streams.")


@app.callback()
def ctl(
    context: typer.Context,
    socket: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help=f"Control socket; default: the variable {VARIABLE}, else the default socket of `drahealth driver "
            "serve`, else the socket of the default node of `drahealth up`.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NODE", help="Name of a node of `drahealth up`, in place of --socket.")
    ] = "",
    driver: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Name of the driver, or resource of the device plugin, if the process serves several."
        ),
    ] = "",
    fleet: Annotated[
        bool,
        typer.Option("--fleet", help="Control the fleet of a node of `drahealth up --fleet`, in place of the node."),
    ] = False,
    node: Annotated[str, typer.Option(metavar="PATTERN", help="Only devices of these nodes, such as fleet-1?.")] = "",
    rack: Annotated[str, typer.Option(metavar="NAME", help="Only devices of this rack, such as rack-3.")] = "",
    zone: Annotated[str, typer.Option(metavar="NAME", help="Only devices of this zone, such as zone-0.")] = "",
    percent: Annotated[
        str, typer.Option(metavar="PERCENT", help="Only this share of the devices, drawn at random, such as 5.")
    ] = "",
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Seed of this draw.")] = 0,
) -> None:
    """Control running fake drivers and device plugins.

    The options can be before or after the subcommand. In this help, a fake is a fake driver or a fake device plugin.
    Exit codes: 0 done, 2 wrong usage, 3 no process serves the control socket. Exit code 1: a recovery action was too
    weak for a fault, or no device had the fault of `clear` or the taint of `untaint`.
    """
    if socket and name:
        raise CommandError("--socket and --name exclude each other; remove one of them")
    if name and not control_socket_of(name).parent.exists():
        names = ", ".join(nodes_with_fakes()) or "none"
        raise CommandError(f"there is no node {name} (nodes: {names}); `drahealth up --name {name}` creates it")
    if fleet and socket:
        raise CommandError("--socket and --fleet exclude each other; remove one of them")
    if seed and not percent:
        raise CommandError("--seed needs --percent, for example --percent 5 --seed 7")
    path = (
        fleet_socket_of(name or DEFAULT_NODE) if fleet else control_socket_of(name) if name else socket or used_path()
    )
    selection = {"node": node, "rack": rack, "zone": zone, "percent": _percent(percent) if percent else None}
    given = {key: value for key, value in selection.items() if value not in ("", None)}
    context.obj = Addressee(path, driver, given | ({"seed": seed} if percent else {}))
