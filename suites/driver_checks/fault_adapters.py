"""Fault adapters: they break and heal the devices of a driver, as its driver profile says."""

import asyncio
import os
import stat
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from drahealth.fakes.cluster.api import KINDS, OTHER_KINDS, ApiError, Kind, ListWatch, Object
from drahealth.fakes.hints import near
from drahealth.fakes.waiting import cancel_and_wait, within
from drahealth.proto.package import environment_of_others
from drahealth.proto.quoting import one_line
from drahealth.suites.driver_checks.output_text import output_text
from drahealth.suites.driver_checks.profile.faults import (
    Action,
    CallHttp,
    CreateFile,
    Fault,
    PatchObject,
    RemoveFile,
    RunCommand,
    SetEnvironment,
    TellBackend,
    WriteFile,
)
from drahealth.suites.driver_checks.subject.places import filled
from drahealth.suites.driver_checks.subject.subject import ActionFailed, Surroundings
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.processes.child import Child

# Adapters of files. Nothing here waits: a FIFO without a reader is an error.


def create(path: Path, text: str) -> None:
    """Creates a file. Raises ActionFailed, also if it exists, or if its folder does not."""
    _check_folder(path, "create")
    try:
        with path.open("x") as file:
            file.write(text)
    except OSError as error:
        raise ActionFailed(f"cannot create {path}: {error.strerror}") from None


def remove(path: Path) -> None:
    """Removes a file. Raises ActionFailed, also if it does not exist."""
    try:
        path.unlink()
    except OSError as error:
        raise ActionFailed(f"cannot remove {path}: {error.strerror}") from None


def write(path: Path, text: str) -> None:
    """Replaces the content of a file in one step. Raises ActionFailed, also if its folder does not exist.

    A device, a FIFO and a file that cannot be replaced, as in /sys, are written in place.
    """
    _check_folder(path, "write")
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            _write_in_place(path, text)
        else:
            _replace(path, text)
    except OSError as error:
        raise ActionFailed(f"cannot write {path}: {error.strerror}") from None


def _check_folder(path: Path, verb: str) -> None:
    """A new folder would hide a wrong path: no driver looks at files below it."""
    if not path.parent.is_dir():
        raise ActionFailed(f"cannot {verb} {path}: the folder {path.parent} does not exist")


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.drahealth")
    try:
        draft.write_text(text)
    except PermissionError:
        _write_in_place(path, text)
        return
    try:
        if path.exists():
            draft.chmod(stat.S_IMODE(path.stat().st_mode))
        draft.replace(path)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _write_in_place(path: Path, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_NONBLOCK | (os.O_TRUNC if path.is_file() else 0))
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


# Adapters that send requests: to an HTTP server, and to the API server of the driver.

_ATTEMPTS = 5
_CONFLICT = 409
_FIRST_ERROR = 400
_WORDS = 300  # characters of an answer


