"""Drivers that clients add to a running process. Each lives as long as a namespace, so nobody needs to remember it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, ApiError
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.control.driver import DriverOptions
from drahealth.fakes.control.served import Served, ServedDrivers
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.proto.events import Observe

_EVERY = 2.0
"""Seconds between looks at a namespace."""

Make = Callable[[DriverOptions, Observe], FakeDriver]


class NamespaceDrivers:
    """All of a process. They are served beside the drivers of the inventory file, which stay the default of clients."""

    def __init__(self, make: Make, api: ListWatch, served: ServedDrivers) -> None:
        self._make = make
        self._api = api
        self._served = served
        self._drivers: dict[str, FakeDriver] = {}
        self._watching: dict[str, asyncio.Task[None]] = {}

    async def add(self, options: DriverOptions, namespace: str) -> None:
        """Starts a driver with its DeviceClass. It ends by `end`, or when the namespace is deleted.

        Raises ApiError if there is no such namespace, ValueError for the name of another driver.
        """
        if options.name in {driver.name for driver in self._served.all()}:
            raise ValueError(f"there is already a driver {options.name}")
        uid = (await self._api.get(NAMESPACES, namespace))["metadata"]["uid"]
        driver = self._make(options, self._served.news.observer())
        self._drivers[options.name] = driver
        self._served.add(Served.driver(options, driver))
        try:
            await driver.start()
            await self._api.create(DEVICE_CLASSES, _device_class(options.name))
        except BaseException:
            await self.end(options.name)
            raise
        self._watching[options.name] = asyncio.create_task(self._follow(options.name, namespace, uid))

    async def end(self, name: str) -> None:
        """Retires the driver, and deletes its DeviceClass. Raises ValueError for a driver that was not added."""
        driver = self._drivers.pop(name, None)
        if driver is None:
            raise ValueError(f"no client has added a driver {name}")
        if watching := self._watching.pop(name, None):
            watching.cancel()
        self._served.remove(name)
        with suppress(ApiError):
            await self._api.delete(DEVICE_CLASSES, name)
        with suppress(ApiError):
            await driver.retire()

    async def close(self) -> None:
        """Ends all of them."""
        await asyncio.gather(*(self.end(name) for name in list(self._drivers)))

    async def _follow(self, name: str, namespace: str, uid: str) -> None:
        while await self._exists(namespace, uid):  # noqa: ASYNC110 -- a poll of the API server
            await asyncio.sleep(_EVERY)
        self._watching.pop(name)  # `end` cancels it, and this is it
        await self.end(name)

    async def _exists(self, namespace: str, uid: str) -> bool:
        try:
            found: str = (await self._api.get(NAMESPACES, namespace))["metadata"]["uid"]
        except ApiError as error:
            return error.status != 404  # any other error says nothing about the namespace
        return found == uid


def _device_class(driver: str) -> dict[str, object]:
    """A DeviceClass with the name of the driver, and all of its devices."""
    return {
        "apiVersion": DEVICE_CLASSES.api_version,
        "kind": DEVICE_CLASSES.kind,
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    }
