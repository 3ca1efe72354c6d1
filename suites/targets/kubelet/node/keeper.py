"""The first process of a cluster's own process namespace: starts the other processes, reaps them, and ends with them.

    unshare --user --map-root-user --mount --pid --fork --kill-child \\
        python -m drahealth.suites.targets.kubelet.node.keeper RUN_DIR LOCK KEEP ...

The kernel kills all processes of a namespace when the first one ends. So no process survives this one. This process
ends when its standard input closes, that is when its parent ends in any way.

Commands are lines of JSON on standard input, events lines of JSON on standard output:

    {"do": "start", "id": 1, "argv": [...], "env": {...}, "log": "/path"}
                                 ->  {"event": "started", "id": 1} or {"event": "failed", "id": 1, "why": "..."}
    {"do": "signal", "id": 1, "signal": 9}
    {"do": "end", "remove": true}
                                 ->  {"event": "ended"}
    at the start, once           ->  {"event": "ready", "writable": [...]}
    whenever a process ends      ->  {"event": "exited", "id": 1, "code": -9}

A code below zero is the signal that ended the process. Closed input means `end`, with `remove` unless KEEP is `keep`.
"""

import contextlib
import json
import os
import selectors
import signal
import sys
from pathlib import Path
from typing import Any

from drahealth.suites.targets.kubelet.node import confinement
from drahealth.suites.targets.removal import remove_folder

_INPUT, _OUTPUT = 0, 1


class Keeper:
    """The processes by id, and the folder of the run."""

    def __init__(self, run_dir: Path, parent: int, keep: bool) -> None:
        self.keep = keep
        self._run_dir = run_dir
        self._parent = parent
        self._pids: dict[int, int] = {}

    def obey(self, command: dict[str, Any]) -> bool:
        """Executes a command; returns False after the last one."""
        match command["do"]:
            case "start":
                self._start(command["id"], command["argv"], command["env"], command["log"])
            case "signal":
                self._signal(command["id"], command["signal"])
            case "end":
                self.end(remove=command["remove"])
                tell(event="ended")
                return False
        return True

    def reap(self) -> None:
        """Reaps ended processes, also orphans."""
        ids = {pid: number for number, pid in self._pids.items()}
        for pid, status in iter(_next_dead, None):
            if pid in ids:
                del self._pids[ids[pid]]
                tell(event="exited", id=ids[pid], code=os.waitstatus_to_exitcode(status))

    def end(self, remove: bool) -> None:
        """Kills all processes in this namespace; if asked to, removes the folder of the run."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
        confinement.release(self._run_dir)
        if remove:
            os.fchdir(self._parent)
            remove_folder(Path(self._run_dir.name))

    def _start(self, number: int, argv: list[str], env: dict[str, str], log: str) -> None:
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        try:
            self._pids[number] = os.posix_spawn(argv[0], argv, env, file_actions=files, setsigdef=[signal.SIGPIPE])
        except OSError as error:
            tell(event="failed", id=number, why=f"{argv[0]}: {error.strerror}")
        else:
            tell(event="started", id=number)

    def _signal(self, number: int, which: int) -> None:
        if number in self._pids:
            os.kill(self._pids[number], which)


def tell(**event: Any) -> None:
    """Writes one line. A reader that is gone has closed our input as well."""
    with contextlib.suppress(BrokenPipeError):
        os.write(_OUTPUT, json.dumps(event).encode() + b"\n")


def serve(keeper: Keeper) -> None:
    """Handles commands and ended processes, until the last command or the end of input."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    waiting = selectors.DefaultSelector()
    waiting.register(_INPUT, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    pending = b""
    while True:
        for key, _ in waiting.select():
            data = os.read(key.fd, 65536)
            if key.fd == woken:
                keeper.reap()
            elif not data:
                return keeper.end(remove=not keeper.keep)
            else:
                *lines, pending = (pending + data).split(b"\n")
                if not all(keeper.obey(json.loads(line)) for line in lines):
                    return None


def main(run_dir: Path, lock: int, keep: bool, needed: list[Path]) -> None:
    """`lock` is the inherited lock of the run; the processes must not inherit it."""
    if os.getpid() != 1:  # `end` signals every process, so no other ones may be here
        raise SystemExit("The keeper must be the first process of a process namespace of its own")
    os.set_inheritable(lock, False)
    through = run_dir / "parent"
    through.mkdir(exist_ok=True)
    parent = confinement.open_writable(run_dir.parent, through)
    through.rmdir()
    writable = confinement.confine(run_dir, needed)
    os.chdir(run_dir)
    tell(event="ready", writable=writable)
    serve(Keeper(run_dir, parent, keep))


def _next_dead() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "keep", [Path(argument) for argument in sys.argv[4:]])
