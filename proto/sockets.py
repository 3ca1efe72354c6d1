"""Paths of unix sockets, their gRPC addresses, and who uses them. It imports almost nothing: commands start fast."""

import os
import socket
from pathlib import Path
from urllib.parse import quote

from drahealth.proto.quoting import one_line

PATH_LIMIT = 107
"""Maximum length of a unix socket path on Linux, in bytes."""


def check_path(path: Path) -> None:
    """Raises ValueError if the path cannot be a unix socket."""
    if len(os.fsencode(path)) > PATH_LIMIT:
        raise ValueError(
            f"the socket path {one_line(str(path))} has more than {PATH_LIMIT} bytes; use a shorter directory"
        )
    if "\0" in str(path):
        raise ValueError(f"the socket path {one_line(repr(str(path)))} has a zero byte in it")


def target(path: Path) -> str:
    """The gRPC address of the unix socket at `path`, with any characters. Raises ValueError for an invalid path.

    gRPC would retry a path that is too long without end, so it is checked before.
    """
    check_path(path)
    return f"unix:{quote(os.fsencode(path))}"


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
