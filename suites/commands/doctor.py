"""`drahealth doctor`: which targets can run on this machine, and why not."""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from drahealth.fakes.program.console import print_line
from drahealth.fakes.program.invocation import as_called
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets import registry
from drahealth.suites.targets.checks import Check
from drahealth.suites.targets.definition import TargetDefinition
from drahealth.suites.targets.option import Values
from drahealth.suites.targets.stage_printer import StagePrinter


def show_doctor(given: Mapping[str, str | None]) -> int:
    """Examines the target that is given, or all. Returns the exit code: 3 if none of them can run.

    Raises ConfigurationError for a wrong option.
    """
    chosen = _chosen(given.get("target"))
    registry.refuse_others(chosen, "doctor", given)
    values = [Values(given, target.options_of("doctor")) for target in chosen]
    console = Console(highlight=False)
    able = [target.title for target in registry.definitions() if not target.examine]
    unable = list[str]()
    fits = False
    for target, options in zip(chosen, values, strict=True):
        can = _examine(console, target, options)
        (able if can else unable).append(target.title)
        fits |= can
    missing = f" It cannot run {', '.join(unable)}." if unable else ""
    print_line(console, Text(f"This machine can run {', '.join(able)}.{missing}"))
    return 0 if fits else 3


def _chosen(name: str | None) -> list[TargetDefinition]:
    """The target with this name, or all that have checks. Raises ConfigurationError."""
    found = [target for target in registry.definitions() if target.examine]
    if not name:
        return found
    checked = [target.name for target in found]
    if name not in registry.FOLDERS:
        raise ConfigurationError(f"--target must be one of {', '.join(checked)}, got {name!r}")
    target = registry.definition(name)
    if not target.examine:
        raise ConfigurationError(
            f"--target {name} has nothing to check, because it needs only Python",
            f"pass --target {' or '.join(checked)}",
        )
    return [target]


def _examine(console: Console, target: TargetDefinition, values: Values) -> bool:
    """Shows the checks of a target. Returns whether it can run here."""
    assert target.examine
    console.print(f"[bold]{target.title}[/]")
    progress = StagePrinter(Console(stderr=True, highlight=False))
    can = True
    for check in target.examine(values, progress):
        can &= _show(console, check)
    console.print()
    return can


def _show(console: Console, check: Check) -> bool:
    """Shows a check. Returns whether the target can run as far as this goes."""
    mark = "[green]ok  [/]" if check.ok else ("[red]no  [/]" if check.needed else "[yellow]note[/]")
    print_line(console, Text.from_markup(f"{mark} [bold]{check.name}[/]: {escape(as_called(check.found))}"))
    if check.hint:
        print_line(console, Text(f"       {as_called(check.hint)}"))
    return check.ok or not check.needed
