"""Drivers and device plugins that stand by themselves: made from a file, not by who connects, so any number of
connections share them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import validate_call

from drahealth.fakes.control.device_plugin import PluginControl, PluginOptions
from drahealth.fakes.control.driver import DriverControl, DriverOptions
from drahealth.fakes.control.news import News
from drahealth.fakes.control.wire import CALLS, PLUGIN_CALLS
from drahealth.fakes.hints import near

Call = Callable[..., Any]


class Calls:
    """The calls of a control surface by name, each made ready once: what it is given is validated before."""

    def __init__(self, control: object, names: Iterable[str]) -> None:
        self._control = control
        self._names = tuple(names)
        self._ready: dict[str, Call] = {}

    def __getitem__(self, name: str) -> Call:
        """Raises ValueError for one that there is not."""
        if name not in self._ready:
            if name not in self._names:
                raise ValueError(f"there is no call {name!r}; {near(name, self._names)}")
            self._ready[name] = validate_call(getattr(self._control, name))
        return self._ready[name]


@dataclass(frozen=True, slots=True)
class Served:
    """One such driver, or device plugin, which is a driver in every other respect here."""

    name: str
    """The driver's, or the plugin's resource, which no driver can be called."""
    described: Mapping[str, Any]
    """What one has to know of it, as plain data; `kind` is driver or device-plugin."""
    calls: Calls

    @classmethod
    def driver(cls, o: DriverOptions, control: DriverControl) -> "Served":
        """A driver."""
        more = {"node": o.node, "pool": o.pool_name, **_devices(o)}
        return cls(o.name, {"kind": "driver", "name": o.name, **more}, Calls(control, CALLS))

    @classmethod
    def plugin(cls, o: PluginOptions, control: PluginControl) -> "Served":
        """A device plugin."""
        described = {"kind": "device-plugin", "name": o.resource, **_devices(o)}
        return cls(o.resource, described, Calls(control, PLUGIN_CALLS))


def _devices(o: DriverOptions | PluginOptions) -> dict[str, Any]:
    return {"devices": len(o.devices), "catalogue": o.catalogue, "policy": o.policy}


class ServedDrivers:
    """All of a process, by name; `news` tells what happens to them."""

    def __init__(self, drivers: Iterable[Served] = (), news: News | None = None) -> None:
        self.news = news or News()
        self._drivers = {driver.name: driver for driver in drivers}

    def all(self) -> list[Served]:
        """In the file's order."""
        return list(self._drivers.values())

    def get(self, name: str = "") -> Served:
        """That one, or the only one there is. Raises ValueError, which says which there are."""
        names = list(self._drivers)
        if not names:
            raise ValueError("no driver stands here by itself; start the process with a file that says which")
        if not name:
            if len(names) > 1:
                raise ValueError(f"say which driver is meant; there are {', '.join(names)}")
            return self._drivers[names[0]]
        if name not in self._drivers:
            raise ValueError(f"there is no driver {name!r}; {near(name, names)}")
        return self._drivers[name]
