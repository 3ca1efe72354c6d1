"""Wrong reference managers. Each has one error of a kubelet in its statuses, its notifications or what it keeps."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from drahealth.fakes.cluster.runtime import ContainerRuntime, ContainerState
from drahealth.manager.cache import Update
from drahealth.manager.calls import Context
from drahealth.manager.claims import PreparedClaim
from drahealth.manager.dra import DraManager, Notify
from drahealth.manager.profile import Gates
from drahealth.proto.values import (
    DEFAULT_TIMEOUT,
    AllocatedResources,
    DeviceHealth,
    DeviceId,
    Health,
    PodClaims,
    Report,
    ResourceHealth,
    ResourceStatus,
)

# What it shows


class KnowsContainers(DraManager):
    """Uses the state of containers, which a manager must not do."""

    runtime: ClassVar[ContainerRuntime]


class IgnoresWaiting(KnowsContainers):
    """The entries of a container that does not run do not change."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._shown: dict[tuple[str, str], tuple[ResourceStatus, ...]] = {}

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        running = self.runtime.containers(pod_uid=pod_uid, state=ContainerState.RUNNING)
        for name, entries in super().allocated_resources_status(pod_uid, uses).containers.items():
            if name in {container.config.name for container in running}:
                self._shown[pod_uid, name] = entries
        kept = {name: self._shown.get((pod_uid, name), ()) for name in (*uses.init_containers, *uses.containers)}
        return AllocatedResources({name: entries for name, entries in kept.items() if entries})


class ForgetsTheRestarted(KnowsContainers):
    """A restarted container has no entries."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        again = {c.config.name for c in self.runtime.containers(pod_uid=pod_uid) if c.config.attempt}
        return AllocatedResources({name: of for name, of in shown.containers.items() if name not in again}, shown.pod)


class ForgetsTheUnused(DraManager):
    """An unused claim keeps its first shown health."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._first: dict[str, tuple[ResourceStatus, ...]] = {}

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        return replace(shown, pod=self._first.setdefault(pod_uid, shown.pod) if shown.pod else ())


class HopesForTheBest(DraManager):
    """An unknown device is Healthy."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        entries = super().allocated_resources_status(pod_uid, uses)
        return _each(entries, lambda r: replace(r, health=Health.HEALTHY) if r.health is Health.UNKNOWN else r)


class NamesTheUseTwice(DraManager):
    """Each entry is there twice."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        return replace(shown, containers={name: (*found, *found) for name, found in shown.containers.items()})


class ListsDevicesTwice(DraManager):
    """Each device is in its entry twice."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        return _with_entries(shown, lambda entry: replace(entry, resources=entry.resources * 2))


class ShowsInEachContainer(DraManager):
    """The entries of one container show in all containers of the pod."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        every = tuple(entry for entries in shown.containers.values() for entry in entries)
        return replace(shown, containers=dict.fromkeys((*uses.init_containers, *uses.containers), every))


class ShowsTheWholeDriver(DraManager):
    """Each entry also lists the other devices of the driver."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        now = self._clock.now()
        found = ((str(device), self._cache.read(device, now)) for device, _ in self._cache.entries())
        every = tuple(ResourceHealth(name, reading.health, reading.message) for name, reading in found)
        return _with_entries(shown, lambda entry: replace(entry, resources=every or entry.resources))


class ShowsOneContainer(DraManager):
    """Only the first container of a pod has entries."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        return replace(shown, containers=dict([*shown.containers.items()][:1]))


class _Detailed(ResourceStatus):
    def to_json(self) -> dict[str, Any]:
        entry: dict[str, Any] = super().to_json()
        return {**entry, "resources": [{**one, "temperature": 70} for one in entry["resources"]]}


class TellsTemperatures(DraManager):
    """Each element has another key."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        return _with_entries(shown, lambda entry: _Detailed(entry.name, entry.resources))


class LosesTheSecond(DraManager):
    """A change of health drops the entries of every container but the first."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        return replace(shown, containers=dict([*shown.containers.items()][:1])) if _is_bad(shown) else shown


class HushesUpBadNews(DraManager):
    """A pod with an unhealthy device has no entries at all."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        entries = super().allocated_resources_status(pod_uid, uses)
        return AllocatedResources() if _is_bad(entries) else entries


class ShowsAllUnderEachRequest(DraManager):
    """The devices of a claim are not separated by request."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        every = tuple(dict.fromkeys(_resources(shown)))
        return _with_entries(shown, lambda entry: replace(entry, resources=every))


