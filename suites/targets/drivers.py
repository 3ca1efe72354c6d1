"""The fake drivers of a target: in this process, or in another one behind the same control surface."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from drahealth.fakes.cluster.api import ListWatch
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
from drahealth.fakes.control.remote import RemoteDriver, RemoteHost, RemotePlugin
from drahealth.fakes.control.wire import LINE_LIMIT
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.proto.clock import Clock
from drahealth.proto.events import Event, Record
from drahealth.suites.processes.child import Child

_PATIENCE = 10.0
"""Seconds that the process of the drivers may take to exit after its input is closed."""


class InlineDrivers:
    """Drivers in this process."""

    def __init__(self, api: ListWatch, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def start(self, options: DriverOptions, observe: Callable[[Record], None]) -> DriverControl:
        def stamp(event: Event) -> None:
            observe(Record(time.monotonic(), event))

        return FakeDriver(options, self._api, clock=self._clock, observe=stamp)

    async def start_plugin(self, options: PluginOptions, observe: Callable[[Record], None]) -> PluginControl:
        def stamp(event: Event) -> None:
            observe(Record(time.monotonic(), event))

        return FakeDevicePlugin(options, clock=self._clock, observe=stamp)

    async def drop(self, driver: DriverControl | PluginControl) -> None:
        """Nothing to do: a stopped driver holds nothing."""

    async def jump(self, seconds: float) -> None:
        """Nothing to do: they use the clock of the target."""

    async def close(self) -> None:
        """Nothing to close."""


class RemoteDrivers:
    """Drivers in another process."""

    def __init__(self, host: RemoteHost) -> None:
        self._host = host

    async def start(self, options: DriverOptions, observe: Callable[[Record], None]) -> DriverControl:
        return await self._host.make(options, observe)

    async def start_plugin(self, options: PluginOptions, observe: Callable[[Record], None]) -> PluginControl:
        return await self._host.make_plugin(options, observe)

    async def drop(self, driver: DriverControl | PluginControl) -> None:
        if isinstance(driver, RemoteDriver | RemotePlugin):
            await self._host.drop(driver)

    async def jump(self, seconds: float) -> None:
        await self._host.jump(seconds)

    async def close(self) -> None:
        await self._host.close()


class ProcessDrivers(RemoteDrivers):
    """Drivers in a child process, which gets commands over pipes and exits with this process."""

    def __init__(self, process: Child, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._process = process
        self._streams = streams
        super().__init__(RemoteHost(self._connect))

    @classmethod
    async def spawn(cls, kubeconfig: Path, *, jumping: bool) -> "ProcessDrivers":
        """Starts the process."""
        program = [sys.executable, "-m", "drahealth.fakes.serve.session_process", "--kubeconfig", str(kubeconfig)]
        theirs, commands = os.pipe()
        answers, ours = os.pipe()
        reader = asyncio.StreamReader(LINE_LIMIT)
        unread = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        loop = asyncio.get_running_loop()
        words = [*program, *(["--jumping-clock"] if jumping else [])]
        try:
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(answers, "rb", 0))
            transport, _ = await loop.connect_write_pipe(lambda: unread, os.fdopen(commands, "wb", 0))
            try:
                process = await Child.start(words, os.environ, stdin=theirs, stdout=ours, stderr=2)
            except BaseException:
                transport.close()
                raise
        finally:
            os.close(theirs)
            os.close(ours)
        return cls(process, (reader, asyncio.StreamWriter(transport, unread, reader, loop)))

    async def close(self) -> None:
        """Ends the process."""
        await super().close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.exited(), _PATIENCE)
        await self._process.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return self._streams


Drivers = InlineDrivers | RemoteDrivers
