"""The subcommands of `drahealth faults`. Everything heavy is imported where it is needed."""

from collections.abc import Iterable
from typing import Annotated

import typer

from drahealth.fakes.program.usage import CommandGroup

app = typer.Typer(
    name="faults",
    cls=CommandGroup,
    help="Show faults of devices, the recovery of each fault, and policies.",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _catalogues() -> Iterable[str]:
    """The catalogues of faults."""
    from drahealth.fakes.faults.catalogue import CATALOGUES

    return CATALOGUES


def _faults() -> Iterable[str]:
    """The faults of all catalogues."""
    from drahealth.fakes.faults.catalogue import every_fault

    return every_fault()


def _policies() -> Iterable[str]:
    """The policies that map faults to health."""
    from drahealth.fakes.faults import catalogue

    return catalogue.policies()


@app.command("list")
def faults_list(
    catalogue: Annotated[
        str | None,
        typer.Option(help="Show only this catalogue: nvidia, amd, intel, nic or tpu.", autocompletion=_catalogues),
    ] = None,
    json: Json = False,
) -> None:
    """List the faults of the catalogues."""
    from drahealth.suites.commands.fault_listing import show_faults

    show_faults(catalogue, as_json=json)


@app.command("show")
def faults_show(
    fault: Annotated[str, typer.Argument(help="Name of the fault, such as xid/48.", autocompletion=_faults)],
    catalogue: Annotated[
        str | None, typer.Option(help="Catalogue of the fault, if several catalogues have the fault.")
    ] = None,
    json: Json = False,
) -> None:
    """Show a fault, and the health that each policy assigns to the fault."""
    from drahealth.suites.commands.fault_listing import show_fault

    show_fault(fault, catalogue, as_json=json)


@app.command("diff")
def faults_diff(
    policy: Annotated[
        str,
        typer.Argument(metavar="POLICY", help="Name of a policy, such as nvidia-plugin.", autocompletion=_policies),
    ],
    other: Annotated[
        str,
        typer.Argument(metavar="POLICY", help="Name of another policy, such as gpud.", autocompletion=_policies),
    ],
    json: Json = False,
) -> None:
    """Show the faults to which two policies assign different health."""
    from drahealth.suites.commands.fault_listing import show_difference

    show_difference(policy, other, as_json=json)
