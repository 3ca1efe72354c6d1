"""Whose a socket's file is. It imports next to nothing, so that commands start at once."""

import socket
from pathlib import Path


class SocketInUse(ValueError):
    """The path for a socket is somebody else's."""


def is_served(path: Path) -> bool:
    """Whether somebody listens there."""
    with socket.socket(socket.AF_UNIX) as knocking:
        knocking.setblocking(False)  # who listens but is busy would keep it waiting
        try:
            knocking.connect(str(path))
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return False
        except (BlockingIOError, PermissionError):
            pass
        return True
