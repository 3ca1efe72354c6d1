"""Runs a program of the command line from the event loop: the CLI of the engine, or `kind`.

The program never reads the terminal. Its process group is killed when the call is cancelled or times out; its guard
kills the group when this process ends. The listener gets a line every few seconds.
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
"""Gets every line of output, and at least every `QUIET` seconds a line while the program runs."""

QUIET = 5.0
"""Seconds without a line after which the last one is repeated."""
_LINGER = 2.0
"""Seconds to read after the program's end, if a process that it left has its output open."""
_GUARD = Path(__file__).with_name("guard.py")
_TERMINAL_MARK = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Finished:
    """The exit code and the output of a program."""

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
    """Runs the program to its end. Raises TimeoutError after `limit` seconds, when it has killed the program.

    `environment` is added to that of this process. The exit code is 127 if the program cannot be run.
    """
    listener = _Listener(" ".join(argv[:2]), on_line)
    program = _Program(listener)
    async with asyncio.timeout(limit):
        try:
            await program.start(argv, {**os.environ, **(environment or {})}, stdin)
            beat = asyncio.create_task(listener.beat())
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
    """A line without colours, cursor movements and other control sequences."""
    return _TERMINAL_MARK.sub("", line.expandtabs()).strip()


class _Listener:
    """Passes lines on to a listener, and repeats the last one while there is none."""

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
    """One guarded program. `ended` is done when it has exited, `silent` when its output is closed as well."""

    def __init__(self, listener: _Listener) -> None:
        loop = asyncio.get_running_loop()
        self.ended, self.silent = loop.create_future(), loop.create_future()
        self._listener = listener
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
            # On cancellation inside, asyncio would only kill the guard, and its child would continue.
            await asyncio.shield(spawned)
        finally:
            try:
                self._transport, _ = await spawned
            finally:
                os.close(watched)
        if stdin is not None:
            self._feed(stdin)

    async def end(self) -> None:
        """Kills the rest of the group, and waits until it is gone."""
        os.close(self._held)  # the guard then kills the group
        if self._transport is not None:
            if self._transport.get_returncode() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._transport.get_pid(), signal.SIGKILL)
            try:
                await asyncio.shield(self.ended)
            finally:
                self._transport.close()

    def finished(self) -> Finished:
        """The result of the program. Raises the error of the listener."""
        assert self._transport is not None
        if self._failure is not None:
            raise self._failure
        out, err = (bytes(self._output[pipe]).decode(errors="replace") for pipe in (1, 2))
        return Finished(self._transport.get_returncode() or 0, out, err)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._output[fd] += data
        *lines, self._pending[fd] = (self._pending[fd] + data).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            self._pass_on(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd in self._pending:
            self._pass_on(self._pending.pop(fd))
        if not self._pending and not self.silent.done():
            self.silent.set_result(None)

    def process_exited(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _pass_on(self, line: bytes) -> None:
        try:
            self._listener.line(line.decode(errors="replace"))
        except Exception as error:
            self._failure = self._failure or error

    def _feed(self, stdin: bytes) -> None:
        assert self._transport is not None
        pipe = self._transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        pipe.write(stdin)  # if the program does not read it, its output says why
        pipe.close()
