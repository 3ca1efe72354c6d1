"""A driver, and the programs that it dials, as processes that leave nothing behind."""

import asyncio
import contextlib
import os
import signal
import stat
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from drahealth.fakes.waiting import poll, within
from drahealth.proto.clock import Clock
from drahealth.proto.package import environment_of_others
from drahealth.proto.quoting import printable_lines
from drahealth.proto.sockets import PATH_LIMIT, is_served
from drahealth.suites.driver_checks.output_text import output_text
from drahealth.suites.driver_checks.profile.model import Helper
from drahealth.suites.driver_checks.scripted_kubelet import PAUSE
from drahealth.suites.driver_checks.subject.places import Places, filled
from drahealth.suites.errors import ConfigurationError, HarnessError

# The first and the last lines of the output of a driver.

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


# A driver as a process that leaves nothing behind: `guard` kills its descendants at its end, and at ours.

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


# Programs that a driver dials: started before the driver, ended after it, in the same sandbox.


class HelperProcess:
    """One helper of a driver process, from `start` to `close`."""

    def __init__(
        self, helper: Helper, places: Places, clock: Clock, *, folder: Path | None = None, entry: Sequence[str] = ()
    ) -> None:
        """`folder` is its working directory. `entry` are the words before a command that run it in a sandbox."""
        self.helper = helper
        self.places = places
        """What its placeholders stand for."""
        self._clock = clock
        self._folder = folder
        self._entry = entry
        self._process: DriverProcess | None = None

    @property
    def _values(self) -> Mapping[str, str]:
        return self.places.placeholders()

    async def start(self) -> None:
        """Starts it, and waits until it is ready. Raises HarnessError if it ends before, or is not ready in time."""
        process = self._process = await self._run(self.helper.command)
        try:
            await within(self._clock, self.helper.limit, self._until_ready(process))
        except TimeoutError:
            wanted = self._ready_path or filled(" ".join(self.helper.ready_command), self._values)
            raise self._failure(process, f"is not ready after {self.helper.limit:g} s: {wanted}") from None

    async def run(self) -> NoReturn:
        """Waits for its end. Raises HarnessError then."""
        assert self._process, "it was not started"
        await self._process.exited()
        raise self._ended(self._process)

    async def close(self) -> None:
        """Kills it with its descendants, if it still runs."""
        if self._process:
            await self._process.close()

    async def _run(self, words: Sequence[str]) -> DriverProcess:
        given = {name: filled(value, self._values) for name, value in self.helper.environment.items()}
        variables = {**environment_of_others(), **self.places.environment(), **given}
        argv = [filled(word, self._values) for word in words]
        return await DriverProcess.start(argv, variables, self._folder, entry=self._entry)

    async def _until_ready(self, process: DriverProcess) -> None:
        async def is_ready() -> bool:
            if await self._is_ready():
                return True
            if not process.running:
                raise self._ended(process)
            return False

        await poll(is_ready, PAUSE, clock=self._clock)

    async def _is_ready(self) -> bool:
        if self.helper.ready_command:
            return await self._succeeds(self.helper.ready_command)
        return not self._ready_path or _exists(self.places.outside(Path(self._ready_path)))

    @property
    def _ready_path(self) -> str:
        return filled(self.helper.ready, self._values)

    async def _succeeds(self, words: Sequence[str]) -> bool:
        process = await self._run(words)
        try:
            code, _ = await process.exited()
        finally:
            await process.close()
        return code == 0

    def _ended(self, process: DriverProcess) -> HarnessError:
        code = process.exit_code
        how = f"with code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        return self._failure(process, f"exited {how}")

    def _failure(self, process: DriverProcess, problem: str) -> HarnessError:
        return HarnessError(
            f"helper {self.helper.name} {problem}{output_text(process.output())}",
            "correct [[helper]] in the driver profile; a helper must run until drahealth ends it",
        )


class Helpers:
    """All helpers of a driver process: each starts when the one before is ready."""

    def __init__(self, processes: Sequence[HelperProcess] = ()) -> None:
        self._processes = processes
        self._turn = asyncio.Lock()
        self._started = asyncio.Event()

    def move(self, places: Places) -> None:
        """Gives them the directories of another kubelet, before they start."""
        for process in self._processes:
            process.places = places

    async def start(self) -> None:
        """Starts them; no effect if they run. Raises HarnessError as `HelperProcess.start`."""
        async with self._turn:
            if self._started.is_set():
                return
            for process in self._processes:
                await process.start()
            self._started.set()

    async def run(self) -> NoReturn:
        """Raises HarnessError as soon as one of them ends by itself."""
        await self._started.wait()
        async with asyncio.TaskGroup() as group:
            for process in self._processes:
                group.create_task(process.run())
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None:
        """Kills them, the last one first."""
        for process in reversed(self._processes):
            await process.close()


def _exists(path: Path) -> bool:
    """Whether a file exists; of a socket, whether a process listens."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return True
        return len(os.fsencode(path)) > PATH_LIMIT or is_served(path)
    except OSError:
        return False
