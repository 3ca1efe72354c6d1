"""Checks who uses a socket's file. It imports almost nothing, so that commands start fast."""

import socket
from pathlib import Path


class SocketInUse(ValueError):
    """Another process uses the path of a socket."""


def is_served(path: Path) -> bool:
    """Whether a process listens on the socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)  # do not wait for a busy listener
        try:
            client.connect(str(path))
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return False
        except (BlockingIOError, PermissionError):
            pass
        return True
