"""What the command shows of faults, policies and plans."""

import asyncio
import json
import math
import sys
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drahealth.fakes.faults.catalogue import (
    CATALOGUES,
    Fault,
    Policy,
    UnknownName,
    catalogue,
    fault,
    policies,
    policy,
)
from drahealth.fakes.inventory import Inventory
from drahealth.fakes.inventory_file import load_inventory
from drahealth.fakes.timelines.dump import dump
from drahealth.fakes.timelines.schema import timeline_schema
from drahealth.fakes.timelines.story import stories
from drahealth.fakes.user_files import FileError
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.outputs import check_file


def show_faults(vendor: str | None) -> None:
    """All faults, or those of one catalogue."""
    console = Console(highlight=False)
    for name in [vendor] if vendor else CATALOGUES:
        try:
            faults = catalogue(name)
        except UnknownName as error:
            raise ConfigurationError(str(error)) from None
        table = Table(title=name, box=None, title_justify="left", title_style="bold")
        for column in ("fault", "kind", "what happened", "reaches", "recovery", "takes"):
            table.add_column(column, overflow="fold")
        for found in faults.values():
            table.add_row(found.id, found.kind, found.means, found.reaches, found.recovery, str(found.takes))
        console.print(table)
        console.print()
    console.print(f"policies: {', '.join(policies())}", soft_wrap=True)


def show_fault(name: str, vendor: str | None) -> None:
    """All that is known of a fault, and what each policy makes of it. Raises ConfigurationError."""
    console = Console(highlight=False)
    vendors = [vendor] if vendor else [known for known in CATALOGUES if name in catalogue(known)]
    for known in vendors or ["nvidia"]:
        try:
            found = fault(known, name)
        except UnknownName as error:
            raise ConfigurationError(str(error), "drahealth faults list shows all") from None
        console.print(f"[bold]{found.id}[/] ({known}, {found.kind}): {escape(found.means)}", soft_wrap=True)
        for title, text in _details(found):
            console.print(f"  [cyan]{title:10}[/] {escape(text)}", soft_wrap=True)
        for judged in policies().values():
            console.print(f"  [cyan]{judged.name:18}[/] {judged.health(name) if judged.knows(name) else 'not named'}")


def _details(found: Fault) -> list[tuple[str, str]]:
    details = [("message", found.says("gpu-0")), ("reaches", found.reaches)]
    details.append(("recovery", f"{found.recovery}, {found.takes}" + (", may fail" if found.may_fail else "")))
    details += [("then", found.then)] if found.then else []
    details += [("vanishes", "told once, then the driver does not list the device any more")] if found.vanishes else []
    details += [("silent", "nothing is reported of it")] if found.silent else []
    return [*details, ("source", found.source)]


def show_difference(first: str, second: str) -> None:
    """The faults of which two policies think differently. Raises ConfigurationError."""
    try:
        one, other = policy(first), policy(second)
    except UnknownName as error:
        raise ConfigurationError(str(error)) from None
    console, both = Console(highlight=False), [f for f in catalogue("nvidia") if one.knows(f) or other.knows(f)]
    table = Table(box=None)
    for column in ("fault", "what happened", first, second):
        table.add_column(column, overflow="fold")
    differing = [name for name in both if one.health(name) is not other.health(name)]
    for name in differing:
        table.add_row(name, catalogue("nvidia")[name].means, *(_judgement(p, name) for p in (one, other)))
    if differing:
        console.print(table)
    console.print(f"{len(differing)} of {len(both)} faults are judged differently")


def _judgement(judged: Policy, name: str) -> str:
    return ("[red]Unhealthy[/]" if str(judged.health(name)) == "Unhealthy" else "Healthy") if name else ""


def write_recording(socket: Path, output: Path | None, *, seconds: float | None, messages: int | None) -> None:
    """Records until the end, or Ctrl-C. Raises ConfigurationError, HarnessError."""
    from drahealth.suites.timelines.record import Recorder

    check_file(str(output) if output else None)
    recorder = Recorder(socket, seconds=seconds or math.inf, messages=messages)
    with suppress(KeyboardInterrupt):
        asyncio.run(recorder.listen())
    recording = recorder.recording()
    text = dump(recording.timeline())
    if output:
        output.write_text(text, encoding="utf-8")
        sys.stderr.write(f"{len(recording.heard)} messages of {recording.flavour.name} in {output}\n")
    else:
        sys.stdout.write(text)


def show_plan(
    file: Path | None, *, seed: int | None, devices: int, partitions: int, inventory: Path | None, schema: bool
) -> None:
    """The plans of a file's timelines as JSON Lines, or the schema of such files. Raises ConfigurationError."""
    if schema:
        sys.stdout.write(json.dumps(timeline_schema(), indent=1) + "\n")
        return
    if file is None:
        raise ConfigurationError("there is no file to plan", "name a timeline, or --schema")
    lines: list[str] = []
    try:
        there = load_inventory(inventory) if inventory else Inventory.of(devices, partitions=partitions)
        for story in stories(file, seed=seed, inventory=there):
            lines += story.plan.to_lines()
    except FileError as error:
        raise ConfigurationError(str(error)) from None
    except OSError as error:
        raise ConfigurationError(f"{error.filename or file} cannot be read: {error.strerror}") from None
    with suppress(BrokenPipeError):  # who reads has seen enough
        sys.stdout.writelines(line + "\n" for line in lines)
        sys.stdout.flush()
