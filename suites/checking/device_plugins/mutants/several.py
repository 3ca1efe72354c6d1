"""Device plugins with two resources in one process: the healthy one, and mutants."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from drahealth.suites.checking.device_plugins.mutants.healthy import HealthyPlugin
from drahealth.suites.checking.device_plugins.mutants.table import plugin_mutant


class OtherResource(HealthyPlugin):
    """The second resource."""

    resource = "example.com/other"
    name = "other"
    cdi_kind = "example.com/other"
    devices = ("other-0", "other-1")
    options: ClassVar[dict[str, bool]] = {"pre_start_required": False, "get_preferred_allocation_available": False}


class TwoResources(HealthyPlugin):
    """A process with two resources, each with its own socket and registration."""

    other: ClassVar[type[HealthyPlugin]] = OtherResource

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.second = self.other(*places)

    async def start(self) -> None:
        await super().start()
        await self.second.start()

    async def stop(self) -> None:
        await asyncio.gather(super().stop(), self.second.stop())


class _RegistersOnce(OtherResource):
    registered = False

    async def register(self) -> bool:
        if not self.registered:
            self.registered = await super().register()
        return True


@plugin_mutant("plugin-registers-with-a-restarted-kubelet")
class SecondResourceRegistersOnce(TwoResources):
    """The second resource does not register again after a restart of the kubelet."""

    other = _RegistersOnce


class _EmptyResponses(OtherResource):
    def responses(self, wanted: Any) -> list[dict[str, Any]]:
        return []


@plugin_mutant("each-container-has-its-response")
class SecondResourceHasNoResponses(TwoResources):
    """Allocate returns no response for devices of the second resource."""

    other = _EmptyResponses


class _LowerCase(OtherResource):
    def health_of(self, device: str) -> str:
        return super().health_of(device).lower()


@plugin_mutant("device-health-is-known")
class SecondResourceIsInLowerCase(TwoResources):
    """The health of the devices of the second resource is `healthy`, in lower case."""

    other = _LowerCase
