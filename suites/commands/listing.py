"""The lists that the command prints: the scenarios, and what `clean` removed."""

from rich.console import Console
from rich.markup import escape

from drahealth.suites.judging.ledger import requirements
from drahealth.suites.run.catalogue import scenarios
from drahealth.suites.targets import registry, run_directory
from drahealth.suites.targets.stage_printer import StagePrinter


def show_scenarios() -> None:
    """Print all scenarios with the sentences of their requirements."""
    console = Console(highlight=False)
    ledger = requirements()
    for scenario in scenarios():
        console.print(f"[bold]{scenario.name}[/]", soft_wrap=True)
        for name in scenario.requirements:
            console.print(
                f"  [cyan]{name:11}[/] [dim]{ledger[name].level:6}[/] {ledger[name].sentence}", soft_wrap=True
            )


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
