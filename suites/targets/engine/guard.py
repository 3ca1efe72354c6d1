"""Runs one program for as long as whoever asked for it lives, and ends it with all its children otherwise.

    python -I -S guard.py HANDLE PROGRAM ARGUMENT...

HANDLE is the reading end of a pipe whose other end the asker alone holds: it reads as closed once the asker has ended,
in whatever way. The signal that a kernel can send at a parent's death (prctl(2), PR_SET_PDEATHSIG) reaches the child
alone, and `kind` has children of its own that would go on making containers. Imports nothing but what is quick.
"""

import os
import select
import signal
import sys


def main(asker: int, argv: list[str]) -> int:
    """The program's exit code as a shell gives it, or death with everything in this process group."""
    if os.getpgrp() != os.getpid():
        os.setsid()  # the group to be ended must have no strangers in it
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
