"""The subcommand `init` of `drahealth`."""

from pathlib import Path
from typing import Annotated

import typer

from drahealth.suites.commands.starters import STARTERS, Starter

app = typer.Typer()


def _kinds() -> list[str]:
    return list(STARTERS)


@app.command("init")
def init(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="timeline, inventory or pod.", autocompletion=_kinds, show_default=False),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(
            help="New file; - is standard output. Default: gpu.timeline.yaml, gpus.yaml or pod.yaml.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a starting file with comments: a timeline, an inventory, or a Pod with its claim."""
    starter = Starter.of(kind)
    if str(file) == "-":
        typer.echo(starter.text(), nl=False)
        return
    path = file or Path(starter.file)
    starter.write(path)
    typer.echo(f"wrote {path}; next: {starter.next_command(path)}")
