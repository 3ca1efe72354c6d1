"""Loopback ports that stay ours without being used.

A socket that is bound and does not listen keeps its port from everybody who asks for any free port, and still lets a
server bind that very port if both set SO_REUSEADDR, as servers written in Go do. So a port can be chosen before the
server starts, and belongs to this run while the server is being restarted.
"""

import socket


class Reservation:
    """One TCP port of 127.0.0.1, held until `release`."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Gives the port back; doing so again is no error."""
        self._socket.close()


def outward_address() -> str | None:
    """The address this machine would use towards others, None if it has no route; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])
