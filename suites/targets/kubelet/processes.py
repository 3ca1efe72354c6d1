"""The processes of a cluster: their logs and ports, and waiting for them."""

import asyncio
import re
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drahealth.fakes.waiting import poll
from drahealth.suites.errors import HarnessError
from drahealth.suites.processes.child import CannotRun, Child
from drahealth.suites.processes.sandbox import RunningSandbox

if TYPE_CHECKING:
    import aiohttp

# The end of a component's log, and its most important line.

_TAIL = 32 * 1024
_TELLING = (
    re.compile(r"^F\d{4} "),
    re.compile(r"^(?:panic|fatal error|Error|error): "),
    re.compile(r'"level":"(?:fatal|panic)"'),
    re.compile(r"^E\d{4} "),
    re.compile(r'"level":"error"'),
)
_KLOG_PREFIX = re.compile(r"^[EFIW]\d{4} [\d:.]+ +\d+ ")


def tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log; "" if there is none."""
    return "\n".join(_read_end(path).splitlines()[-lines:])


def note(name: str, path: Path) -> str:
    """The last lines under a heading, for an error: the log itself is removed with its run."""
    return f"The last lines of {name}:\n{tail(path)}"


def telling_line(path: Path) -> str:
    """The last line of the highest severity at the end of the log."""
    return choose_line(_read_end(path)) or "its log is empty"


def choose_line(text: str) -> str:
    """The last line of the highest severity in a text, without the time and thread of klog; "" if it has no line."""
    lines = [line for line in text.splitlines() if line.strip()]
    for kind in _TELLING:
        for line in reversed(lines):
            if kind.search(line):
                return _KLOG_PREFIX.sub("", line).strip()
    return lines[-1].strip() if lines else ""


def _read_end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


# Loopback ports that a run reserves.
#
# A socket that is bound and does not listen reserves its port: the kernel does not choose it for any other socket. A
# server can still bind it if both set SO_REUSEADDR, as servers in Go do. So a run can choose a port before the server
# starts, and keep it while the server restarts.


class Reservation:
    """One TCP port of 127.0.0.1, reserved until `release`: `wanted` if it is free, else any."""

    def __init__(self, wanted: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", wanted))
        except OSError:
            self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Releases the port; harmless if it is released."""
        self._socket.close()


def outward_address() -> str | None:
    """The address of this machine towards other ones; None without a route. It sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])


# A component of a cluster as a process in the sandbox of the run.

_KEEPER_ENDED = "the keeper of the cluster's processes has ended"
_KILLED = "another process killed it, or the kernel for lack of memory; `dmesg` shows the latter"
_SECONDS_TO_END = 5.0
"""Seconds after the end of a process in which the keeper of its sandbox ends, if that was the reason."""


class Process:
    """One component; the result of `exited` is its exit code, below zero for a signal."""

    def __init__(self, sandbox: RunningSandbox, child: Child, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self.exited: asyncio.Future[int] = asyncio.create_task(self._watch())
        self._sandbox = sandbox
        self._child = child

    @classmethod
    async def start(
        cls, sandbox: RunningSandbox, name: str, argv: Sequence[str], env: Mapping[str, str], folder: Path, log: Path
    ) -> "Process":
        """Starts a program in a folder; its output is appended to `log`. Raises HarnessError if it cannot be run."""
        if sandbox.ended.done():
            raise HarnessError(_KEEPER_ENDED)
        try:
            with log.open("ab") as output:
                child = await Child.start(argv, env, folder, stdout=output.fileno(), entry=sandbox.entry)
        except CannotRun as error:
            hint = "check the path and the permissions of the program"
            raise HarnessError(f"cannot start {name}: {argv[0]}: {error.why}", hint) from None
        return cls(sandbox, child, name, log)

    async def end(self, which: signal.Signals = signal.SIGKILL) -> None:
        """Sends the signal and waits until the process is gone."""
        self._child.signal(which)
        await asyncio.wait([self.exited])

    def failure(self) -> HarnessError:
        """The error for an unexpected end."""
        if self._sandbox.ended.done():
            return HarnessError(_KEEPER_ENDED)
        code = self.exited.result()
        ended = f"{self.name} has ended ({_ending(code)})"
        if code == -signal.SIGKILL:  # its log ends before the signal, so no line of it is the reason
            failure = HarnessError(ended, _KILLED)
        else:
            failure = HarnessError(f"{ended}: {telling_line(self.log)}")
        failure.add_note(note(self.name, self.log))
        return failure

    async def _watch(self) -> int:
        code, _ = await self._child.exited()
        await self._child.close()
        if self._child.lost:
            await asyncio.wait([self._sandbox.ended], timeout=_SECONDS_TO_END)
        return code


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"


# Waits for a component, and fails at once if its process ends.

_INTERVAL = 0.03


async def until(
    condition: Callable[[], Awaitable[bool]], processes: Iterable[Process], what: str, limit: float
) -> None:
    """Returns when the condition holds. Raises HarnessError when a process ends, or after `limit` seconds."""
    watched = list(processes)

    async def holds() -> bool:
        if await condition():
            return True
        check(watched)
        return False

    if not await poll(holds, _INTERVAL, limit):
        failure = HarnessError(
            f"timed out after {limit:g} s waiting for {what}", "see the logs above; check whether the machine is busy"
        )
        for process in watched:
            failure.add_note(note(process.name, process.log))
        raise failure


def check(processes: Iterable[Process]) -> None:
    """Raises HarnessError if one of the processes has ended."""
    for process in processes:
        if process.exited.done():
            raise process.failure()


# Requests to the API server of one run, before there is a client.

_SEEN_TO = "&".join(
    f"exclude=poststarthook/{hook}" for hook in ("rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes")
)


class ApiProbe:
    """Uses the token of the administrator; `close` it at the end."""

    def __init__(self, server: str, token: str) -> None:
        self._server = server
        self._token = token
        self._opened: aiohttp.ClientSession | None = None

    async def ready(self) -> bool:
        """Whether the API server reports that it is ready."""
        return await self._get("/readyz") is not None

    async def serving(self) -> bool:
        """The same without two checks: a second after its start, each API server makes its first objects if they are
        missing."""
        return await self._get(f"/readyz?{_SEEN_TO}") is not None

    async def node(self, name: str) -> dict[str, Any] | None:
        """The Node object; None while there is none."""
        return await self._get(f"/api/v1/nodes/{name}")

    async def lease(self, name: str) -> dict[str, Any] | None:
        """The Lease of the Node, which its kubelet renews; None while there is none."""
        return await self._get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}")

    async def has_namespace(self, name: str) -> bool:
        """Whether the namespace exists. The API server makes `default` shortly after it is ready."""
        return await self._get(f"/api/v1/namespaces/{name}") is not None

    async def close(self) -> None:
        """Closes the connections."""
        if self._opened:
            await self._opened.close()

    async def _get(self, path: str) -> dict[str, Any] | None:
        import aiohttp  # takes 0.1 s, in which the API server starts

        try:
            async with self._session().get(path) as answer:
                if answer.status != 200:
                    return None
                text = answer.content_type != "application/json"
                return {"text": await answer.text()} if text else cast("dict[str, Any]", await answer.json())
        except (TimeoutError, aiohttp.ClientError):
            return None

    def _session(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                base_url=self._server,
                headers={"Authorization": f"Bearer {self._token}"},
                connector=aiohttp.TCPConnector(ssl=False),
                timeout=aiohttp.ClientTimeout(total=5),
            )
        return self._opened
