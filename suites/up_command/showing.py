"""What the commands for nodes print."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

from drahealth.fakes.control.node_folder import DEFAULT_NODE
from drahealth.fakes.program.invocation import as_called, command_name
from drahealth.suites.up_command.folder import NodeFolder
from drahealth.suites.up_command.state import NodeState, read_state

_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Status:
    """A node as `drahealth status` shows it; `memory` is the resident memory of all its processes in bytes."""

    name: str
    phase: str
    kubernetes: str
    server: str = ""
    kubeconfig: str = ""
    problem: str = ""
    pid: int | None = None
    memory: int = 0


def status_of(folder: NodeFolder) -> Status:
    """Its status now. Raises ConfigurationError for a state that cannot be read."""
    state = read_state(folder.path)
    if state is None:
        return Status(folder.name, "starting", "")
    running = state.process is not None and state.process.runs()
    phase = state.phase if running or state.phase in ("stopped", "failed") else "killed"
    problem = state.problem or (_why_killed(folder) if phase == "killed" else "")
    shown = Status(folder.name, phase, state.kubernetes, kubeconfig=str(folder.kubeconfig), problem=problem)
    if not running or state.process is None:
        return shown
    return Status(
        folder.name,
        phase,
        state.kubernetes,
        state.server,
        str(folder.kubeconfig),
        pid=state.process.pid,
        memory=resident_memory(state.process.pid),
    )


def _why_killed(folder: NodeFolder) -> str:
    """A full disk: then the supervisor could not write why it ended."""
    full = shutil.disk_usage(folder.path).free < _MB
    return f"the disk of {folder.path} is full" if full else ""


def resident_memory(pid: int) -> int:
    """Bytes of resident memory of the process and all its descendants."""
    import psutil

    total = 0
    try:
        parent = psutil.Process(pid)
        everyone = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in everyone:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def show_statuses(statuses: Sequence[Status], *, as_json: bool) -> None:
    """Prints a table, or a JSON list."""
    from dataclasses import asdict

    console = Console(highlight=False)
    if as_json:
        console.print(json.dumps([asdict(status) for status in statuses], indent=1), markup=False, soft_wrap=True)
        return
    if not statuses:
        console.print(as_called("no node is up; start one with `drahealth up`"), soft_wrap=True, markup=False)
    for one in statuses:
        runs = f"Kubernetes {one.kubernetes}" if one.kubernetes else "the reference"
        memory = f", {one.memory // _MB} MB, process {one.pid}" if one.pid else ""
        why = f": {one.problem}" if one.problem else ""
        console.print(f"[bold]{escape(one.name)}[/]  {one.phase}{escape(why)}  {runs}{memory}", soft_wrap=True)
        if one.pid:
            console.print(f"  {one.server}  {escape(one.kubeconfig)}", soft_wrap=True)


def show_ready(
    folder: NodeFolder, state: NodeState, drivers: Sequence[Sequence[str]], seconds: float | None = None
) -> None:
    """Prints that the node is Ready, and the four lines that a user needs next.

    `seconds` is the duration of the start; None: the node was Ready before.
    """
    console = Console(highlight=False)
    already, after = (" already", "") if seconds is None else ("", f" after {seconds:.1f} s")
    console.print(f"[bold]node {folder.name} is{already} Ready[/]{after}: {state.title}", soft_wrap=True)
    console.print("\n".join(next_lines(folder, drivers)), soft_wrap=True, markup=False)


def next_lines(folder: NodeFolder, drivers: Sequence[Sequence[str]]) -> list[str]:
    """The commands to try next."""
    named, drahealth = folder.name != DEFAULT_NODE, command_name()
    name = f" --name {folder.name}" if named else ""
    kubectl = "kubectl" if shutil.which("kubectl") else f"{drahealth} kubectl{name}"
    lines = [f"export KUBECONFIG={folder.kubeconfig}", f"{kubectl} get pods --all-namespaces"]
    if drivers:
        driver, device = drivers[0]
        options = [f"--name {folder.name}"] if named else []
        options += [f"--driver {driver}"] if len(drivers) > 1 else []
        lines.append(" ".join([drahealth, "ctl", *options, f"inject xid/48 {device}"]))
    lines.append(f"{drahealth} down{name}")
    return lines
