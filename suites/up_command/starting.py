"""`drahealth up`: it checks everything that it can, then starts the node, and says how to use it."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from drahealth.fakes.control.socket_path import STATE_VARIABLE
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import as_called
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.fleet.topology import fleet_names
from drahealth.suites.targets.kubelet.processes import telling_line
from drahealth.suites.targets.progress import Progress, StagePrinter
from drahealth.suites.up_command.node_commands import show_ready
from drahealth.suites.up_command.node_folder import (
    LOOK,
    Components,
    NodeFolder,
    NodeState,
    components_of,
    first_of,
    further_folders,
    has_state,
    is_ready,
    joined_folders,
    read_state,
    write_state,
)
from drahealth.suites.up_command.options import (
    NODE_MEMORY,
    UpOptions,
    check_files,
    check_running,
    counted,
    fleet_memory,
    note_on_default,
    planned,
)

# `drahealth up`: it checks everything that it can before it starts a process, then waits until the node is Ready.

Report = Callable[[Mapping[str, Any]], None]
_MB = 1_000_000
_NEEDED = 300 * _MB
"""Free bytes on the disk of the folder. etcd allocates 128 MB at its start, and ends when the disk is full."""
_PATIENCE = 60.0
"""Seconds for the processes of a killed supervisor to end."""
_INTERVAL = 0.1
"""Seconds between looks at the state of a node that starts again."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A locked folder with all that its supervisor needs; `again` if it has data of an earlier start.

    `joining` are the locked folders of the other nodes.
    """

    folder: NodeFolder
    lock: int
    state: NodeState
    options: UpOptions
    components: Components | None
    again: bool
    joining: Sequence[tuple[NodeFolder, int]]

    @property
    def folders(self) -> list[NodeFolder]:
        """Those of all nodes."""
        return [self.folder, *(folder for folder, _ in self.joining)]

    @property
    def locks(self) -> list[int]:
        """Those of all nodes."""
        return [self.lock, *(lock for _, lock in self.joining)]

    def supervise(self, report: Report, *, remove: bool = False) -> int:
        """Runs the node in this process, and returns the exit code."""
        from drahealth.suites.up_command.supervisor import Supervisor

        supervisor = Supervisor(
            self.folder,
            self.lock,
            self.state,
            self.options,
            self.components,
            report,
            joining=self.joining,
            again=self.again,
            remove=remove,
        )
        return supervisor.run()


def prepare(folder: NodeFolder, options: UpOptions, *, fresh: bool, progress: Progress) -> Prepared:
    """Locks the folder of the node, and gets the programs. Raises HarnessError, and then leaves what was there."""
    if first := first_of(folder):
        raise ConfigurationError(
            f"node {folder.name} is one of the nodes of {first}",
            f"`drahealth up --name {first}` starts it, and `drahealth down --name {folder.name}` removes it",
        )
    with ExitStack() as stack:
        lock = _locked(folder, stack)
        if fresh or not has_state(folder.path):
            for each in joined_folders(folder):  # their data do not fit a new control plane
                _locked(each, stack)
                each.remove()
        if fresh:
            folder.remove()
            lock = _locked(folder, stack)
        earlier = read_state(folder.path)
        state = planned(options, earlier)
        check_files(options, state.nodes, state.fleet)
        _check_room(folder, state)
        joining = [(each, _locked(each, stack)) for each in _joining(folder, state)]
        components = components_of(state, progress)
        stack.pop_all()
        return Prepared(folder, lock, state, options, components, earlier is not None, joining)


def _joining(first: NodeFolder, state: NodeState) -> list[NodeFolder]:
    """The folders of the other nodes. Raises ConfigurationError if one is a node of its own."""
    found = further_folders(first, state.nodes)
    if state.fleet and (twice := {each.name for each in found} & {each.name for each in fleet_names(state.fleet)}):
        raise ConfigurationError(f"node {min(twice)} is also a node of the fleet", "pass another --name")
    for each in found:
        if each.exists() and has_state(each.path) and first_of(each) != first.name:
            raise ConfigurationError(
                f"node {each.name} exists, and is not one of the nodes of {first.name}",
                f"remove it with `drahealth down --name {each.name}`, or pass another --name",
            )
    return found


def in_background(prepared: Prepared, progress: Progress) -> Mapping[str, Any]:
    """Starts the supervisor, and returns what it reports when the node is Ready.

    Raises CommandError with the exit code if the node does not get Ready; then the supervisor has ended. Ctrl-C ends
    the supervisor, too.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_the_supervisor(prepared, writing)
    os.close(writing)
    for lock in prepared.locks:
        os.close(lock)
    with os.fdopen(reading, encoding="utf-8") as reports:
        try:
            for line in reports:
                match json.loads(line):
                    case {"stage": stage}:
                        progress(stage)
                    case {"ready": ready}:
                        return {**ready, "pid": pid}
                    case {"error": error, "code": code}:
                        os.waitpid(pid, 0)
                        raise CommandError(error, code)
        except KeyboardInterrupt:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            _discard(prepared)
            raise
    os.waitpid(pid, 0)
    why = telling_line(prepared.folder.logs / "supervisor.log")
    _discard(prepared)
    raise HarnessError(f"the supervisor of node {prepared.folder.name} ended during the start: {why}")


