"""TCP on the loopback interface of the present network namespace."""

import fcntl
import socket
import struct

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


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
