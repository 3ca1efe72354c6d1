"""The lists that the command prints: the scenarios, and what `clean` removed."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from drahealth.fakes.program.console import print_line
from drahealth.suites.commands.explanations import explanations, lines_of
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.run.case_names import KEP
from drahealth.suites.run.catalogue import scenarios
from drahealth.suites.targets import registry, run_directory
from drahealth.suites.targets.stage_printer import StagePrinter


def show_scenarios(*, as_json: bool = False) -> None:
    """Print all scenarios with the sentences of their requirements."""
    if as_json:
        found = [
            {"id": f"{KEP}::{one.name}", "name": one.name, "title": one.title, "requirements": one.requirements}
            | {"needs": sorted(capability.value for capability in one.all_needs)}
            for one in scenarios()
        ]
        _write({"scenarios": found})
        return
    console = Console(highlight=False)
    ledger = requirements()
    for scenario in scenarios():
        console.print(f"[bold]{scenario.name}[/]", soft_wrap=True)
        for name in scenario.requirements:
            entry = ledger[name]
            line = f"  [cyan]{name:11}[/] [dim]{entry.level:6}[/] {escape(entry.sentence)}"
            print_line(console, Text.from_markup(line))


def show_explanations(names: Sequence[str], *, as_json: bool = False) -> None:
    """Print what is known about each ID. Raises ConfigurationError for an unknown one."""
    found = [one for name in names for one in explanations(name)]
    if as_json:
        _write({"explanations": [one.plain() for one in found]})
        return
    console = Console(highlight=False)
    for one in found:
        print_line(console, Text.from_markup(f"[bold]{one.id}[/] ({escape(one.kind)}): {escape(one.sentence)}"))
        for title, line in lines_of(one):
            print_line(console, Text.from_markup(f"  [cyan]{title:12}[/] {escape(line)}"))


def _write(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def clean_up(*, kept: bool) -> None:
    """Remove files and clusters of interrupted runs, and print their names. `kept`: also those of --keep."""
    console = Console(highlight=False)
    progress = StagePrinter(Console(stderr=True, highlight=False))
    removed = [f"removed the run folder {path}" for path in run_directory.sweep(run_directory.default_base())]
    left = list[str]()
    for clean in (target.clean for target in registry.definitions() if target.clean):
        gone, stays = clean(kept, progress)
        removed += gone
        left += stays
    for line in (*(removed or ["nothing to clean"]), *left):
        console.print(escape(line), soft_wrap=True)
