"""What programs have left on this machine."""

import contextlib
from pathlib import Path


def processes_in(folder: str) -> list[str]:
    """The processes that have the folder among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found += [command] if f"{folder}/" in command else []
    return found
