"""A sandbox from outside: start it, run programs in it, open sockets in it, end it with all its processes."""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from drahealth.suites.driver_checks.sandbox.declared import Namespace, Sandbox
from drahealth.suites.driver_checks.sandbox.mounting import missing_root
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.namespaces import allow_hint, unshare

_KEEPER = "drahealth.suites.driver_checks.sandbox.keeper"
_OPTIONS: Mapping[Namespace, tuple[str, ...]] = {
    "user": ("--user", "--map-root-user"),
    "mount": ("--mount",),
    "network": ("--net",),
    "pid": ("--pid", "--fork", "--kill-child"),
}
_ENTRY: Mapping[Namespace, tuple[str, ...]] = {
    "user": ("--user", "--preserve-credentials"),
    "mount": ("--mount",),
    "network": ("--net",),
    "pid": ("--pid",),
}
_PATIENCE = 10.0
"""Seconds for the sandbox to end, before its keeper is killed."""
_LONGEST = 4096


class RunningSandbox:
    """The namespaces of one driver process and its helpers, from `sandbox` to its end."""

    def __init__(
        self,
        keeper: asyncio.subprocess.Process,
        control: socket.socket,
        namespaces: Sequence[Namespace],
        entry: Sequence[str],
    ) -> None:
        self.namespaces = tuple(namespaces)
        self.entry = tuple(entry)
        """The words before a command that run it in the sandbox."""
        self._keeper = keeper
        self._control = control
        self._turn = asyncio.Lock()

    async def bound(self, port: int) -> socket.socket:
        """A TCP socket at this port of the sandbox's loopback; 0 for a free one. Raises HarnessError."""
        message, descriptors = await self._asked(f"bind {port}")
        if not descriptors:
            raise HarnessError(f"cannot open port {port} in the sandbox: {message}")
        return socket.socket(fileno=descriptors[0])

    async def mount(self, folder: Path, directory: str) -> None:
        """Mounts a folder, which the sandbox must see, at a directory in the sandbox. Raises HarnessError."""
        message, _ = await self._asked(f"mount {json.dumps([str(folder), directory])}")
        if message:
            raise HarnessError(f"cannot mount {folder} at {directory} in the sandbox: {message}")

    async def _asked(self, request: str) -> tuple[str, list[int]]:
        """The reason why the sandbox did not do this, empty if it did, and the sockets of the answer."""
        async with self._turn:
            with contextlib.suppress(BrokenPipeError):
                self._control.send(request.encode())
            message, descriptors = await _received(self._control)
        word, _, rest = message.partition(" ")
        return "" if word == "done" else rest or "it has ended", descriptors

    async def close(self) -> None:
        """Ends the sandbox. Afterwards no process of it runs, if it has a process namespace, and nothing is mounted."""
        self._control.close()
        await _ended(self._keeper)


@asynccontextmanager
async def sandbox(
    declared: Sandbox, folders: Mapping[str, Path], needed: Sequence[Path]
) -> AsyncGenerator[RunningSandbox, None]:
    """A sandbox with these private directories (directory in it -> folder of the run).

    `needed` are folders that stay visible in it. Raises ConfigurationError for a private directory that cannot be
    made, and HarnessError if this machine does not allow the namespaces.
    """
    if path := missing_root(folders):
        top = Path("/", Path(path).parts[1])
        raise ConfigurationError(f"{path} cannot be private: {top} does not exist", f"create {top}, or remove {path}")
    if shutil.which("nsenter") is None:
        raise HarnessError("the program nsenter is missing", "install util-linux")
    ours = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[3])
    running, refusals = None, []
    for namespaces in ways(declared, root=os.geteuid() == 0):
        configuration = {
            "folders": {inside: str(path) for inside, path in folders.items()},
            "needed": [str(path.resolve()) for path in (*needed, *ours)],
            "namespaces": namespaces,
        }
        running, refusal = await _started(namespaces, json.dumps(configuration))
        if running:
            break
        refusals.append(refusal)
    if running is None:
        raise HarnessError(f"cannot make a sandbox: {'; '.join(dict.fromkeys(refusals))}", hint_for(refusals))
    try:
        yield running
    finally:
        await asyncio.shield(running.close())


async def trial(declared: Sandbox, folder: Path) -> tuple[Namespace, ...]:
    """Makes a sandbox and ends it. Returns its namespaces. Raises as `sandbox`."""
    async with sandbox(declared, dict.fromkeys(declared.private_directories, folder), [folder]) as running:
        return running.namespaces


def ways(declared: Sandbox, *, root: bool) -> Sequence[Sequence[Namespace]]:
    """The namespaces to try in turn. Users who are not root need a user namespace, and so does root in containers."""
    others: list[Namespace] = [name for name in declared.namespaces if name != "user"]
    with_user: list[Namespace] = ["user", *others]
    return [others, with_user] if root and "user" not in declared.namespaces else [with_user]


def hint_for(refusals: Sequence[str]) -> str:
    """What to do so that this machine allows a sandbox."""
    if any(refusal.startswith("/proc:") for refusal in refusals):
        return "in a container, pass `--security-opt systempaths=unconfined`, or leave `pid` out of the namespaces"
    return allow_hint()


async def _started(namespaces: Sequence[Namespace], configuration: str) -> tuple[RunningSandbox | None, str]:
    """The sandbox, or the reason for the rejection."""
    options = [word for name in namespaces for word in _OPTIONS[name]]
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.setblocking(False)
    try:
        with theirs:
            keeper = await asyncio.create_subprocess_exec(
                *(unshare(), *options, sys.executable, "-P", "-m", _KEEPER, str(theirs.fileno()), configuration),
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=PIPE,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        message, _ = await _received(control)
    except BaseException:
        control.close()  # which ends the keeper
        raise
    word, _, rest = message.partition(" ")
    if word == "ready":
        entry = ["nsenter", "--target", rest, *(word for name in namespaces for word in _ENTRY[name]), "--"]
        return RunningSandbox(keeper, control, namespaces, entry), ""
    control.close()
    assert keeper.stderr is not None
    errors = (await keeper.stderr.read()).decode(errors="replace").strip()
    await _ended(keeper)
    return None, rest or errors.rpartition("\n")[2] or "its keeper ended"


async def _received(control: socket.socket) -> tuple[str, list[int]]:
    """The next message, with the sockets in it; empty after the end of the other side."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(control, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(control)
    try:
        message, descriptors, _, _ = socket.recv_fds(control, _LONGEST, 1)
    except ConnectionError:
        return "", []
    return message.decode(errors="replace"), descriptors


async def _ended(keeper: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await keeper.wait()
    except TimeoutError:
        keeper.kill()  # kills the first process of the namespace too
        await keeper.wait()
