"""The subcommand `clean` of `drahealth`."""

from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def clean(
    kept: Annotated[bool, typer.Option("--kept", help="Also remove the clusters that a run with --keep kept.")] = False,
) -> None:
    """Remove the directories and the kind clusters that interrupted runs of drahealth left."""
    from drahealth.suites.commands.explaining import clean_up

    clean_up(kept=kept)
