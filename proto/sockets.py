"""Paths of unix sockets, and how gRPC wants them."""

import os
from pathlib import Path
from urllib.parse import quote

from drahealth.proto.quoting import one_line

PATH_LIMIT = 107
"""Bytes that the path of a unix socket may have on Linux."""


def check_path(path: Path) -> None:
    """Raises ValueError for a path that no unix socket can have."""
    if len(os.fsencode(path)) > PATH_LIMIT:
        raise ValueError(
            f"the socket path {one_line(str(path))} has more than {PATH_LIMIT} bytes; use a shorter directory"
        )
    if "\0" in str(path):
        raise ValueError(f"the socket path {one_line(repr(str(path)))} has a zero byte in it")


def target(path: Path) -> str:
    """The gRPC address of the unix socket at `path`, whatever characters are in it. Raises ValueError for no path.

    A channel to a path that is too long would never be done with: it has to be found before.
    """
    check_path(path)
    return f"unix:{quote(os.fsencode(path))}"
