"""Loopback ports that a run reserves.

A socket that is bound and does not listen reserves its port: the kernel does not choose it for any other socket. A
server can still bind it if both set SO_REUSEADDR, as servers in Go do. So a run can choose a port before the server
starts, and keep it while the server restarts.
"""

import socket


class Reservation:
    """One TCP port of 127.0.0.1, reserved until `release`: `wanted` if it is free, else any."""

    def __init__(self, wanted: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", wanted))
        except OSError:
            self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Releases the port; harmless if it is released."""
        self._socket.close()


def outward_address() -> str | None:
    """The address of this machine towards other ones; None without a route. It sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])
