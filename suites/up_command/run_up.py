"""The command `drahealth up`: in the background or in the foreground, and what it prints."""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from drahealth.fakes.program.invocation import as_called
from drahealth.suites.targets.stage_printer import StagePrinter
from drahealth.suites.up_command.folder import NodeFolder
from drahealth.suites.up_command.options import UpOptions, check_files, check_running, note_on_default
from drahealth.suites.up_command.showing import show_ready
from drahealth.suites.up_command.starting import Prepared, in_background, prepare
from drahealth.suites.up_command.state import NodeState, is_ready, read_state


def run_up(name: str, options: UpOptions, *, fresh: bool, foreground: bool) -> int:
    """Starts the node, unless it runs, and prints what to do with it. Returns the exit code.

    Raises HarnessError, CommandError.
    """
    since = time.monotonic()
    progress = StagePrinter(Console(stderr=True, highlight=False))
    folder = NodeFolder(name)
    if folder.exists() and (state := read_state(folder.path)) and is_ready(state):
        check_files(options)
        check_running(folder, state, options, fresh=fresh, foreground=foreground)
        show_ready(folder, state, state.drivers)
        _print_note(name, state, options)
        return 0
    prepared = prepare(folder, options, fresh=fresh, progress=progress)
    if foreground:
        return _in_foreground(prepared, progress, since)
    ready = in_background(prepared, progress)
    show_ready(folder, prepared.state, ready["drivers"], time.monotonic() - since)
    _print_note(name, prepared.state, options)
    return 0


def _print_note(name: str, state: NodeState, options: UpOptions) -> None:
    """On stderr, so that scripts can read the commands."""
    if note := note_on_default(name, state, options):
        Console(stderr=True, highlight=False).print(as_called(note), markup=False, soft_wrap=True)


def _in_foreground(prepared: Prepared, progress: StagePrinter, since: float) -> int:
    console = Console(stderr=True, highlight=False)

    def report(what: Mapping[str, Any]) -> None:
        match what:
            case {"stage": stage}:
                progress(stage)
            case {"ready": ready}:
                show_ready(prepared.folder, prepared.state, ready["drivers"], time.monotonic() - since)
                _print_note(prepared.folder.name, prepared.state, prepared.options)
            case {"error": error}:
                console.print(f"drahealth: {as_called(str(error))}", markup=False, soft_wrap=True)

    return prepared.supervise(report, remove=True)
