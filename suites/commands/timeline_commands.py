"""The subcommands `plan` and `record` of `drahealth`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def plan(
    file: Annotated[Path | None, typer.Argument(help="The timeline file.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of random values; default: the seed of the file.")] = None,
    devices: Annotated[int, typer.Option(min=1, help="Number of GPUs, if the file has no inventory.")] = 2,
    partitions: Annotated[
        int, typer.Option(min=0, help="Number of partitions of each GPU, if the file has no inventory.")
    ] = 0,
    inventory: Annotated[
        Path | None, typer.Option(help="Inventory file; default: the inventory that the timeline names.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print only the JSON Schema of timelines.")] = False,
) -> None:
    """Print the actions of a timeline, with their times, as JSON lines. The same file and seed give the same plan."""
    from drahealth.suites.commands.recording import show_plan

    show_plan(file, seed=seed, devices=devices, partitions=partitions, inventory=inventory, schema=schema)


@app.command()
def record(
    socket: Annotated[
        Path, typer.Argument(help="Registration socket of the driver, or the socket of its health service.")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Output file; default: standard output.", show_default=False)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Stop after this number of seconds.", show_default=False)
    ] = None,
    messages: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number of messages.", show_default=False)
    ] = None,
) -> None:
    """Record the health reports of a driver as a timeline, until the health stream ends, or until Ctrl-C."""
    from drahealth.suites.commands.recording import write_recording

    write_recording(socket, output, seconds=seconds, messages=messages)
