"""Runs one driver, and kills it with all its descendants when it ends, or when the caller ends in any way.

    python -I -S guard.py ASKER REPORT FOLDER PROGRAM ARGUMENT...

ASKER is the reading end of a pipe. Only the caller has the other end, so the pipe closes when the caller ends. REPORT
is the writing end of a pipe, which gets lines:

    started PID             the driver runs
    stopped                 the driver was stopped, by SIGSTOP for example
    continued               the driver was continued
    failed REASON           the driver cannot be run
    exited CODE CHILDREN    the driver ended; so many of its children still ran
    left CHILDREN           so many of these were killed

Children that still run at the end of the driver are killed when ASKER closes, so the caller can give them time.

FOLDER is the working directory; empty for the present one. Entering a mount namespace changes it.

A line with a number in ASKER is a signal for the driver: its process id outside a process namespace is another one.

A driver's orphans become children of the guard (prctl(2), PR_SET_CHILD_SUBREAPER), also those in a session of their
own. So all of them are found and killed. This module imports only what is fast.
"""

import ctypes
import os
import select
import signal
import sys

_SET_CHILD_SUBREAPER = 36


def main(asker: int, report: int, folder: str, argv: list[str]) -> None:
    os.set_inheritable(asker, False)
    os.set_inheritable(report, False)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        if folder:
            os.chdir(folder)
        driver = os.posix_spawnp(argv[0], argv, os.environ, setsigdef=[signal.SIGPIPE], setsid=True)
    except OSError as error:
        where = f" {error.filename}" if error.filename != argv[0] else ""
        os.write(report, f"failed {error.strerror}{where}\n".encode())
        return
    try:
        os.write(report, f"started {driver}\n".encode())
        code = _wait(driver, asker, woken, report)
        if code is not None:
            children = len(_descendants(os.getpid()))
            os.write(report, f"exited {code} {children}\n".encode())
            if children:
                _wait_for_children(asker, woken)
                os.write(report, f"left {kill_descendants()}\n".encode())
    except BrokenPipeError:  # the caller ended
        pass
    finally:
        kill_descendants()


def _wait(driver: int, asker: int, woken: int, report: int) -> int | None:
    """The driver's exit code, or None after the end of the caller."""
    while True:
        ready, _, _ = select.select([asker, woken], [], [])
        if asker in ready:
            orders = os.read(asker, 4096)
            if not orders:
                return None
            for number in orders.split():
                os.kill(driver, int(number))
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
            if pid != driver:
                continue
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                os.write(report, b"stopped\n" if os.WIFSTOPPED(status) else b"continued\n")
            else:
                return os.waitstatus_to_exitcode(status)


def _wait_for_children(asker: int, woken: int) -> None:
    """Returns when no descendant is left, or when the caller closes its pipe."""
    while _descendants(os.getpid()):
        ready, _, _ = select.select([asker, woken], [], [])
        if asker in ready and not os.read(asker, 4096):  # a signal for the driver came too late
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
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
    os._exit(0)
