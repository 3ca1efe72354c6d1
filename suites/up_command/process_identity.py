"""Which process it is: a process ID is used again, also after the machine was started again."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START = 19
"""The place of the start time among the fields after the name in /proc/PID/stat (proc(5), field 22)."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process ID with the start time of the process in clock ticks, and the ID of the boot of the machine."""

    pid: int
    started: int
    boot: str

    @classmethod
    def own(cls) -> "ProcessIdentity":
        """That of this process."""
        return cls(os.getpid(), _started(os.getpid()) or 0, _boot())

    def runs(self) -> bool:
        """Whether this very process still runs."""
        return self.boot == _boot() and self.started == _started(self.pid)

    def signal(self, number: signal.Signals) -> None:
        """Signals the process; harmless if it has ended."""
        with suppress(ProcessLookupError):
            if self.runs():
                os.kill(self.pid, number)


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="utf-8").strip()


def _started(pid: int) -> int | None:
    """None for a process that does not exist, or has ended and was not waited for yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if status[0] == "Z" else int(status[_START])
