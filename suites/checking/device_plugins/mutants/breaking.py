"""Mutants that list broken devices wrongly."""

from drahealth.proto.values import Health
from drahealth.suites.checking.device_plugins.mutants.healthy import HealthyPlugin
from drahealth.suites.checking.device_plugins.mutants.table import plugin_mutant

_BREAK = "broken-device-is-listed-unhealthy"


@plugin_mutant(_BREAK)
class BreakNotListed(HealthyPlugin):
    """A device that breaks stays Healthy in the list."""

    def files(self) -> frozenset[str]:
        return frozenset()


@plugin_mutant(_BREAK)
class BrokenDeviceDisappears(HealthyPlugin):
    """A device that breaks is left out of the list."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        return [one for one in super().listed(stream, number) if one[0] not in self.broken]


@plugin_mutant("healed-device-is-listed-healthy")
class HealNotListed(HealthyPlugin):
    """A device that has recovered stays Unhealthy in the list."""

    def files(self) -> frozenset[str]:
        return super().files() | self.broken


@plugin_mutant("other-devices-stay-as-they-are")
class AllDevicesUnhealthy(HealthyPlugin):
    """All devices become Unhealthy when one device breaks."""

    def health_of(self, device: str) -> str:
        return str(Health.UNHEALTHY) if self.broken else super().health_of(device)


@plugin_mutant("other-devices-stay-as-they-are")
class OthersDisappear(HealthyPlugin):
    """While a device is broken, the list has only this device."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        return [one for one in super().listed(stream, number) if not self.broken or one[0] in self.broken]