def _discard(prepared: Prepared) -> None:
    """Removes what a killed supervisor left, unless it has data of an earlier start."""
    if prepared.again:
        return
    for folder in filter(NodeFolder.exists, prepared.folders):
        lock = folder.lock(_PATIENCE)
        if lock is not None:
            folder.remove()
            os.close(lock)


def _be_the_supervisor(prepared: Prepared, writing: int) -> None:
    """The rest of the new process: without a terminal, in a session of its own. It does not return."""
    code = 1
    try:
        os.setsid()
        log = os.open(prepared.folder.logs / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number, opened in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
            os.dup2(opened, number)
        _close_others({0, 1, 2, writing, *prepared.locks})
        os.chdir("/")

        def report(what: Mapping[str, Any]) -> None:
            with suppress(BrokenPipeError):  # the command was killed; the node continues
                os.write(writing, json.dumps(what).encode() + b"\n")

        code = prepared.supervise(report)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _close_others(kept: set[int]) -> None:
    """Closes what this process has inherited, such as the pipe of a shell that waits for its end."""
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208
        if number not in kept:
            with suppress(OSError):
                os.close(number)


def _locked(folder: NodeFolder, stack: ExitStack) -> int:
    """The lock of the folder. The stack releases it, and removes a folder without data."""
    folder.make()
    lock = folder.lock()
    if lock is None:
        state = read_state(folder.path)
        if not (state and state.process and state.process.runs()):
            lock = folder.lock(_PATIENCE)
    if lock is None:
        raise HarnessError(
            f"another process starts or ends node {folder.name}",
            f"see `drahealth status`; end the node with `drahealth down --name {folder.name}`, or pass another --name",
        )

    def release() -> None:
        if not has_state(folder.path):
            folder.remove()
        os.close(lock)

    stack.callback(release)
    return lock


def _check_room(folder: NodeFolder, state: NodeState) -> None:
    free = shutil.disk_usage(folder.path).free
    if not state.reference and free < _NEEDED:
        raise HarnessError(
            f"{folder.path} needs {_NEEDED // _MB} MB, and its disk has {free // _MB} MB",
            f"free some disk space, or set {STATE_VARIABLE} to a short folder on another disk",
        )
    if state.nodes > 1 or state.fleet:
        import psutil  # takes 30 ms

        available = psutil.virtual_memory().available // _MB
        for nodes, needed, option in (
            (state.nodes, NODE_MEMORY * (state.nodes - 1), "--nodes"),
            (state.fleet, fleet_memory(state.fleet), "--fleet"),
        ):
            if available < needed:
                kind = " of the fleet" if option == "--fleet" else ""
                raise HarnessError(
                    f"{counted(nodes)}{kind} need {needed} MB of memory beside the first node, "
                    f"and {available} MB are free",
                    f"pass a smaller {option}, or end other processes",
                )


# The command `drahealth up`: in the background or in the foreground, and what it prints.


def run_up(name: str, options: UpOptions, *, fresh: bool, foreground: bool) -> int:
    """Starts the node, unless it runs, and prints what to do with it. Returns the exit code.

    Raises HarnessError, CommandError.
    """
    since = time.monotonic()
    progress = StagePrinter(Console(stderr=True, highlight=False))
    folder = NodeFolder(name)
    if folder.exists() and (state := read_state(folder.path)) and is_ready(state):
        check_files(options, state.nodes, state.fleet)
        check_running(folder, state, options, fresh=fresh, foreground=foreground)
        joined = [] if state.first else _join_again(folder, state, progress)
        show_ready(folder, state, state.drivers, time.monotonic() - since if joined else None, nodes=joined)
        _print_note(name, state, options)
        return 0
    prepared = prepare(folder, options, fresh=fresh, progress=progress)
    if foreground:
        return _in_foreground(prepared, progress, since)
    ready = in_background(prepared, progress)
    show_ready(folder, prepared.state, ready["drivers"], time.monotonic() - since, nodes=prepared.folders)
    _print_note(name, prepared.state, options)
    return 0


def _join_again(first: NodeFolder, state: NodeState, progress: Progress) -> list[NodeFolder]:
    """Starts the nodes that `drahealth down` has ended alone, and returns them. Raises HarnessError."""
    process = state.process
    assert process, "the node runs"
    missing = [each for each in _joining(first, state) if not is_ready(read_state(each.path))]
    for each in missing:
        progress(f"Starting node {each.name}")
        each.make()
        write_state(each.path, state.of_joined(first).at("joining"))
    process.signal(LOOK)
    for each in missing:
        while not is_ready(found := read_state(each.path)):
            if found and found.phase == "failed":
                raise HarnessError(found.problem)
            if not process.runs():
                raise HarnessError(f"node {first.name} ended while node {each.name} started", "see `drahealth status`")
            time.sleep(_INTERVAL)
    return missing


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
                seconds = time.monotonic() - since
                show_ready(prepared.folder, prepared.state, ready["drivers"], seconds, nodes=prepared.folders)
                _print_note(prepared.folder.name, prepared.state, prepared.options)
            case {"error": error}:
                console.print(f"drahealth: {as_called(str(error))}", markup=False, soft_wrap=True)

    return prepared.supervise(report, remove=True)
