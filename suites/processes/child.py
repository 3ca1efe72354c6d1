"""Child processes that leave nothing behind: a `guard` kills their descendants at their end, and at ours."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drahealth.proto.quoting import printable_lines
from drahealth.suites.errors import ConfigurationError

# The first and the last lines of an output.

FIRST_LINES = 10
"""Number of the first lines of output that are kept: many programs begin with the cause, and then print their usage."""
OUTPUT_LINES = 20
"""Number of the last lines of output that are kept."""
LINE_LIMIT = 1000
"""Characters of a line that are kept."""


class KeptOutput:
    """Keeps some of the lines that are added."""

    def __init__(self) -> None:
        self._first: list[bytes] = []
        self._lines: deque[bytes] = deque(maxlen=OUTPUT_LINES)
        self._left_out = 0
        """Number of lines between the first and the last ones."""

    def add(self, lines: Sequence[bytes]) -> None:
        """Adds lines without their ends."""
        first = max(FIRST_LINES - len(self._first), 0)
        self._first += (line[: 4 * LINE_LIMIT] for line in lines[:first])
        last = lines[first:]
        self._left_out += max(len(self._lines) + len(last) - OUTPUT_LINES, 0)
        self._lines.extend(line[: 4 * LINE_LIMIT] for line in last[-OUTPUT_LINES:])

    def texts(self) -> tuple[str, ...]:
        """The lines that are not empty. A line in brackets stands for those between the first and the last ones."""
        more = [f"[{self._left_out} more lines]".encode()] if self._left_out else []
        texts = (line.decode(errors="replace") for line in (*self._first, *more, *self._lines))
        return tuple(printable_lines(text)[:LINE_LIMIT] for text in texts if text.strip())


# A process and its guard.

Feed = Callable[[bytes], None]
"""Gets the data of an output as they come."""

_GUARD = Path(__file__).with_name("guard.py")
LINGER = 2.0
"""Seconds to read after the end of a program, if a process that it left has its output open."""


class CannotRun(ConfigurationError):
    """A program cannot be run; `why` is the reason."""

    def __init__(self, program: str, why: str) -> None:
        super().__init__(f"cannot run {program}: {why}", "check the path and its permissions")
        self.why = why


def guarded(
    watched: int, sink: int, argv: Sequence[str], folder: str = "", *, daemons: bool = False
) -> tuple[str, ...]:
    """The command that runs a program under a guard, with the descriptors ASKER and REPORT of it."""
    kills = "group" if daemons else "descendants"
    return (sys.executable, "-I", "-S", str(_GUARD), kills, str(watched), str(sink), folder, *argv)


class Child:
    """One child process, from `start` to `close`."""

    def __init__(self, held: int, pipes: "_Pipes", pid: int, reports: asyncio.StreamReader) -> None:
        self.pid = pid
        """The process id, in a sandbox that of its process namespace."""
        self._held = held
        self._pipes = pipes
        self.lost = False
        """Whether its guard was killed, and with it the knowledge of how the program ended."""
        self._stopped = False
        self._changed = asyncio.Event()
        """Set at the next stop, continuation or end."""
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
        stdout: int | Feed | None = None,
        stderr: int | Feed = STDOUT,
        on_line: Callable[[str], None] = lambda _: None,
        entry: Sequence[str] = (),
        daemons: bool = False,
    ) -> "Child":
        """Starts a program in a folder; None for the present one. Raises CannotRun if it cannot be run.

        Without `stdout`, `output` returns the first and the last lines, and `on_line` receives each line. With `PIPE`
        as `stdin`, `write` reaches it. `entry` are the words before a command that run it in a sandbox. With
        `daemons`, what it leaves in sessions of their own continues, and what it leaves at all after its regular end.
        """
        lines = _Lines(on_line)
        feeds = {1: lines.feed if stdout is None else stdout, 2: stderr}
        pipes = _Pipes({number: feed for number, feed in feeds.items() if not isinstance(feed, int)}, lines)
        watched, held = os.pipe()
        source, sink = os.pipe()
        reports = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        starting: asyncio.Task[tuple[asyncio.SubprocessTransport, object]] | None = None
        try:
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reports), os.fdopen(source, "rb", 0))
            where = str(Path(_present_folder(), folder)) if folder else f"?{_present_folder()}" if entry else ""
            guard = guarded(watched, sink, argv, where, daemons=daemons)
            starting = asyncio.ensure_future(
                loop.subprocess_exec(
                    lambda: pipes,
                    *(*entry, *guard),
                    stdin=stdin,
                    stdout=feeds[1] if isinstance(feeds[1], int) else PIPE,
                    stderr=feeds[2] if isinstance(feeds[2], int) else PIPE,
                    env=dict(environment),
                    start_new_session=True,
                    pass_fds=[watched, sink],
                )
            )
            # On cancellation inside, asyncio would only kill the guard, and the program would continue.
            await asyncio.shield(starting)
        except BaseException:
            os.close(held)  # which ends the guard
            if starting:
                with contextlib.suppress(OSError):
                    await starting
                    await pipes.end()
            raise
        finally:
            os.close(watched)
            os.close(sink)
        try:
            word, _, rest = (await reports.readline()).decode().strip().partition(" ")
            if word != "started":
                raise CannotRun(argv[0], rest or "its guard ended")
        except BaseException:
            os.close(held)
            await pipes.end()
            raise
        return cls(held, pipes, int(rest), reports)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self._exit.done()

    @property
    def exit_code(self) -> int:
        """The exit code, below zero for a signal. Only after the end."""
        return self._exit.result()[0]

    @property
    def output_bytes(self) -> int:
        """The size of its output so far."""
        return self._pipes.lines.size

    def output(self) -> tuple[str, ...]:
        """The first and the last lines of its output. A line in brackets stands for those between them."""
        return self._pipes.lines.kept.texts()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; no effect after its end."""
        if self.running and self._held >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._held, f"{number:d}\n".encode())

    async def stopped(self) -> None:
        """Waits until a signal has stopped it: until then it still works. Returns also at its end."""
        while self.running and not self._stopped:
            await self._changed.wait()

    def write(self, data: bytes) -> None:
        """Writes to its standard input; no effect after its end."""
        self._pipes.stdin.write(data)

    def close_input(self) -> None:
        """Closes its standard input, after what was written."""
        self._pipes.stdin.close()

    async def exited(self) -> tuple[int, int]:
        """Waits for the end. Returns the exit code, and the number of children that still run.

        Without such children, the output is complete. Otherwise it is after `close`.
        """
        return await asyncio.shield(self._exit)

    async def children_ended(self) -> None:
        """Waits until its children have ended, too."""
        await asyncio.shield(self._end)

    async def close(self) -> int:
        """Kills it and its descendants, if they still run. Returns how many children outlived it until now."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
        return await asyncio.shield(self._end)

    async def _wait(self, reports: asyncio.StreamReader) -> tuple[int, int]:
        while (line := (await reports.readline()).decode().split()) in (["stopped"], ["continued"]):
            self._change(stopped=line == ["stopped"])
        self.lost = not line
        code, children = (-signal.SIGKILL, 0) if self.lost else (int(line[1]), int(line[2]))
        if not children:
            await self._pipes.end()
        return code, children

    def _change(self, *, stopped: bool) -> None:
        self._stopped = stopped
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _wait_for_children(self, reports: asyncio.StreamReader) -> int:
        await self._exit
        line = (await reports.readline()).decode().split()
        await self._pipes.end()
        return int(line[1]) if line else 0


class _Lines:
    """The output as lines: each for a listener, and some of them kept."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self.kept = KeptOutput()
        self.size = 0
        self._on_line = on_line
        self._rest = b""

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[: 4 * LINE_LIMIT]
        self.kept.add(lines)
        for line in lines:
            self._on_line(line.decode(errors="replace"))

    def end(self) -> None:
        if self._rest:
            self.kept.add([self._rest])
        self._rest = b""


