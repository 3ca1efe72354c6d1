"""Wrong device plugin managers. Each has one error of a kubelet."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from drahealth.manager.calls import Context
from drahealth.manager.device_plugins import DevicePlugin, DevicePluginManager, Entries
from drahealth.manager.dra import Notify
from drahealth.manager.profile import Gates
from drahealth.manager.resources import Resources
from drahealth.proto.values import Health, PluginDevice, PodClaims, ResourceHealth


class TellsNobody(DevicePluginManager):
    """No pod is notified of changes."""

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        return super().subscribe(lambda pods: None)


class StaysSick(DevicePluginManager):
    """A device that was listed as unhealthy once stays unhealthy."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._bad: dict[str, str] = {}

    def _listed(self, plugin: DevicePlugin, devices: Sequence[PluginDevice]) -> None:
        self._bad |= {device.id: device.health for device in devices if device.health != Health.HEALTHY}
        super()._listed(plugin, [replace(d, health=self._bad.get(d.id, d.health)) for d in devices])


class ShowsTheWholeResource(DevicePluginManager):
    """A container also shows the devices of others."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._all: dict[str, list[str]] = {}

    def _listed(self, plugin: DevicePlugin, devices: Sequence[PluginDevice]) -> None:
        self._all[plugin.resource] = [device.id for device in devices]
        super()._listed(plugin, devices)

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> Entries:
        entries = super().allocated_resources_status(pod_uid, uses)
        return {n: tuple(replace(e, resources=self._whole(e.name)) for e in found) for n, found in entries.items()}

    def _whole(self, resource: str) -> tuple[ResourceHealth, ...]:
        return tuple(ResourceHealth(name, self._resources.health(resource, name)) for name in self._all[resource])


class ListensOnce(DevicePluginManager):
    """A restarted plugin is registered and not watched."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._first: dict[str, DevicePlugin] = {}

    def _listed(self, plugin: DevicePlugin, devices: Sequence[PluginDevice]) -> None:
        if self._first.setdefault(plugin.resource, plugin) is plugin:
            super()._listed(plugin, devices)


class DropsAtTheEnd(DevicePluginManager):
    """A terminated pod loses its devices."""

    def end(self, pod_uid: str) -> None:
        self._allocations.drop(pod_uid)


class OneOrTheOther(DevicePluginManager):
    """A container with a claim does not show its device plugin devices."""

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> Entries:
        entries = super().allocated_resources_status(pod_uid, uses)
        return {name: found for name, found in entries.items() if not uses.containers.get(name)}


class IgnoresTheGate(DevicePluginManager):
    """The gate is always on."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, replace(context, gates=Gates()))


class NeedsDra(DevicePluginManager):
    """Without DRA no device plugin can register."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._has_dra = context.gates.dynamic_resource_allocation

    async def start(self) -> None:
        if self._has_dra:
            await super().start()


class ReadsOneList(DevicePluginManager):
    """Only the first list of a plugin counts."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._read: set[DevicePlugin] = set()

    def _listed(self, plugin: DevicePlugin, devices: Sequence[PluginDevice]) -> None:
        if plugin not in self._read:
            self._read.add(plugin)
            super()._listed(plugin, devices)


class ForgetsAbsentPlugins(DevicePluginManager):
    """After a restart it knows no resource whose plugin has not registered again."""

    def load(self) -> None:
        super().load()
        self._resources = Resources(self.profile)


class StaysOff(DevicePluginManager):
    """After the gate was off once, it stays off."""

    def __init__(self, root: Path, context: Context) -> None:
        mark = root / "plugin-gate-was-off"
        if not context.gates.resource_health_status:
            mark.touch()
        super().__init__(root, replace(context, gates=Gates(False, False)) if mark.exists() else context)
