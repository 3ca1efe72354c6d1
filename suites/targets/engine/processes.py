"""A program of the command line, run to its end from the event loop: the engine's CLI and `kind`.

It never reads the terminal, its whole process group ends when the call is cancelled or takes too long, and its guard
ends the group when this process is gone. Whoever watches hears from it every few seconds.
"""

import asyncio
import contextlib
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Lines = Callable[[str], None]
"""Told every line of output, and at least every `QUIET` seconds that the program still runs."""

QUIET = 5.0
"""Seconds without a line after which the last one is said again."""
_LINGER = 2.0
"""Seconds to read on after the program's end, where a process it left behind holds its output open."""
_GUARD = Path(__file__).with_name("guard.py")
_TERMINAL_MARK = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Finished:
    """What a program left: its exit code and all it has written."""

    code: int
    stdout: str
    stderr: str


async def run(
    argv: Sequence[str],
    *,
    stdin: bytes | None = None,
    limit: float,
    on_line: Lines | None = None,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Runs the program to its end. TimeoutError after `limit` seconds; then nothing of it is left.

    `environment` is added to this process's own. A program that cannot be run is one with exit code 127.
    """
    told = _Told(" ".join(argv[:2]), on_line)
    program = _Program(told)
    async with asyncio.timeout(limit):
        try:
            await program.start(argv, {**os.environ, **(environment or {})}, stdin)
            beat = asyncio.create_task(told.beat())
            try:
                await asyncio.wait([program.ended, beat], return_when=asyncio.FIRST_COMPLETED)
                if beat.done():
                    beat.result()  # the listener's error
                await asyncio.wait([program.silent], timeout=_LINGER)
            finally:
                beat.cancel()
        finally:
            await program.end()
    return program.finished()


def clean(line: str) -> str:
    """A line without colours, cursor movements and what else is meant for a terminal."""
    return _TERMINAL_MARK.sub("", line.expandtabs()).strip()


class _Told:
    """Passes lines on, and repeats the last one while there is none."""

    def __init__(self, first: str, on_line: Lines | None) -> None:
        self._last = first
        self._on_line = on_line
        self._since = self._spoke = asyncio.get_running_loop().time()

    def line(self, text: str) -> None:
        if self._on_line is not None and (text := clean(text)):
            self._last = text
            self._since = self._spoke = asyncio.get_running_loop().time()
            self._on_line(text)

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(QUIET / 5)
            now = asyncio.get_running_loop().time()
            if self._on_line is not None and now - self._spoke >= QUIET:
                self._spoke = now
                self._on_line(f"{self._last} ({now - self._since:.0f} s)")


class _Program(asyncio.SubprocessProtocol):
    """One guarded program; `ended` with its last process's exit, `silent` when its output is closed as well."""

    def __init__(self, told: _Told) -> None:
        loop = asyncio.get_running_loop()
        self.ended, self.silent = loop.create_future(), loop.create_future()
        self._told = told
        self._output = {1: bytearray(), 2: bytearray()}
        self._pending = {1: b"", 2: b""}
        self._failure: BaseException | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._held = -1

    async def start(self, argv: Sequence[str], environment: Mapping[str, str], stdin: bytes | None) -> None:
        watched, self._held = os.pipe()
        spawned = asyncio.ensure_future(
            asyncio.get_running_loop().subprocess_exec(
                lambda: self,
                *(sys.executable, "-I", "-S", str(_GUARD), str(watched), *argv),
                stdin=DEVNULL if stdin is None else PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=environment,
                start_new_session=True,
                pass_fds=[watched],
            )
        )
        try:
            # Cancelled in there, asyncio would kill the guard alone, and what that has started by then would go on.
            await asyncio.shield(spawned)
        finally:
            try:
                self._transport, _ = await spawned
            finally:
                os.close(watched)
        if stdin is not None:
            self._feed(stdin)

    async def end(self) -> None:
        """Kills what still runs of the group, and waits until it is gone."""
        os.close(self._held)  # the guard's sign to end the group, should it not have been reached otherwise
        if self._transport is not None:
            if self._transport.get_returncode() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._transport.get_pid(), signal.SIGKILL)
            try:
                await asyncio.shield(self.ended)
            finally:
                self._transport.close()

    def finished(self) -> Finished:
        """What it left; raises what a listener raised."""
        assert self._transport is not None
        if self._failure is not None:
            raise self._failure
        out, err = (bytes(self._output[pipe]).decode(errors="replace") for pipe in (1, 2))
        return Finished(self._transport.get_returncode() or 0, out, err)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._output[fd] += data
        *lines, self._pending[fd] = (self._pending[fd] + data).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            self._tell(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd in self._pending:
            self._tell(self._pending.pop(fd))
        if not self._pending and not self.silent.done():
            self.silent.set_result(None)

    def process_exited(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _tell(self, line: bytes) -> None:
        try:
            self._told.line(line.decode(errors="replace"))
        except Exception as error:
            self._failure = self._failure or error

    def _feed(self, stdin: bytes) -> None:
        assert self._transport is not None
        pipe = self._transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        pipe.write(stdin)  # broken where nobody reads it; whoever does not says why
        pipe.close()