class _Pipes(asyncio.SubprocessProtocol):
    """The pipes of a process, and its end."""

    def __init__(self, feeds: Mapping[int, Feed], lines: _Lines) -> None:
        self.lines = lines
        self._feeds = feeds
        self._open = set(feeds)
        self._exited, self._silent = asyncio.Event(), asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        if not feeds:
            self._silent.set()

    @property
    def stdin(self) -> asyncio.WriteTransport:
        assert self._transport
        pipe = self._transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport), "its standard input is no pipe"
        return pipe

    async def end(self) -> None:
        """Waits for the end of the process and of its output, and closes the pipes."""
        await self._exited.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._silent.wait(), LINGER)
        self.lines.end()
        if self._transport:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._feeds[fd](data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self._silent.set()
        self._close_if_over()

    def process_exited(self) -> None:
        self._exited.set()
        self._close_if_over()

    def _close_if_over(self) -> None:
        """Also if nobody waits for the end: a loop that ends must not leave the pipes open."""
        if self._transport and self._exited.is_set() and self._silent.is_set():
            self._transport.close()


def _present_folder() -> str:
    """The working directory; empty if it was removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


# A program from its start to its end, such as a command of a container engine.

QUIET = 5.0
"""Seconds without a line after which the last one is repeated."""
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
    limit: float | None,
    on_line: Callable[[str], None] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Finished:
    """Runs the program to its end. Raises TimeoutError after `limit` seconds, when it has killed the program.

    Its process group is killed when the call is cancelled or times out, and when this process ends. It never reads the
    terminal. `environment` is added to that of this process. `on_line` gets every line of both outputs, and at least
    every `QUIET` seconds a line while the program runs. The exit code is that of a shell: 127 if the program cannot be
    run, more than 128 for a signal.
    """
    spoken = _Spoken(" ".join(argv[:2]), on_line)
    async with asyncio.timeout(limit):
        try:
            child = await Child.start(
                argv,
                {**os.environ, **(environment or {})},
                folder,
                stdin=DEVNULL if stdin is None else PIPE,
                stdout=spoken.feed_to(1),
                stderr=spoken.feed_to(2),
                daemons=True,
            )
        except CannotRun as error:
            return Finished(127, "", f"{argv[0]}: {error.why}\n")
        beat = asyncio.create_task(spoken.beat())
        try:
            if stdin is not None:
                child.write(stdin)  # if the program does not read it, its output says why
                child.close_input()
            ending = asyncio.create_task(child.exited())
            await asyncio.wait([ending, beat], return_when=asyncio.FIRST_COMPLETED)
            if beat.done():
                beat.result()  # the listener's error
            code, _ = await ending
        finally:
            beat.cancel()
            await child.close()
    return spoken.finished(code if code >= 0 else 128 - code)


def clean(line: str) -> str:
    """A line without colours, cursor movements and other control sequences."""
    return _TERMINAL_MARK.sub("", line.expandtabs()).strip()


class _Spoken:
    """Keeps the outputs, passes their lines on to a listener, and repeats the last one while there is none."""

    def __init__(self, first: str, on_line: Callable[[str], None] | None) -> None:
        self._output = {1: bytearray(), 2: bytearray()}
        self._pending = {1: b"", 2: b""}
        self._last = first
        self._on_line = on_line
        self._since = self._spoke = asyncio.get_running_loop().time()
        self._failure: Exception | None = None

    def feed_to(self, fd: int) -> Feed:
        def feed(data: bytes) -> None:
            self._output[fd] += data
            *lines, self._pending[fd] = (self._pending[fd] + data).replace(b"\r", b"\n").split(b"\n")
            for line in lines:
                self._pass_on(line)

        return feed

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(QUIET / 5)
            now = asyncio.get_running_loop().time()
            if self._on_line is not None and now - self._spoke >= QUIET:
                self._spoke = now
                self._on_line(f"{self._last} ({now - self._since:.0f} s)")

    def finished(self, code: int) -> Finished:
        """The result of the program. Raises the error of the listener."""
        for rest in self._pending.values():
            self._pass_on(rest)
        if self._failure is not None:
            raise self._failure
        out, err = (bytes(self._output[fd]).decode(errors="replace") for fd in (1, 2))
        return Finished(code, out, err)

    def _pass_on(self, line: bytes) -> None:
        text = clean(line.decode(errors="replace"))
        if self._on_line is None or not text:
            return
        self._last = text
        self._since = self._spoke = asyncio.get_running_loop().time()
        try:
            self._on_line(text)
        except Exception as error:
            self._failure = self._failure or error
