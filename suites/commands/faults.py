"""`drahealth faults`: faults and policies, as tables and as JSON."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from drahealth.fakes.faults.catalogue import (
    CATALOGUES,
    Fault,
    Policy,
    UnknownName,
    catalogue,
    every_fault,
    fault,
    policies,
    policy,
)
from drahealth.fakes.hints import near
from drahealth.fakes.program.console import standard_output
from drahealth.fakes.program.usage import CommandGroup
from drahealth.suites.errors import ConfigurationError

app = typer.Typer(
    name="faults",
    cls=CommandGroup,
    help="Show faults of devices, the recovery of each fault, and policies.",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _catalogues() -> Iterable[str]:
    return CATALOGUES


_PUBLIC = "nvidia"
"""The catalogue for comparisons of policies."""


@app.command("list")
def faults_list(
    vendor: Annotated[
        str | None,
        typer.Option(
            "--catalogue",
            help="Show only this catalogue: nvidia, amd, intel, nic or tpu.",
            autocompletion=_catalogues,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the faults of the catalogues."""
    with _known_names():
        found = {name: catalogue(name) for name in ([vendor] if vendor else CATALOGUES)}
    if as_json:
        faults = {name: [_plain(each) for each in known.values()] for name, known in found.items()}
        _write({"catalogues": faults, "policies": list(policies())})
        return
    console = standard_output()
    for name, known in found.items():
        table = Table(title=name, box=None, title_justify="left", title_style="bold")
        for column in ("fault", "kind", "what happened", "scope", "recovery", "takes"):
            table.add_column(column, overflow="fold")
        for each in known.values():
            table.add_row(each.id, each.kind, each.means, each.reaches, each.recovery, str(each.takes))
        console.print(table)
        console.print()
    console.print(f"policies: {', '.join(policies())}", soft_wrap=True)


@app.command("show")
def faults_show(
    name: Annotated[
        str,
        typer.Argument(metavar="FAULT", help="Name of the fault, such as xid/48.", autocompletion=every_fault),
    ],
    vendor: Annotated[
        str | None, typer.Option("--catalogue", help="Catalogue of the fault, if several catalogues have the fault.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a fault, and the health that each policy assigns to the fault."""
    vendors = [vendor] if vendor else [known for known in CATALOGUES if name in catalogue(known)]
    if not vendors:
        every = [fault_id for known in CATALOGUES for fault_id in catalogue(known)]
        raise ConfigurationError(f"no catalogue has the fault {name!r}", near(name, every, "`drahealth faults list`"))
    with _known_names():
        found = {known: fault(known, name) for known in vendors}
    judged = {each.name: str(each.health(name)) if each.knows(name) else None for each in policies().values()}
    if as_json:
        _write({"faults": [{"catalogue": known, **_plain(each)} for known, each in found.items()], "policies": judged})
        return
    console = standard_output()
    for known, each in found.items():
        console.print(f"[bold]{each.id}[/] ({known}, {each.kind}): {escape(each.means)}", soft_wrap=True)
        for title, text in _details(each):
            console.print(f"  [cyan]{title:10}[/] {escape(text)}", soft_wrap=True)
        for policy_name, health in judged.items():
            console.print(f"  [cyan]{policy_name:18}[/] {health or 'not named'}")


@app.command("diff")
def faults_diff(
    first: Annotated[
        str,
        typer.Argument(metavar="POLICY", help="Name of a policy, such as nvidia-plugin.", autocompletion=policies),
    ],
    second: Annotated[
        str,
        typer.Argument(metavar="POLICY", help="Name of another policy, such as gpud.", autocompletion=policies),
    ],
    as_json: Json = False,
) -> None:
    """Show the faults to which two policies assign different health."""
    with _known_names():
        one, other = policy(first), policy(second)
    faults = catalogue(_PUBLIC)
    both = [name for name in faults if one.knows(name) or other.knows(name)]
    differing = [name for name in both if one.health(name) is not other.health(name)]
    if as_json:
        data = {name: {"means": faults[name].means, "health": _judgements(name, one, other)} for name in differing}
        _write({"policies": [first, second], "compared": len(both), "differing": data})
        return
    console, table = standard_output(), Table(box=None)
    for column in ("fault", "what happened", first, second):
        table.add_column(column, overflow="fold")
    for name in differing:
        judged = (
            f"[red]{health}[/]" if health == "Unhealthy" else health
            for health in _judgements(name, one, other).values()
        )
        table.add_row(name, faults[name].means, *judged)
    if differing:
        console.print(table)
    console.print(f"{len(differing)} of {len(both)} faults have different health")


def _judgements(fault_id: str, *judges: Policy) -> dict[str, str]:
    return {judge.name: str(judge.health(fault_id)) for judge in judges}


def _plain(found: Fault) -> dict[str, Any]:
    return {**asdict(found), "takes": str(found.takes)}


def _details(found: Fault) -> list[tuple[str, str]]:
    details = [("message", found.message_for("gpu-0")), ("scope", found.reaches)]
    details.append(("recovery", f"{found.recovery}, {found.takes}" + (", may fail" if found.may_fail else "")))
    details += [("then", found.then)] if found.then else []
    if found.vanishes:
        details.append(("listed", "the next report has the device; later reports omit it until a recovery"))
    details += [("silent", "the driver does not report it")] if found.silent else []
    return [*details, ("source", found.source)]


def _write(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def _known_names(hint: str = "") -> Iterator[None]:
    try:
        yield
    except UnknownName as error:
        raise ConfigurationError(str(error), hint) from None
