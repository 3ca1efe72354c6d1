"""The fault adapters of one driver process: does each action of a fault, with a time limit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.proto.environment import environment_of_others
from drahealth.suites.certifying.faults import files
from drahealth.suites.certifying.faults.backends import Backend
from drahealth.suites.checking.faults import (
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
from drahealth.suites.checking.kubelet.waiting import within
from drahealth.suites.checking.output_text import output_text
from drahealth.suites.checking.subject.adapters import ActionFailed, Surroundings
from drahealth.suites.checking.subject.places import filled
from drahealth.suites.checking.subject.process import DriverProcess
from drahealth.suites.errors import ConfigurationError

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
                files.create(self._path(path), text)
            case RemoveFile(path):
                files.remove(self._path(path))
            case WriteFile(path, text):
                files.write(self._path(path), text)
            case RunCommand(command):
                await self._run(command)
            case PatchObject():
                from drahealth.suites.certifying.faults.requests import patch

                await patch(self._around.api, action)
            case CallHttp(url, method, body, headers):
                from drahealth.suites.certifying.faults.requests import call_http

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
            process = await DriverProcess.start(
                command, environment_of_others(), self._folder, entry=self._around.entry
            )
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
