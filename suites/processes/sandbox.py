"""A sandbox from outside: start it, run programs in it, open sockets in it, end it with all its processes."""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.processes.child import LINGER
from drahealth.suites.processes.mounts import MountPlan, Namespace, missing_root

# The namespaces of processes, and whether this machine allows them.

WITH_USER: tuple[Namespace, ...] = ("user", "mount", "pid")
"""The namespaces of a node's processes, for any user."""
WITHOUT_USER: tuple[Namespace, ...] = ("mount", "pid")
"""The same without a user namespace: for root where user namespaces are forbidden."""

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
_SWITCHES: Mapping[str, tuple[str, str]] = {
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
}


def ways() -> Sequence[Sequence[Namespace]]:
    """The namespaces of a node's processes to try in turn."""
    return (WITH_USER, WITHOUT_USER) if os.geteuid() == 0 else (WITH_USER,)


def refusal(namespaces: Sequence[Namespace]) -> str:
    """Tries these namespaces with a mount inside. Returns the error, or "" if it works.

    Raises HarnessError if unshare(1) is missing.
    """
    command = [*unshare(namespaces), "mount", "-t", "tmpfs", "none", "/var/lib"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def allow_hint(sysctls: Path = Path("/proc/sys")) -> str:
    """What to change so that this machine allows user namespaces."""
    commands = [command for name, (forbids, command) in _SWITCHES.items() if _read(sysctls / name) == forbids]
    if commands:
        return f"allow user namespaces: {' and '.join(commands)}"
    return "in a container, use a seccomp profile that allows unshare and mount; elsewhere, run as root"


def unshare(namespaces: Sequence[Namespace]) -> list[str]:
    """The words before a command that run it in these namespaces. Raises HarnessError if unshare(1) is missing."""
    found = shutil.which("unshare")
    if found is None:
        raise HarnessError("the program unshare is missing", "install util-linux")
    return [found, *(word for name in namespaces for word in _OPTIONS[name])]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


# A sandbox.

_KEEPER = "drahealth.suites.processes.keeper"
_PATIENCE = 10.0
"""Seconds for the sandbox to end, before its keeper is killed."""
_LONGEST = 4096


class RunningSandbox:
    """The namespaces of some processes, from `sandbox` to its end."""

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
        self.ended = asyncio.create_task(keeper.wait())
        """Done when its keeper has ended, which ends all processes of a process namespace."""
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
        await asyncio.wait([self.ended], timeout=_PATIENCE)
        if not self.ended.done():
            self._keeper.kill()  # kills the first process of the namespace too
            await self.ended
        await _silent(self._keeper)


@asynccontextmanager
async def sandbox(
    ways: Sequence[Sequence[Namespace]], plan: MountPlan, *, held: Sequence[int] = ()
) -> AsyncGenerator[RunningSandbox, None]:
    """A sandbox with these mounts, in the first of the namespaces that this machine allows.

    It inherits the descriptors `held`, such as a lock, and its programs do not. Raises ConfigurationError for a
    directory that cannot be made, and HarnessError if this machine does not allow the namespaces.
    """
    if path := missing_root(plan.folders):
        top = Path("/", Path(path).parts[1])
        raise ConfigurationError(f"{path} cannot be private: {top} does not exist", f"create {top}, or remove {path}")
    if shutil.which("nsenter") is None:
        raise HarnessError("the program nsenter is missing", "install util-linux")
    needed = (*plan.needed, sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]))
    plan = replace(plan, needed=tuple(map(os.path.realpath, needed)))
    running, refusals = None, []
    for namespaces in ways:
        running, refused = await _started(namespaces, plan, held)
        if running:
            break
        refusals.append(refused)
    if running is None:
        raise HarnessError(f"cannot make private namespaces: {'; '.join(dict.fromkeys(refusals))}", hint_for(refusals))
    try:
        yield running
    finally:
        await asyncio.shield(running.close())


def hint_for(refusals: Sequence[str]) -> str:
    """What to do so that this machine allows a sandbox."""
    if any(refusal.startswith("/proc:") for refusal in refusals):
        return "in a container, pass `--security-opt systempaths=unconfined`, or leave `pid` out of the namespaces"
    return allow_hint()


async def _started(
    namespaces: Sequence[Namespace], plan: MountPlan, held: Sequence[int]
) -> tuple[RunningSandbox | None, str]:
    """The sandbox, or the reason for the rejection."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.setblocking(False)
    words = (_KEEPER, str(theirs.fileno()), json.dumps(namespaces), json.dumps(asdict(plan)))
    keeper: asyncio.subprocess.Process | None = None
    try:
        with theirs:
            keeper = await asyncio.create_subprocess_exec(
                *(*unshare(namespaces), sys.executable, "-P", "-m", *words),
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=PIPE,
                start_new_session=True,
                pass_fds=[theirs.fileno(), *held],
            )
        message, _ = await _received(control)
    except BaseException:
        control.close()  # which ends the keeper
        if keeper:
            await keeper.communicate()
        raise
    word, _, rest = message.partition(" ")
    if word == "ready":
        entry = ["nsenter", "--target", rest, *(word for name in namespaces for word in _ENTRY[name]), "--"]
        return RunningSandbox(keeper, control, namespaces, entry), ""
    control.close()
    _, errors = await keeper.communicate()
    return None, rest or errors.decode(errors="replace").strip().rpartition("\n")[2] or "its keeper ended"


async def _silent(keeper: asyncio.subprocess.Process) -> None:
    """Waits for the end of its error output: only then asyncio lets go of an ended process."""
    assert keeper.stderr
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(keeper.stderr.read(), LINGER)


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
