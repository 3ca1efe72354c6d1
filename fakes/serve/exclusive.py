"""Drivers and device plugins that start only if no other process serves their sockets.

A lock on a directory orders two processes that start at the same time. The lock ends with its process.
"""

import fcntl
import glob
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from drahealth.fakes.control.commands.definition import handles
from drahealth.fakes.control.commands.life import Start
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.driver_instance import DriverInstance
from drahealth.fakes.hardware.instances import UPGRADE
from drahealth.fakes.kubelet_plugin.interface import hidden
from drahealth.fakes.waiting import poll
from drahealth.proto.sockets import SocketInUse, is_served

PATIENCE = 60.0
"""Seconds that another process may take to start: an API server that does not answer costs it 30."""
_EVERY = 0.1


@asynccontextmanager
async def _reserve(who: str, folder: Path, sockets: Iterable[Path]) -> AsyncIterator[None]:
    """Inside it, no other process starts with these sockets. Raises SocketInUse if one serves them, OSError."""
    held = _opened(folder)
    try:
        await _lock(held, folder)
        _check(who, sockets)
        yield
    finally:
        os.close(held)


def _check(who: str, sockets: Iterable[Path]) -> None:
    for path in sockets:
        if is_served(path):
            raise SocketInUse(
                f"{who} is already served at {path}; end that process, or pass another --kubelet-dir; for a rolling "
                "update, pass --instance"
            )


def _opened(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


async def _lock(held: int, folder: Path) -> None:
    def is_locked() -> bool:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    if not await poll(is_locked, _EVERY, PATIENCE):
        raise SocketInUse(
            f"another process has held the lock of {folder} for more than {PATIENCE:g} s; end that process"
        )


class ExclusiveDriver(FakeDriver):
    """A driver whose every start raises SocketInUse if another process serves its sockets.

    A start removes the sockets of upgraded instances whose process was killed.
    """

    def check_sockets(self) -> None:
        """Raises SocketInUse if another process serves its sockets now."""
        _check(f"driver {self.options.name}", [*self.sockets, *_upgrades(self.options)])

    async def _begin(self, instance: DriverInstance) -> None:
        o = instance.options
        upgraded = [] if UPGRADE in o.instance else _upgrades(o)
        async with _reserve(f"driver {o.name}", Path(o.registry_dir), [*instance.sockets, *upgraded]):
            for path in upgraded:
                _clear(path, o)
            await super()._begin(instance)


def _upgrades(options: DriverOptions) -> list[Path]:
    """The sockets of upgraded instances of the driver in other processes, running or killed.

    They are in the driver's folder, and their names begin like those of its own sockets.
    """
    first = f"dra-{options.instance}-{UPGRADE}".replace("--", "-")
    found = Path(options.data_dir).glob(f"{glob.escape(first)}*.sock")
    return sorted(path for path in found if path.is_socket())


def _clear(path: Path, options: DriverOptions) -> None:
    """Removes the sockets of a killed instance."""
    name = path.stem.removeprefix("dra-")
    for left in (path, Path(options.registry_dir, f"{options.name}-{name}-reg.sock")):
        left.unlink(missing_ok=True)
        hidden(left).unlink(missing_ok=True)


class ExclusivePlugin(FakeDevicePlugin):
    """A device plugin whose every start raises SocketInUse if another process serves its sockets."""

    def check_sockets(self) -> None:
        """Raises SocketInUse if another process serves its sockets now."""
        _check(f"device plugin {self.options.resource}", self.sockets)

    @handles(Start)
    async def _start(self, command: Start) -> None:
        if not (await self.state()).running:
            o = self.options
            async with _reserve(f"device plugin {o.resource}", Path(o.plugins_dir), self.sockets):
                await super()._start(command)
