"""What the device plugins of the node list: devices and their health, by resource. Pure.

A resource has the list of one of its plugins; which one, and what is left of it when a plugin goes, is the profile's.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from drahealth.manager.profile import Profile
from drahealth.proto.extended_resources import Amount, PluginDevice, health_of
from drahealth.proto.values import Health

GRACE = 300.0
"""Seconds that a node keeps the capacity of a resource whose last plugin has gone (D-06)."""

List = dict[str, str]
"""The health of the devices that a plugin listed, in its words, by their ids."""


@dataclass(slots=True)
class _Resource:
    plugins: dict[Hashable, List | None] = field(default_factory=dict)
    """Each one's last list, or the one it was left by the plugin before it, in the order of their registration."""
    devices: List = field(default_factory=dict)
    """The list that counts."""
    present: bool = False
    """Whether its devices can be given to pods."""
    count: int = 0
    """How many devices it has, or had while a plugin was there."""
    gone: float = 0.0


class Resources:
    """All resources of the node. What changes devices returns the ids of those whose pods are to be told."""

    def __init__(self, profile: Profile, known: Iterable[str] = (), now: float = 0.0) -> None:
        """`known`: resources of before a restart, whose plugins have yet to come back."""
        self._profile = profile
        self._resources = {name: _Resource(gone=now) for name in known}

    def __contains__(self, name: str) -> bool:
        return name in self._resources

    def names(self) -> list[str]:
        return sorted(self._resources)

    def came(self, name: str, plugin: Hashable) -> None:
        """A plugin is registered for the resource; what was listed counts until it lists."""
        self._resources.setdefault(name, _Resource()).plugins[plugin] = None

    def listed(self, name: str, plugin: Hashable, devices: Iterable[PluginDevice]) -> frozenset[str]:
        """A plugin lists all its devices. Of two with one id the later counts. Nothing for a plugin that is gone."""
        resource = self._resources.get(name)
        if resource is None or plugin not in resource.plugins:
            return frozenset()
        resource.plugins[plugin] = {device.id: device.health for device in devices}
        if self._profile.resource_plugins == "newest":
            plugin = _with_list(resource)[-1]
        return self._take(resource, plugin)

    def left(self, name: str, plugin: Hashable, now: float) -> frozenset[str]:
        """A plugin is gone; where it listed what counts, another may take its place.

        One that came after it and has not listed yet goes on from its list: the KEP's Unknown is for a plugin that
        "hasn't been re-registered since".
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
        """The plugin of the resource that was registered last; None if there is none."""
        resource = self._resources.get(name)
        return next(reversed(resource.plugins), None) if resource else None

    def health(self, name: str, device: str) -> Health:
        """How a device that was allocated is; for one that is not listed it is the profile's word (D-03)."""
        resource = self._resources.get(name)
        if resource is None or device not in resource.devices:
            return self._profile.unlisted_device
        return health_of(resource.devices[device])

    def healthy(self, name: str) -> list[str]:
        """The devices that could be given to a pod, in the order of the list."""
        resource = self._resources.get(name)
        if resource is None or not resource.present:
            return []
        return [device for device, health in resource.devices.items() if health_of(health) is Health.HEALTHY]

    def amounts(self, now: float) -> Mapping[str, Amount]:
        """What the node has of each resource; one whose plugins are gone for longer than `GRACE` is forgotten."""
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
    """The plugins whose list is known, the newest last."""
    return [plugin for plugin, devices in resource.plugins.items() if devices is not None]


def _leave_list(resource: _Resource, plugin: Hashable) -> None:
    """The next plugin goes on from the list of this one, if it has none yet."""
    order = list(resource.plugins)
    for newer in order[order.index(plugin) + 1 :][:1]:
        if resource.plugins[newer] is None:
            resource.plugins[newer] = resource.plugins[plugin]
