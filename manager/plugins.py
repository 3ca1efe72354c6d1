"""The registered plugin instances: the newest of each driver, and the watched ones."""

import logging
from collections.abc import Callable

from drahealth.manager.calls import path_text
from drahealth.manager.plugin import DraPlugin, PluginError
from drahealth.manager.profile import Profile
from drahealth.manager.registration import Candidate, Refused, Socket
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, PluginDeregistered, PluginRegistered, ignore
from drahealth.proto.quoting import one_line
from drahealth.proto.services import PREPARE
from drahealth.proto.values import Report

log = logging.getLogger(__name__)


class Plugins:
    """All instances, by driver in the order of their registration.

    During a rolling update a driver has two instances. The newest prepares claims (W-20). The profile decides whether
    only the newest is watched (KEP-4680, "Kubelet Integration") or all are (B-02). `watching` is off while the gate is
    disabled. `on_report(driver, report)` and `on_end(driver)` receive the watched streams. `on_connection(driver)` is
    called when `connected(driver)` may have changed.
    """

    def __init__(
        self,
        profile: Profile,
        clock: Clock,
        *,
        watching: bool,
        on_report: Callable[[str, Report], None],
        on_end: Callable[[str], None],
        on_connection: Callable[[str], None],
        observe: Observe = ignore,
    ) -> None:
        self._profile = profile
        self._clock = clock
        self._watching = watching
        self._on_report = on_report
        self._on_end = on_end
        self._on_connection = on_connection
        self._observe = observe
        self._instances: dict[str, dict[Socket, DraPlugin]] = {}

    def newest(self, driver: str) -> DraPlugin:
        """The last registered instance of the driver. Raises PluginError if there is none."""
        instances = self._instances.get(driver)
        if not instances:
            raise PluginError(f"no plugin is registered for driver {one_line(driver)}")
        return list(instances.values())[-1]

    def connected(self, driver: str) -> bool:
        """Whether an instance of the driver is registered and its connection is open."""
        return any(plugin.connected for plugin in self._instances.get(driver, {}).values())

    def register(self, candidate: Candidate) -> None:
        """Adds an instance and watches it.

        Raises Refused if it supports no version of the node service, or its endpoint is already registered (W-15).
        """
        if not any(version in PREPARE for version in candidate.versions):
            versions = one_line(str(list(candidate.versions)))
            raise Refused(f"versions must include one of {list(PREPARE)}, got {versions}")
        instances = self._instances.setdefault(candidate.name, {})
        if any(plugin.endpoint == candidate.endpoint for plugin in instances.values()):
            raise Refused(f"driver {one_line(candidate.name)} is already registered with endpoint {candidate.endpoint}")
        older = list(instances.values())
        plugin = instances[candidate.socket] = self._plugin(candidate)
        log.info("plugin %s registered, %s", plugin, f"advertises {plugin.health_api or 'no health API'}")
        self._observe(PluginRegistered(plugin.driver, path_text(plugin.endpoint), plugin.health_api))
        plugin.connect()
        self._on_connection(plugin.driver)
        if self._watching:
            self._watch(plugin, older)

    async def deregister(self, socket: Socket) -> None:
        """Removes the instance of this socket, if there is one; the previous instance is watched again."""
        for driver, instances in list(self._instances.items()):
            if socket not in instances:
                continue
            plugin = instances.pop(socket)
            await plugin.close()
            log.info("plugin %s deregistered", plugin)
            self._observe(PluginDeregistered(plugin.driver, path_text(plugin.endpoint)))
            self._on_connection(driver)
            if instances and self._watching:
                self.newest(driver).watch()

    async def attempted(self) -> None:
        """Waits until all running attempts to connect have ended."""
        for plugin in self._all():
            await plugin.attempted()

    async def close(self) -> None:
        """Ends all streams and connections, without clearing health."""
        plugins = self._all()
        self._instances.clear()
        for plugin in plugins:
            plugin.replaced()
            await plugin.close()

    def _all(self) -> list[DraPlugin]:
        return [plugin for instances in self._instances.values() for plugin in instances.values()]

    def _plugin(self, candidate: Candidate) -> DraPlugin:
        driver = candidate.name
        return DraPlugin(
            driver,
            candidate.endpoint,
            candidate.versions,
            profile=self._profile,
            clock=self._clock,
            on_report=lambda report: self._on_report(driver, report),
            on_end=lambda: self._on_end(driver),
            on_connection=lambda: self._on_connection(driver),
            observe=self._observe,
        )

    def _watch(self, plugin: DraPlugin, older: list[DraPlugin]) -> None:
        if self._profile.watches == "newest":
            for old in older:
                old.replaced()
            if older and not plugin.is_asked:
                self._on_end(plugin.driver)  # nobody says any more how its devices are
        plugin.watch()
