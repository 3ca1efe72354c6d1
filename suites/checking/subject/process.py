"""A driver as a process that leaves nothing behind: `guard` kills its descendants at its end, and at ours."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from drahealth.suites.checking.subject.kept_output import LINE_LIMIT, KeptOutput
from drahealth.suites.errors import ConfigurationError

_GUARD = Path(__file__).with_name("guard.py")


class DriverProcess:
    """One process of a driver, from `start` to `close`."""

    def __init__(
        self,
        guard: asyncio.subprocess.Process,
        held: int,
        pid: int,
        reports: asyncio.StreamReader,
        on_line: Callable[[str], None],
    ) -> None:
        self._guard = guard
        self._on_line = on_line
        self._held = held
        self.pid = pid
        """The process id, in a sandbox that of its process namespace."""
        self.output_bytes = 0
        """The size of its output so far."""
        self._kept = KeptOutput()
        self._stopped = False
        self._changed = asyncio.Event()
        """Set at the next stop, continuation or end."""
        self._reading = asyncio.create_task(self._read())
        self._exit = asyncio.create_task(self._wait(reports))
        self._exit.add_done_callback(lambda _: self._change(stopped=False))
        self._end = asyncio.create_task(self._wait_for_children(reports))

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None = None,
        *,
        stdin: int = DEVNULL,
        on_line: Callable[[str], None] = lambda _: None,
        entry: Sequence[str] = (),
    ) -> "DriverProcess":
        """Starts a program in a folder; None for the present one. Raises ConfigurationError if it cannot be run.

        `on_line` receives each line of its output. With `PIPE` as `stdin`, `write` reaches it. `entry` are the words
        before a command that run it in a sandbox.
        """
        where = str(folder or _present_folder())
        watched, held = os.pipe()
        source, sink = os.pipe()
        reports = asyncio.StreamReader()
        starting: asyncio.Task[asyncio.subprocess.Process] | None = None
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reports), os.fdopen(source, "rb", 0))
            starting = asyncio.create_task(
                asyncio.create_subprocess_exec(
                    *(*entry, sys.executable, "-I", "-S", str(_GUARD), str(watched), str(sink), where, *argv),
                    stdin=stdin,
                    stdout=PIPE,
                    stderr=STDOUT,
                    env=dict(environment),
                    start_new_session=True,
                    pass_fds=[watched, sink],
                )
            )
            guard = await asyncio.shield(starting)
        except BaseException:
            os.close(held)  # which ends the guard
            if starting:
                with contextlib.suppress(OSError):
                    await (await starting).wait()
            raise
        finally:
            os.close(watched)
            os.close(sink)
        try:
            word, _, rest = (await reports.readline()).decode().strip().partition(" ")
            if word != "started":
                raise ConfigurationError(
                    f"cannot run {argv[0]}: {rest or 'its guard ended'}", "check the path and its permissions"
                )
        except BaseException:
            os.close(held)
            await guard.wait()
            raise
        return cls(guard, held, int(rest), reports, on_line)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self._exit.done()

    @property
    def exit_code(self) -> int:
        """The exit code, below zero for a signal. Only after the end."""
        return self._exit.result()[0]

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; no effect after its end."""
        if self.running and self._held >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._held, f"{number:d}\n".encode())

    async def stopped(self) -> None:
        """Waits until a signal has stopped it: until then it still works. Returns also at its end."""
        while self.running and not self._stopped:
            await self._changed.wait()

    def write(self, line: str) -> None:
        """Writes a line to its standard input; no effect after its end."""
        assert self._guard.stdin is not None
        self._guard.stdin.write(line.encode() + b"\n")

    async def exited(self) -> tuple[int, int]:
        """Waits for the end. Returns the exit code, and the number of children that still run.

        Without such children, the output is complete. Otherwise it is after `close`.
        """
        return await asyncio.shield(self._exit)

    async def children_ended(self) -> None:
        """Waits until its children have ended, too."""
        await asyncio.shield(self._end)

    def output(self) -> tuple[str, ...]:
        """The first and the last lines of its output. A line in brackets stands for those between them."""
        return self._kept.texts()

    async def close(self) -> int:
        """Kills it and its descendants, if they still run. Returns how many children outlived it until now."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
        return await asyncio.shield(self._end)

    async def _wait(self, reports: asyncio.StreamReader) -> tuple[int, int]:
        while (line := (await reports.readline()).decode().split()) in (["stopped"], ["continued"]):
            self._change(stopped=line == ["stopped"])
        code, children = (int(line[1]), int(line[2])) if line else (-signal.SIGKILL, 0)
        if not children:
            await self._guard.wait()
            await self._reading
        return code, children

    def _change(self, *, stopped: bool) -> None:
        self._stopped = stopped
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _wait_for_children(self, reports: asyncio.StreamReader) -> int:
        await self._exit
        line = (await reports.readline()).decode().split()
        await self._guard.wait()
        await self._reading
        return int(line[1]) if line else 0

    async def _read(self) -> None:
        """Reads the output to its end, however much it is, and keeps the first and the last lines."""
        assert self._guard.stdout is not None
        rest = b""
        while data := await self._guard.stdout.read(2**16):
            self.output_bytes += len(data)
            *lines, rest = (rest + data).split(b"\n")
            self._kept.add(lines)
            for line in lines:
                self._on_line(line.decode(errors="replace"))
            rest = rest[: 4 * LINE_LIMIT]
        if rest:
            self._kept.add([rest])


def _present_folder() -> str:
    """The working directory; empty if it was removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""
