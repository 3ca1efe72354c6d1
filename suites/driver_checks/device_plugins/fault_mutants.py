"""Device plugins that list broken devices wrongly: another device, another moment, another change."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drahealth.proto.values import Health
from drahealth.suites.driver_checks.device_plugins.healthy import HealthyPlugin, plugin_mutant
from drahealth.suites.driver_checks.device_plugins.mutants import OtherResource, TwoResources
from drahealth.suites.driver_checks.mutants.healthy import give_up

_BREAK, _HEAL = "broken-device-is-listed-unhealthy", "healed-device-is-listed-healthy"
_AGREE, _OTHERS = "lists-agree-while-a-fault-lasts", "other-devices-stay-as-they-are"
_UNHEALTHY = str(Health.UNHEALTHY)


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


@plugin_mutant(_HEAL)
class HealNotListed(HealthyPlugin):
    """A device that has recovered stays Unhealthy in the list."""

    def files(self) -> frozenset[str]:
        return super().files() | self.broken


@plugin_mutant(_OTHERS)
class AllDevicesUnhealthy(HealthyPlugin):
    """All devices become Unhealthy when one device breaks."""

    def health_of(self, device: str) -> str:
        return str(Health.UNHEALTHY) if self.broken else super().health_of(device)


@plugin_mutant(_OTHERS)
class OthersDisappear(HealthyPlugin):
    """While a device is broken, the list has only this device."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        return [one for one in super().listed(stream, number) if not self.broken or one[0] in self.broken]


# Mutants that are wrong for some devices.


@plugin_mutant(_BREAK)
class FirstDeviceIsWatched(HealthyPlugin):
    """The plugin watches only the health of the first device."""

    def files(self) -> frozenset[str]:
        return super().files() & {self.devices[0]}


@plugin_mutant(_BREAK)
class LastDeviceIsNotWatched(HealthyPlugin):
    """The plugin does not watch the health of the last device."""

    def files(self) -> frozenset[str]:
        return super().files() - {self.devices[-1]}


class _NotWatched(OtherResource):
    def files(self) -> frozenset[str]:
        return frozenset()


@plugin_mutant(_BREAK)
class SecondResourceIsNotWatched(TwoResources):
    """The plugin does not watch the health of the devices of the second resource."""

    other = _NotWatched


class _BreaksWithTheOther(OtherResource):
    def health_of(self, device: str) -> str:
        return _UNHEALTHY if self.found() else super().health_of(device)


@plugin_mutant(_OTHERS, also=(_HEAL, _AGREE))
class OtherResourceBreaksToo(TwoResources):
    """A fault of a device of the first resource makes the devices of the second resource Unhealthy."""

    other = _BreaksWithTheOther


@plugin_mutant(_OTHERS, also=(_HEAL, _AGREE))
class NeighborBreaksToo(HealthyPlugin):
    """When a device breaks, the next device in the list becomes Unhealthy, too."""

    def health_of(self, device: str) -> str:
        before = self.devices[self.devices.index(device) - 1]
        return _UNHEALTHY if before in self.broken else super().health_of(device)


# Mutants that are wrong for a second fault.


class _Counting(HealthyPlugin):
    """Counts how often each device broke, and how often it recovered."""

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.breaks = dict.fromkeys(self.devices, 0)
        self.before = frozenset[str]()

    def files(self) -> frozenset[str]:
        found = super().files()
        for device in found - self.before:
            self.breaks[device] += 1
        self.before = found
        return found


@plugin_mutant(_BREAK)
class SecondBreakIsNotListed(_Counting):
    """The second break of a device is not listed."""

    def files(self) -> frozenset[str]:
        return frozenset(device for device in super().files() if self.breaks[device] != 2)


@plugin_mutant(_HEAL)
class SecondRecoveryIsNotListed(_Counting):
    """After its second break, a device stays Unhealthy."""

    def files(self) -> frozenset[str]:
        return super().files() | {device for device in self.devices if self.breaks[device] >= 2}


@plugin_mutant(_AGREE, also=(_BREAK,))
class OnlyTheNewestFaultIsListed(HealthyPlugin):
    """When a second device breaks, the first one is listed as Healthy."""

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.order: list[str] = []

    def files(self) -> frozenset[str]:
        found = super().files()
        self.order = [one for one in self.order if one in found] + sorted(found - set(self.order))
        return frozenset(self.order[-1:])


@plugin_mutant(_AGREE, also=(_BREAK,))
class FaultsOfADeviceCancelOut(HealthyPlugin):
    """A device with two faults is listed as Healthy."""

    def files(self) -> frozenset[str]:
        return self.names_in(self.health_dir) ^ self.names_in(self.links_dir)


@plugin_mutant(_AGREE)
class FirstClearedFaultHeals(HealthyPlugin):
    """A device with two faults is listed as Healthy when the first one is cleared."""

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.both = frozenset[str]()

    def files(self) -> frozenset[str]:
        hot, lost = self.names_in(self.health_dir), self.names_in(self.links_dir)
        self.both = (self.both & (hot | lost)) | (hot & lost)
        return (hot | lost) - (self.both - (hot & lost))


@plugin_mutant(_BREAK)
class UnknownIsHealthy(HealthyPlugin):
    """A device whose health is unknown is listed as Healthy."""

    def files(self) -> frozenset[str]:
        return self.names_in(self.health_dir)


