"""The ground of a driver, or of a device plugin: the sockets that it is to have, which no other process may serve.

Two processes that begin at once take turns, by a lock on a directory that both know, which goes with its process.
"""

import asyncio
import fcntl
import glob
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from drahealth.fakes.control.commands.life import Start
from drahealth.fakes.control.commands.surface import handles
from drahealth.fakes.control.driver import DriverOptions
from drahealth.fakes.files.socket_files import SocketInUse, is_served
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.driver_instance import DriverInstance
from drahealth.fakes.hardware.instances import UPGRADE
from drahealth.fakes.kubelet_plugin.options import hidden

PATIENCE = 60.0
"""Seconds that another process may take to begin: an API server that is silent costs it thirty."""
_EVERY = 0.1


@asynccontextmanager
async def _hold_ground(who: str, folder: Path, sockets: Iterable[Path]) -> AsyncIterator[None]:
    """While it holds, nobody else takes these sockets. Raises SocketInUse where somebody has, OSError."""
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
                f"{who} is served at {path} already; end that process, give this one an --instance of its own for a "
                "rolling update, or another --kubelet-dir"
            )


def _opened(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


async def _lock(held: int, folder: Path) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if asyncio.get_running_loop().time() > deadline:
                raise SocketInUse(
                    f"another process has been starting a driver in {folder} for {PATIENCE:g} s"
                ) from None
            await asyncio.sleep(_EVERY)
        else:
            return


class ExclusiveDriver(FakeDriver):
    """A driver that starts, and starts again, only where nobody else has its sockets. Raises SocketInUse.

    Sockets that upgrades have left in a process that was killed are cleared away.
    """

    def check_ground(self) -> None:
        """Raises SocketInUse where somebody has its sockets now."""
        _check(f"driver {self.options.name}", [*self.sockets, *_upgrades(self.options)])

    async def _begin(self, instance: DriverInstance) -> None:
        o = instance.options
        upgraded = [] if UPGRADE in o.instance else _upgrades(o)
        async with _hold_ground(f"driver {o.name}", Path(o.registry_dir), [*instance.sockets, *upgraded]):
            for path in upgraded:
                _clear(path, o)
            await super()._begin(instance)


def _upgrades(options: DriverOptions) -> list[Path]:
    """The sockets of what the driver has become by upgrades, in another process: served, or left by one that is gone.

    Their names are known by the driver's own sockets, in its folder.
    """
    first = f"dra-{options.instance}-{UPGRADE}".replace("--", "-")
    found = Path(options.data_dir).glob(f"{glob.escape(first)}*.sock")
    return sorted(path for path in found if path.is_socket())


def _clear(path: Path, options: DriverOptions) -> None:
    """Removes the sockets of an instance that is gone."""
    name = path.stem.removeprefix("dra-")
    for left in (path, Path(options.registry_dir, f"{options.name}-{name}-reg.sock")):
        left.unlink(missing_ok=True)
        hidden(left).unlink(missing_ok=True)


class ExclusivePlugin(FakeDevicePlugin):
    """A device plugin likewise. Raises SocketInUse."""

    def check_ground(self) -> None:
        """Raises SocketInUse where somebody has its sockets now."""
        _check(f"device plugin {self.options.resource}", self.sockets)

    @handles(Start)
    async def _start(self, told: Start) -> None:
        if not (await self.state()).running:
            o = self.options
            async with _hold_ground(f"device plugin {o.resource}", Path(o.plugins_dir), self.sockets):
                await super()._start(told)
