"""What an experiment works with: the driver, where to record, and what other experiments learned of the driver."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drahealth.proto.events import Event
from drahealth.proto.values import PluginDevice
from drahealth.suites.driver_checks.device_plugins.kubelet import DevicePluginKubelet, RegisteredPlugin
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.scripted_kubelet import Plugin, Subscriber
from drahealth.suites.driver_checks.subject.subject import Subject


def _future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


@dataclass
class Facts:
    """What experiments learned of a driver process. Each future is set once, by the experiment that is named."""

    plugin: "asyncio.Future[Plugin]" = field(default_factory=_future)
    """By the registration."""
    slices: "asyncio.Future[tuple[dict[str, Any], ...]]" = field(default_factory=_future)
    """The published ResourceSlices, as v1 objects, by `slices`; empty if there are none in time."""
    health_apis: "asyncio.Future[tuple[str, ...]]" = field(default_factory=_future)
    """The health APIs that stream, by `services`."""
    watched: list[Subscriber] = field(default_factory=list)
    """The streams that `watch` and `subscribers` keep open until the end of `watch`."""
    kubelet: "asyncio.Future[DevicePluginKubelet]" = field(default_factory=_future)
    """The kubelet of a device plugin, by its registration."""
    device_plugins: "asyncio.Future[tuple[RegisteredPlugin, ...]]" = field(default_factory=_future)
    """Those that a process registered: one for each resource."""
    plugin_devices: "asyncio.Future[Mapping[str, tuple[PluginDevice, ...]]]" = field(default_factory=_future)
    """The first list of each resource that has one."""


@dataclass
class Lab:
    """The workplace of one experiment."""

    subject: Subject
    record: Callable[[Event], None]
    """Records an event of this experiment, with the present time."""
    facts: Facts
    run: DriverRun
    """What the user asked."""
    _ended: Mapping[str, asyncio.Event] = field(default_factory=dict)

    async def ended(self, experiment: str) -> None:
        """Waits until an experiment of the same process has ended in any way; returns at once if it does not run."""
        if experiment in self._ended:
            await self._ended[experiment].wait()