@plugin_mutant(_AGREE)
class ChangedCauseHeals(HealthyPlugin):
    """A device is listed as Healthy when the cause of its fault changes."""

    def files(self) -> frozenset[str]:
        return frozenset(one for one in super().files() if not self.has_other_cause(one))

    def has_other_cause(self, device: str) -> bool:
        """Whether the text of the fault is not the first one."""
        path = self.health_dir / device
        return path.exists() and path.read_text() == "fan"


# Mutants that are wrong at some moments.


@plugin_mutant(_BREAK, also=(_HEAL,))
class AllocatedDeviceIsNotWatched(HealthyPlugin):
    """Changes of the health of an allocated device are not listed."""

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.taken: dict[str, bool] = {}
        """The allocated devices, and whether each was broken."""

    def responses(self, wanted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        for device in (one for devices in wanted for one in devices):
            self.taken.setdefault(device, device in self.broken)
        return super().responses(wanted)

    def files(self) -> frozenset[str]:
        kept = {device for device, broken in self.taken.items() if broken}
        return (super().files() - self.taken.keys()) | kept


@plugin_mutant(_BREAK, also=(_HEAL,))
class ChangeDuringAllocateIsLost(HealthyPlugin):
    """A change of health right after a call of Allocate is not listed."""

    allocated_at = -1.0

    def responses(self, wanted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        self.allocated_at = asyncio.get_running_loop().time()
        return super().responses(wanted)

    def wake(self) -> None:
        if asyncio.get_running_loop().time() > self.allocated_at + 1:
            super().wake()


@plugin_mutant(_BREAK)
class BreakWithoutAStreamIsLost(HealthyPlugin):
    """A device that breaks while no ListAndWatch stream is open stays Healthy in the list."""

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.missed = frozenset[str]()

    def files(self) -> frozenset[str]:
        found = super().files()
        self.missed = self.missed & found if self.wakers else found - self.broken
        return found - self.missed


@plugin_mutant(_BREAK)
class BreakRightAfterTheStartIsLost(HealthyPlugin):
    """A device that breaks within 5 s after the start of a second process stays Healthy in the list."""

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        mark = self.links_dir.with_name("started")
        self.deaf_until = asyncio.get_running_loop().time() + 5 if mark.exists() else 0.0
        self.missed = frozenset[str]()
        mark.touch()

    def files(self) -> frozenset[str]:
        found = super().files()
        is_deaf = asyncio.get_running_loop().time() < self.deaf_until
        self.missed = found if is_deaf else self.missed & found
        return found - self.missed


@plugin_mutant(_AGREE, _BREAK)
class FirstListIsHealthy(HealthyPlugin):
    """In the first list of a new stream all devices are Healthy. The second list follows at once."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        if number or not stream:
            return super().listed(stream, number)
        self.wake()
        return [(device, str(Health.HEALTHY)) for device in self.devices]


@plugin_mutant(_AGREE, _BREAK)
class OldHealthAfterRegistration(HealthyPlugin):
    """After a restart of the kubelet, the lists have the health from the start of the plugin until the next change."""

    async def serve_again(self) -> None:
        self.broken = self.known = frozenset()
        await super().serve_again()

    known = frozenset[str]()
    """The broken devices since the last change."""
    latest = frozenset[str]()

    def files(self) -> frozenset[str]:
        found = super().files()
        if found != self.latest:
            self.known = self.latest = found
        return self.known


@plugin_mutant(_HEAL)
class ListsGoToTheFirstKubelet(HealthyPlugin):
    """After a restart of the kubelet, each stream has only its first list."""

    def wake(self) -> None:
        if self.streams <= 1:
            super().wake()


@plugin_mutant(_AGREE)
class FaultEndsByItself(HealthyPlugin):
    """A broken device is listed as Healthy again after 3 s."""

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.since: dict[str, float] = {}

    def files(self) -> frozenset[str]:
        found, now = super().files(), asyncio.get_running_loop().time()
        self.since = {device: self.since.get(device, now) for device in found}
        return frozenset(device for device in found if now < self.since[device] + 3)


# Mutants whose lists or streams are wrong while a device is broken.


@plugin_mutant(_AGREE, also=(_BREAK,))
class BrokenDeviceIsListedOnce(HealthyPlugin):
    """A broken device is in the first list after its break, and is left out of later lists."""

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.shown = frozenset[str]()

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        gone, self.shown = self.shown & self.broken, self.broken
        return [one for one in super().listed(stream, number) if one[0] not in gone]


@plugin_mutant("device-ids-are-unique", level="core")
class BrokenDeviceIsListedTwice(HealthyPlugin):
    """A broken device is in the list twice: as Unhealthy and as Healthy."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        return [*super().listed(stream, number), *((one, str(Health.HEALTHY)) for one in sorted(self.broken))]


@plugin_mutant("device-health-is-known", level="core")
class BrokenIsUnknown(HealthyPlugin):
    """The health of a device whose health is unknown is Unknown."""

    def health_of(self, device: str) -> str:
        return "Unknown" if device in self.names_in(self.links_dir) else super().health_of(device)


@plugin_mutant("list-stream-stays-open", level="core")
class ListEndsWithTheFault(HealthyPlugin):
    """ListAndWatch returns when a device breaks."""

    async def woken(self, waker: "asyncio.Queue[None]") -> bool:
        await super().woken(waker)
        return not self.broken


@plugin_mutant("plugin-runs-until-it-is-stopped", level="core")
class PluginExitsWithTheFault(HealthyPlugin):
    """The plugin exits when a device breaks."""

    def files(self) -> frozenset[str]:
        if found := super().files():
            give_up(f"device {min(found)} is broken")
        return found
