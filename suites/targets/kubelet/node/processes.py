"""The processes of a cluster, for the event loop: a keeper, and handles of its processes."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE
from asyncio.subprocess import Process as Subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from drahealth.suites.errors import HarnessError
from drahealth.suites.namespaces import permission
from drahealth.suites.targets.kubelet.node import logs
from drahealth.suites.targets.run_directory import RunDirectory

_T = TypeVar("_T")
_KEEPER = "drahealth.suites.targets.kubelet.node.keeper"
_PATIENCE = 10.0
"""Seconds for the keeper to end its processes, before it is killed."""
_KILLED = "another process killed it, or the kernel for lack of memory; `dmesg` shows the latter"


class Process:
    """One process of the keeper; the result of `exited` is its exit code, below zero for a signal."""

    def __init__(self, keeper: "Keeper", number: int, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._keeper = keeper
        self._number = number

    async def end(self, which: signal.Signals = signal.SIGKILL) -> None:
        """Sends the signal and waits until the process is gone."""
        if not self.exited.done():
            self._keeper.send(do="signal", id=self._number, signal=which)
            await asyncio.wait([self.exited])

    def failure(self) -> HarnessError:
        """The error for an unexpected end."""
        if self._keeper.gone is not None:
            return self._keeper.gone
        code = self.exited.result()
        ended = f"{self.name} has ended ({_ending(code)})"
        if code == -signal.SIGKILL:  # its log ends before the signal, so no line of it is the reason
            failure = HarnessError(ended, _KILLED)
        else:
            failure = HarnessError(f"{ended}: {logs.telling_line(self.log)}")
        failure.add_note(logs.note(self.name, self.log))
        return failure


class Keeper:
    """The keeper process of one run; `writable` are the mounts that it could not make read-only."""

    def __init__(self, process: Subprocess, log: Path) -> None:
        self.writable: list[str] = []
        self._process = process
        self._log = log
        self._running: dict[int, Process] = {}
        self._answers: dict[int, asyncio.Future[str]] = {}
        self._last = 0
        self._ready = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, run: RunDirectory, needed: Sequence[Path] = (), *, keep: bool = False) -> "Keeper":
        """Starts it in the first kind of namespaces that this machine allows.

        `needed` are the folders that its processes must see. With `keep` the folder of the run stays when this process
        is killed. Raises HarnessError if no kind is allowed.
        """
        log = run.path / "keeper.log"
        refusals = []
        for options in permission.ways():
            keeper = await cls._start(options, run, needed, log, keep)
            if await keeper._is_ready():
                return keeper
            refusals.append(logs.telling_line(log))
        raise HarnessError(f"cannot make private namespaces: {'; '.join(refusals)}", permission.allow_hint())

    @classmethod
    async def _start(
        cls, options: Sequence[str], run: RunDirectory, needed: Sequence[Path], log: Path, keep: bool
    ) -> "Keeper":
        kept = "keep" if keep else "remove"
        python = [sys.executable, "-P", "-m", _KEEPER, str(run.path), str(run.lock), kept, *map(str, needed)]
        with log.open("ab") as errors:
            process = await _spawn([permission.unshare(), *options, *python], errors, run.lock)
        return cls(process, log)

    async def _is_ready(self) -> bool:
        await asyncio.wait([self._ready, self._reader], return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done():
            await self._process.wait()
        return self._ready.done()

    async def spawn(self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path) -> Process:
        """Starts a program, whose output is appended to `log`. Raises HarnessError if it cannot be run."""
        self._last += 1
        process = Process(self, self._last, name, log)
        self._running[self._last] = process
        answer = self._answers[self._last] = asyncio.get_running_loop().create_future()
        self.send(do="start", id=self._last, argv=list(argv), env=dict(env), log=str(log))
        if refusal := await answer:
            raise HarnessError(f"cannot start {name}: {refusal}", "check the path and the permissions of the program")
        return process

    def send(self, **command: Any) -> None:
        """Sends one command. Raises HarnessError if the keeper has ended."""
        if self.gone is not None:
            raise self.gone
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    async def close(self, remove: bool) -> None:
        """Stops all processes, removes the folder of the run if asked to, and waits until the keeper has ended."""
        if self.gone is None:
            self.send(do="end", remove=remove)
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()  # kills the keeper, and thereby its processes
            await self._process.wait()
        await self._reader

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._take(json.loads(line))
        for answer in self._answers.values():
            _settle(answer, "the keeper of its processes has ended")
        for process in self._running.values():
            _settle(process.exited, -signal.SIGKILL)  # the kernel kills them too

    def _take(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "ready":
                self.writable = event["writable"]
                _settle(self._ready, None)
            case "started":
                _settle(self._answers.pop(event["id"]), "")
            case "failed":
                del self._running[event["id"]]
                _settle(self._answers.pop(event["id"]), event["why"])
            case "exited":
                _settle(self._running.pop(event["id"]).exited, event["code"])

    @property
    def gone(self) -> HarnessError | None:
        """The error for a keeper that has ended."""
        if not self._reader.done():
            return None
        return HarnessError(f"the keeper of the cluster's processes has ended: {logs.telling_line(self._log)}")


async def _spawn(argv: Sequence[str], errors: IO[bytes], lock: int) -> Subprocess:
    """In its own session, where Ctrl-C does not reach it."""
    return await asyncio.create_subprocess_exec(
        *argv, stdin=PIPE, stdout=PIPE, stderr=errors, start_new_session=True, pass_fds=[lock]
    )


def _settle(future: asyncio.Future[_T], result: _T) -> None:
    """Completes a future, unless the cancelled waiter has cancelled it."""
    if not future.done():
        future.set_result(result)


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
