"""Progress on a terminal: a line when a stage begins, and every few seconds while it lasts."""

import time

from rich.console import Console

_MIB = 1024 * 1024


class Stages:
    """A `local.progress.Progress` that prints."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage = ""
        self._last = 0.0

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        now = time.monotonic()
        if stage == self._stage and now - self._last < 3:
            return
        self._stage, self._last = stage, now
        size = "" if done is None else f"  {done // _MIB} MiB" + (f" of {total // _MIB}" if total else "")
        self._console.print(f"[dim]{stage}{size}[/]", soft_wrap=True)