async def call_http(url: str, method: str, body: str, headers: Mapping[str, str]) -> None:
    """Sends a request. Raises ActionFailed if there is no answer, or an error."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=body or None, headers=headers, allow_redirects=False) as response,
        ):
            if response.status >= _FIRST_ERROR:
                text = one_line(await response.text(errors="replace"), _WORDS)
                raise ActionFailed(f"{method} {url} was answered with status {response.status}: {text}")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ActionFailed(f"{method} {url} failed: {one_line(str(error) or type(error).__name__, _WORDS)}") from None


async def patch(api: ListWatch | None, action: PatchObject) -> None:
    """Merges fields into an object. Raises ActionFailed."""
    if api is None:
        raise ActionFailed("the driver has no API server")
    name, namespace, merge = action.name, action.namespace or "default", action.merge
    for attempt in range(_ATTEMPTS):
        try:
            kind = await _kind(api, action)
            old = await api.get(kind, name, namespace if kind.namespaced else None)
            new = merged(old, merge)
            stored = await api.replace(kind, new)
            if "status" in merge and kind.has_status:
                await api.replace_status(kind, {**stored, "status": new.get("status")})
        except ApiError as error:
            if error.status != _CONFLICT or attempt == _ATTEMPTS - 1:
                raise ActionFailed(f"cannot patch {action.kind} {name}: {error}") from None
        else:
            return


async def _kind(api: ListWatch, action: PatchObject) -> Kind:
    if action.api_version:
        metadata = {"namespace": action.namespace} if action.namespace else {}
        return await api.kind_of({"apiVersion": action.api_version, "kind": action.kind, "metadata": metadata})
    known = {one.kind: one for one in (*OTHER_KINDS, *KINDS)}
    if action.kind not in known:
        raise ActionFailed(f"unknown kind {action.kind}; {near(action.kind, known)}")
    return known[action.kind]


def merged(target: Any, changes: Any) -> Any:
    """The target after a JSON merge patch. Source: RFC 7396, section 2."""
    if not isinstance(changes, Mapping):
        return changes
    result: Object = dict(target) if isinstance(target, Mapping) else {}
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


# Scripted backends: Python files of the user that replace the hardware or the daemon of a driver.
#
# drahealth runs `python FILE ARGUMENT...` before the driver starts. The script writes the line `ready` when it
# serves. It reads commands from standard input, one in a line, such as `break gpu-1`, and answers each with the line
# `done`, or `failed REASON`. It ignores the end of its input. Other lines of its output are its log.

READY_LIMIT = 60.0
"""Seconds until a backend must be ready."""


class Backend:
    """A scripted backend, which can be killed and started again."""

    def __init__(self, script: Path, arguments: Sequence[str], around: Surroundings) -> None:
        self._argv = (sys.executable, str(script.absolute()), *arguments)
        self._name = script.name
        self._around = around
        self._clock = around.clock
        self._process: Child | None = None
        self._answers = asyncio.Queue[str]()

    async def start(self) -> None:
        """Starts it, and waits until it is ready. Raises ActionFailed."""
        answers = self._answers = asyncio.Queue[str]()
        try:
            self._process = await Child.start(
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
        self._process.write(line.encode() + b"\n")
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
            await within(self._clock, limit, asyncio.wait([reading, ended], return_when=asyncio.FIRST_COMPLETED))
        except TimeoutError:
            raise ActionFailed(
                f"{self._name} did not write {' or '.join(words)} within {limit:g} s", timed_out=True
            ) from None
        finally:
            await cancel_and_wait(reading, ended)
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


# The fault adapters of one driver process: does each action of a fault, with a time limit.

A = TypeVar("A", bound=Action)


class FaultAdapters:
    """The adapters of a driver process. Commands and backends run in its sandbox, if it has one."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._clock = around.clock
        self._folder = around.folder or Path()
        self._backends: dict[Path, Backend] = {}

    async def start(self, faults: Sequence[Fault], values: Mapping[str, str]) -> None:
        """Starts the scripted backends of the faults. Raises ConfigurationError."""
        told = [one for fault in faults for one in fault.actions if isinstance(one, TellBackend)]
        for action in sorted(told, key=lambda one: not one.arguments):  # one action of a script has its arguments
            if action.script in self._backends:
                continue
            arguments = [filled(word, values) for word in action.arguments]
            self._backends[action.script] = backend = Backend(self._folder / action.script, arguments, self._around)
            try:
                await backend.start()
            except ActionFailed as error:
                raise ConfigurationError(f"backend {action.script}: {error}", "run the script by hand") from None

    async def move(
        self,
        faults: Sequence[Fault],
        values: Mapping[str, str],
        api: ListWatch | None,
        outside: Callable[[Path], Path],
    ) -> None:
        """Starts the backends again for a driver that got other directories and another API server.

        Raises ConfigurationError.
        """
        await self.close()
        self._around = replace(self._around, api=api, outside=outside)
        self._backends.clear()
        await self.start(faults, values)

    async def perform(self, action: Action, values: Mapping[str, str], limit: float) -> None:
        """Does one action within `limit` seconds, with placeholders replaced. Raises ActionFailed."""
        action = with_values(action, values)
        try:
            await within(self._clock, limit, self._perform(action, limit))
        except TimeoutError:
            raise ActionFailed(f"the action did not end within {limit:g} s", timed_out=True) from None

    async def kill_backend(self, script: Path) -> None:
        """Kills a scripted backend."""
        await self._backends[script].kill()

    async def restart_backend(self, script: Path) -> None:
        """Starts a killed backend again. Raises ActionFailed."""
        await self._backends[script].start()

    async def close(self) -> None:
        """Ends all backends."""
        for backend in self._backends.values():
            await backend.kill()

    async def _perform(self, action: Action, limit: float) -> None:
        match action:
            case CreateFile(path, text):
                create(self._path(path), text)
            case RemoveFile(path):
                remove(self._path(path))
            case WriteFile(path, text):
                write(self._path(path), text)
            case RunCommand(command):
                await self._run(command)
            case PatchObject():
                await patch(self._around.api, action)
            case CallHttp(url, method, body, headers):
                await call_http(url, method, body, headers)
            case TellBackend(script, _, line):
                await self._backends[script].tell(line, limit)
            case SetEnvironment():
                raise ActionFailed("only a start of the driver can set the environment")

    def _path(self, path: str) -> Path:
        """Where a file is outside of the sandbox."""
        return self._around.outside(self._folder.absolute() / path)

    async def _run(self, command: Sequence[str]) -> None:
        """Runs a program to its end; kills it and its descendants if that is cancelled."""
        try:
            process = await Child.start(command, environment_of_others(), self._folder, entry=self._around.entry)
        except ConfigurationError as error:
            raise ActionFailed(str(error)) from None
        try:
            code, _ = await process.exited()
        finally:
            await process.close()
        if code:
            raise ActionFailed(f"{command[0]} exited with code {code}{output_text(process.output())}")


def with_values(action: A, values: Mapping[str, str]) -> A:
    """The action with its placeholders replaced."""
    return replace(action, **{one.name: _filled(getattr(action, one.name), values) for one in fields(action)})


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    match value:
        case str():
            return filled(value, values)
        case Mapping():
            return {key: _filled(one, values) for key, one in value.items()}
        case tuple() | list():
            return type(value)(_filled(one, values) for one in value)
        case _:
            return value