class FollowsTheTerminated(DraManager):
    """A terminated pod keeps its devices."""

    async def unprepare(self, pod_uid: str) -> None:
        held = self._claims.held_by(pod_uid)
        await super().unprepare(pod_uid)
        self._final.pop(pod_uid, None)
        for claim in held:
            self._claims.add(PreparedClaim(claim.ref, claim.drivers, claim.devices, {pod_uid}))


class ShufflesEntries(DraManager):
    """The order of entries depends on the health of the devices."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        shown = super().allocated_resources_status(pod_uid, uses)
        step = -1 if _is_bad(shown) else 1
        return replace(shown, containers={name: found[::step] for name, found in shown.containers.items()})


# Whom it tells


class NeverNotifies(DraManager):
    """No pod is notified of changes."""

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        return super().subscribe(lambda pods: None)


class TellsOnePod(DraManager):
    """Only one of several pods is notified of changes."""

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        return super().subscribe(lambda pods: notify(frozenset(sorted(pods)[:1])))


class DropsNews(DraManager):
    """Only the first hundred changes are notified."""

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        left = iter(range(100))
        return super().subscribe(lambda pods: notify(pods) if next(left, None) is not None else None)


class TellsOfTheReported(DraManager):
    """No pod is notified of a device that is missing from a report."""

    def _reported(self, driver: str, report: Report) -> None:
        self._named = {DeviceId(driver, device.pool, device.device) for device in report}
        super()._reported(driver, report)

    def _notify(self, devices: frozenset[DeviceId]) -> None:
        super()._notify(devices & self._named)


# What it forgets


class NeverClears(DraManager):
    """The end of a stream is ignored."""

    def _ended(self, driver: str) -> None:
        pass


class LosesItsCheckpoint(DraManager):
    """Health is not written to the checkpoint."""

    def _save(self, driver: str, update: Update) -> None:
        pass


class SavesAtTheEnd(DraManager):
    """The checkpoint is written only when the kubelet ends in order."""

    def _save(self, driver: str, update: Update) -> None:
        self._health_file._unsaved.add(driver)
        self._health_file._failed = True


class NotifiesAgain(DraManager):
    """Each report notifies the pods of all devices that it omits."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._ever: set[DeviceId] = set()

    def _reported(self, driver: str, report: Report) -> None:
        super()._reported(driver, report)
        reported = {DeviceId(driver, device.pool, device.device) for device in report}
        self._ever |= reported
        self._notify(frozenset(device for device in self._ever - reported if device.driver == driver))


class ForgetsTimeouts(DraManager):
    """After a restart every device has the default timeout."""

    def load(self) -> None:
        super().load()
        for _, entry in self._cache.entries():
            entry.timeout = DEFAULT_TIMEOUT


class KeepsTheFirstMessage(DraManager):
    """A new message without a change of health is ignored."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._first: dict[tuple[str, str, str], tuple[Health, str]] = {}

    def _reported(self, driver: str, report: Report) -> None:
        super()._reported(driver, tuple(self._unchanged(driver, device) for device in report))

    def _unchanged(self, driver: str, device: DeviceHealth) -> DeviceHealth:
        key = (driver, device.pool, device.device)
        health, message = self._first.get(key, (None, ""))
        if health is device.health:
            return replace(device, message=message)
        self._first[key] = (device.health, device.message)
        return device


class IgnoresTheGate(DraManager):
    """The gate is always on."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, replace(context, gates=Gates()))


class StaysOff(DraManager):
    """After the gate was off once, it stays off."""

    def __init__(self, root: Path, context: Context) -> None:
        mark = root / "was-off"
        if not context.gates.resource_health_status:
            mark.touch()
        super().__init__(root, replace(context, gates=Gates(False, False)) if mark.exists() else context)


def _resources(shown: AllocatedResources) -> Iterator[ResourceHealth]:
    for entries in (*shown.containers.values(), shown.pod):
        for entry in entries:
            yield from entry.resources


def _is_bad(shown: AllocatedResources) -> bool:
    return Health.UNHEALTHY in {resource.health for resource in _resources(shown)}


def _each(shown: AllocatedResources, change: Callable[[ResourceHealth], ResourceHealth]) -> AllocatedResources:
    return _with_entries(shown, lambda entry: replace(entry, resources=tuple(map(change, entry.resources))))


def _with_entries(shown: AllocatedResources, change: Callable[[ResourceStatus], ResourceStatus]) -> AllocatedResources:
    containers = {name: tuple(map(change, entries)) for name, entries in shown.containers.items()}
    return AllocatedResources(containers, tuple(map(change, shown.pod)))
