"""Where a target's fake drivers live: in this process, or each in one of its own behind the same control surface."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from drahealth.fakes.api import Api
from drahealth.fakes.hardware.control import DriverControl, DriverOptions
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.remote import LINE_LIMIT, RemoteDriver
from drahealth.proto.clock import Clock
from drahealth.proto.events import Event, Record

_PATIENCE = 10.0
"""Seconds that a driver's process may take to end once its input has."""


class InlineDrivers:
    """Drivers in this process."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def start(self, options: DriverOptions, observe: Callable[[Record], None]) -> DriverControl:
        def stamp(event: Event) -> None:
            observe(Record(time.monotonic(), event))

        return FakeDriver(options, self._api, clock=self._clock, observe=stamp)

    async def drop(self, driver: DriverControl) -> None:
        """Nothing is left of a driver that was retired."""

    async def jump(self, seconds: float) -> None:
        """They live on the target's own clock."""

    async def close(self) -> None:
        """Nothing to close."""


class ProcessDrivers:
    """Drivers in processes of their own, told what to do over pipes; they end when this process does."""

    def __init__(self, kubeconfig: Path, *, jumping: bool) -> None:
        self._kubeconfig = kubeconfig
        self._flags = ["--jumping-clock"] if jumping else []
        self._processes: dict[RemoteDriver, asyncio.subprocess.Process] = {}

    async def start(self, options: DriverOptions, observe: Callable[[Record], None]) -> DriverControl:
        arguments = [json.dumps(asdict(options)), str(self._kubeconfig), *self._flags]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "drahealth.fakes.hardware.serve",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT,
        )
        assert process.stdin
        assert process.stdout
        driver = RemoteDriver(process.stdout, process.stdin, observe)
        self._processes[driver] = process
        return driver

    async def drop(self, driver: DriverControl) -> None:
        """Ends the driver's process."""
        if isinstance(driver, RemoteDriver) and (process := self._processes.pop(driver, None)):
            await driver.close()
            try:
                await asyncio.wait_for(process.wait(), _PATIENCE)
            except TimeoutError:
                process.kill()
                await process.wait()

    async def jump(self, seconds: float) -> None:
        """Lets every driver's clock jump."""
        await asyncio.gather(*(driver.jump(seconds) for driver in self._processes))

    async def close(self) -> None:
        """Ends all processes."""
        for driver in list(self._processes):
            await self.drop(driver)


Drivers = InlineDrivers | ProcessDrivers
