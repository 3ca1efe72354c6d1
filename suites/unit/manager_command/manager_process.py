"""`drahealth manager` as a process."""

import asyncio
import json
import signal
import sys
from typing import Any

from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.manager_command.rig import PATIENCE, Rig

FOR_ALL = "from drahealth.suites.command import main\nmain()"


class Manager:
    """The program; `lines` is what it has written."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.lines: list[dict[str, Any]] = []
        self.process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self, *options: str) -> None:
        where = ("--root-dir", str(self._rig.root), "--node-name", "node-a")
        line = (sys.executable, "-c", FOR_ALL, "manager", *where, *options)
        pipe = asyncio.subprocess.PIPE
        self.lines.clear()
        self.process = await asyncio.create_subprocess_exec(*line, stdout=pipe, stderr=pipe)
        self._reading = asyncio.create_task(self._read(self.process))
        await self.tells("started")

    async def tells(self, event: str) -> None:
        await until(lambda: event in [line["event"] for line in self.lines], PATIENCE)

    async def end(self, how: signal.Signals) -> tuple[int | None, str]:
        """Its exit code and what it had to say."""
        assert self.process
        assert self._reading
        assert self.process.stderr
        self.process.send_signal(how)
        async with asyncio.timeout(PATIENCE):
            said = await self.process.stderr.read()
            await self._reading
        return await self.process.wait(), said.decode()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout
        async for line in process.stdout:
            self.lines.append(json.loads(line))
