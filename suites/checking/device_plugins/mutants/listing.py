"""Mutants with wrong lists."""

import asyncio

from drahealth.suites.checking.device_plugins.mutants.healthy import HealthyPlugin
from drahealth.suites.checking.device_plugins.mutants.table import plugin_mutant


@plugin_mutant("first-list-is-prompt")
class LateFirstList(HealthyPlugin):
    """The first list comes after 14 s."""

    async def before_first_list(self, stream: int) -> None:
        await asyncio.sleep(14)


@plugin_mutant("device-ids-are-unique")
class DuplicateId(HealthyPlugin):
    """Two devices have the same ID."""

    devices = ("dev-0", "dev-1", "dev-1")


@plugin_mutant("device-ids-are-unique")
class EmptyId(HealthyPlugin):
    """A device has an empty ID."""

    devices = ("dev-0", "", "dev-2")


@plugin_mutant("device-ids-have-at-most-63-characters")
class LongId(HealthyPlugin):
    """The ID of a device has 64 characters."""

    devices = ("dev-0", "d" * 64)


@plugin_mutant("device-health-is-known")
class LowerCaseHealth(HealthyPlugin):
    """The health of a device is `healthy`, in lower case."""

    def health_of(self, device: str) -> str:
        return super().health_of(device).lower()


@plugin_mutant("device-health-is-known")
class UnknownHealth(HealthyPlugin):
    """The health of one device is Unknown."""

    def health_of(self, device: str) -> str:
        return "Unknown" if device == self.devices[1] else super().health_of(device)


@plugin_mutant("every-list-has-all-devices")
class ListOfChanges(HealthyPlugin):
    """After a change, the list has only the changed device."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        return super().listed(stream, number)[-1 if number else 0 :]


@plugin_mutant("list-stream-stays-open")
class ListEndsAfterChange(HealthyPlugin):
    """ListAndWatch returns after the second list, and the plugin does not register again."""

    async def woken(self, waker: "asyncio.Queue[None]") -> bool:
        await super().woken(waker)
        return False


@plugin_mutant("new-stream-lists-all-devices")
class ListContinues(HealthyPlugin):
    """The first list of a later stream has only the device that changed last."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        return super().listed(stream, number)[-1 if stream and not number else 0 :]


@plugin_mutant("new-stream-lists-all-devices")
class OneStreamOnly(HealthyPlugin):
    """Only the first stream gets lists."""

    async def before_first_list(self, stream: int) -> None:
        if stream:
            await asyncio.Event().wait()
