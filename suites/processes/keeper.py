"""The process that a sandbox lives with: it makes the mounts, opens sockets for the caller, and ends with the caller.

    unshare ... python -m drahealth.suites.processes.keeper CONTROL NAMESPACES PLAN

CONTROL is an inherited Unix socket (SOCK_SEQPACKET). Its messages to the caller:

    ready PID               all is mounted; PID is this process as the caller sees it
    failed REASON           a mount was refused; this process ends
    done                    the answer to `bind PORT`, with a TCP socket at this port of the sandbox's loopback, and to
                            `mount JSON`, for a folder and the directory at which it is mounted
    failed REASON           the other answer to them

NAMESPACES is a JSON list; PLAN is a MountPlan as JSON. With a process namespace this process is the first in it: the
kernel kills all others at its end. It ends when CONTROL closes, that is when the caller ends in any way.
"""

import fcntl
import json
import signal
import socket
import struct
import sys
from pathlib import Path

from drahealth.suites.processes.mounts import BIND, REC, MountPlan, Mounts, mount, mount_proc

_LONGEST = 4096
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def main(control: socket.socket, namespaces: list[str], plan: MountPlan) -> None:
    pid = Path("/proc/self").readlink()  # before the sandbox has a /proc of its own
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the orphans of the sandbox
    try:
        if "network" in namespaces:
            enable_loopback()
        if "mount" in namespaces:
            Mounts().make(plan)
        if "pid" in namespaces:
            mount_proc(read_only=plan.writable is not None)
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


def enable_loopback() -> None:
    """Enables the loopback interface (netdevice(7)). Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def bound(port: int) -> socket.socket:
    """A socket at this port of loopback; 0 for a free one. Raises OSError.

    Several of ours can share a port: it stays ours while none listens.
    """
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind(("127.0.0.1", port))
    except OSError:
        found.close()
        raise
    return found


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
    main(socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2]), MountPlan(**json.loads(sys.argv[3])))
