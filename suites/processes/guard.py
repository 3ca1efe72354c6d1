"""Runs one program, and kills it with all its descendants when it ends, or when the caller ends in any way.

    python -I -S guard.py KILLS ASKER REPORT FOLDER PROGRAM ARGUMENT...

ASKER is the reading end of a pipe. Only the caller has the other end, so the pipe closes when the caller ends. REPORT
is the writing end of a pipe, which gets lines:

    started PID             the program runs
    stopped                 the program was stopped, by SIGSTOP for example
    continued               the program was continued
    failed REASON           the program cannot be run
    exited CODE CHILDREN    the program ended; so many of its children still ran
    left CHILDREN           so many of these were killed

KILLS is `descendants` or `group`. A program's orphans become children of the guard (prctl(2), PR_SET_CHILD_SUBREAPER),
also those in a session of their own. So all of them are found and killed. Children that still run at the end of the
program are killed when ASKER closes, so the caller can give them time. `group` is for programs that start daemons on
purpose, such as the command of a container engine. Then only the process group of the program is killed, and only if
ASKER closes before the program has ended.

FOLDER is the working directory; empty for the present one. Entering a mount namespace changes it. With a question mark
before it, it need not be there.

A line with a number in ASKER is a signal for the program: its process id outside a process namespace is another one.

The signal of the kernel at a parent's death (prctl(2), PR_SET_PDEATHSIG) would not do: it only reaches the child. This
module imports only what is fast.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` imports `enum`, which takes longer than all else
import os
import select
import sys

_SET_CHILD_SUBREAPER = 36


def main(kills: str, asker: int, report: int, folder: str, argv: list[str]) -> int:
    """Returns the exit code of the program as a shell does."""
    os.set_inheritable(asker, False)
    os.set_inheritable(report, False)
    group = kills == "group"
    if not group:
        import ctypes

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        if folder:
            try:
                os.chdir(folder.removeprefix("?"))
            except OSError:
                if folder[0] != "?":
                    raise
        program = os.posix_spawnp(argv[0], argv, os.environ, setsigdef=[signal.SIGPIPE], setsid=True)
    except OSError as error:
        where = f" {error.filename}" if error.filename != argv[0] else ""
        os.write(report, f"failed {error.strerror}{where}\n".encode())
        return 127
    code = None
    try:
        os.write(report, f"started {program}\n".encode())
        code = _wait(program, asker, woken, report)
        if code is not None:
            children = 0 if group else len(_descendants(os.getpid()))
            os.write(report, f"exited {code} {children}\n".encode())
            if children:
                _wait_for_children(asker, woken)
                os.write(report, f"left {kill_descendants()}\n".encode())
    except BrokenPipeError:  # the caller ended
        pass
    finally:
        if not group:
            kill_descendants()
        elif code is None:
            os.killpg(program, signal.SIGKILL)
            os.waitpid(program, 0)
    return 128 + signal.SIGKILL if code is None else code if code >= 0 else 128 - code


def _wait(program: int, asker: int, woken: int, report: int) -> int | None:
    """The program's exit code, or None after the end of the caller."""
    while True:
        ready, _, _ = select.select([asker, woken], [], [])
        if asker in ready:
            orders = os.read(asker, 4096)
            if not orders:
                return None
            for number in orders.split():
                os.kill(program, int(number))
        if woken not in ready:
            continue
        os.read(woken, 64)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid != program:
                continue
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                os.write(report, b"stopped\n" if os.WIFSTOPPED(status) else b"continued\n")
            else:
                return os.waitstatus_to_exitcode(status)


def _wait_for_children(asker: int, woken: int) -> None:
    """Returns when no descendant is left, or when the caller closes its pipe."""
    while _descendants(os.getpid()):
        ready, _, _ = select.select([asker, woken], [], [])
        if asker in ready and not os.read(asker, 4096):  # a signal for the program came too late
            return
        if woken in ready:
            os.read(woken, 64)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def kill_descendants() -> int:
    """Kills all descendants of this process, until none is left. Returns how many there were."""
    killed: set[int] = set()
    while found := _descendants(os.getpid()):
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed.add(pid)
        try:
            while os.waitpid(-1, 0)[0]:
                pass
        except ChildProcessError:
            pass
    return len(killed)


def _descendants(ancestor: int) -> set[int]:
    """The living descendants of a process."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  pathlib is slow to import
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue
        if state != b"Z":
            children.setdefault(int(parent), []).append(int(name))
    found: set[int] = set()
    queue = [ancestor]
    while queue:
        for child in children.get(queue.pop(), ()):
            found.add(child)
            queue.append(child)
    return found


if __name__ == "__main__":
    os._exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:]))
