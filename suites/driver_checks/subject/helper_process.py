"""Programs that a driver dials: started before the driver, ended after it, in the same sandbox."""

import asyncio
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from drahealth.fakes.waiting import poll, within
from drahealth.proto.clock import Clock
from drahealth.proto.package import environment_of_others
from drahealth.proto.sockets import PATH_LIMIT, is_served
from drahealth.suites.driver_checks.output_text import output_text
from drahealth.suites.driver_checks.profile.model import Helper
from drahealth.suites.driver_checks.scripted_kubelet import PAUSE
from drahealth.suites.driver_checks.subject.places import Places, filled
from drahealth.suites.errors import HarnessError
from drahealth.suites.processes.child import Child


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
        self._process: Child | None = None

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

    async def _run(self, words: Sequence[str]) -> Child:
        given = {name: filled(value, self._values) for name, value in self.helper.environment.items()}
        variables = {**environment_of_others(), **self.places.environment(), **given}
        argv = [filled(word, self._values) for word in words]
        return await Child.start(argv, variables, self._folder, entry=self._entry)

    async def _until_ready(self, process: Child) -> None:
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

    def _ended(self, process: Child) -> HarnessError:
        code = process.exit_code
        how = f"with code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        return self._failure(process, f"exited {how}")

    def _failure(self, process: Child, problem: str) -> HarnessError:
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
