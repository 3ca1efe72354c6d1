"""Served drivers and device plugins: the process makes them from a file, and all connections share them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.control.codec import decode, encode_reply
from drahealth.fakes.control.commands.definition import Subject
from drahealth.fakes.control.commands.registry import definition
from drahealth.fakes.control.device_plugin import PluginControl, PluginOptions
from drahealth.fakes.control.driver import DriverControl, DriverOptions
from drahealth.fakes.control.news import News
from drahealth.fakes.hints import near


@dataclass(frozen=True, slots=True)
class Commanded:
    """A fake that takes commands as they come over a connection."""

    subject: Subject
    control: DriverControl | PluginControl

    async def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Does the command of that name; returns its reply as JSON has it. Raises ValueError, ApiError."""
        return encode_reply(await self.control.do(decode(self.subject, name, args)))

    def changes(self, name: str) -> bool:
        """Whether the command does more than ask."""
        return definition(self.subject, name).changes


@dataclass(frozen=True, slots=True)
class Served:
    """One such driver, or device plugin, which is a driver in every other respect here."""

    name: str
    """The driver's, or the plugin's resource, which no driver can be called."""
    described: Mapping[str, Any]
    """What one has to know of it, as plain data; `kind` is driver or device-plugin."""
    commanded: Commanded

    @classmethod
    def driver(cls, o: DriverOptions, control: DriverControl) -> "Served":
        """A driver."""
        more = {"node": o.node, "pool": o.pool_name, **_devices(o)}
        return cls(o.name, {"kind": "driver", "name": o.name, **more}, Commanded("driver", control))

    @classmethod
    def plugin(cls, o: PluginOptions, control: PluginControl) -> "Served":
        """A device plugin."""
        described = {"kind": "device-plugin", "name": o.resource, **_devices(o)}
        return cls(o.resource, described, Commanded("device-plugin", control))


def _devices(o: DriverOptions | PluginOptions) -> dict[str, Any]:
    return {"devices": len(o.devices), "catalogue": o.catalogue, "policy": o.policy}


class ServedDrivers:
    """All of a process, by name; `news` tells what happens to them."""

    def __init__(self, drivers: Iterable[Served] = (), news: News | None = None) -> None:
        self.news = news or News()
        self._drivers = {driver.name: driver for driver in drivers}
        self._added: set[str] = set()

    def all(self) -> list[Served]:
        """In the file's order, and then those that were added."""
        return list(self._drivers.values())

    def add(self, driver: Served) -> None:
        """A driver beside those of the file. A client must name it."""
        self._drivers[driver.name] = driver
        self._added.add(driver.name)

    def remove(self, name: str) -> None:
        """A driver that was added."""
        self._added.remove(name)
        del self._drivers[name]

    def get(self, name: str = "") -> Served:
        """That one, or the only one there is. Raises ValueError, which says which there are."""
        names = list(self._drivers)
        own = [each for each in names if each not in self._added]
        if not own and not name:
            raise ValueError("this process has no inventory file; start it with `drahealth driver serve -f FILE`")
        if not name:
            if len(own) > 1:
                raise ValueError(f"the process serves several drivers; choose one with --driver: {', '.join(names)}")
            return self._drivers[own[0]]
        if name not in self._drivers:
            raise ValueError(f"unknown driver {name!r}; {near(name, names)}")
        return self._drivers[name]
