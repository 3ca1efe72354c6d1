"""Mutants whose answers are right by themselves, but not for a Pod on a kubelet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from drahealth.proto.values import Health
from drahealth.suites.checking.device_plugins.mutants.healthy import HealthyPlugin
from drahealth.suites.checking.device_plugins.mutants.table import plugin_mutant


@plugin_mutant("pod-with-devices-starts")
class BusyWhileListed(HealthyPlugin):
    """PreStartContainer fails while a ListAndWatch stream is open."""

    async def pre_start(self, request: Any, context: Any) -> Any:
        if self.wakers:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the device library is in use")
        return await super().pre_start(request, context)


@plugin_mutant("devices-of-pods-are-listed-and-shown")
class AllocatedDeviceDisappears(HealthyPlugin):
    """The list has only the devices that were never allocated."""

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.taken = frozenset[str]()

    def responses(self, wanted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        self.taken |= {device for devices in wanted for device in devices}
        self.wake()
        return super().responses(wanted)

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        return [one for one in super().listed(stream, number) if one[0] not in self.taken]


@plugin_mutant("listed-fault-appears-in-the-pod-status", "kubelet-shows-devices-of-pods", "kubelet-shows-listed-fault")
class BrokenDeviceIsRenamed(HealthyPlugin):
    """A device that breaks is listed under another ID."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        found = super().listed(stream, number)
        return [(f"{name}-failed", str(Health.UNHEALTHY)) if name in self.broken else (name, h) for name, h in found]
