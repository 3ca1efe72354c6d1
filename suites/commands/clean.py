"""The subcommand `clean` of `drahealth`."""

from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def clean(
    kept: Annotated[bool, typer.Option("--kept", help="Also remove clusters that were kept with --keep.")] = False,
) -> None:
    """Remove what interrupted runs left: their directories, and kind clusters that drahealth created."""
    from drahealth.suites.commands.listing import clean_up

    clean_up(kept=kept)
