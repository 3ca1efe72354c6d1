"""A container runtime without containers: sandboxes and scripted containers as values."""

import asyncio
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from uuid import uuid4

from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.clock import Clock, SystemClock

# The script of a fake container, from the command that a real runtime would run.
#
# The language is a small part of shell: `["sh", "-c", "echo ready; sleep 2; exit 1"]`, with `echo TEXT`, `sleep
# SECONDS|infinity` and `exit CODE` separated by `;`. In a real container the same text has the same effect, so one
# Pod manifest serves both. Any other command, or none, runs until something ends it.
#
# For a Pod whose command must stay, an annotation has the text instead: `runtime.example.com/script` for all its
# containers, or `runtime.example.com/script.NAME` for one.

_SHELLS = frozenset({"sh", "/bin/sh"})
_SLEEP = re.compile(r"\s*sleep\s+([0-9]+(?:\.[0-9]+)?|infinity)\s*", re.ASCII)
_ECHO = re.compile(r"\s*echo(?:\s+(\S.*?))?\s*")
_EXIT = re.compile(r"\s*exit\s+([0-9]{1,3})\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Script:
    """A container that runs for `seconds` (`math.inf`: until ended), then exits with `code`.

    `lines` are its lines of output, each with the second in which it is written.
    """

    seconds: float
    code: int = 0
    lines: tuple[tuple[float, str], ...] = ()


UNTIL_ENDED = Script(math.inf)
"""The script of a container whose command is not a script."""


def parse(command: Sequence[str]) -> Script:
    """The script of a container's command and arguments; `UNTIL_ENDED` if it is not a script."""
    if len(command) != 3 or command[0] not in _SHELLS or command[1] != "-c":
        return UNTIL_ENDED
    statements = [_statement(text) for text in _split(command[2])]
    known = [statement for statement in statements if statement is not None]
    return _join(known) if len(known) == len(statements) else UNTIL_ENDED


ANNOTATION = "runtime.example.com/script"
"""The annotation of a Pod with the script of all containers; with `.NAME` that of one container."""


def parse_annotation(annotations: Mapping[str, str], container: str) -> Script | None:
    """The script that a Pod's annotations have for the container, or None. Raises ValueError if it is invalid."""
    key = f"{ANNOTATION}.{container}"
    text = annotations.get(key, annotations.get(ANNOTATION))
    if text is None:
        return None
    script = parse(["sh", "-c", text])
    if script == UNTIL_ENDED:
        raise ValueError(f"the annotation {ANNOTATION} may have only `echo`, `sleep` and `exit`, got {text[:100]!r}")
    return script


def _split(text: str) -> list[str]:
    statements = text.split(";")
    return statements if statements[-1].strip() else statements[:-1]  # a `;` may also end the last statement


def _statement(text: str) -> float | int | str | None:
    """Seconds to sleep as float, an exit code as int, a line of output as str, None for anything else."""
    if match := _ECHO.fullmatch(text):
        return _unquoted(match[1] or "")
    if match := _SLEEP.fullmatch(text):
        return float(match[1])
    if (match := _EXIT.fullmatch(text)) and int(match[1]) <= 255:
        return int(match[1])
    return None


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _join(statements: Sequence[float | int | str]) -> Script:
    seconds, lines = 0.0, []
    for statement in statements:
        if isinstance(statement, str):
            lines.append((seconds, statement))
        elif isinstance(statement, int):
            return Script(seconds, statement, tuple(lines))
        else:
            seconds += statement
    return Script(seconds, lines=tuple(lines))


# A container runtime without containers: sandboxes and scripted containers as values that change with time.
#
# The CRI server for a real kubelet and the pod worker of this process both use it. Its state outlives them, so a
# restarted kubelet finds its containers again. A container's command is its script (`script`); `end` lets a scenario
# end a container.

TERMINATED = 143
"""Exit code of a container that was stopped with a grace period (128 + SIGTERM)."""
KILLED = 137
"""Exit code of a container that was stopped without a grace period (128 + SIGKILL)."""


ADDRESS = "127.0.0.1"
"""The IP address of every sandbox."""


def image_id(image: str) -> str:
    """The id of an image, from its name; an id is returned unchanged."""
    return image if image.startswith("sha256:") else "sha256:" + hashlib.sha256(image.encode()).hexdigest()


class SandboxState(StrEnum):
    READY = "ready"
    NOT_READY = "not ready"


class ContainerState(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """The configuration of a sandbox: its pod, and the number of earlier sandboxes of the pod (`attempt`)."""

    pod_name: str
    pod_namespace: str
    pod_uid: str
    attempt: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox; `created` in Unix nanoseconds."""

    id: str
    config: SandboxConfig
    state: SandboxState
    created: int


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """The configuration of a container; `cdi_devices` are full CDI names from the drivers."""

    name: str
    image: str
    attempt: int = 0
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_path: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """A container; times in Unix nanoseconds, 0 if not reached."""

    id: str
    sandbox_id: str
    config: ContainerConfig
    state: ContainerState
    created: int
    started: int = 0
    finished: int = 0
    exit_code: int = 0
    reason: str = ""


class UnknownIdError(KeyError):
    """Unknown sandbox or container."""

    def __str__(self) -> str:
        return str(self.args[0])


class WrongStateError(ValueError):
    """The sandbox or container is in a state that does not allow the operation."""


class ContainerRuntime:
    """A fake container runtime. It runs nothing, but stores all that a container runtime reports to a kubelet."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._sandboxes: dict[str, Sandbox] = {}
        self._containers: dict[str, Container] = {}
        self._sandboxes_of: dict[str, list[str]] = {}
        self._containers_of: dict[str, list[str]] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._subscribers: list[Callable[[Container], None]] = []
        self._readers: list[Callable[[Container, str], None]] = []

    def subscribe(self, notify: Callable[[Container], None]) -> Callable[[], None]:
        """Calls `notify` with each container that has started or exited; returns a function that ends this."""
        self._subscribers.append(notify)
        return lambda: self._subscribers.remove(notify) if notify in self._subscribers else None

    def read_output(self, read: Callable[[Container, str], None]) -> Callable[[], None]:
        """Calls `read` with each line of output of a container; returns a function that ends this."""
        self._readers.append(read)
        return lambda: self._readers.remove(read) if read in self._readers else None

    def wall(self) -> int:
        """The runtime's own time in Unix nanoseconds."""
        return int(self._clock.wall() * 1e9)

    async def close(self) -> None:
        """Ends all tasks; containers keep their last state and do not exit by themselves."""
        lives = list(self._lives.values())
        await cancel_and_wait(*lives)

    def run_sandbox(self, config: SandboxConfig) -> Sandbox:
        """A new sandbox, ready."""
        sandbox = Sandbox(uuid4().hex, config, SandboxState.READY, self.wall())
        self._sandboxes[sandbox.id] = sandbox
        self._sandboxes_of.setdefault(config.pod_uid, []).append(sandbox.id)
        return sandbox

    def stop_sandbox(self, sandbox_id: str) -> None:
        """Kills the sandbox's containers and makes it not ready; a second call is no error."""
        sandbox = self.sandbox(sandbox_id)
        for container in self.containers(sandbox_id=sandbox_id):
            self.stop_container(container.id, grace=0)
        self._sandboxes[sandbox_id] = replace(sandbox, state=SandboxState.NOT_READY)

    def remove_sandbox(self, sandbox_id: str) -> None:
        """Stops the sandbox and removes it with its containers."""
        self.stop_sandbox(sandbox_id)
        for container in self.containers(sandbox_id=sandbox_id):
            self.remove_container(container.id)
        _forget(self._sandboxes_of, self._sandboxes.pop(sandbox_id).config.pod_uid, sandbox_id)

    def sandbox(self, sandbox_id: str) -> Sandbox:
        """The sandbox; raises `UnknownIdError`."""
        if sandbox_id not in self._sandboxes:
            raise UnknownIdError(f"unknown sandbox {sandbox_id!r}")
        return self._sandboxes[sandbox_id]

    def sandboxes(
        self,
        *,
        sandbox_id: str = "",
        state: SandboxState | None = None,
        labels: Mapping[str, str] | None = None,
        pod_uid: str = "",
    ) -> list[Sandbox]:
        """The sandboxes that match all given filters, oldest first."""
        ids = self._sandboxes_of.get(pod_uid, ()) if pod_uid else self._sandboxes
        return [
            sandbox
            for sandbox in map(self._sandboxes.__getitem__, ids)
            if sandbox_id in ("", sandbox.id)
            and state in (None, sandbox.state)
            and (labels or {}).items() <= sandbox.config.labels.items()
        ]

    def create_container(self, sandbox_id: str, config: ContainerConfig) -> Container:
        """Creates a container in a ready sandbox; `WrongStateError` otherwise."""
        if self.sandbox(sandbox_id).state is not SandboxState.READY:
            raise WrongStateError(f"sandbox {sandbox_id} is not ready; run a new one for container {config.name!r}")
        container = Container(uuid4().hex, sandbox_id, config, ContainerState.CREATED, self.wall())
        self._containers[container.id] = container
        self._containers_of.setdefault(self._pod_of(container), []).append(container.id)
        return container

    def start_container(self, container_id: str) -> None:
        """Starts a created container; `WrongStateError` otherwise. A container with nothing to wait for exits
        immediately.
        """
        container = self.container(container_id)
        if container.state is not ContainerState.CREATED:
            raise WrongStateError(f"container {container_id} is {container.state}; only a created one can be started")
        self._change(replace(container, state=ContainerState.RUNNING, started=self.wall()))
        script = self._script(container)
        if script.seconds <= 0:
            self._write(container_id, script.lines)
            self._exit(container_id, script.code)
        elif script.seconds < math.inf or script.lines:
            life = self._live(container_id, self._clock.now(), script)
            self._lives[container_id] = asyncio.create_task(life)

    def stop_container(self, container_id: str, grace: float) -> None:
        """Ends a running container immediately: it exits by itself if `grace` is above 0 seconds, else it is killed."""
        if self.container(container_id).state is ContainerState.RUNNING:
            self._exit(container_id, TERMINATED if grace > 0 else KILLED)

    def remove_container(self, container_id: str) -> None:
        """Removes the container; a running one is killed first."""
        self.stop_container(container_id, grace=0)
        _forget(self._containers_of, self._pod_of(self._containers.pop(container_id)), container_id)

    def container(self, container_id: str) -> Container:
        """The container; raises `UnknownIdError`."""
        if container_id not in self._containers:
            raise UnknownIdError(f"unknown container {container_id!r}")
        return self._containers[container_id]

    def containers(
        self,
        *,
        container_id: str = "",
        sandbox_id: str = "",
        state: ContainerState | None = None,
        labels: Mapping[str, str] | None = None,
        pod_uid: str = "",
    ) -> list[Container]:
        """The containers that match all given filters, oldest first."""
        ids = self._containers_of.get(pod_uid, ()) if pod_uid else self._containers
        return [
            container
            for container in map(self._containers.__getitem__, ids)
            if container_id in ("", container.id)
            and sandbox_id in ("", container.sandbox_id)
            and state in (None, container.state)
            and (labels or {}).items() <= container.config.labels.items()
        ]

    def newest(self, pod_uid: str, container_name: str) -> Container:
        """The pod's newest container with this name, in any state; raises `UnknownIdError`."""
        if found := [one for one in self.containers(pod_uid=pod_uid) if one.config.name == container_name]:
            return found[-1]
        raise UnknownIdError(f"pod {pod_uid} has no container {container_name!r}")

    def end(self, pod_uid: str, container_name: str, exit_code: int) -> None:
        """Ends the pod's running container with this name, as if its process had exited; raises `UnknownIdError`."""
        for container in self.containers(pod_uid=pod_uid, state=ContainerState.RUNNING):
            if container.config.name == container_name:
                return self._exit(container.id, exit_code)
        raise UnknownIdError(f"pod {pod_uid} has no running container {container_name!r} to end")

    def _pod_of(self, container: Container) -> str:
        return self._sandboxes[container.sandbox_id].config.pod_uid

    def _script(self, container: Container) -> Script:
        """That of the Pod's annotations, or of the command. An invalid annotation was rejected, or has no effect."""
        annotations = self._sandboxes[container.sandbox_id].config.annotations
        with suppress(ValueError):
            if script := parse_annotation(annotations, container.config.name):
                return script
        return parse(container.config.command + container.config.args)

    async def _live(self, container_id: str, start: float, script: Script) -> None:
        for second, line in script.lines:
            if second:
                await self._clock.sleep(start + second - self._clock.now())
            self._write(container_id, [(second, line)])
        if script.seconds < math.inf:
            await self._clock.sleep(start + script.seconds - self._clock.now())
            self._exit(container_id, script.code)

    def _write(self, container_id: str, lines: Iterable[tuple[float, str]]) -> None:
        for _, line in lines:
            for read in tuple(self._readers):
                read(self._containers[container_id], line)

    def _exit(self, container_id: str, code: int) -> None:
        life = self._lives.pop(container_id, None)
        if life is not None and life is not asyncio.current_task():
            life.cancel()
        reason = "Completed" if code == 0 else "Error"
        exited = replace(self._containers[container_id], state=ContainerState.EXITED, exit_code=code, reason=reason)
        self._change(replace(exited, finished=self.wall()))

    def _change(self, container: Container) -> None:
        self._containers[container.id] = container
        for notify in tuple(self._subscribers):
            notify(container)


def _forget(ids_of: dict[str, list[str]], pod_uid: str, one: str) -> None:
    """Removes an empty pod."""
    ids_of[pod_uid].remove(one)
    if not ids_of[pod_uid]:
        del ids_of[pod_uid]
