"""Checks of a story's history and of its pods' last statuses against the invariants."""

from collections.abc import Iterator, Mapping, Sequence

from drahealth.manager.profile import Profile
from drahealth.suites.judging import invariants
from drahealth.suites.judging.diagnosis import DEVICE_PLUGIN, Setting
from drahealth.suites.judging.holdings import Device, DevicesByName, by_name
from drahealth.suites.judging.kubelet_side import devices_in, is_of_kubelet, one_side
from drahealth.suites.story.cleanup import Cleanup
from drahealth.suites.story.history import History
from drahealth.suites.story.pod_watch import PodWatch


class HistoryChecks:
    """Checks of the history so far. Each call evaluates it again."""

    def __init__(self, history: History, watch: PodWatch, profile: Profile, made: Cleanup) -> None:
        self._history = history
        self._watch = watch
        self._profile = profile
        self._made = made

    def violations(self) -> Mapping[str, Sequence[str]]:
        """The violations of each invariant, by requirement."""
        return invariants.violations(self._history.as_read(self._profile), self._devices())

    def not_converged(self, gates_on: bool) -> list[str]:
        """The devices of running pods whose status is not the last report."""
        statuses = self._watch.statuses.values()
        return invariants.not_converged(self._history.as_read(self._profile), statuses, self._devices(), gates_on)

    def has_two_streams(self) -> bool:
        """Whether two health streams of one driver are open."""
        return invariants.has_two_streams(self._history.as_read(self._profile))

    def setting(self) -> Setting:
        """What a diagnosis needs to know about the story."""
        drivers = {one.name: one.health_api.name if one.health_api else "" for one in self._made.drivers}
        plugins = dict.fromkeys((one.resource for one in self._made.plugins), DEVICE_PLUGIN)
        return Setting(self._profile, self._devices(), {**drivers, **plugins})

    def _devices(self) -> DevicesByName:
        """The story's devices by their names in a pod status of this profile."""
        kubelet_side = (r for r in one_side(self._history.records) if is_of_kubelet(r.what))
        return devices_in(kubelet_side) | by_name(self._made_devices())

    def _made_devices(self) -> Iterator[tuple[str, Device]]:
        """The devices of the story's drivers and device plugins. Devices with the same CDI id have one name."""
        for plugin in self._made.plugins:
            for device in plugin.gpus:
                yield invariants.name_in(plugin.resource, device.name), (plugin.resource, "", device.name)
        for driver in self._made.drivers:
            for gpu in driver.gpus:
                for name in (gpu.resource_id(self._profile), str(gpu.id)):
                    yield name, (gpu.driver.name, gpu.id.pool, gpu.name)
