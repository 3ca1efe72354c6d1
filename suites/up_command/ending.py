"""`drahealth down`: ends the processes of a node, and removes its folder."""

import os
import signal

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.up_command.folder import NodeFolder
from drahealth.suites.up_command.process_identity import ProcessIdentity
from drahealth.suites.up_command.state import read_state

_PATIENCE = 60.0
"""Seconds for the supervisor to end after SIGTERM, before it is killed. Its drivers delete their ResourceSlices."""
_KILLED = 20.0
"""Seconds for the kernel to end all processes."""


def down(folder: NodeFolder, *, keep: bool) -> None:
    """Returns when no process of the node is left. Removes its folder, unless `keep`. Raises HarnessError."""
    lock = _ended(folder, _process(folder))
    try:
        if not keep:
            folder.remove()
    finally:
        os.close(lock)


def _ended(folder: NodeFolder, process: ProcessIdentity | None) -> int:
    """The lock of the folder, after all processes have ended."""
    for number, patience in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, _KILLED)):
        if process:
            process.signal(number)
        if (lock := folder.lock(patience)) is not None:
            return lock
    raise HarnessError(f"the processes of node {folder.name} do not end", f"they hold the lock {folder.path / 'lock'}")


def _process(folder: NodeFolder) -> ProcessIdentity | None:
    """That of the supervisor; None for a state that cannot be read, which is no reason to keep the folder."""
    try:
        state = read_state(folder.path)
    except ConfigurationError:
        return None
    return state.process if state else None
