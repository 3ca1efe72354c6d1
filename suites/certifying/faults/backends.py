"""Scripted backends: Python files of the user that replace the hardware or the daemon of a driver.

drahealth runs `python FILE ARGUMENT...` before the driver starts. The script writes the line `ready` when it serves.
It reads commands from standard input, one in a line, such as `break gpu-1`, and answers each with the line `done`, or
`failed REASON`. It ignores the end of its input. Other lines of its output are its log.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drahealth.proto.environment import environment_of_others
from drahealth.suites.checking.kubelet.waiting import within
from drahealth.suites.checking.output_text import output_text
from drahealth.suites.checking.subject.adapters import ActionFailed, Surroundings
from drahealth.suites.checking.subject.process import DriverProcess
from drahealth.suites.errors import ConfigurationError

READY_LIMIT = 60.0
"""Seconds until a backend must be ready."""


class Backend:
    """A scripted backend, which can be killed and started again."""

    def __init__(self, script: Path, arguments: Sequence[str], around: Surroundings) -> None:
        self._argv = (sys.executable, str(script.absolute()), *arguments)
        self._name = script.name
        self._around = around
        self._clock = around.clock
        self._process: DriverProcess | None = None
        self._answers = asyncio.Queue[str]()

    async def start(self) -> None:
        """Starts it, and waits until it is ready. Raises ActionFailed."""
        answers = self._answers = asyncio.Queue[str]()
        try:
            self._process = await DriverProcess.start(
                self._argv,
                environment_of_others(),
                self._around.folder,
                entry=self._around.entry,
                stdin=PIPE,
                on_line=answers.put_nowait,
            )
        except ConfigurationError as error:
            raise ActionFailed(str(error)) from None
        await self._answer(READY_LIMIT, "ready")

    async def tell(self, line: str, limit: float) -> None:
        """Sends a command, and waits for the answer. Raises ActionFailed."""
        if self._process is None or not self._process.running:
            raise ActionFailed(f"{self._name} is not running{self._output_text()}")
        self._process.write(line)
        answer = await self._answer(limit, "done", "failed")
        if not answer.startswith("done"):
            raise ActionFailed(f"{self._name} answered {answer!r}")

    async def kill(self) -> None:
        """Kills it; no effect if it does not run."""
        if self._process:
            await self._process.close()

    async def _answer(self, limit: float, *words: str) -> str:
        """The next line that starts with one of the words."""
        assert self._process is not None
        reading = asyncio.ensure_future(self._matching(words))
        ended = asyncio.ensure_future(self._process.exited())
        try:
            await within(self._clock, limit, _first(reading, ended))
        except TimeoutError:
            raise ActionFailed(
                f"{self._name} did not write {' or '.join(words)} within {limit:g} s", timed_out=True
            ) from None
        finally:
            for task in (reading, ended):
                task.cancel()
            await asyncio.gather(reading, ended, return_exceptions=True)
        if reading.cancelled():
            raise ActionFailed(f"{self._name} exited{self._output_text()}")
        return reading.result()

    async def _matching(self, words: Sequence[str]) -> str:
        while True:
            line = (await self._answers.get()).strip()
            if line.startswith(tuple(words)):
                return line

    def _output_text(self) -> str:
        return output_text(self._process.output()) if self._process else ""


async def _first(*tasks: "asyncio.Future[Any]") -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
