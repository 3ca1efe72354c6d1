"""The process that a sandbox lives with: it makes the mounts, opens sockets for the caller, and ends with the caller.

    unshare ... python -m drahealth.suites.driver_checks.sandbox.keeper CONTROL CONFIGURATION

CONTROL is an inherited Unix socket (SOCK_SEQPACKET). Its messages to the caller:

    ready PID               all is mounted; PID is this process as the caller sees it
    failed REASON           a mount was refused; this process ends
    done                    the answer to `bind PORT`, with a TCP socket at this port of the sandbox's loopback, and to
                            `mount JSON`, for a folder and the directory at which it is mounted
    failed REASON           the other answer to them

CONFIGURATION is JSON: `folders` (directory in the sandbox -> folder of the run), `needed` (folders that must stay
visible), `namespaces`. With a process namespace this process is the first in it: the kernel kills all others at its
end. It ends when CONTROL closes, that is when the caller ends in any way.
"""

import json
import signal
import socket
import sys
from pathlib import Path

from drahealth.suites.driver_checks.sandbox.mounting import Mounts, bound, enable_loopback, mount_proc, protect_sys
from drahealth.suites.targets.namespaces import BIND, REC, mount

_LONGEST = 4096


def main(control: socket.socket, folders: dict[str, str], needed: list[str], namespaces: list[str]) -> None:
    pid = Path("/proc/self").readlink()  # before the sandbox has a /proc of its own
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the orphans of the sandbox
    try:
        if "network" in namespaces:
            enable_loopback()
        if "mount" in namespaces:
            Mounts().bind(folders, needed)
            protect_sys()
        if "pid" in namespaces:
            mount_proc()
    except OSError as error:
        control.send(f"failed {error.filename or ''}: {error.strerror}".encode())
        return
    control.send(f"ready {pid}".encode())
    while request := control.recv(_LONGEST):
        word, _, rest = request.decode().partition(" ")
        try:
            _answer(control, word, rest)
        except OSError as error:
            control.send(f"failed {error.strerror}".encode())


def _answer(control: socket.socket, word: str, rest: str) -> None:
    match word:
        case "bind":
            with bound(int(rest)) as listening:
                socket.send_fds(control, [b"done"], [listening.fileno()])
        case "mount":
            folder, directory = json.loads(rest)
            mount(folder, directory, flags=BIND | REC)
            control.send(b"done")


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), **json.loads(sys.argv[2]))
