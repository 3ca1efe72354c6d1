"""`drahealth ctl`. It imports its subcommands when one is used and builds only that one, so it starts at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.main import get_group

from drahealth.fakes.control.socket_path import VARIABLE, default_path
from drahealth.fakes.program.usage import CommandGroup

_OWN = ("set", "watch", "status")
"""The subcommands in `own_commands`; the others are made from definitions."""
_STREAM = "stream"


class LazyGroup(CommandGroup):
    """Builds each subcommand when it is used; `words` come before its name in the definitions."""

    words = ""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all subcommands, in their order."""
        from drahealth.fakes.control.commands.registry import subcommands

        for words in subcommands():
            group, _, name = words.rpartition(" ")
            if group == self.words:
                self._build(name)
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The subcommand with this name. Raises CommandError if it is unknown."""
        self._build(cmd_name)
        if cmd_name not in self.commands:
            self.list_commands(ctx)  # for the hint in the error
        return super().get_command(ctx, cmd_name)

    def _build(self, name: str) -> None:
        from drahealth.fakes.ctl.subcommands import add_subcommand

        if name not in self.commands:
            part = typer.Typer()
            add_subcommand(part, f"{self.words} {name}".lstrip())
            self._add(part)

    def _add(self, part: typer.Typer) -> None:
        if part.registered_commands:
            self.commands.update(get_group(part).commands)


class StreamGroup(LazyGroup):
    """`drahealth ctl stream`."""

    words = _STREAM


class CtlGroup(LazyGroup):
    """`drahealth ctl`."""

    renamed: ClassVar[Mapping[str, str]] = {"heal": "`reset`", "hush": "`stream silence`"}

    def list_commands(self, ctx: Any) -> list[str]:
        super().list_commands(ctx)
        for name in _OWN:
            self._build(name)
        self.commands[_STREAM] = self.commands.pop(_STREAM)  # at the end
        return list(self.commands)

    def _build(self, name: str) -> None:
        if name not in _OWN:
            super()._build(name)
        elif name not in self.commands:
            from drahealth.fakes.ctl.own_commands import app

            part = typer.Typer()
            part.registered_commands = [info for info in app.registered_commands if info.name == name]
            self._add(part)


app = typer.Typer(name="ctl", cls=CtlGroup, no_args_is_help=True, add_completion=False)
streams = typer.Typer(cls=StreamGroup, no_args_is_help=True, add_completion=False)
app.add_typer(streams, name=_STREAM, help="Add or clear a fault of the health streams.")


@app.callback()
def ctl(
    context: typer.Context,
    socket: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help=f"Control socket; default: {VARIABLE}, or the default of `driver serve`."),
    ] = None,
    driver: Annotated[str, typer.Option(metavar="NAME", help="Driver, if the process has several.")] = "",
) -> None:
    """Control running fake drivers and device plugins. Exits with 0 done, 2 usage, 3 environment."""
    context.obj = (socket or default_path(), driver)
