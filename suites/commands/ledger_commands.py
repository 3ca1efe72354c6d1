"""The subcommands `scenarios` and `explain` of `drahealth`."""

from collections.abc import Iterable
from typing import Annotated

import typer

app = typer.Typer()

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _explained_ids() -> Iterable[str]:
    """The IDs that `drahealth explain` knows."""
    from drahealth.suites.commands.explaining import every_id

    return every_id()


@app.command()
def scenarios(json: Json = False) -> None:
    """List the scenarios and their requirements."""
    from drahealth.suites.commands.explaining import show_scenarios

    show_scenarios(as_json=json)


@app.command()
def explain(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...",
            help="ID of a requirement, a reading or a known issue, such as STATUS-03, READ-01 or P-08.",
            autocompletion=_explained_ids,
        ),
    ],
    json: Json = False,
) -> None:
    """Explain a requirement for kubelets or drivers, a reading, or a known issue."""
    from drahealth.suites.commands.explaining import show_explanations

    show_explanations(ids, as_json=json)
