"""Runs one program, and kills it with all its children when the caller ends.

    python -I -S guard.py HANDLE PROGRAM ARGUMENT...

HANDLE is the reading end of a pipe. Only the caller has the other end, so the pipe closes when the caller ends, in any
way. The signal of the kernel at a parent's death (prctl(2), PR_SET_PDEATHSIG) only reaches the child; the children of
`kind` would continue to make containers. This module imports only what is fast.
"""

import os
import select
import signal
import sys


def main(asker: int, argv: list[str]) -> int:
    """Returns the exit code of the program as a shell does, or kills this whole process group."""
    if os.getpgrp() != os.getpid():
        os.setsid()  # the killed group must contain no other processes
    os.set_inheritable(asker, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        child = os.posix_spawnp(argv[0], argv, os.environ, setsigdef=[signal.SIGPIPE])
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        return 127
    while True:
        ready, _, _ = select.select([asker, woken], [], [])
        if asker in ready:
            os.killpg(0, signal.SIGKILL)
        os.read(woken, 64)
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), sys.argv[2:]))
