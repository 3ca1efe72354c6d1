"""The lists of the node's device plugins: devices and their health, by resource. Pure.

A resource has the list of one of its plugins. The profile decides which one, and what remains when a plugin
disconnects.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from drahealth.manager.profile import Profile
from drahealth.proto.values import Amount, Health, PluginDevice, health_of

GRACE = 300.0
"""Seconds that a node keeps the capacity of a resource without a plugin (D-06)."""

List = dict[str, str]
"""The health text of each listed device, by id."""


@dataclass(slots=True)
class _Resource:
    plugins: dict[Hashable, List | None] = field(default_factory=dict)
    """The last list of each plugin, or that of its predecessor, in the order of registration."""
    devices: List = field(default_factory=dict)
    """The current list."""
    present: bool = False
    """Whether its devices can be allocated."""
    count: int = 0
    """The number of its devices, or the last number while a plugin was connected."""
    gone: float = 0.0


class Resources:
    """All resources of the node. Methods that change devices return the ids whose pods must be notified."""

    def __init__(self, profile: Profile, known: Iterable[str] = (), now: float = 0.0) -> None:
        """`known`: resources from before a restart, whose plugins have not registered again."""
        self._profile = profile
        self._resources = {name: _Resource(gone=now) for name in known}

    def __contains__(self, name: str) -> bool:
        return name in self._resources

    def names(self) -> list[str]:
        return sorted(self._resources)

    def came(self, name: str, plugin: Hashable) -> None:
        """A plugin has registered for the resource; the old list counts until it sends its list."""
        self._resources.setdefault(name, _Resource()).plugins[plugin] = None

    def listed(self, name: str, plugin: Hashable, devices: Iterable[PluginDevice]) -> frozenset[str]:
        """A plugin lists all its devices. The later of two equal ids counts. No effect for a disconnected plugin."""
        resource = self._resources.get(name)
        if resource is None or plugin not in resource.plugins:
            return frozenset()
        resource.plugins[plugin] = {device.id: device.health for device in devices}
        if self._profile.resource_plugins == "newest":
            plugin = _with_list(resource)[-1]
        return self._take(resource, plugin)

    def left(self, name: str, plugin: Hashable, now: float) -> frozenset[str]:
        """A plugin has disconnected; if its list counted, another plugin can replace it.

        A later plugin without a list takes over its list: Unknown in the KEP is for a plugin that "hasn't been
        re-registered since".
        """
        resource = self._resources[name]
        if self._profile.resource_plugins == "newest":
            _leave_list(resource, plugin)
        del resource.plugins[plugin]
        others = _with_list(resource)
        if others and self._profile.resource_plugins == "newest":
            return self._take(resource, others[-1])
        if others and self._profile.resource_plugins == "all":
            return frozenset()
        resource.present, resource.gone = False, now
        return self._lose(resource)

    def newest(self, name: str) -> Hashable:
        """The last registered plugin of the resource; None if there is none."""
        resource = self._resources.get(name)
        return next(reversed(resource.plugins), None) if resource else None

    def health(self, name: str, device: str) -> Health:
        """The health of an allocated device; if it is not listed, the profile decides (D-03)."""
        resource = self._resources.get(name)
        if resource is None or device not in resource.devices:
            return self._profile.unlisted_device
        return health_of(resource.devices[device])

    def healthy(self, name: str) -> list[str]:
        """The allocatable devices, in the order of the list."""
        resource = self._resources.get(name)
        if resource is None or not resource.present:
            return []
        return [device for device, health in resource.devices.items() if health_of(health) is Health.HEALTHY]

    def amounts(self, now: float) -> Mapping[str, Amount]:
        """The node's amount of each resource; a resource without a plugin for longer than `GRACE` is removed."""
        for name in [n for n, r in self._resources.items() if not r.plugins and now - r.gone > GRACE]:
            del self._resources[name]
        return {name: Amount(found.count, len(self.healthy(name))) for name, found in self._resources.items()}

    def _take(self, resource: _Resource, plugin: Hashable) -> frozenset[str]:
        old, new = resource.devices, resource.plugins[plugin] or {}
        resource.devices = new
        resource.present, resource.count = True, len(new)
        lost = old.keys() - new.keys() if self._profile.tells_of_lost_devices else ()
        return frozenset(device for device, health in new.items() if old.get(device) != health).union(lost)

    def _lose(self, resource: _Resource) -> frozenset[str]:
        if not self._profile.forgets_list_of_gone_plugin:
            return frozenset()
        lost, resource.devices = frozenset(resource.devices), {}
        return lost if self._profile.tells_of_lost_devices else frozenset()


def _with_list(resource: _Resource) -> list[Hashable]:
    """The plugins with a known list, the newest last."""
    return [plugin for plugin, devices in resource.plugins.items() if devices is not None]


def _leave_list(resource: _Resource, plugin: Hashable) -> None:
    """Passes this plugin's list to the next one, if that has none yet."""
    order = list(resource.plugins)
    for newer in order[order.index(plugin) + 1 :][:1]:
        if resource.plugins[newer] is None:
            resource.plugins[newer] = resource.plugins[plugin]
